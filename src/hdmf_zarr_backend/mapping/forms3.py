"""Data type, codecs and fill value of an array, which depend on each other: ours <-> those of a document of format 3.

Most arrays of a file say the same of these, so each form is worked out once.

Source: the tables `types3` and `codecs3`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hdmf_zarr_backend.errors import MetadataError
from hdmf_zarr_backend.mapping import codecs3, types3
from hdmf_zarr_backend.mapping.codecs3 import Chain
from hdmf_zarr_backend.model.memo import Memo

_LARGEST_ELEMENT = 255
"""That Blosc knows; it takes larger ones, and what a filter has made, for bytes."""


@dataclass(slots=True, frozen=True)
class DecodedForm:
    """What data type, codecs and fill value of a document are in our words; arrays share it, and change nothing in it.

    Attributes
    ----------
    chain : Chain
        The codecs.
    filters : list of dict or None
        Those of the chain, and the one for rows of both byte orders.
    data_type, fill_value : object
        Ours.
    default : object
        What ``zarr_dtype`` is by the data type alone.
    is_text : bool
        Whether elements are text, which references are stored as.
    """

    chain: Chain
    filters: list[dict[str, Any]] | None
    data_type: Any
    fill_value: Any
    default: Any
    is_text: bool


def _decode(stored: Any, codecs: list[Any], fill_value: Any, axes: int, noted: Any) -> DecodedForm:
    chain = codecs3.decode_codecs(codecs, axes)
    filters = chain.filters
    kind = types3.object_kind(stored)
    if kind is None:
        data_type = types3.decode_type(stored, chain.endian)
        if noted is not None and types3.itemsize(noted) == types3.itemsize(data_type):
            data_type = noted
        default = types3.word_of_type(data_type)
        if isinstance(data_type, list) and types3.is_mixed(data_type):
            filters = [codecs3.byte_order_filter(data_type), *(filters or [])]
    else:
        data_type, default = "|O", "str" if kind == types3.STRING else "bytes"
        _check_objects(stored, filters)
    fill = types3.decode_fill(fill_value, data_type, stored)
    return DecodedForm(chain, filters, data_type, fill, default, kind == types3.STRING)


decode_form: Memo[DecodedForm] = Memo(_decode)
"""Returns the form of arrays whose documents say ``(data type, codecs, fill value, number of axes, noted type)``.

The noted type is the data type in the note of the array or None; it counts where format 3 has no word for a type.

Raises
------
MetadataError
    A data type, codec or fill value that this package does not know.
"""


def _check_objects(stored: Any, filters: list[dict[str, Any]] | None) -> None:
    first = filters[0]["id"] if filters else None
    if first not in ("vlen-utf8", "vlen-bytes"):
        raise MetadataError(
            f"elements of type {stored!r} are stored with {first or 'bytes'!r}", remedy="Run `zarrio verify`."
        )


@dataclass(slots=True, frozen=True)
class EncodedForm:
    """What is ours as format 3 says it; documents share it, and change nothing in it.

    Attributes
    ----------
    data_type, codecs, fill_value : object
        As in the document; the codecs are those of a chunk.
    default : object
        What ``zarr_dtype`` is by the data type alone.
    noted : object
        The data type for the note, where format 3 has no word for it.
    """

    data_type: Any
    codecs: list[dict[str, Any]]
    fill_value: Any
    default: Any
    noted: Any


def _encode(data_type: Any, filters: Any, compressor: Any, order: str, axes: int, fill_value: Any) -> EncodedForm:
    first = (filters or [{}])[0]
    known = plain = data_type
    if first.get("id") == codecs3.STRUCT:
        known = plain = codecs3.field_types(first["fields"])
    elif first.get("id") == codecs3.BYTE_ORDER:
        plain = first["stored"]
    if plain == "|O":
        stored: Any = types3.BYTES if first.get("id") == "vlen-bytes" else types3.STRING
        default: Any = "str" if stored == types3.STRING else "bytes"
        endian, itemsize, noted = None, 1, None
    else:
        stored, default = types3.encode_type(plain), types3.word_of_type(plain)
        endian, itemsize = types3.endian_of(plain), types3.itemsize(plain)
        noted = known if types3.decode_type(stored, endian) != known else None
    if filters or itemsize > _LARGEST_ELEMENT:
        itemsize = 1
    codecs = codecs3.encode_codecs(
        data_type, filters, compressor, order=order, ndim=axes, endian=endian, itemsize=itemsize
    )
    return EncodedForm(stored, codecs, types3.encode_fill(fill_value, known, stored), default, noted)


encode_form: Memo[EncodedForm] = Memo(_encode)
"""Returns the form of arrays of ours with ``(data type, filters, compressor, order, number of axes, fill value)``.

Raises
------
UsageError
    Format 3 has no place for a filter.
"""
