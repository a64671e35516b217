"""HDMF's words for the fields of a compound -> what is stored: one type of numbers, or the word of each field."""

from __future__ import annotations

from typing import Any

import numpy as np

from hdmf_zarr_backend.errors import ValueRefusedError
from hdmf_zarr_backend.mapping import dtypes


def stored_fields(dtype: np.dtype[Any]) -> list[dict[str, Any]]:
    """Return ``zarr_dtype`` of a structured type; a field that is structured itself says its own fields."""
    bases = {name: dtype[name].base for name in dtype.names or ()}
    return [{"name": name, "dtype": stored_fields(base) if base.names else base.name} for name, base in bases.items()]


def holds_bytes(dtype: np.dtype[Any], fields: list[Any]) -> bool:
    """Tell whether rows hold numbers and bytes of fixed length only, and are wanted so."""
    words = {str(field["name"]): dtypes.word_of(field["dtype"]) for field in fields}
    if dtype.hasobject or set(words) != set(dtype.names or ()):
        return False
    return all(
        number_type(word) is not None
        or (dtype[name].base.kind == "S" and isinstance(word, str) and dtypes.kind_of(word) in ("ascii", "bytes"))
        for name, word in words.items()
    )


def number_type(word: Any) -> np.dtype[Any] | None:
    """Return the type of a number, or of a compound of numbers of any depth; None for anything else."""
    word = dtypes.word_of(word)
    if not isinstance(word, list):
        return dtypes.numpy_of(word) if isinstance(word, str) and dtypes.kind_of(word) == "number" else None
    fields = {str(field["name"]): number_type(field["dtype"]) for field in word}
    if any(dtype is None for dtype in fields.values()):  # `in` would compare, and float64 equals None for numpy
        return None
    return np.dtype([(name, dtype) for name, dtype in fields.items() if dtype is not None])


def numbers_of(row: Any, dtype: np.dtype[Any]) -> tuple[Any, ...]:
    """Return a row as NumPy takes it: a tuple, and tuples for the compounds inside."""
    names = dtype.names or ()
    return tuple(numbers_of(v, dtype[n]) if dtype[n].names else v for v, n in zip(row, names, strict=True))


def field_word(dtype: Any) -> str:
    """Return the word under which a field of a row of objects is stored.

    Raises
    ------
    ValueRefusedError
        The field is a compound, of more than numbers.
    """
    word = dtypes.word_of(dtype)
    if not isinstance(word, str):
        raise ValueRefusedError(f"a field of type {dtype!r} cannot be stored: a compound inside may hold numbers only")
    kind = dtypes.kind_of(word)
    if kind == "number":
        return dtypes.number_name(dtypes.numpy_of(word))
    if kind in ("bytes", "object", "region"):
        return str(kind)
    return {"text": "str", "ascii": "bytes"}.get(str(kind), word)
