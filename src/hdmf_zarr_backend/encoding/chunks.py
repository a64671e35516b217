"""Codecs for chunks of references and rows: JSON in format 2, text and records of fixed length in format 3.

The JSON is that of numcodecs' ``json2``: a list of the elements, followed by the dtype and the shape. A table may refer
to the same few targets a hundred thousand times, so each distinct reference is encoded once, and decoding is one call
of a JSON parser.
"""

from __future__ import annotations

import functools
import itertools
import json
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from numcodecs import VLenUTF8

from hdmf_zarr_backend.encoding.references import CELLS, reference_text, text_reference, unwrapped
from hdmf_zarr_backend.model.element import check_characters
from hdmf_zarr_backend.model.json_text import parse_fast

Array = npt.NDArray[Any]
T = TypeVar("T")

# numcodecs passes the encoding of the file to Python, which knows more than a hundred; all files have UTF-8.
_ENCODINGS = frozenset({"utf-8", "utf8", "utf_8", "ascii"})
_MANY_BYTES = 2**16  # only in a large chunk is it worth looking for equal elements
_TAIL = b',"|O",['
_SEPARATORS = {b"[{": b"},{", b"[[": b"],["}
_NULL = b",null"  # the end of a chunk that reaches beyond its array
# NumPy drops NULs at the end of text of fixed length, so text with them, and anything else than text, is JSON.
_ESCAPE = "\0"
_MANY = 64  # from this number of rows it is worth measuring how long their texts are


class JSONRows:
    """The ``json2`` filter, structured rows included (numcodecs refuses to decode those)."""

    def __init__(self, config: dict[str, Any], dtype: np.dtype[Any]) -> None:
        ensure_ascii, sort_keys = config.get("ensure_ascii", True), config.get("sort_keys", True)
        self._text = json.JSONEncoder(ensure_ascii=ensure_ascii, sort_keys=sort_keys, separators=(",", ":")).encode
        if str(config.get("encoding", "utf-8")).lower() not in _ENCODINGS:
            raise ValueError(f"JSON in {config['encoding']!r} is not read")
        self._dtype = dtype
        self._cells = config.get(CELLS)
        if self._cells is not None and (type(self._cells) is not int or self._cells < 0):
            raise ValueError(f"{self._cells!r} is not a number of fields")

    def encode(self, buf: Any) -> bytes:
        """Return the elements, the dtype and the shape as one JSON list."""
        if buf.dtype.names is not None or not buf.shape:
            items: list[Any] = buf.tolist() if buf.shape else [buf.tolist()]
            return self._text([*items, buf.dtype.str, list(buf.shape)]).encode()
        parts = [*self._elements(buf, {}), self._text(buf.dtype.str), self._text(list(buf.shape))]
        return f"[{','.join(parts)}]".encode()

    def _elements(self, array: Array, known: dict[int, str]) -> list[str]:
        """Return the text of each element along the first axis; an object that occurs again is not encoded again."""
        if array.ndim > 1:
            return [f"[{','.join(self._elements(row, known))}]" for row in array]
        return _texts(array.tolist(), self._text, known if array.dtype == object else {})

    def split(self, buf: bytes) -> SplitElements | None:
        """Return the unparsed elements of a chunk, all of them objects or lists, then maybe nulls; None for others."""
        # A separator inside a text leads to too many parts, which is noticed here, or to parts that do not parse, which
        # is noticed when such a part is read; the complete chunk is parsed then.
        is_plain = self._dtype.names is None and self._cells is None
        separator = _SEPARATORS.get(buf[:2], b"") if is_plain else b""
        tail = buf.rfind(_TAIL) if separator else -1
        if tail < 0:
            return None
        shape = parse_fast(buf[tail + len(_TAIL) - 1 : -1])
        end = buf.rfind(separator[:1], 0, tail) + 1
        nulls, rest = divmod(tail - end, len(_NULL))
        if rest or buf[end:tail] != _NULL * nulls or not isinstance(shape, list) or not shape:
            return None
        # Where the three bytes of the separator begin; matches cannot overlap.
        codes = np.frombuffer(buf, np.uint8)
        borders: npt.NDArray[np.intp] = np.flatnonzero(codes[2 : end - 2] == separator[0]) + 2
        for offset in (1, 2):
            borders = borders[codes[borders + offset] == separator[offset]]
        if shape[0] != len(borders) + 1 + nulls or not all(type(n) is int and n >= 0 for n in shape):
            return None
        return SplitElements(buf, borders, end, separator, tuple(shape))

    def decode(self, buf: Any, out: Any = None) -> Array:
        """Return the elements as an object array of the stored shape, or as a structured one."""
        text = bytes(buf)
        split = self.split(text) if len(text) > _MANY_BYTES else None
        if split is not None and (repeated := split.repeated()) is not None:
            return repeated
        items = parse_fast(text)
        if not isinstance(items, list) or len(items) < 2 or not isinstance(items[-1], list):
            raise ValueError("it is not a list of elements, dtype and shape")
        shape = tuple(int(n) for n in items[-1])
        rows: Iterable[Any] = items[:-2]
        if self._dtype.names is not None:
            return np.array([tuple(row) for row in rows], dtype=self._dtype).reshape(shape)
        for _ in range(len(shape) - 1):
            rows = itertools.chain.from_iterable(rows)
        if self._cells:  # rows of LINDI
            rows = itertools.chain.from_iterable(_row(row, self._cells) for row in rows)
            shape = (*shape, self._cells)
        if self._cells is not None:
            rows = map(unwrapped, rows)
        # np.fromiter does not convert its items, so lists stay elements
        return np.fromiter(rows, dtype=object).reshape(shape)


