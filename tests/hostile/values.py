"""Odd names and values -> what happens: more lines of the page "bad input", each of them run.

What is written has to come back as it was, or to be refused before anything is touched.
"""

from __future__ import annotations

import datetime
import unicodedata
from pathlib import Path
from typing import Any

import numpy as np

from tests import trees
from tests.hostile.careless import check_old, write
from tests.hostile.catalogue import VALUES, Act, Case, opened

NAME = "caf\u00e9"
ROWS = np.array([(1, 2.5), (3, 4.5)], [("n", ">i2"), ("x", "<f8")])
MOMENT = datetime.datetime(2024, 2, 29, 12, 34, 56, tzinfo=datetime.UTC)


def _same(found: Any, given: Any) -> bool:
    if isinstance(given, (np.ndarray, np.generic)):
        found = np.asarray(found)
        return found.dtype == given.dtype and found.shape == given.shape and bool(np.all(found == given))
    return type(found) is type(given) and bool(found == given)


def attributes(**given: Any) -> Act:
    """Return what writes attributes, and sees that they come back with their types."""

    def act(path: Path) -> None:
        write(path, trees.group("box", **given))
        found = opened(path)["box"].attributes
        assert set(found) == set(given)
        for name, value in given.items():
            assert _same(found[name], value), (name, found[name])

    return act


def datasets(**given: Any) -> Act:
    """Return what writes datasets, and sees that they come back with their types."""

    def act(path: Path) -> None:
        write(path, *(trees.dataset(name, value) for name, value in given.items()))
        found = opened(path)
        for name, value in given.items():
            data = found[name].data
            assert _same(data if np.ndim(value) == 0 else data[:], np.asarray(value)), name

    return act


def names(*given: str) -> Act:
    """Return what writes groups of these names, and sees that they are all there."""

    def act(path: Path) -> None:
        write(path, *map(trees.group, given))
        assert set(opened(path).groups) == set(given)

    return act


def _none(path: Path) -> None:
    try:
        write(path, trees.dataset("x", np.array(["a", None], object)))
    finally:
        check_old(path)


def _texts_with_nul(path: Path) -> None:
    write(path, trees.dataset("x", ["a\0", "\0b", "c"]), trees.group("box", text="a\0"))
    found = opened(path)
    assert list(found["x"].data[:]) == ["a\0", "\0b", "c"]
    assert found["box"].attributes["text"] == "a\0"


def _dates(path: Path) -> None:
    days = np.array(["2024-02-29", "1969-12-31"], "M8[D]")
    attributes(days=days, day=np.datetime64("2024-02-29", "D"))(path)
    write(path, trees.dataset("days", days), trees.group("box", moment=MOMENT))
    found = opened(path)
    assert _same(found["days"].data[:], days)
    assert str(found["box"].attributes["moment"]) in (str(MOMENT), MOMENT.isoformat())


def _reserved(path: Path) -> None:
    own = ("zarr_dtype", "zarr_link", ".specloc", "_ARRAY_DIMENSIONS", "_hdmf", "_nczarr_attr")
    attributes(**{name: f"mine: {name}" for name in own})(path)


def _empty(path: Path) -> None:
    datasets(none=np.zeros(0, "f4"), rows=np.zeros((0, 3), "u2"))(path)
    attributes(none=np.zeros(0, "f4"), rows=np.zeros((0, 3), "u2"))(path)


def _nothing(path: Path) -> None:
    write(path, trees.group("box"))
    assert not opened(path)["box"].datasets


def _as_it_is(path: Path) -> None:
    """Spoil nothing."""


def _case(given: str, happens: str, act: Act, **said: Any) -> Case:
    return Case(VALUES, given, happens, _as_it_is, act, **said)


CASES: tuple[Case, ...] = (
    _case("names beyond ASCII: emoji, other scripts", "they are stored", names("\U0001f9e0", "\u8133", NAME, "a b")),
    _case("the name ` `, a space", "it is stored, with a warning: Windows cannot hold it", names(" "),
          warns="PortableNameWarning", says="'/ '"),
    _case("two names that are one to macOS: composed and decomposed accents", "they are stored, with a warning",
          names(NAME, unicodedata.normalize("NFD", NAME)), warns="PortableNameWarning", says="caf"),
    _case("attributes with the names that the format keeps for itself, such as `zarr_dtype`",
          "they are stored, and come back", _reserved),
    _case("attributes of NumPy types: `int16`, `uint64`, `float32`, `bool`, arrays of them",
          "they come back with their types", attributes(
              i2=np.int16(-5), u8=np.uint64(2**64 - 1), f4=np.float32(0.1), flag=np.bool_(True),
              many=np.array([[1, 2], [3, 4]], "i2"), flags=np.array([True, False]))),
    _case("a 0-d array as an attribute or a dataset", "it is a scalar, and keeps its type",
          lambda path: (attributes(zero=np.array(5, "i2"))(path), datasets(zero=np.array(5, "i2"))(path))),
    _case("dates and times", "they come back", _dates),
    _case("complex numbers", "they come back with their types", lambda path: (
        attributes(one=np.complex64(1 - 2j), many=np.array([1j, 2], "c16"))(path),
        datasets(many=np.array([[1j, 2]], "c8"))(path))),
    _case("arrays without elements", "they come back with type and shape", _empty),
    _case("`None` in an array of objects", "`ValueRefusedError` that names the element; nothing is touched", _none,
          raises="ValueRefusedError", says="element 1"),
    _case("text with NUL in it, also at its end", "it comes back", _texts_with_nul),
    _case("big-endian numbers", "they come back, big-endian",
          datasets(numbers=np.arange(5, dtype=">i4"), matrix=np.ones((2, 3), ">f8"))),
    _case("an array of rows with fields of numbers", "it comes back with its fields", datasets(rows=ROWS)),
    _case("`datetime64` and `timedelta64`", "they come back with their unit", datasets(
        when=np.array(["2020-01-01", "1969-07-20"], "M8[s]"), took=np.array([5, 7], "m8[10ms]"))),
    _case("`datetime64` without a unit", "`ValueRefusedError`; nothing is touched",
          datasets(when=np.array(["NaT"], "M8")),
          raises="ValueRefusedError", says="unit"),
    _case("a file without datasets", "it is written, and read", _nothing),
)  # fmt: skip
