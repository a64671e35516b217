"""Small builder trees for tests, built, written and read in one line."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from hdmf.build import BuildManager, DatasetBuilder, GroupBuilder

from hdmf_zarr_backend import ZarrIO
from hdmf_zarr_backend.options import WriteOptions
from tests.places import Place


def dataset(name: str, data: Any, dtype: Any = None, **options: Any) -> DatasetBuilder:
    return DatasetBuilder(name=name, data=data, dtype=dtype, **options)


def root(*members: Any, **attributes: Any) -> GroupBuilder:
    return group("root", *members, **attributes)


def group(name: str, *members: Any, **attributes: Any) -> GroupBuilder:
    builder = GroupBuilder(name=name, attributes=attributes)
    for member in members:
        (builder.set_group if isinstance(member, GroupBuilder) else builder.set_dataset)(member)
    return builder


def write_builder(
    path: Place,
    builder: GroupBuilder,
    *,
    manager: BuildManager | None = None,
    zarr_format: Any = None,
    write_options: WriteOptions | None = None,
    storage_options: dict[str, Any] | None = None,
    **options: Any,
) -> Place:
    given = {"zarr_format": zarr_format, "write_options": write_options, "storage_options": storage_options}
    with ZarrIO(path, "w", manager, **given) as io:
        io.write_builder(builder, **options)
    return path


def read_builder(path: Place, mode: str = "r", **options: Any) -> GroupBuilder:
    with ZarrIO(path, mode, **options) as io:
        return io.read_builder()


@contextmanager
def edit_builder(path: Place, mode: str = "r+", **options: Any) -> Iterator[GroupBuilder]:
    """Give the builder of the root of a file, which is written at the end of the block."""
    with ZarrIO(path, mode, **options) as io:
        builder = io.read_builder()
        yield builder
        io.write_builder(builder)


def round_trip(path: Place, builder: GroupBuilder, **options: Any) -> GroupBuilder:
    return read_builder(write_builder(path, builder, **options))
