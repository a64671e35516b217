"""JSON text <-> Python values, as Zarr files hold them.

NaN and Infinity are legal tokens in the files that exist (hdmf-zarr writes them), so both directions allow them unless
asked to be strict. orjson is used for reading where it is installed; it refuses those tokens and integers beyond 64 bits,
and then the standard library reads the same bytes.
"""

from __future__ import annotations

import json
from typing import Any

from hdmf_zarr_backend.errors import MetadataError

try:
    import orjson
except ModuleNotFoundError:  # the fallback is complete, only slower
    orjson = None  # type: ignore[assignment,unused-ignore]

_COMPACT = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=True)
_STRICT = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def dump(value: Any, *, strict: bool = False) -> bytes:
    """Return ``value`` as compact UTF-8 JSON.

    Raises
    ------
    ValueError
        ``strict`` and there is a NaN or an infinity.
    """
    return (_STRICT if strict else _COMPACT).encode(value).encode("utf-8", "surrogatepass")


def parse_fast(text: bytes, *, encoding: str = "utf-8") -> Any:
    """Return the value of JSON ``text``, by orjson where it is installed and takes the text.

    Raises
    ------
    ValueError
        It is no JSON.
    """
    if orjson is not None and encoding.lower().replace("_", "-") in ("utf-8", "utf8", "ascii"):
        try:
            return orjson.loads(text)
        except ValueError:
            pass  # NaN, Infinity and huge integers are for the standard library
    return json.loads(text.decode(encoding))


def load(text: bytes, *, key: str) -> Any:
    """Return the value of JSON ``text``; ``key`` is named if it does not parse.

    Raises
    ------
    MetadataError
        The text is no JSON, or nested too deep to be read.
    """
    try:
        return parse_fast(text)
    except (ValueError, RecursionError) as error:
        raise MetadataError(
            f"the document {key!r} is no JSON ({type(error).__name__}: {error})",
            remedy="Restore the document, or run `zarrio verify` to see what else is damaged.",
        ) from error
