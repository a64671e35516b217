"""The attributes of a node <-> its JSON document, with the types of the values kept.

JSON knows a number where HDF5 knows ``uint8``; a file that forgets the difference does not validate and some cannot
even be read. The type of every value that NumPy typed is kept beside it: where NCZarr has a name for it in
``_nczarr_attr.types`` (netcdf-c honours it, other readers ignore it), else in the note of the node.
``decode(encode(x)) == x`` in value, type and shape, with these exceptions: a list comes back as an array, and so does a
tuple (HDF5 does the same); an array without axes comes back as a scalar; padding between the fields of a row is
dropped; an array of `numpy.dtypes.StringDType` comes back as one of objects; dates of Python come back as ISO 8601.

Source: hdmf-zarr storage specification, "Attributes"; NCZarr 2.0 attribute types; issue "The whole contract", part 4.
"""

from __future__ import annotations

from typing import Any

from hdmf_zarr_backend.errors import MetadataError, ValueRefusedError, ZarrBackendError
from hdmf_zarr_backend.mapping.jsonvalues import Reference, Resolve, decode_value, encode_value, is_reference
from hdmf_zarr_backend.mapping.reserved import NCZARR_ATTR, NOTES, escape, notes_of, visible

__all__ = ["decode_attributes", "encode_attributes", "is_reference"]

_TYPES = "types"
_NOTE = "attributes"
_REMEDY = "Store it as a dataset, or convert it to a number, text, a list of those or a NumPy array."
_DAMAGE = (ValueError, TypeError, ArithmeticError, KeyError, IndexError, AttributeError, SyntaxError, RecursionError,
           MemoryError)  # fmt: skip


def encode_attributes(
    attributes: dict[str, Any],
    *,
    notes: dict[str, Any],
    reference: Reference = lambda value: None,
    strict: bool = False,
) -> dict[str, Any]:
    """Return the JSON attributes of a node.

    Parameters
    ----------
    attributes : dict
        Values by name: text, bytes, numbers, bool, dates, NumPy scalars and arrays, lists of those, references, JSON.
    notes : dict
        The note of the node; what JSON and NCZarr cannot say is put down here and the note is added to the result.
    reference : callable
        Returns the JSON of a value that is a reference, else None.
    strict : bool
        Write NaN and infinities as typed text, so that the document is strict JSON (hdmf-zarr 0.13 cannot read those).

    Raises
    ------
    ValueRefusedError
        A value that has no place in an attribute; the name is in the message.
    """
    types: dict[str, str] = {}
    remarks: dict[str, Any] = {}
    encoded: dict[str, Any] = {}
    for name, stored in escape(attributes, notes).items():
        try:
            value, kind, remark = encode_value(attributes[name], reference, strict=strict)
        except ValueRefusedError as error:
            error.problem = f"the attribute {name!r} cannot be stored: {error.problem}"
            error.remedy = error.remedy or _REMEDY
            raise error.located() from error.__cause__
        encoded[stored] = value
        if kind is not None:
            types[stored] = kind
        if remark is not None:
            remarks[stored] = remark
    if types:
        encoded[NCZARR_ATTR] = {_TYPES: types}
    if remarks:
        notes[_NOTE] = remarks
    if notes:
        encoded[NOTES] = notes
    return encoded


def decode_attributes(attributes: dict[str, Any], *, resolve: Resolve) -> dict[str, Any]:
    """Return the values of the JSON attributes of a node, without the reserved ones.

    Parameters
    ----------
    attributes : dict
        As in the document.
    resolve : callable
        Returns the value for the JSON of a reference.

    Raises
    ------
    MetadataError
        A value does not fit the type that is kept beside it; the name is in the message.
    """
    types = _mapping(attributes.get(NCZARR_ATTR), _TYPES)
    remarks = _mapping(notes_of(attributes), _NOTE)
    decoded: dict[str, Any] = {}
    for stored, name in visible(attributes).items():
        value = attributes[stored]
        if value is None:
            continue  # HDMF has no attribute without a value
        try:
            decoded[name] = decode_value(value, types.get(stored), remarks.get(stored), resolve)
        except ZarrBackendError:
            raise  # of `resolve`; some of ours are ValueErrors or KeyErrors too
        except _DAMAGE as error:
            raise MetadataError(
                f"the attribute {stored!r} does not fit its type ({error})", remedy="Run `zarrio verify` on the file."
            ) from error
    return decoded


def _mapping(holder: Any, key: str) -> dict[str, Any]:
    """Return the object under ``key``; what others put there in another form says nothing to us."""
    found = holder.get(key) if isinstance(holder, dict) else None
    return found if isinstance(found, dict) else {}