def _numbered(items: list[T]) -> tuple[list[T], npt.NDArray[np.intp]]:
    """Return the distinct items, and for each item its position among these."""
    known: dict[T, int] = {}
    numbers = np.fromiter((known.setdefault(item, len(known)) for item in items), np.intp, len(items))
    return list(known), numbers


class Elements:
    """The elements of one chunk, each of which is decoded when it is read."""

    def __init__(self, element: Callable[[int], Any], count: int, nbytes: int) -> None:
        self._element = element
        self._count = count
        self.shape: tuple[int, ...] = (count,)
        self.nbytes = nbytes

    def __getitem__(self, position: int) -> Any:
        """Return one element."""
        if not 0 <= position < self._count:
            raise ValueError(position)
        return self._element(position)


class SplitElements(Elements):
    """The elements of one chunk as text, each of which is parsed when it is read."""

    # Callers read single rows of a table of a hundred thousand references much more often than all of them.

    def __init__(
        self, text: bytes, borders: npt.NDArray[np.intp], end: int, separator: bytes, shape: tuple[int, ...]
    ) -> None:
        # Not a method: without a cycle, the memory is free as soon as the cache drops this.
        def parsed(position: int) -> Any:
            start = int(borders[position - 1]) + 2 if position else 1
            stop = int(borders[position]) + 1 if position < len(borders) else end
            return parse_fast(text[start:stop])

        super().__init__(parsed, len(borders) + 1, len(text) + borders.nbytes)
        self.shape = shape
        self._text = text
        self._end = end
        self._separator = separator

    def repeated(self) -> Array | None:
        """Return all elements, each distinct one parsed once, as one object; None if most are distinct."""
        separator = self._separator
        parts = self._text[2 : self._end - 1].split(separator)  # without the bytes that belong to separators
        known, numbers = _numbered(parts)
        if len(self.shape) > 2 or len(known) * 2 > len(parts):
            return None
        distinct = parse_fast(b"[" + separator[2:] + separator.join(known) + separator[:1] + b"]")
        if len(distinct) != len(known):
            return None
        if len(self.shape) == 2:
            distinct = list(itertools.chain.from_iterable(distinct))
        table = np.fromiter(distinct, dtype=object).reshape(len(known), *self.shape[1:])
        array: Array = np.empty(self.shape, dtype=object)
        array[: len(parts)] = table[numbers]
        return array


