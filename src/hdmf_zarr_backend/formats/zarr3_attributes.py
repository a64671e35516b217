"""Attributes of a node, which are in the form of format 2 <-> the format-3 convention of hdmf-zarr 0.14 and LINDI.

=================================================  ===================================================================
node                                               format-3 document
=================================================  ===================================================================
``zarr_link``                                      ``_LINKS``
``{"zarr_dtype": "object", "value": reference}``   ``{"_REFERENCE": reference}``
``zarr_dtype`` of an array of references           ``_DTYPE: "object_reference"``
``zarr_dtype`` of a scalar                         ``_DTYPE`` with the type of the element; the array has no axes
``zarr_dtype`` of rows with references             ``_REFERENCE_FIELDS``, the names of the fields that are references
``zarr_dtype`` of other rows                       none: the data type is sufficient
``zarr_dtype`` of other arrays                     ``_DTYPE``
``_ARRAY_DIMENSIONS`` of a scalar                  none
=================================================  ===================================================================

All other attributes are equal. What the convention cannot express is in the note of the node.

Source: hdmf-zarr 0.14, storage specification.
"""

from __future__ import annotations

import json
from typing import Any

from hdmf_zarr_backend.encoding import references as references_of
from hdmf_zarr_backend.encoding.references import REFERENCE_3, is_reference
from hdmf_zarr_backend.encoding.reserved import DIMENSIONS, DTYPE, LINKS, NOTES, SPECLOC, as_dict, notes_of
from hdmf_zarr_backend.model.element import REFERENCE
from hdmf_zarr_backend.model.nodes import Attributes, Dataset

DTYPE_3 = "_DTYPE"
LINKS_3 = "_LINKS"
REFERENCE_FIELDS_3 = "_REFERENCE_FIELDS"

_OBJECT = ("object", "region")
_ATTRIBUTES = "attributes"
_AS_TEXT = {"dtype": "json", "text": True}
_WORD = "word"  # not `zarr_dtype`: hdmf-zarr 0.14 treats an object with that key as a reference
_ONLY_IN_2 = (DTYPE, LINKS)
_ONLY_IN_3 = frozenset({DTYPE_3, LINKS_3, REFERENCE_FIELDS_3})
SCALAR_3 = "_SCALAR"
"""The mark of scalars in drafts of the convention."""

_NESTED = (dict, list)


# ---- values ---------------------------------------------------------------------------------------------------------


def encode_values(attributes: Attributes) -> Attributes:
    """Return the format-3 attributes of a group, or of an array except for those about its type."""
    encoded = {key: value for key, value in attributes.items() if key not in _ONLY_IN_2}
    if LINKS in attributes:
        encoded[LINKS_3] = attributes[LINKS]
    nested = {key: value for key, value in encoded.items() if isinstance(value, _NESTED) and key != LINKS_3}
    plain = _plain_names(attributes) if nested else set()
    encoded.update({key: references_of.to_zarr3(value) for key, value in nested.items() if key not in plain})
    # a user's JSON that hdmf-zarr 0.14 would mistake for a reference, and fail to read the file
    marked = [key for key, value in nested.items() if isinstance(value, dict) and {DTYPE, REFERENCE_3} & value.keys()]
    mistaken = [key for key in marked if key in plain or not is_reference(nested[key])]
    if mistaken:
        notes = notes_of(attributes)
        encoded[NOTES] = {**notes, _ATTRIBUTES: {**notes.get(_ATTRIBUTES, {}), **dict.fromkeys(mistaken, _AS_TEXT)}}
        encoded.update({key: json.dumps(attributes[key]) for key in mistaken})
    return encoded


def decode_values(attributes: Attributes) -> Attributes:
    """Return the attributes of a group node, or of an array node except for those about its type."""
    decoded = dict(attributes)
    for key in _ONLY_IN_3 & attributes.keys():
        del decoded[key]
    references = [
        key for key, value in decoded.items() if type(value) in _NESTED and references_of.begins_with_reference(value)
    ]
    if references:
        plain = _plain_names(attributes)
        decoded.update({key: references_of.from_zarr3(decoded[key]) for key in references if key not in plain})
    if LINKS_3 in attributes:
        decoded[LINKS] = attributes[LINKS_3]
    if isinstance(decoded.get(SPECLOC), dict):  # it is a reference
        decoded[SPECLOC] = decoded[SPECLOC].get("value", {}).get("path")
    return decoded


