"""JSON text <-> Python values, for documents and values in Zarr files.

Existing files contain NaN and Infinity (hdmf-zarr writes them), so both directions allow them unless ``strict``. orjson
is used for reading if it is installed; it refuses those tokens and converts integers beyond 64 bits to floats, so such
text is read by the standard library.

Lone surrogates, which h5py returns for text that is not UTF-8, are written as escapes and read back: the document stays
UTF-8. Two of them that form a pair are read as their character.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from itertools import accumulate
from typing import Any

from hdmf_zarr_backend.errors import MetadataError, UsageError
from hdmf_zarr_backend.model.nodes import Hierarchy, absolute

_loads: Callable[[bytes], Any] | None
try:
    from orjson import loads as _loads
except ModuleNotFoundError:  # the fallback is complete, only slower
    _loads = None

_DIGITS = bytes(ord("0") if byte in b"0123456789" else ord(" ") for byte in range(256))
# orjson makes floats of integers beyond 64 bits, which would lose digits silently.
_LONG_INTEGER = b"0" * 19  # 2**63 has 19 digits
MAX_NESTING = 1000  # how deep objects and lists of a document may be nested; the limit of orjson is the same
_ESCAPE = re.compile(rb"\\.", re.DOTALL)
_STEPS = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}
_OTHERS = bytes(byte for byte in range(256) if byte not in _STEPS)
_COMPACT = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=True, check_circular=False)
_STRICT = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False, check_circular=False)


def dump(value: Any, *, strict: bool = False) -> bytes:
    """Return ``value`` as compact UTF-8 JSON."""
    # the escape that Python writes for a surrogate is the one of JSON: \udcb5
    return (_STRICT if strict else _COMPACT).encode(value).encode("utf-8", "backslashreplace")


def each(value: Any, convert: Callable[[Any], Any]) -> Any:
    """Return a value, or the elements of nested lists, as ``convert`` returns them."""
    return [each(item, convert) for item in value] if isinstance(value, list) else convert(value)


def check_strict(hierarchy: Hierarchy, location: str) -> None:
    """Make sure that a file has only strict JSON before it is changed, since its attributes are written unchanged."""
    for path, node in hierarchy.walk():
        try:
            dump(node.attributes, strict=True)
        except ValueError as error:
            problem = "the file has attributes that are not strict JSON: NaN or an infinity"
            remedy, cli = "Leave strict_json out, or export the file with strict_json=True.", "Leave --strict-json out."
            raise UsageError(problem, store=location, path=absolute(path), remedy=remedy, remedy_cli=cli) from error


def parse_fast(text: bytes) -> Any:
    """Return the value of JSON ``text``, by orjson if it is installed and accepts the text."""
    if _loads is not None and _LONG_INTEGER not in text.translate(_DIGITS):
        try:
            return _loads(text)
        except ValueError:
            pass  # the standard library reads NaN, Infinity and surrogates
    # The depth, in time that is proportional to the length; few brackets are within the limit in any case.
    depth = _highest(text) if text.count(b"[") + text.count(b"{") > MAX_NESTING else 0
    # Strings, which may have brackets, are left out: without escapes, they are every second part between quotes. Some
    # can hide a part of the text; then the limit is that of Python, which depends on its version.
    if depth > MAX_NESTING and b'"' in text:
        depth = _highest(b"".join(_ESCAPE.sub(b"", text).split(b'"')[::2]))
    if depth > MAX_NESTING:
        raise RecursionError(f"it is nested more than {MAX_NESTING:,} deep")
    return json.loads(text.decode())


def _highest(text: bytes) -> int:
    return max(accumulate((_STEPS[byte] for byte in text.translate(None, _OTHERS)), initial=0))


def load(text: bytes, *, key: str) -> Any:
    """Return the value of JSON ``text``; ``key`` is named if it does not parse."""
    try:
        return parse_fast(text)
    except (ValueError, RecursionError) as error:
        problem = f"the document {key!r} is not JSON ({type(error).__name__}: {error})"
        remedy = "Restore the document, or run `zarrio verify` to see what else is damaged."
        raise MetadataError(problem, remedy=remedy) from error
