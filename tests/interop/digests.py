"""Shape, type and a hash of the values of an array, the same whoever read it: our reader, zarr 2, zarr 3, xarray.

The text of this file also runs in the interpreters of others, so it needs nothing but Python and NumPy.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any


def plain(value: Any) -> Any:
    """Return what JSON can hold of any element of an HDMF file."""
    if isinstance(value, bytes):
        return {"bytes": value.decode("latin1")}
    if isinstance(value, dict):
        return {str(key): plain(value[key]) for key in sorted(value)}
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value


def digest(values: Any) -> list[Any]:
    if values.dtype.hasobject or values.dtype.kind in "OTSU":
        kind, data = "object", json.dumps(plain(values.astype(object))).encode()
    else:
        little = values.dtype.newbyteorder("<")
        kind, data = json.dumps(plain(little.descr)), values.astype(little).tobytes()
    return [list(values.shape), kind, hashlib.sha256(data).hexdigest()]
