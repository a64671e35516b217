"""Opaque bytes, and NumPy's dates and durations, which HDF5 has no type for: h5py makes them opaque, with a tag.

As JSON, they are ``{"base64": "..."}``.
"""

from __future__ import annotations

import base64
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hdmf_zarr_backend.encoding.kind import Convert, Kind, each, note_size
from hdmf_zarr_backend.encoding.numbers import code_element
from hdmf_zarr_backend.encoding.text import raw_of, text_of
from hdmf_zarr_backend.errors import ValueRefusedError
from hdmf_zarr_backend.model.element import Element, Opaque, Time

if TYPE_CHECKING:
    import numpy as np

    from hdmf_zarr_backend.encoding.kind import Array

_DATES = "NUMPY:"
"""Prefix of the tag of opaque types in which h5py stores NumPy's dates."""


class OpaqueBytes(Kind[Opaque | Time]):
    """Opaque bytes and dates. Their note is ``{"opaque": 3, "tag": "..."}``."""

    elements = (Opaque, Time)
    keys = ("opaque",)
    hdf5_classes = ("OPAQUE",)

    def to_hdmf(self, element: Opaque | Time) -> str:
        return element.name if isinstance(element, Time) else f"V{element.size}"

    def label(self, element: Opaque | Time) -> str:
        return element.name if isinstance(element, Time) else f"opaque[{element.size}]"

    def fits(self, noted: Opaque | Time, stored: Opaque | Time) -> bool:
        return self.to_hdmf(noted) == self.to_hdmf(stored)

    def from_note(self, note: Any, depth: int) -> Element:
        return _tagged(note_size(note["opaque"]), str(note.get("tag", "")))

    def to_note(self, element: Opaque | Time) -> Any:
        if isinstance(element, Time) and not element.tag:
            unit = element.name[element.name.find("[") :] if "[" in element.name else ""
            return f"{element.byte_order}{'m' if element.name.startswith('t') else 'M'}8{unit}"
        return {"opaque": element.size, "tag": element.tag}

    def from_hdf5(self, tid: Any) -> Element:
        return _tagged(tid.get_size(), text_of(tid.get_tag()))

    def to_hdf5(self, element: Opaque | Time) -> Any:
        from h5py import h5t

        if isinstance(element, Time) and not element.tag:
            problem = f"HDF5 has no data type for {element.name}"
            remedy = "Store the values as ISO 8601 text, or as numbers with their unit in an attribute."
            raise ValueRefusedError(problem, remedy=remedy)
        tid = h5t.create(h5t.OPAQUE, element.size)
        tid.set_tag(raw_of(element.tag))
        return tid

    def in_numpy(self, element: Opaque | Time) -> Element | None:
        return Opaque(element.size) if isinstance(element, Opaque) else element

    def encoder(self, element: Opaque | Time, refer: Convert) -> Convert:
        return lambda value: {"base64": base64.b64encode(value.tobytes()).decode()}

    def decoder(self, element: Opaque | Time, dtype: np.dtype[Any], refer: Convert) -> Convert:
        import numpy as np

        own = np.dtype(f"V{element.size}") if dtype.hasobject else dtype
        if isinstance(element, Time) and not element.tag:
            return lambda value: value  # in rows of Zarr, dates are integers
        return lambda value: np.frombuffer(base64.b64decode(value["base64"]), own)[0]

    def plain(self, values: Array, element: Opaque | Time, resolve: Convert) -> Array:
        import numpy as np

        if isinstance(element, Time):
            return values
        return each(values, lambda item: item.tobytes() if isinstance(item, np.void) else bytes(element.size))


def _tagged(size: int, tag: str) -> Element:
    try:
        date = code_element(tag.removeprefix(_DATES)) if tag.startswith(_DATES) else None
    except ValueError:
        date = None
    return replace(date, tag=tag) if isinstance(date, Time) else Opaque(size, tag)
