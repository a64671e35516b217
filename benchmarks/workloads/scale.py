"""S1 and S2, up to 1 TB in 10^7 chunks: a store invents an NWB file, so that neither a disk nor a network is measured.

In S1 the number of datasets grows, each with the same number of chunks; in S2 each dataset grows, and their number is
the same. Both end at 10^7 chunks of 100 kB. The work is that which a user or a worker waits for in a file of any size.
"""

from __future__ import annotations

import base64
import json
import pickle
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from functools import cache, cached_property, partial
from typing import Any

import numpy as np

from benchmarks.harness.job import Job, Phase, Workload
from hdmf_zarr_backend.store.base import Abilities, Range, Store

ROWS, CHANNELS = 1000, 50
"""Of a chunk, with values of two bytes: 100 kB."""
CHUNKS_OF_SERIES, SERIES = 200, 500
"""Chunks of a series in S1, and series in S2; each series has two datasets, its data and its starting time."""
_PAGE = 1000  # keys of an answer of a server that lists them
_SAMPLE = "acquisition/series_0/"
_ID = "00000000-0000-4000-8000-{:012d}"

_counts: Counter[str] = Counter()  # of this process: requests, and bytes received and sent
_counting = threading.Lock()


@cache
def _sample() -> tuple[dict[str, bytes], dict[str, str], dict[str, bytes]]:
    """Return the values outside of the series, the documents of a series by the end of their keys, and its chunks."""
    from pynwb import NWBFile, TimeSeries

    from hdmf_zarr_backend import NWBZarrIO, ZarrDataIO

    values: dict[str, bytes] = {}
    noise = np.random.default_rng(0).integers(0, 2**12, (ROWS, CHANNELS), "i2")
    data = ZarrDataIO(noise, chunks=noise.shape, maxshape=(None, CHANNELS))
    nwbfile = NWBFile("a file of any size", "scale", datetime(2024, 1, 1, tzinfo=UTC))
    nwbfile.add_acquisition(TimeSeries(name="series_0", data=data, unit="V", rate=1000.0))
    with NWBZarrIO(values, "w", zarr_format=2) as io:
        io.write(nwbfile)
    own = {key.removeprefix(_SAMPLE): values.pop(key) for key in list(values) if key.startswith(_SAMPLE)}
    documents = {name: text.decode() for name, text in own.items() if "/." in f"/{name}"}
    documents[".zattrs"] = re.sub('("object_id":)"[^"]*"', r'\1"{id}"', documents[".zattrs"])
    return values, documents, {name: value for name, value in own.items() if name not in documents}


