"""Strategies for property tests: names, dtypes, arrays and selections."""

from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

DOCUMENTS = (".zarray", ".zgroup", ".zattrs", ".zmetadata", "zarr.json")

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
"""Text that UTF-8 can hold, NUL included."""

NAMES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="/\\\0"), min_size=1, max_size=6).filter(
    lambda name: name not in {".", "..", *DOCUMENTS}
)
"""Names that a node can have."""

# ---- arrays --------------------------------------------------------------------------------------------------------

ORDERS = st.sampled_from("<>")
NUMBERS = st.sampled_from(
    [f"{order}{code}" for code in ("i2", "i4", "i8", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16") for order in "<>"]
    + ["|i1", "|u1", "|b1"]
).map(np.dtype)
TIMES = st.builds(
    lambda kind, order, unit: np.dtype(f"{order}{kind}8[{unit}]"),
    st.sampled_from("mM"),
    ORDERS,
    st.sampled_from(["Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns", "25s"]),
)
FIXED = st.builds(lambda kind, n: np.dtype(f"{kind}{n}"), st.sampled_from(["|S", "<U", ">U"]), st.integers(1, 5))
PLAIN = NUMBERS | TIMES | FIXED


def structured(inner: st.SearchStrategy[np.dtype[Any]]) -> st.SearchStrategy[np.dtype[Any]]:
    fields = st.lists(
        st.tuples(st.text("abcxyz_é", min_size=1, max_size=4), inner, st.sampled_from([(), (2,), (2, 1)])),
        min_size=1,
        max_size=3,
        unique_by=lambda field: field[0],
    )
    return fields.map(lambda given: np.dtype([(n, t, s) if s else (n, t) for n, t, s in given]))


STRUCTURED = st.recursive(PLAIN, structured, max_leaves=3).filter(lambda dtype: dtype.names is not None)


def shapes(*, most: int = 3, longest: int = 7) -> st.SearchStrategy[tuple[int, ...]]:
    """Return shapes of at least one axis; some axes are empty."""
    return hnp.array_shapes(min_dims=1, max_dims=most, min_side=0, max_side=longest)


@st.composite
def raw_arrays(draw: st.DrawFn, dtypes: st.SearchStrategy[np.dtype[Any]], shape: Any = None) -> np.ndarray[Any, Any]:
    """Return arrays whose bytes are arbitrary: every NaN, every NaT, denormals; text is text."""
    dtype = draw(dtypes)
    size = draw(shape if shape is not None else shapes())
    return filled(draw, dtype, size)


def filled(draw: st.DrawFn, dtype: np.dtype[Any], shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    array = np.zeros(shape, dtype)
    if dtype.names is not None:
        for name in dtype.names:
            base, inner = dtype[name].subdtype or (dtype[name], ())
            array[name] = filled(draw, base, (*shape, *inner))
        return array
    if dtype.kind == "U":
        array.reshape(-1)[:] = draw(st.lists(TEXT, min_size=array.size, max_size=array.size))
        return array
    size = array.nbytes
    raw = (
        draw(st.binary(min_size=size, max_size=size))
        if size <= 64
        else np.random.default_rng(draw(st.integers(0, 99))).bytes(size)
    )
    if dtype.kind == "b":
        raw = bytes(byte & 1 for byte in raw)
    return np.frombuffer(raw, dtype).reshape(shape).copy() if array.size else array


# ---- selections ----------------------------------------------------------------------------------------------------
def axis_keys(length: int) -> st.SearchStrategy[Any]:
    """Return what selects on one axis of ``length``: integers, slices of any step, lists, masks."""
    keys: list[st.SearchStrategy[Any]] = [st.slices(length), st.lists(st.booleans(), min_size=length, max_size=length)]
    if length:
        index = st.integers(-length, length - 1)
        lists = st.lists(index, max_size=6)
        keys += [index, index.map(np.int16), lists, lists.map(lambda given: np.array(given, np.int32))]
        unsigned = st.lists(st.integers(0, length - 1), min_size=1, max_size=6)
        keys.append(unsigned.map(lambda given: np.array(given, np.uint64)))
        keys.append(st.just(range(0, length, 2)))
    else:
        keys.append(st.just([]))
    return st.one_of(keys)


@st.composite
def selections(draw: st.DrawFn, shape: tuple[int, ...]) -> Any:
    """Return a key for an array of ``shape``: a part for some axes, an ellipsis for some of the others."""
    parts = [draw(axis_keys(length)) for length in shape]
    if draw(st.booleans()):
        start = draw(st.integers(0, len(parts)))
        stop = draw(st.integers(start, len(parts)))
        parts[start:stop] = [Ellipsis]
    else:
        parts = parts[: draw(st.integers(0, len(parts)))]
    return parts[0] if len(parts) == 1 and draw(st.booleans()) else tuple(parts)


def expected(array: np.ndarray[Any, Any], key: Any) -> np.ndarray[Any, Any]:
    """Return what NumPy selects where each axis is selected on its own; an integer drops its axis."""
    parts = list(key) if isinstance(key, tuple) else [key]
    if Ellipsis not in [part if part is Ellipsis else None for part in parts]:
        parts.append(Ellipsis)
    location = next(i for i, part in enumerate(parts) if part is Ellipsis)
    parts[location : location + 1] = [slice(None)] * (array.ndim - len(parts) + 1)
    for axis in reversed(range(array.ndim)):
        part = parts[axis]
        if isinstance(part, (list, range)):
            part = np.array(list(part), dtype=None if len(part) else np.intp)
        array = array[(slice(None),) * axis + (part,)]
    return array
