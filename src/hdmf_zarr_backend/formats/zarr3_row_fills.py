"""The fill value of rows: bytes in format 2, an object with the fields in format 3."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np

from hdmf_zarr_backend.errors import MetadataError
from hdmf_zarr_backend.formats.dtypes import from_zarr_type


def fields_of_row(raw: bytes, data_type: Any, stored: Any) -> Any:
    """Return the bytes of a row as ``{field: fill value of format 3}``.

    Parameters
    ----------
    raw : bytes
        Of one row.
    data_type, stored : object
        The data type, ours and of format 3.
    """
    dtype = from_zarr_type(data_type)
    row = np.frombuffer(raw.ljust(dtype.itemsize, b"\0")[: dtype.itemsize], dtype)[0]
    return _encode(row, stored)


def _encode(value: Any, stored: Any) -> Any:
    if isinstance(stored, dict) and stored["name"] == "struct":
        fields = stored["configuration"]["fields"]
        return {field["name"]: _encode(value[field["name"]], field["data_type"]) for field in fields}
    if isinstance(value, (bytes, np.void, np.ndarray)):
        return base64.b64encode(value if isinstance(value, bytes) else value.tobytes()).decode()
    if isinstance(value, (np.datetime64, np.timedelta64)):
        return int(value.astype("i8"))
    item = value.item()
    if isinstance(item, complex):
        return [_number(item.real), _number(item.imag)]
    return _number(item) if isinstance(item, float) else item


def _number(value: float) -> Any:
    if np.isfinite(value):
        return value
    return "NaN" if np.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def row_of_fields(value: dict[str, Any], data_type: Any) -> bytes:
    """Return the bytes of the row that ``{field: fill value of format 3}`` means.

    Raises
    ------
    MetadataError
        The values do not fit the fields.
    """
    try:
        row = np.zeros((), from_zarr_type(data_type))
        _decode(row, value)
    except (ValueError, TypeError, KeyError, SyntaxError, OverflowError) as error:
        raise MetadataError(
            f"the fill value {value!r} does not fit {data_type!r} ({error})", remedy="Run `zarrio verify` on the file."
        ) from error
    return row.tobytes()


def _decode(row: Any, value: dict[str, Any]) -> None:
    for name in row.dtype.names or ():
        given = value[name]
        field = row.dtype[name]
        if isinstance(given, dict):
            _decode(row[name], given)
        elif field.kind in "SV":
            raw = base64.b64decode(given)
            row[name] = np.frombuffer(raw.ljust(field.itemsize, b"\0")[: field.itemsize], field)[0]
        elif field.kind == "c":
            row[name] = complex(float(given[0]), float(given[1]))
        elif field.kind in "mM":
            row[name] = np.array(given, "i8" if type(given) is int else field).astype(field)
        else:
            row[name] = given
