"""Changes of arrays, step by step, and their results in NumPy; the array is ``g/a`` of a store in memory."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import zarr
from hypothesis import strategies as st

from hdmf_zarr_backend.arrays.chunk_cache import ChunkCache
from hdmf_zarr_backend.arrays.lazy import LazyArray
from hdmf_zarr_backend.changes.editable import EditableArray
from hdmf_zarr_backend.changes.edits import Edits
from hdmf_zarr_backend.changes.journal import Mark
from hdmf_zarr_backend.formats import zarr2
from hdmf_zarr_backend.formats.registry import parse_array
from hdmf_zarr_backend.model.nodes import Dataset
from hdmf_zarr_backend.model.stored import ChunkKeys
from hdmf_zarr_backend.stores.base import Store
from tests.keystores import MemoryKeys
from tests.strategies import expected, selections
from tests.zarrs import memory_store, open_array


def plain(target: Any) -> Any:
    return {"path": target}


class Metadata:
    """Documents of format 2."""

    zarr_format = 2

    def documents(self, path: str, node: Any) -> Any:
        return zarr2.documents(path, node)

    def mark(self) -> Mark:
        return Mark({}, (zarr2.CONSOLIDATED,))


def edits_of(keys: Store) -> Edits:
    """Return the changes of a file in a store that undoes them itself: nothing is set but what they set."""
    keys.abilities = replace(keys.abilities, consolidates=False)
    return Edits(keys, Metadata())


def flush(edits: Edits) -> set[str]:
    """Write everything, as a session does; return the paths of the arrays whose documents changed."""
    edits.flush(plain)
    changed = set(edits.changed)
    edits.journal.commit({})
    edits.done()
    return changed


def write_array(array: np.ndarray[Any, Any], node: Dataset, edits: Edits, keys: MemoryKeys) -> EditableArray:
    """Write ``array`` through an `EditableArray` of ``node``, which is empty before, and return that."""
    lazy = EditableArray(edits, keys, "g/a", node, ChunkCache())
    lazy.resize(array.shape)
    lazy[...] = array
    flush(edits)
    keys.calls.clear()
    return lazy


def read_again(keys: MemoryKeys) -> Any:
    """Return the values as a new reader finds them."""
    documents = {name: keys.values[f"g/a/{name}"] for name in (".zarray", "zarr.json") if f"g/a/{name}" in keys.values}
    node = parse_array({name: json.loads(text) for name, text in documents.items()}, "g/a")
    assert node is not None
    return LazyArray(keys, "g/a", node, ChunkCache())[...]


def read_by_zarr(keys: MemoryKeys) -> Any:
    """Return the values as zarr-python finds them."""
    store = memory_store(keys.values)
    if "g/a/.zarray" in keys.values:
        return np.asarray(open_array(store, path="g/a")[...])
    return np.asarray(zarr.open_array(store, path="g/a", mode="r", zarr_format=3)[...])


def numbers(*shape: int) -> np.ndarray[Any, Any]:
    return np.arange(int(np.prod(shape)), dtype="<i4").reshape(shape)


@dataclass
class Step:
    """What is done to the array: ``append``, ``assign``, ``resize`` or ``flush``."""

    name: str
    arguments: tuple[Any, ...] = ()


@st.composite
def steps(draw: st.DrawFn, shape: tuple[int, ...]) -> list[Step]:
    made: list[Step] = []
    for _ in range(draw(st.integers(1, 6))):
        name = draw(st.sampled_from(["append", "assign", "assign", "resize", "flush"]))
        if name == "append":
            axis, count = draw(st.integers(-len(shape), len(shape) - 1)), draw(st.integers(0, 4))
            made.append(Step(name, (axis, count)))
            shape = tuple(n + count if i == axis % len(shape) else n for i, n in enumerate(shape))
        elif name == "resize":
            shape = tuple(draw(st.integers(0, 7)) for _ in shape)
            made.append(Step(name, (shape,)))
        elif name == "assign":
            made.append(Step(name, (draw(selections(shape)), draw(st.booleans()))))
        else:
            made.append(Step(name))
    return made


@st.composite
def histories(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[int, ...], list[Step], dict[str, Any]]:
    rank = draw(st.integers(1, 3))
    shape = tuple(draw(st.integers(0, 6)) for _ in range(rank))
    chunks = tuple(draw(st.integers(1, 4)) for _ in range(rank))
    options = {"order": draw(st.sampled_from("CF")), "chunk_keys": ChunkKeys("v2", draw(st.sampled_from("./")))}
    options["fill_value"] = draw(st.sampled_from([None, 0, 7]))
    return shape, chunks, draw(steps(shape)), options


def repeats(key: Any, shape: tuple[int, ...]) -> bool:
    """Return whether a key selects an element twice; which value it has then is not defined."""
    places = np.arange(int(np.prod(shape))).reshape(shape)
    chosen = np.atleast_1d(expected(places, key)).reshape(-1)
    return len(set(chosen.tolist())) < len(chosen)


class Model:
    """What NumPy makes of the steps; ``number`` counts the values, so that each is new."""

    def __init__(self, array: np.ndarray[Any, Any], fill: Any) -> None:
        self.array = array
        self.fill = fill
        self.number = 100

    def values(self, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
        self.number += int(np.prod(shape))
        return (self.number + numbers(*shape)).astype(self.array.dtype)

    def resize(self, shape: tuple[int, ...]) -> None:
        fresh = np.full(shape, self.fill, self.array.dtype)
        common = tuple(slice(0, min(n, m)) for n, m in zip(shape, self.array.shape, strict=True))
        fresh[common] = self.array[common]
        self.array = fresh

    def assign(self, key: Any, values: Any) -> None:
        places = np.arange(self.array.size).reshape(self.array.shape)
        self.array = self.array.copy()
        self.array.reshape(-1)[expected(places, key)] = values


def follow(lazy: EditableArray, model: Model, todo: list[Step]) -> None:
    """Do the steps to an array and to what NumPy makes of it, and compare them after each."""
    for step in todo:
        if step.name == "flush":
            flush(lazy._edits)
        elif step.name == "resize":
            lazy.resize(*step.arguments)
            model.resize(*step.arguments)
        elif step.name == "append":
            axis, count = step.arguments
            block = model.values(tuple(count if i == axis % lazy.ndim else n for i, n in enumerate(lazy.shape)))
            assert lazy.append(block, axis) == lazy.shape
            model.array = np.concatenate([model.array, block], axis)
        elif not repeats(step.arguments[0], model.array.shape):
            key, single = step.arguments
            values = model.values(() if single else expected(model.array, key).shape)
            lazy[key] = values
            model.assign(key, values)
        assert lazy.shape == model.array.shape
        assert lazy[...].tolist() == model.array.tolist()
    flush(lazy._edits)
    assert not lazy._edits.pending
    assert lazy._edits._bytes == 0
    assert lazy[...].tolist() == model.array.tolist()
