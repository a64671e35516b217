"""How new arrays of text, references and rows are stored: the inverse of `formats.elements.describe`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from hdmf_zarr_backend.formats.elements import row_word
from hdmf_zarr_backend.model.elements import UTF8, Element

VLEN_UTF8: dict[str, Any] = {"id": "vlen-utf8"}
VLEN_BYTES: dict[str, Any] = {"id": "vlen-bytes"}
JSON2: dict[str, Any] = {
    "id": "json2", "encoding": "utf-8", "allow_nan": True, "check_circular": True, "ensure_ascii": True, "indent": None,
    "separators": [",", ":"], "skipkeys": False, "sort_keys": True, "strict": True,
}  # fmt: skip
MSGPACK2: dict[str, Any] = {"id": "msgpack2", "raw": False, "use_bin_type": True, "use_single_float": False}
PICKLE: dict[str, Any] = {"id": "pickle", "protocol": 5}
OBJECT_CODECS: dict[str, dict[str, Any]] = {"JSON": JSON2, "MsgPack": MSGPACK2, "Pickle": PICKLE}
"""Codecs for references and rows, by the name of the numcodecs class."""
DEFAULT_OBJECT_CODEC = JSON2


@dataclass(slots=True, frozen=True)
class ObjectForm:
    """How a new array of objects is stored.

    Attributes
    ----------
    codec : dict
        Configuration of the first filter, which encodes the objects.
    zarr_dtype : object
        The attribute ``zarr_dtype``.
    notes : dict
        Entries of the note of the array.
    data_type : str
        Data type of the array.
    """

    codec: dict[str, Any]
    zarr_dtype: Any
    notes: dict[str, Any] = field(default_factory=dict)
    data_type: str = "|O"


def text_form(element: Element = UTF8, *, is_scalar: bool = False, as_bytes: bool = False) -> ObjectForm:
    """Return the stored form of text of variable length.

    Parameters
    ----------
    element : Element
        UTF-8 or ASCII text.
    is_scalar : bool
        Whether it is a scalar.
    as_bytes : bool
        Whether it is not valid UTF-8, and stored as bytes.
    """
    if as_bytes:
        return ObjectForm(dict(VLEN_BYTES), "scalar" if is_scalar else "bytes")
    notes = {"text": "ascii"} if element.encoding == "ascii" else {}
    return ObjectForm(dict(VLEN_UTF8), "scalar" if is_scalar else "str", notes)


def reference_form(
    element: Element, codec: dict[str, Any] = DEFAULT_OBJECT_CODEC, *, is_scalar: bool = False
) -> ObjectForm:
    """Return the stored form of object or region references with an object codec."""
    return ObjectForm(dict(codec), row_word(element), {"scalar": True} if is_scalar else {})


def rows_form(
    fields: Sequence[tuple[str, Element]], codec: dict[str, Any] = DEFAULT_OBJECT_CODEC, *, is_scalar: bool = False
) -> ObjectForm:
    """Return the stored form of compound rows with text or references; the last axis has the fields."""
    words = [{"name": name, "dtype": row_word(member)} for name, member in fields]
    return ObjectForm(dict(codec), words, {"rows": True, **({"scalar": True} if is_scalar else {})})