class InventedStore(Store):
    """An NWB file of any number of series with any number of chunks, whose values are made when they are read.

    It counts requests and bytes as a server would: one for each value, one for each page of a listing. What is written
    is kept in memory.
    """

    location = "invented://scale.zarr"
    abilities = Abilities(is_remote=True)
    of_one_process = True

    def __init__(self, series: int, chunks: int) -> None:
        self.series = series
        self.chunks = chunks
        self.changed: dict[str, bytes | None] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return InventedStore, (self.series, self.chunks)

    def get(self, key: str) -> bytes | None:
        """Return a copy of a value, which takes memory as what a server sends."""
        value = self._value(key)
        return _counted(None if value is None else bytes(memoryview(value)), "received")

    def get_ranges(self, key: str, ranges: Sequence[Range]) -> list[bytes] | None:
        """Return parts of a value, each of which counts as a request."""
        value = self._value(key)
        return None if value is None else [_counted(value[start:stop], "received") or b"" for start, stop in ranges]

    def _set(self, key: str, value: bytes) -> None:
        self.changed[key] = _counted(value, "sent")

    def _delete(self, keys: Iterable[str]) -> None:
        for key in keys:
            _counted(None, "sent")
            self.changed[key] = None

    def sizes(self, prefix: str) -> dict[str, int]:
        """Return the bytes of each value."""
        return {key: len(self._value(key) or b"") for key in self.list_prefix(prefix)}

    def list_prefix(self, prefix: str) -> Iterator[str]:
        """Yield the keys, page by page."""
        for number, key in enumerate(self._keys(f"{prefix}/" if prefix else "")):
            if number % _PAGE == 0:
                _counted(None, "received")
            yield key

    def exists(self) -> bool:
        """Return True."""
        return True

    def _keys(self, start: str) -> Iterator[str]:
        fixed, documents, _ = _sample()
        yield from (key for key in fixed if key.startswith(start))
        match = re.match(r"acquisition/series_(\d+)/", start)
        numbers = range(self.series) if match is None else range(int(match[1]), int(match[1]) + 1)
        if match is None and not "acquisition/series_".startswith(start):
            return
        names = [*documents, "starting_time/0", *(f"data/{index}.0" for index in range(self.chunks))]
        for above in (f"acquisition/series_{number}/" for number in numbers):
            wanted = names if len(start) <= len(above) else [name for name in names if (above + name).startswith(start)]
            yield from (above + name for name in wanted)

    def _value(self, key: str) -> bytes | None:
        if key in self.changed:
            return self.changed[key]
        fixed, documents, chunks = _sample()
        if key == ".zmetadata":
            return self._consolidated
        match = re.fullmatch(r"acquisition/series_(\d+)/(.*)", key)
        if match is None or int(match[1]) >= self.series:
            return fixed.get(key)
        name, number = match[2], int(match[1])
        if name in documents:
            return self._document(name, number).encode()
        index = re.fullmatch(r"data/(\d+)\.0", name)
        return chunks.get(name) if index is None else chunks["data/0.0"] if int(index[1]) < self.chunks else None

    def _document(self, name: str, number: int) -> str:
        text = _sample()[1][name]
        if name == "data/.zarray":
            # the last chunk has room for one row
            return text.replace(f'"shape":[{ROWS},', f'"shape":[{self.chunks * ROWS - 1},')
        return text.replace("{id}", _ID.format(number)) if name == ".zattrs" else text

    @cached_property
    def _consolidated(self) -> bytes:
        fixed, documents, chunks = _sample()
        document = json.loads(fixed[".zmetadata"])
        inlined = document["hdmf_inline"]["chunks"]
        start = base64.b64encode(chunks["starting_time/0"]).decode()
        inlined.pop(f"{_SAMPLE}starting_time/0")
        inlined |= {f"acquisition/series_{number}/starting_time/0": start for number in range(self.series)}
        document["metadata"] = {key: text for key, text in document["metadata"].items() if not key.startswith(_SAMPLE)}
        head, tail = json.dumps(document, separators=(",", ":")).split('"metadata":{', 1)
        own = ",".join(
            f'"acquisition/series_{number}/{name}":{self._document(name, number)}'
            for number in range(self.series)
            for name in documents
        )
        return f'{head}"metadata":{{{own},{tail}'.encode()


def _counted(value: bytes | None, direction: str) -> bytes | None:
    with _counting:
        _counts["requests"] += 1
        _counts[direction] += len(value or b"")
    return value


# ---- the work --------------------------------------------------------------------------------------------------------

Make = Callable[[Job], InventedStore]