def _cell_text(cell: Any) -> str:
    """Return a cell of text as a field of fixed length holds it."""
    if isinstance(cell, str) and not cell.startswith(_ESCAPE) and not cell.endswith(_ESCAPE):
        with suppress(UnicodeEncodeError):
            cell.encode("utf-8")
            return str(cell)
    return _ESCAPE + json.dumps(cell, separators=(",", ":"))


_ENCODE: dict[str, Callable[[Any], str]] = {"text": _cell_text, "reference": reference_text}
_DECODE: dict[str, Callable[[str], Any]] = {
    "text": lambda text: json.loads(text[1:]) if text.startswith(_ESCAPE) else text,
    "reference": text_reference,
}


def cell_texts(cells: Iterable[Any], kind: str) -> list[str]:
    """Return ``cells``, which the caller holds, as a field of ``kind`` holds them."""
    return _texts(cells, _ENCODE[kind], {})


def _texts(cells: Iterable[Any], encode: Callable[[Any], str], known: dict[int, str]) -> list[str]:
    """Return the texts of cells, which the caller holds; one in ``known``, by its id, is not encoded again."""
    texts = []
    for cell in cells:
        text = known.get(id(cell))
        if text is None:
            text = known[id(cell)] = encode(cell)
        texts.append(text)
    return texts


# ---- rows -----------------------------------------------------------------------------------------------------------


class StructRows:
    """The filter ``struct``: rows, which are lists of their fields along the last axis, as packed records."""

    def __init__(self, fields: list[Any], dtype_of: Callable[[Any], np.dtype[Any]]) -> None:
        self._fields: list[tuple[str, np.dtype[Any], str]] = []
        for name, data_type, kind in fields:
            dtype = dtype_of(data_type)
            if kind not in {"number", *_ENCODE} or dtype.hasobject or (kind != "number" and dtype.kind not in "US"):
                raise ValueError(f"{name!r} is not a field of a record")
            self._fields.append((str(name), dtype, kind))
        self.dtype = np.dtype([(name, dtype) for name, dtype, _ in self._fields])

    def encode(self, buf: Any) -> bytes:
        """Return the bytes of rows."""
        cells = buf.reshape(-1, len(self._fields))
        records = np.zeros(len(cells), self.dtype)
        for column, (name, dtype, kind) in enumerate(self._fields):
            if kind == "number":
                records[name] = _numbers(cells[:, column], dtype)
                continue
            distinct, numbers = _numbered(cell_texts(cells[:, column].tolist(), kind))
            stored: list[Any] = distinct if dtype.kind == "U" else [text.encode() for text in distinct]
            longest, width = max(map(len, stored), default=0), dtype.itemsize // (4 if dtype.kind == "U" else 1)
            if longest > width:
                problem = f"a text of {longest} characters does not fit the field {name!r}, which holds {width}"
                raise ValueError(f"{problem}; export to a new file to make it wider")
            records[name] = np.array(stored or [""], dtype=dtype)[numbers]
        return records.tobytes()

    def decode(self, buf: Any, out: Any = None) -> Array:
        """Return the rows as an object array with two axes."""
        return self.cells(np.frombuffer(buf, self.dtype))

    def cells(self, records: Array) -> Array:
        """Return records as rows."""
        check_characters(records)
        cells: Array = np.empty((len(records), len(self._fields)), dtype=object)
        for column, (name, dtype, kind) in enumerate(self._fields):
            stored = records[name]
            if kind != "number" and len(records) >= _MANY and dtype.itemsize:
                # to find the end of each text takes longer than to find the end of the longest
                number = np.dtype(np.uint32 if dtype.kind == "U" else np.uint8).newbyteorder(dtype.byteorder)
                characters = stored[:, np.newaxis].view(number)
                used = np.flatnonzero(np.bitwise_or.reduce(characters, axis=0))
                width = int(used[-1]) + 1 if len(used) else 1
                if width < characters.shape[1]:
                    narrow = np.ascontiguousarray(characters[:, :width])
                    stored = narrow.view(f"{dtype.byteorder}{dtype.kind}{width}")[:, 0]
            values: Iterable[Any] = stored.tolist()
            if kind != "number":
                texts = values if dtype.kind == "U" else [value.decode("utf-8") for value in values]
                values = map(functools.cache(_DECODE[kind]), texts)
            elif dtype.kind == "c":
                values = ([value.real, value.imag] for value in values)
            elif dtype.names is not None:
                values = map(list, values)
            cells[:, column] = np.fromiter(values, dtype=object, count=len(records))
        return cells

    def split(self, buf: bytes) -> Elements:
        """Return the rows of a chunk, each of which is decoded when it is read."""
        records = np.frombuffer(buf, self.dtype)
        return Elements(lambda n: self.cells(records[n : n + 1])[0].tolist(), len(records), len(buf))


