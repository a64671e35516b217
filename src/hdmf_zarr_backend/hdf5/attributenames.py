"""The attributes of an HDF5 object, by name; of the rooms beside it, this one needs no HDMF."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hdmf_zarr_backend.model.facts import text_of


def attribute_names(node: Any) -> Iterator[tuple[str, Any]]:
    """Yield name and ``h5py.h5a.AttrID`` of the attributes of an object, by name."""
    from h5py import h5a

    names: list[bytes] = []
    h5a.iterate(node, names.append)  # HDF5 sorts them anew for each that is opened by its index
    for name in names:
        yield text_of(name), h5a.open(node, name)