def _more_datasets(job: Job) -> InventedStore:
    return InventedStore(job.size // 2, CHUNKS_OF_SERIES)


def _more_chunks(job: Job) -> InventedStore:
    return InventedStore(SERIES if job.size > 1 else 5, job.size)


def _measured(job: Job, work: Callable[[], Any]) -> Any:
    """Measure one call, and note its requests and bytes."""
    _counts.clear()
    with job.meter.measured():
        result = work()
    job.meter.note(**{name: _counts[name] for name in ("requests", "received", "sent")})
    return result


def _store(make: Make, job: Job) -> InventedStore:
    store = make(job)
    store.get(".zmetadata")  # it is made once, which is not measured
    return store


def _opened(store: InventedStore, mode: str = "r") -> tuple[Any, Any]:
    from hdmf_zarr_backend import NWBZarrIO

    io = NWBZarrIO(store, mode)
    return io, io.read()


def _parse_json(make: Make, job: Job) -> None:
    """Parse the JSON of the consolidated document: what opening a file cannot do without."""
    from hdmf_zarr_backend.model.json_text import load

    store = _store(make, job)
    assert _measured(job, lambda: load(store.get(".zmetadata") or b"", key=".zmetadata"))


def _open(make: Make, job: Job) -> None:
    store = _store(make, job)
    io, nwbfile = _measured(job, lambda: _opened(store))
    assert len(nwbfile.acquisition) == store.series
    io.close()


def _slice(make: Make, job: Job) -> None:
    """Read a hundred rows of one series of an open file."""
    store = _store(make, job)
    io, nwbfile = _opened(store)
    name, first = f"series_{store.series // 2}", store.chunks // 2 * ROWS
    rows = _measured(job, lambda: nwbfile.acquisition[name].data[first : first + 100])
    assert rows.shape == (100, CHANNELS)
    io.close()


def _append(make: Make, job: Job) -> None:
    """Open a file to change it, append a row to a series, and close it."""
    store = _store(make, job)
    name = f"series_{store.series // 2}"

    def work() -> None:
        io, nwbfile = _opened(store, "r+")
        nwbfile.acquisition[name].data.append(np.arange(CHANNELS, dtype="i2"))
        io.close()

    _measured(job, work)
    io, nwbfile = _opened(store)
    last = nwbfile.acquisition[name].data
    assert last.shape[0] == store.chunks * ROWS
    assert last[-1, -1] == CHANNELS - 1
    io.close()


def _plan_copy(store: InventedStore) -> Any:
    from hdmf_zarr_backend.encoding.parser import parse
    from hdmf_zarr_backend.hdmf.from_zarr import ZarrPlanner

    parsed = parse(store)
    return ZarrPlanner(parsed.store(store), parsed.hierarchy, "/copy.zarr", zarr_format=2).plan_file()


def _plan(make: Make, job: Job) -> None:
    """Open a file and plan its copy, as `convert` does."""
    store = _store(make, job)
    plan = _measured(job, lambda: _plan_copy(store))
    assert len(plan.arrays) > 2 * store.series


def _dry_run(make: Make, job: Job) -> None:
    """Open a file and tell what its export would write, with an estimate that encodes a chunk of each array."""
    from hdmf_zarr_backend import NWBZarrIO, dry_run

    store = _store(make, job)

    def work() -> Any:
        with NWBZarrIO(store, "r") as io:
            return dry_run(io)

    planned = _measured(job, work)
    assert planned.objects > store.series * store.chunks


def _part(make: Make, job: Job) -> None:
    """Convert one part of a planned copy, as a worker of a cluster: send the task, run it, drop it."""
    from hdmf_zarr_backend.store.transaction import Puts
    from hdmf_zarr_backend.write.tasks import ChunkTask, cut

    store = _store(make, job)
    plan = _plan_copy(store)
    path = f"acquisition/series_{store.series // 2}/data"
    planned = plan.arrays[path]
    whole = ChunkTask(Puts(InventedStore(0, 0)), path, planned.node.stored, planned.source.portable())

    def work() -> int:
        task = next(iter(cut(whole, to_send=True, task_bytes=10 * ROWS * CHANNELS * 2)))
        done: int = pickle.loads(pickle.dumps(task)).run()
        return done

    assert _measured(job, work) == min(10 * ROWS, store.chunks * ROWS - 1) * CHANNELS * 2


def _list_keys(make: Make, job: Job) -> None:
    """List all keys of the store: what a check of the whole file cannot do without."""
    store = _store(make, job)
    count = _measured(job, lambda: sum(1 for _ in store.list_prefix("")))
    assert count > store.series * store.chunks


def _verify(make: Make, job: Job) -> None:
    from hdmf_zarr_backend import verify

    store = _store(make, job)
    report = _measured(job, lambda: verify(store, level="structure"))
    assert not report.problems, report.problems[:3]


_NODES = {"append", "open", "json", "plan", "dry_run"}
SCANS = {
    "S1": {**dict.fromkeys(_NODES, "nodes"), "verify": "nodes and keys", "keys": "keys"},
    "S2": {"verify": "keys", "keys": "keys"},
}
"""By workload, the pieces whose cost grows with the file, and what they visit."""

PIECES: dict[str, tuple[str, Callable[[Make, Job], None]]] = {
    "slice": ("one slice, file open", _slice),
    "part": ("convert one part, planned", _part),
    "append": ("open, append a row, close", _append),
    "open": ("open", _open),
    "json": ("parse the JSON of the metadata", _parse_json),
    "plan": ("open and plan a copy", _plan),
    "dry_run": ("open and `dry_run`", _dry_run),
    "verify": ("`verify --level structure`", _verify),
    "keys": ("list all keys", _list_keys),
}


def _workload(name: str, title: str, make: Make, sizes: tuple[int, ...], warm: int) -> Workload:
    phases = tuple(Phase(piece, title, {"ours": partial(work, make)}) for piece, (title, work) in PIECES.items())
    return Workload(name, title, phases, sizes, quick_sizes=(10 * warm,), warm_size=warm, timeout=1800)


WORKLOADS = (
    _workload("S1", "more datasets, 100 chunks each", _more_datasets, (1_000, 10_000, 100_000), 10),
    _workload("S2", "more chunks, 1,000 datasets", _more_chunks, (200, 2_000, 20_000), 1),
)
