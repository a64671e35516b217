"""Text, of variable length and of a fixed number of bytes. As JSON, bytes that are not UTF-8 are ``{"base64": "..."}``.

Source: HDF5 reference manual, "Datatypes".
"""

from __future__ import annotations

import base64
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hdmf_zarr_backend.encoding.kind import Convert, Kind, each, note_size
from hdmf_zarr_backend.model.element import UTF8, Element, Padding, Text

if TYPE_CHECKING:
    import numpy as np

    from hdmf_zarr_backend.encoding.kind import Array

_PADDING: tuple[Padding, ...] = ("nullterm", "nullpad", "spacepad")  # in the order of HDF5's own numbers


def text_of(raw: Any) -> str:
    """Return a path, name or tag of HDF5 as text; bytes that are not UTF-8 as surrogate escapes."""
    return raw.decode("utf-8", "surrogateescape") if isinstance(raw, bytes) else str(raw)


def raw_of(text: Any) -> bytes:
    """Return the bytes of a path, name or tag in HDF5; the inverse of `text_of`."""
    return str(text).encode("utf-8", "surrogateescape")


def plain_text(item: Any) -> str:
    """Return an element of text; bytes that are not UTF-8 become surrogate escapes, unwritten elements are empty."""
    return text_of(item) if isinstance(item, (bytes, str)) else ""


def utf8_or_none(value: bytes) -> str | None:
    """Return bytes as text, None if they are not UTF-8."""
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return None


def encode_text(value: Any) -> Any:
    """Return text as ``str``; bytes that are not UTF-8 as Base64; unwritten text is empty."""
    if isinstance(value, str):
        return str(value)
    if not isinstance(value, bytes):
        return ""
    text = utf8_or_none(value)
    return {"base64": base64.b64encode(value).decode()} if text is None else text


def decode_text(value: Any) -> bytes:
    """Return the bytes of text as encoded by `encode_text`."""
    if isinstance(value, bytes):
        return bytes(value)
    return base64.b64decode(value["base64"]) if isinstance(value, dict) else raw_of(value)


class Texts(Kind[Text]):
    """Text, and the notes of its types.

    ::

        {"text": "utf-8"}                                 of variable length; "ascii"; "pad" if it is not "nullterm"
        {"text": "ascii", "size": 5, "pad": "nullterm"}   of fixed length; "nullpad", "spacepad"
    """

    elements = (Text,)
    keys = ("text",)
    hdf5_classes = ("STRING",)

    def to_hdmf(self, element: Text) -> str:
        return "utf" if element == UTF8 else "ascii"

    def label(self, element: Text) -> str:
        name = "text" if element.charset == "utf-8" else "ascii"
        return name if element.size is None else f"{name}[{element.size}]"

    def fits(self, noted: Text, stored: Text) -> bool:
        return stored.size in (None, noted.size)  # None: also of scalars of fixed length

    def from_note(self, note: Any, depth: int) -> Text:
        size = note_size(note["size"]) if "size" in note else None
        padding = _PADDING[_PADDING.index(note.get("pad", "nullterm"))]
        return Text(str(note["text"]), size, "" if size is None and padding == "nullterm" else padding)

    def to_note(self, element: Text) -> Any:
        length = {} if element.size is None else {"size": element.size}
        return {"text": element.charset, **length, **({"pad": element.padding} if element.padding else {})}

    def from_hdf5(self, tid: Any) -> Text:
        from h5py import h5t

        charset = "utf-8" if tid.get_cset() == h5t.CSET_UTF8 else "ascii"
        padding = _PADDING[tid.get_strpad()]
        if tid.is_variable_str():
            return Text(charset, None, "" if padding == "nullterm" else padding)
        return Text(charset, tid.get_size(), padding)

    def to_hdf5(self, element: Text) -> Any:
        from h5py import h5t

        tid = h5t.C_S1.copy()
        tid.set_size(h5t.VARIABLE if element.size is None else element.size)
        tid.set_cset({"utf-8": h5t.CSET_UTF8, "ascii": h5t.CSET_ASCII}[element.charset])
        tid.set_strpad(_PADDING.index(element.padding or "nullterm"))
        return tid

    def in_numpy(self, element: Text) -> Element | None:
        return None if element.size is None else replace(element, charset="ascii")

    def encoder(self, element: Text, refer: Convert) -> Convert:
        return encode_text

    def decoder(self, element: Text, dtype: np.dtype[Any], refer: Convert) -> Convert:
        return decode_text

    def plain(self, values: Array, element: Text, resolve: Convert) -> Array:
        return each(values, plain_text)
