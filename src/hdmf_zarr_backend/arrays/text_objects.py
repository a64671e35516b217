"""Arrays of objects as format 3 stores them: references as text, rows as records of fixed length.

In memory they are what ``json2`` makes of them in format 2: a reference is a dict, a row a list of its fields. What
text alone cannot say is JSON: a reference to another file or to a region; and behind a U+0000, which no text begins
with in a file of anyone else, a cell that is no text, or that a field of fixed length would not give back.

A table refers to the same few targets a hundred thousand times, so each distinct text is understood once, and gives one
object. Nobody changes those.

Source: hdmf-zarr 0.14, storage specification; docs/format for what this package adds to it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
from numcodecs import VLenUTF8

from hdmf_zarr_backend.errors import ValueRefusedError

Array = npt.NDArray[Any]

_ESCAPE = "\0"
_VLEN = VLenUTF8()
_KINDS = frozenset({"number", "text", "reference"})
_MANY = 64
"""Rows, for which it pays to find out how much room their texts take together."""


# ---- cells ----------------------------------------------------------------------------------------------------------


def reference_text(reference: Any) -> str:
    """Return the text of a reference: the path of a target in the same file, JSON for any other, nothing for none.

    Raises
    ------
    ValueRefusedError
        It is no reference.
    """
    if reference is None:
        return ""
    if isinstance(reference, str):
        return reference
    if not isinstance(reference, dict):
        raise ValueRefusedError(f"{reference!r} is not a reference", remedy="Correct zarr_dtype or the value.")
    path = reference.get("path")
    here = reference.get("source") in (".", "", None)
    if here and reference.get("region") is None and isinstance(path, str) and path.startswith("/"):
        return path
    return json.dumps({key: value for key, value in reference.items() if value is not None}, separators=(",", ":"))


def text_reference(text: str) -> dict[str, Any] | None:
    """Return the reference that a text stands for, None for no text."""
    if not text:
        return None
    if text.startswith("{"):
        try:
            found = json.loads(text)
        except ValueError:
            found = None
        while isinstance(found, dict):
            if isinstance(found.get("path"), str):
                return {"source": ".", "object_id": None, "source_object_id": None, **found}
            found = found.get("_REFERENCE", found.get("value"))
            found = {"path": found} if isinstance(found, str) else found
    path = text if text.startswith("/") else f"/{text}"
    return {"source": ".", "path": path, "object_id": None, "source_object_id": None}


def _cell_text(cell: Any) -> str:
    """Return a cell of text as a field of fixed length holds it."""
    if isinstance(cell, str) and not cell.startswith(_ESCAPE) and not cell.endswith(_ESCAPE):
        try:
            cell.encode("utf-8")
        except UnicodeEncodeError:
            pass
        else:
            return str(cell)
    return _ESCAPE + json.dumps(cell, separators=(",", ":"))


def _text_cell(text: str) -> Any:
    return json.loads(text[1:]) if text.startswith(_ESCAPE) else text


_ENCODE: dict[str, Callable[[Any], str]] = {"text": _cell_text, "reference": reference_text}
_DECODE: dict[str, Callable[[str], Any]] = {"text": _text_cell, "reference": text_reference}


def cell_texts(cells: Iterable[Any], kind: str) -> list[str]:
    """Return ``cells``, which the caller holds, as a field of ``kind`` holds them.

    Raises
    ------
    TypeError, ValueError
        One is no text and no JSON, or no reference.
    """
    return _Texts(_ENCODE[kind])(cells)


def cell_width(cells: Iterable[Any], kind: str) -> int:
    """Return the characters of the longest of ``cells`` as a field of ``kind`` holds them."""
    return max(map(len, cell_texts(cells, kind)), default=0)


class _Texts:
    """Texts of cells; of an object that occurs again, what it was before."""

    def __init__(self, encode: Callable[[Any], str]) -> None:
        self._encode = encode

    def __call__(self, cells: Iterable[Any]) -> list[str]:
        known: dict[int, str] = {}  # the caller holds all cells, so an id means one object
        texts = []
        for cell in cells:
            text = known.get(id(cell))
            if text is None:
                text = known[id(cell)] = self._encode(cell)
            texts.append(text)
        return texts


def _decoded(texts: Iterable[str], decode: Callable[[str], Any]) -> list[Any]:
    known: dict[str, Any] = {}
    cells = []
    for text in texts:
        if text not in known:
            known[text] = decode(text)
        cells.append(known[text])
    return cells


# ---- references -----------------------------------------------------------------------------------------------------


class ReferenceTexts:
    """The filter ``references``: dicts as text of variable length, in the layout of ``vlen-utf8``."""

    def encode(self, buf: Any) -> bytes:
        """Return the bytes of an array of references."""
        texts = _Texts(reference_text)(buf.reshape(-1).tolist())
        return bytes(_VLEN.encode(np.array(texts, dtype=object)))

    def decode(self, buf: Any, out: Any = None) -> Array:
        """Return the references as an object array with one axis."""
        return np.fromiter(_decoded(_VLEN.decode(buf), text_reference), dtype=object)

    def split(self, buf: bytes) -> Elements:
        """Return the elements of a chunk, each to be understood when it is asked for."""
        texts = _VLEN.decode(buf)
        return Elements(lambda position: text_reference(texts[position]), len(texts), len(buf))


class Elements:
    """The elements of one chunk, each made when it is asked for.

    Parameters
    ----------
    element : callable
        Makes one by its position.
    count : int
        How many there are.
    nbytes : int
        Bytes that they take as they are.
    """

    def __init__(self, element: Callable[[int], Any], count: int, nbytes: int) -> None:
        self._element = element
        self._count = count
        self.shape = (count,)
        self.nbytes = nbytes

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, position: int) -> Any:
        """Return one element.

        Raises
        ------
        ValueError
            There is none.
        """
        if not 0 <= position < self._count:
            raise ValueError(position)
        return self._element(position)


# ---- rows -----------------------------------------------------------------------------------------------------------


class StructRows:
    """The filter ``struct``: rows, which are lists of their fields along the last axis, as packed records.

    Parameters
    ----------
    fields : list
        ``[name, data type, kind]`` of each; the type is one of format 2, the kind "number", "text" or "reference".

    Raises
    ------
    ValueError, TypeError
        The fields make no sense.
    """

    def __init__(self, fields: list[Any], dtype_of: Callable[[Any], np.dtype[Any]]) -> None:
        self._fields: list[tuple[str, np.dtype[Any], str]] = []
        for name, data_type, kind in fields:
            dtype = dtype_of(data_type)
            if kind not in _KINDS or dtype.hasobject or (kind != "number" and dtype.kind not in "US"):
                raise ValueError(f"{name!r} is no field of a record")
            self._fields.append((str(name), dtype, kind))
        self.dtype = np.dtype([(name, dtype) for name, dtype, _ in self._fields])
        self._characters = np.dtype([(name, _characters(dtype)) for name, dtype, _ in self._fields])

    def encode(self, buf: Any) -> bytes:
        """Return the bytes of rows.

        Raises
        ------
        ValueError
            A text is too long for its field.
        """
        cells = buf.reshape(-1, len(self._fields))
        records = np.zeros(len(cells), self.dtype)
        for column, (name, dtype, kind) in enumerate(self._fields):
            if kind == "number":
                records[name] = _numbers(cells[:, column], dtype)
            else:
                records[name] = self._texts(name, dtype, kind, cells[:, column])
        return records.tobytes()

    @staticmethod
    def _texts(name: str, dtype: np.dtype[Any], kind: str, cells: Array) -> Array:
        texts = _Texts(_ENCODE[kind])(cells.tolist())
        width = dtype.itemsize // (4 if dtype.kind == "U" else 1)
        positions: dict[str, int] = {}
        numbers = np.fromiter((positions.setdefault(text, len(positions)) for text in texts), np.intp, len(texts))
        distinct: list[Any] = list(positions) if dtype.kind == "U" else [text.encode() for text in positions]
        longest = max(map(len, distinct), default=0)
        if longest > width:
            raise ValueError(
                f"a text of {longest} characters does not fit the field {name!r}, which has room for {width}; "
                "export to a new file to make it wider"
            )
        return np.array(distinct or [""], dtype=dtype)[numbers]

    def decode(self, buf: Any, out: Any = None) -> Array:
        """Return the rows as an object array with two axes."""
        return self._cells(np.frombuffer(buf, self.dtype))

    def _cells(self, records: Array) -> Array:
        cells: Array = np.empty((len(records), len(self._fields)), dtype=object)
        for column, (name, dtype, kind) in enumerate(self._fields):
            stored = records[name] if kind == "number" else self._narrow(records, name, dtype)
            values: Iterable[Any] = stored.tolist()
            if kind != "number":
                texts = values if dtype.kind == "U" else [value.decode("utf-8") for value in values]
                values = _decoded(texts, _DECODE[kind])
            elif dtype.kind == "c":
                values = ([value.real, value.imag] for value in values)
            elif dtype.names is not None:
                values = map(list, values)
            cells[:, column] = np.fromiter(values, dtype=object, count=len(records))
        return cells

    def _narrow(self, records: Array, name: str, dtype: np.dtype[Any]) -> Array:
        """Return the texts of a field, without the room at the end that none of them fills.

        There is much of it, and to look for the end of each text takes longer than to look for that of all.
        """
        if len(records) < _MANY or not dtype.itemsize:
            return records[name]
        characters = records.view(self._characters)[name]
        used = np.flatnonzero(np.bitwise_or.reduce(characters, axis=0))
        width = int(used[-1]) + 1 if len(used) else 1
        if width >= characters.shape[1]:
            return records[name]
        return np.ascontiguousarray(characters[:, :width]).view(f"{dtype.byteorder}{dtype.kind}{width}")[:, 0]

    def split(self, buf: bytes) -> Elements:
        """Return the rows of a chunk, each to be understood when it is asked for."""
        records = np.frombuffer(buf, self.dtype)
        return Elements(lambda n: self._cells(records[n : n + 1])[0].tolist(), len(records), len(buf))

    def row(self, record: Array) -> list[Any]:
        """Return the row whose bytes are ``record``."""
        found: list[Any] = self._cells(record.view(self.dtype))[0].tolist()
        return found

    def empty(self, count: int) -> Array:
        """Return ``count`` rows of a chunk that is not stored."""
        return self._cells(np.zeros(count, self.dtype))


def _characters(dtype: np.dtype[Any]) -> Any:
    """Return the type of a field of text as numbers, one for each character; other types as they are."""
    if dtype.kind not in "US" or not dtype.itemsize:
        return dtype
    number = np.dtype(np.uint32 if dtype.kind == "U" else np.uint8)
    return number.newbyteorder(dtype.byteorder), (dtype.itemsize // number.itemsize,)


class LittleRows:
    """The filter ``byteorder``: rows of numbers whose fields are of both byte orders, as records of one.

    Parameters
    ----------
    dtype, stored : numpy.dtype
        Of rows, and of the records.

    Raises
    ------
    ValueError
        The fields are not the same.
    """

    def __init__(self, dtype: np.dtype[Any], stored: np.dtype[Any]) -> None:
        if dtype.names is None or dtype.names != stored.names or dtype.itemsize != stored.itemsize:
            raise ValueError(f"{stored} are no records of {dtype}")
        self._dtype = dtype
        self._stored = stored

    def encode(self, buf: Any) -> bytes:
        """Return the bytes of rows."""
        return bytes(_cast(buf, self._stored).tobytes())

    def decode(self, buf: Any, out: Any = None) -> Array:
        """Return the rows."""
        return _cast(np.frombuffer(buf, self._stored), self._dtype)


def _cast(rows: Array, dtype: np.dtype[Any]) -> Array:
    made = np.empty(rows.shape, dtype)
    for name in dtype.names or ():
        made[name] = rows[name]
    return made


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
