"""Arrays of objects as JSON: references and rows.

The bytes are those of numcodecs' ``json2``: one list of the elements, then the dtype, then the shape. Speed matters
here, since a table refers to the same few targets a hundred thousand times: each distinct reference is encoded once,
and decoding is one call of a JSON parser.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from hdmf_zarr_backend.arrays.lindi_rows import plain_elements
from hdmf_zarr_backend.model.lindimarks import CELLS
from hdmf_zarr_backend.stores.json_text import parse_fast

Array = npt.NDArray[Any]


_ENCODINGS = frozenset({"utf-8", "utf8", "utf_8", "ascii", "latin-1", "utf-16", "utf-32"})
_MANY_BYTES = 2**16


class JSONRows:
    """The ``json2`` filter, structured rows included (numcodecs refuses to decode those).

    Parameters
    ----------
    config : dict
        The codec's configuration; ``ensure_ascii``, ``sort_keys`` and ``encoding`` are honoured, and the mark of LINDI.
    dtype : numpy.dtype
        Data type of the array.

    Raises
    ------
    ValueError
        The encoding is none of those that JSON text has, or the mark is no number of fields.
    """

    def __init__(self, config: dict[str, Any], dtype: np.dtype[Any]) -> None:
        encoder = json.JSONEncoder(
            ensure_ascii=config.get("ensure_ascii", True),
            allow_nan=True,
            sort_keys=config.get("sort_keys", True),
            separators=(",", ":"),
        )
        self._text = encoder.encode
        self._encoding = str(config.get("encoding", "utf-8")).lower()
        if self._encoding not in _ENCODINGS:  # Python has others that are no text, or take a year
            raise ValueError(f"{self._encoding!r} is no encoding of JSON")
        self._dtype = dtype
        self._cells = config.get(CELLS)
        if self._cells is not None and (type(self._cells) is not int or self._cells < 0):
            raise ValueError(f"{self._cells!r} is no number of fields")

    def encode(self, buf: Any) -> bytes:
        """Return the elements, the dtype and the shape as one JSON list."""
        if buf.dtype.names is not None or not buf.shape:
            items: list[Any] = buf.tolist() if buf.shape else [buf.tolist()]
            return self._text([*items, buf.dtype.str, list(buf.shape)]).encode(self._encoding)
        parts = [*self._elements(buf, {}), self._text(buf.dtype.str), self._text(list(buf.shape))]
        return f"[{','.join(parts)}]".encode(self._encoding)

    def _elements(self, array: Array, known: dict[int, str]) -> list[str]:
        """Return the text of each element along the first axis; an object that occurs again is not encoded again."""
        if array.ndim > 1:
            return [f"[{','.join(self._elements(row, known))}]" for row in array]
        texts: list[str] = []
        for item in array.tolist():
            text = known.get(id(item))  # the array holds all items, so an id means one object
            if text is None:
                text = self._text(item)
                if isinstance(item, dict):
                    known[id(item)] = text
            texts.append(text)
        return texts

    def split(self, buf: bytes) -> SplitElements | None:
        """Return the elements of a chunk without parsing them, None where they cannot be told apart so simply."""
        is_simple = self._encoding == "utf-8" and self._dtype.names is None and self._cells is None
        return split_elements(buf) if is_simple else None

    def decode(self, buf: Any, out: Any = None) -> Array:
        """Return the elements as an object array of the stored shape, or as a structured one.

        Raises
        ------
        ValueError
            The bytes are no such list, or the elements do not fill the shape.
        """
        text = bytes(buf)
        repeated = self._decode_repeated(text) if len(text) > _MANY_BYTES else None
        if repeated is not None:
            return repeated
        items = parse_fast(text, encoding=self._encoding)
        if not isinstance(items, list) or len(items) < 2 or not isinstance(items[-1], list):
            raise ValueError("no list of elements, dtype and shape")
        shape = tuple(int(n) for n in items[-1])
        rows: Iterable[Any] = items[:-2]
        if self._dtype.names is not None:
            return np.array([tuple(row) for row in rows], dtype=self._dtype).reshape(shape)
        for _ in range(len(shape) - 1):
            rows = itertools.chain.from_iterable(rows)
        if self._cells is not None:
            return plain_elements(rows, shape, self._cells)
        # fromiter never looks into its items, so lists stay elements
        return np.fromiter(rows, dtype=object).reshape(shape)

    def _decode_repeated(self, text: bytes) -> Array | None:
        """Return the elements of a large chunk, parsing each distinct one once; None where that is not possible.

        Equal elements become one object: they are references and rows, which nobody changes.
        """
        split = self.split(text)
        if split is None or len(split.shape) > 2:
            return None
        known: dict[bytes, int] = {}
        parts = split.parts()
        numbers = np.fromiter((known.setdefault(part, len(known)) for part in parts), np.intp, len(parts))
        if len(known) * 2 > len(parts):
            return None
        distinct = parse_fast(b"[" + b",".join(split.whole(part) for part in known) + b"]")
        if len(distinct) != len(known):
            return None
        if len(split.shape) == 2:
            distinct = list(itertools.chain.from_iterable(distinct))
        table = np.fromiter(distinct, dtype=object).reshape(len(known), *split.shape[1:])
        array: Array = np.empty(split.shape, dtype=object)
        array[: len(parts)] = table[numbers]
        return array


class SplitElements:
    """The elements of one chunk as text; each is parsed when it is asked for.

    One row of a table of a hundred thousand references is wanted far more often than all of them.

    Parameters
    ----------
    text : bytes
        The text of the chunk.
    borders : numpy.ndarray of int
        Where the separators begin.
    end : int
        Where the last element ends.
    separator : bytes
        The end of an element, a comma, and the beginning of the next.
    shape : tuple of int
        Shape of the chunk; after the elements there may be nulls.
    """

    def __init__(
        self, text: bytes, borders: npt.NDArray[np.intp], end: int, separator: bytes, shape: tuple[int, ...]
    ) -> None:
        self.shape = shape
        self._text = text
        self._borders = borders
        self._end = end
        self._separator = separator
        self.nbytes = len(text) + borders.nbytes

    def parts(self) -> list[bytes]:
        """Return all elements, without the bytes that the separators take away at both ends."""
        return self._text[2 : self._end - 1].split(self._separator)

    def whole(self, part: bytes) -> bytes:
        """Return one of the `parts` with both its ends."""
        return self._separator[2:] + part + self._separator[:1]

    def __len__(self) -> int:
        return len(self._borders) + 1

    def __getitem__(self, position: int) -> Any:
        """Return one element.

        Raises
        ------
        ValueError
            The text between two borders is no element: a separator stood inside a text, or it is beyond the array.
        """
        if position >= len(self):
            raise ValueError(position)
        start = int(self._borders[position - 1]) + 2 if position else 1
        stop = int(self._borders[position]) + 1 if position < len(self._borders) else self._end
        return parse_fast(self._text[start:stop])


_TAIL = b',"|O",['
_SEPARATORS = {b"[{": b"},{", b"[[": b"],["}


def split_elements(text: bytes) -> SplitElements | None:
    """Cut the text of a chunk at the borders of its elements, if they are all objects or all lists, then perhaps nulls.

    A separator inside a text would give one part too many, or parts that do not parse; the first is seen here, the
    second when the part is asked for, and then the whole chunk is parsed instead.
    """
    separator = _SEPARATORS.get(text[:2], b"")
    tail = text.rfind(_TAIL) if separator else -1
    if tail < 0:
        return None
    shape = parse_fast(text[tail + len(_TAIL) - 1 : -1])
    end = text.rfind(separator[:1], 0, tail) + 1
    nulls, rest = divmod(tail - end, len(_NULL))
    if rest or text[end:tail] != _NULL * nulls or not isinstance(shape, list) or not shape:
        return None
    borders = _find(text, separator, 2, end)
    if shape[0] != len(borders) + 1 + nulls or not all(type(n) is int and n >= 0 for n in shape):
        return None
    return SplitElements(text, borders, end, separator, tuple(shape))


def _find(text: bytes, separator: bytes, start: int, end: int) -> npt.NDArray[np.intp]:
    """Return where ``separator``, three bytes, stands between ``start`` and ``end``; no part of it overlaps another."""
    codes = np.frombuffer(text, np.uint8)
    places: npt.NDArray[np.intp] = np.flatnonzero(codes[start : end - 2] == separator[0]) + start
    for offset in (1, 2):
        places = places[codes[places + offset] == separator[offset]]
    return places


_NULL = b",null"  # the end of a chunk that reaches beyond its array
