"""One append that has a part of everything, and what a file says, for tests that stop it anywhere.

Rows of a table with plain, ragged, text and reference columns, an array that grows into its last chunk and beyond it, a
new table, a changed attribute, and, in variants of it, an index that outgrows its type, text of rows that outgrows its
field, an array that becomes smaller, chunks that are written early, values that are overwritten, and a sharded array.
Where there are no such fields and no shards, in format 2, the rows and the array are of the usual kind.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hdmf.build import DatasetBuilder
from hdmf.common import DynamicTable, SimpleMultiContainer, VectorData, VectorIndex, get_manager

from hdmf_zarr_backend import ZarrDataIO, ZarrIO
from hdmf_zarr_backend.array import edits as edits_module
from tests.watching import listening

VARIANTS = ("rows", "wider", "wider rows", "larger chunks", "smaller", "early", "values", "sharded")
"""Kinds of appends: all have what ``rows`` has."""


def is_marked(variant: str, zarr_format: int) -> bool:
    """Tell whether a kind of append replaces an array while the root says so."""
    return variant in ("wider", "larger chunks", "smaller") or (variant == "wider rows" and zarr_format == 3)


def write_before(place: Any, zarr_format: int, **options: Any) -> None:
    target = DynamicTable(name="target", description="what references lead to")
    growing = ZarrDataIO(np.arange(10.0), chunks=(4,), maxshape=(None,))
    ragged = VectorData(name="ragged", description="numbers", data=ZarrDataIO(np.arange(250), chunks=(64,)))
    objects = VectorData(name="objects", description="references", data=[target, target])
    words = VectorData(name="words", description="text", data=["a", "b"])
    columns = [words, ragged, VectorIndex(name="ragged_index", target=ragged, data=[2, 250]), objects]
    table = DynamicTable(name="table", description="of all kinds of columns", id=[0, 1], columns=columns)
    column = VectorData(name="growing", description="it", data=growing)
    numbers = DynamicTable(name="numbers", description="one column", columns=[column])
    shards: dict[str, Any] = {"shards": (6,)} if zarr_format == 3 else {}
    lying = ZarrDataIO(np.arange(10.0), chunks=(2,), maxshape=(None,), **shards)
    column = VectorData(name="lying", description="in shards", data=lying)
    sharded = DynamicTable(name="sharded", description="one column", columns=[column])
    root = SimpleMultiContainer(name="root", containers=[target, table, numbers, sharded])
    with ZarrIO(place, "w", manager=get_manager(), zarr_format=zarr_format, **options) as io:
        io.write(root)
    with ZarrIO(place, "a", **options) as io:
        builder = io.read_builder()
        fields = [{"name": "number", "dtype": "int"}, {"name": "text", "dtype": "text"}]
        typed = {"data_type": "VectorData", "namespace": "hdmf-common", "object_id": "texts", "description": "rows"}
        builder.set_dataset(DatasetBuilder("texts", [(1, "a"), (2, "b")], attributes=typed, dtype=fields))
        io.write_builder(builder)


def append(place: Any, variant: str, *, write: Callable[[Any, Any], None] = ZarrIO.write, **options: Any) -> None:
    waiting = {"early": 40, "sharded": 40, "smaller": 20}.get(variant, edits_module.WAITING_BYTES)
    with pytest.MonkeyPatch.context() as patch, ZarrIO(place, "a", manager=get_manager(), **options) as io:
        root = io.read()
        table, data, ids = root["table"], root["numbers"]["growing"].data, root["numbers"].id.data
        patch.setattr(edits_module, "WAITING_BYTES", waiting)
        if variant == "values":
            data[1:6] = -1.0
        length = 80 if variant == "larger chunks" else 17
        ids.append(np.arange(10, length))
        data.append(np.arange(10.0, length))
        if variant == "sharded":
            root["sharded"].id.data.append(np.arange(10, 21))
            root["sharded"]["lying"].data.append(np.arange(10.0, 21.0))
        if variant == "wider rows":
            io.read_builder()["texts"].data.append((3, "c" * 600))
        if variant == "smaller":
            ids.resize((3,))
            data.resize((3,))
            rows = io.read_builder()["texts"].data.dataset
            rows.resize((1, *rows.shape[1:]))
        for number in range(2, 4):
            ragged = np.arange(200 if variant == "wider" else 2)
            table.add_row(id=number, words=f"row {number}", ragged=ragged, objects=table)
        table.fields["description"] = "more rows"
        table.set_modified()
        new = DynamicTable(name="new", description="is new", id=[5, 6, 7, 8])
        new.add_column("flags", "of nothing", data=[True, False] * 2)
        new.add_column("ends", "a copy of what is rewritten in the same change", data=table["ragged_index"].data)
        root.add_container(new)
        write(io, root)


def said(place: Any, mode: str = "r", **options: Any) -> dict[str, Any]:
    """Return what a file says: attributes and values by path, but for the ids of objects that are new each time."""
    results: dict[str, Any] = {}
    with ZarrIO(place, mode, **options) as io:
        stack = [("", io.read_builder())]
        while stack:
            path, builder = stack.pop()
            attributes = {name: value for name, value in builder.attributes.items() if name != "object_id"}
            results[f"{path}@"] = {name: _plain(value) for name, value in sorted(attributes.items())}
            for name, child in builder.groups.items():
                stack.append((f"{path}/{name}", child))
            for name, child in builder.datasets.items():
                values = child.data[...] if hasattr(child.data, "shape") else child.data
                results[f"{path}/{name}"] = (str(getattr(values, "dtype", "")), _plain(values))
                attributes = {key: value for key, value in child.attributes.items() if key != "object_id"}
                results[f"{path}/{name}@"] = {key: _plain(value) for key, value in attributes.items()}
    return results


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return [_plain(item) for item in np.atleast_1d(value).tolist()]
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value if isinstance(value, (str, int, float, bool, type(None))) else _named(value)


def _named(value: Any) -> str:
    target = getattr(value, "builder", value)
    return str(getattr(target, "location", "") or "") + "/" + str(getattr(target, "name", target))


# ---- failing operations ---------------------------------------------------------------------------------------------
@contextmanager
def failing(folder: Path, step: int, error: BaseException, *, on: bool = False) -> Iterator[list[str]]:
    """Let the change number ``step`` of a local file fail, and all after it if ``on``; give what was asked for.

    A change is a key that is written, or deleted; ``error`` is what the system says.
    """
    asked: list[str] = []
    root = f"{folder}{os.sep}"

    def hear(event: str, arguments: tuple[Any, ...]) -> None:
        path = str(arguments[0]) if arguments else ""
        if event == "open" and arguments[2] & (os.O_WRONLY | os.O_RDWR):
            what = "set"
        elif event == "os.remove" and not path.endswith(".partial"):
            what = "delete"
        else:
            return
        if path.startswith(root):
            asked.append(f"{what} {re.sub(r'[.][0-9a-f]{32}[.]partial$', '', path.removeprefix(root))}")
            if len(asked) == step or (on and len(asked) > step):
                raise error

    with listening(hear):
        yield asked