class LittleRows:
    """The filter ``byteorder``: rows of numbers with fields of both byte orders, stored as records of one order."""

    def __init__(self, dtype: np.dtype[Any], stored: np.dtype[Any]) -> None:
        if dtype.names is None or dtype.names != stored.names or dtype.itemsize != stored.itemsize:
            raise ValueError(f"{stored} is not a record of {dtype}")
        self._dtype = dtype
        self._stored = stored

    def encode(self, buf: Any) -> bytes:
        """Return the bytes of rows."""
        return in_layout(buf, self._stored).tobytes()

    def decode(self, buf: Any, out: Any = None) -> Array:
        """Return the rows."""
        return in_layout(np.frombuffer(buf, self._stored), self._dtype)


def in_layout(rows: Array, dtype: np.dtype[Any]) -> Array:
    """Return rows in the layout of ``dtype``, which has the same fields; padding is zero."""
    result: Array = np.zeros(rows.shape, dtype)
    for name in dtype.names or ():
        result[name] = rows[name]
    return result


def _numbers(cells: Array, dtype: np.dtype[Any]) -> Array:
    values: list[Any] = [0 if cell is None else cell for cell in cells.tolist()]
    if dtype.kind == "c":
        values = [complex(float(cell[0]), float(cell[1])) if isinstance(cell, list) else cell for cell in values]
    if dtype.names is not None:
        values = [tuple(cell) for cell in values]
    numbers = np.array(values, dtype=dtype)
    if dtype.kind in "iu" and not all(a == b for a, b in zip(numbers.tolist(), values, strict=True)):
        raise ValueError(f"an element does not fit {dtype}")
    return numbers


def _row(row: Any, cells: int) -> list[Any]:
    if not isinstance(row, list):
        return [None] * cells  # this is padding of a chunk that reaches beyond its array
    if len(row) != cells:
        raise ValueError(f"a row has {len(row)} fields instead of {cells}")
    return row


# ---- references in format 3 -----------------------------------------------------------------------------------------


class ReferenceTexts:
    """The filter ``references`` of format 3: dicts as text of variable length, in the layout of ``vlen-utf8``."""

    def encode(self, buf: Any) -> bytes:
        """Return the bytes of an array of references."""
        return bytes(VLenUTF8().encode(np.array(cell_texts(buf.reshape(-1).tolist(), "reference"), dtype=object)))

    def decode(self, buf: Any, out: Any = None) -> Array:
        """Return the references as an object array with one axis."""
        return np.fromiter(map(functools.cache(text_reference), VLenUTF8().decode(buf)), dtype=object)

    def split(self, buf: bytes) -> Elements:
        """Return the elements of a chunk, each of which is decoded when it is read."""
        texts = VLenUTF8().decode(buf)
        return Elements(lambda position: text_reference(texts[position]), len(texts), len(buf))
