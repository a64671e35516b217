"""Small builder trees for tests, built, written and read in one line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hdmf.build import DatasetBuilder, GroupBuilder

from hdmf_zarr_backend import ZarrIO


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


def round_trip(path: Path, builder: GroupBuilder, **options: Any) -> GroupBuilder:
    """Write ``builder`` to a new file and return what is read from it."""
    with ZarrIO(path, "w") as io:
        io.write_builder(builder, **options)
    with ZarrIO(path) as io:
        return io.read_builder()