def _plain_names(attributes: Attributes) -> set[str]:
    """Return the names of attributes that are JSON of the user, whatever their content."""
    return set(as_dict(notes_of(attributes).get(_ATTRIBUTES)))


# ---- arrays ---------------------------------------------------------------------------------------------------------


def encode_array_attributes(node: Dataset[Attributes], default: Any, *, rows: bool) -> Attributes:
    """Return the format-3 attributes of an array."""
    encoded = encode_values(node.attributes)
    notes = dict(notes_of(encoded))
    word = node.attributes.get(DTYPE)
    scalar = node.stored.stored_axes == 0
    if scalar:
        notes.pop("scalar", None)
    notes.pop("rows", None)
    if isinstance(default, list):
        _encode_fields(encoded, notes, word, default, rows=rows)
    elif word is not None:
        encoded[DTYPE_3] = references_of.OBJECT_REFERENCE if word == "object" else default if word == "scalar" else word
        if word not in (*_OBJECT, "scalar") and (word != default or scalar):
            notes[_WORD] = word
    encoded.pop(NOTES, None)
    if notes:
        encoded[NOTES] = notes
    axes = node.stored.stored_axes
    if axes is not None and isinstance(names := encoded.get(DIMENSIONS), list):
        encoded[DIMENSIONS] = names[:axes]
        if not axes:
            del encoded[DIMENSIONS]
    return encoded


def _encode_fields(encoded: Attributes, notes: dict[str, Any], word: Any, default: list[Any], *, rows: bool) -> None:
    """Add the properties of the fields of rows that the data type does not have."""
    references = [field["name"] for field in word if _is_reference_field(field)] if isinstance(word, list) else []
    if references:
        encoded[REFERENCE_FIELDS_3] = references
    if _looks_like_rows(default, references) != rows:
        notes["rows"] = rows
    if word is not None and word != (_default_fields(default, references) if rows else default):
        notes[_WORD] = word


def _is_reference_field(field: Any) -> bool:
    return isinstance(field, dict) and references_of.element_of_word(field.get("dtype")) == REFERENCE


def _default_fields(default: list[Any], references: list[str]) -> list[dict[str, Any]]:
    """Return the ``zarr_dtype`` of rows for the data type and the names of reference fields."""
    return [
        {"name": field["name"], "dtype": "object" if field["name"] in references else _text_word(field["dtype"])}
        for field in default
    ]


def _text_word(word: Any) -> Any:
    return "str" if isinstance(word, str) and word.startswith("str") else word


def _looks_like_rows(default: Any, references: Any) -> bool:
    """Tell whether a structured type has rows with text or references; ``default`` as from `word_of_type`."""
    if not isinstance(default, list):
        return False
    return bool(references) or any(str(field["dtype"]).startswith("str") for field in default)


def decode_array_attributes(attributes: Attributes, default: Any) -> tuple[Attributes, bool]:
    """Return the format-2 attributes of an array without ``zarr_dtype``, and whether it has rows."""
    decoded = decode_values(attributes)
    decoded.pop(DTYPE, None)
    if not isinstance(default, list):
        return decoded, False
    noted = notes_of(attributes).get("rows")
    fields = attributes.get(REFERENCE_FIELDS_3)
    old = attributes.get(DTYPE)
    references = fields or (isinstance(old, list) and any(map(_is_reference_field, old)))
    return decoded, noted if isinstance(noted, bool) else _looks_like_rows(default, references)


def decode_word(attributes: Attributes, default: Any, *, rows: bool, is_text: bool) -> Any:
    """Return ``zarr_dtype`` of an array with axes."""
    kept = notes_of(attributes).get(_WORD)
    if kept is not None:
        return kept
    old = attributes.get(DTYPE)
    if rows or isinstance(default, list):
        if isinstance(old, list) and old:
            return old
        fields = attributes.get(REFERENCE_FIELDS_3)
        references = fields if isinstance(fields, list) else []
        return _default_fields(default, references) if rows else default
    return (references_of.word_of_zarr3(attributes.get(DTYPE_3, old)) if is_text else None) or default


def is_old_scalar(attributes: Attributes) -> bool:
    """Tell whether an array of one element is marked as a scalar as in format 2 or in drafts of the convention."""
    return attributes.get(DTYPE) == "scalar" or attributes.get(SCALAR_3) is True
