"""Small builder trees for tests, built, written and read in one line."""

from typing import Any

from hdmf.build import DatasetBuilder, GroupBuilder

from hdmf_zarr_backend import ZarrIO
from hdmf_zarr_backend.options import WriteOptions
from tests.places import Place


def dataset(name: str, data: Any, dtype: Any = None, **options: Any) -> DatasetBuilder:
    """Return the builder of a dataset."""
    return DatasetBuilder(name=name, data=data, dtype=dtype, **options)


def root(*members: Any, **attributes: Any) -> GroupBuilder:
    """Return the builder of a root that holds ``members``."""
    return group("root", *members, **attributes)


def group(name: str, *members: Any, **attributes: Any) -> GroupBuilder:
    """Return the builder of a group that holds ``members``."""
    builder = GroupBuilder(name=name, attributes=attributes)
    for member in members:
        set_member = builder.set_group if isinstance(member, GroupBuilder) else builder.set_dataset
        set_member(member)
    return builder


def write_builder(
    path: Place,
    builder: GroupBuilder,
    *,
    zarr_format: Any = None,
    write_options: WriteOptions | None = None,
    storage_options: dict[str, Any] | None = None,
    **options: Any,
) -> Place:
    """Write ``builder`` to a new file and return its place."""
    given = {"zarr_format": zarr_format, "write_options": write_options, "storage_options": storage_options}
    with ZarrIO(path, "w", **given) as io:
        io.write_builder(builder, **options)
    return path


def read_builder(path: Place, mode: str = "r", **options: Any) -> GroupBuilder:
    """Return the builder of the root of a file."""
    with ZarrIO(path, mode, **options) as io:
        return io.read_builder()


def round_trip(path: Place, builder: GroupBuilder, **options: Any) -> GroupBuilder:
    """Write ``builder`` to a new file and return what is read from it."""
    return read_builder(write_builder(path, builder, **options))
