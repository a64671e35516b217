"""`references`: the JSON document of a virtual Zarr file, whose chunks are those of an HDF5 file; `virtual_store`.

Source: the reference specification of kerchunk, version 1.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from contextlib import closing
from typing import Any

from hdmf_zarr_backend.encoding import zarr2
from hdmf_zarr_backend.encoding.chunk_codec import chunk_codec
from hdmf_zarr_backend.encoding.codecs import is_expressible
from hdmf_zarr_backend.encoding.elements import describe
from hdmf_zarr_backend.encoding.layout import WHOLE_BYTES
from hdmf_zarr_backend.encoding.reserved import CHUNKS, FORMAT_VERSION, notes_of
from hdmf_zarr_backend.errors import WriteError, warn
from hdmf_zarr_backend.from_hdf5 import Hdf5Planner
from hdmf_zarr_backend.hdf5.files import changed
from hdmf_zarr_backend.hdf5.rawcopy import VirtualSource, unwritten, virtual_source
from hdmf_zarr_backend.hdf5.tree import Hdf5Tree
from hdmf_zarr_backend.model.links import is_url, relative_source, to_posix
from hdmf_zarr_backend.model.nodes import absolute, join
from hdmf_zarr_backend.options import MEMORY_BUDGET, ReadRules, WriteOptions
from hdmf_zarr_backend.progress import SILENT, Progress
from hdmf_zarr_backend.store.base import DOCUMENTS, Store
from hdmf_zarr_backend.store.memory import MemoryStore
from hdmf_zarr_backend.store.opening import open_parent
from hdmf_zarr_backend.store.reference_files import RECORD, Recorded, ReferenceStore
from hdmf_zarr_backend.store.transaction import DirectChange
from hdmf_zarr_backend.write.plan import WritePlan, adapt_plan, encode_fill
from hdmf_zarr_backend.write.sources import IndexedSource, source_caches
from hdmf_zarr_backend.write.tasks import encode_chunk
from hdmf_zarr_backend.write.writer import PlanWriter, planned_bytes

MUCH_INLINED = 16 * 2**20  # bytes of a dataset in the JSON above which a warning is issued, or another way is chosen

MOST_INLINED = 128 * 2**20  # maximum bytes of values in one JSON file


def virtual_store(location: str, options: Mapping[str, Any], rules: ReadRules) -> ReferenceStore:
    """Return an HDF5 file at a URL as virtual Zarr, of which everything but the large data is in memory."""
    with closing(Hdf5Tree(location, location, options, rules)) as tree:
        _, document = references(tree, 2, SILENT, is_checked=False, is_file=False)
    store = ReferenceStore(location, options, document)
    store.read_rules = rules
    return store


def references(
    tree: Hdf5Tree, zarr_format: int, progress: Progress, *, is_checked: bool, is_file: bool = True
) -> tuple[WritePlan, bytes]:
    """Return the plan of the file, and the JSON document; with ``is_checked``, refuse what pynwb cannot read."""
    # recorded first, so that a change while the plan lists the chunks is noticed
    files = _recorded(tree)
    plan = Hdf5Planner(tree).plan_file(zarr_format, is_checked=is_checked)
    staying = _leave(plan, tree)
    _check_amount(plan, staying, tree.main.location, is_file=is_file)
    inside: dict[str, bytes] = {}
    change = DirectChange(MemoryStore(inside, tree.target))
    change.commit({}, PlanWriter(change, plan, WriteOptions(progress=progress)).write())
    with source_caches(MEMORY_BUDGET):
        document = _document(plan, staying, inside, files)
    for location, (store, name, record) in files.items():
        if store.state(name) != record.state:
            raise changed(location)
    return plan, document


# ---- datasets that stay in their file -----------------------------------------------------------------------------


def _leave(plan: WritePlan, tree: Hdf5Tree) -> dict[str, VirtualSource]:
    """Return the datasets that can stay in their file, by path, and remove their sources from the plan."""
    chosen: dict[str, VirtualSource] = {}
    is_in_3 = plan.hierarchy.zarr_format == 3
    for placed in tree.nodes:
        planned = plan.arrays.get(placed.path)
        if planned is None or planned_bytes(planned) <= WHOLE_BYTES:
            continue
        stored, source = planned.node.stored, virtual_source(planned.source)
        is_read = source is None and isinstance(planned.source, IndexedSource)
        if is_read and describe(planned.node, planned.notes).form == "plain":
            source = unwritten(placed.file.open(placed.raw), stored.shape)
        if source is None or source.shape != stored.shape:
            continue
        if is_in_3 and not is_expressible(source.filters, source.compressor, stored.data_type):
            continue
        # not if most of its chunks would be in the JSON, where they take more than a copy: Base64 adds a third
        if source.inlined <= MUCH_INLINED or source.inlined < planned_bytes(planned) // 2:
            stored.chunks, stored.filters, stored.compressor = source.chunks, source.filters, source.compressor
            if not source.is_complete:
                stored.fill_value = encode_fill(source.fill[()], source.fill.dtype)
            planned.source = chosen[placed.path] = source
    adapt_plan(plan, location=tree.target)
    # `adapt_plan` has replaced the source of an array whose chunks are encoded differently in format 3
    staying = {path: source for path, source in chosen.items() if plan.arrays[path].source is source}
    for path in staying:
        plan.arrays[path].source = None
    # the root says that every chunk is stored, unless one of these lacks some
    if not all(source.is_complete for source in staying.values()):
        notes_of(plan.hierarchy.root.attributes).pop(CHUNKS, None)
    return staying


def _check_amount(plan: WritePlan, staying: Mapping[str, VirtualSource], source: str, *, is_file: bool) -> None:
    """Warn of datasets with many bytes in the JSON file, and refuse a JSON that is too large."""
    sizes = {path: planned_bytes(planned) for path, planned in plan.arrays.items() if path not in staying}
    sizes |= {path: source.inlined for path, source in staying.items()}
    large = sorted(((size, path) for path, size in sizes.items() if size > MUCH_INLINED), reverse=True)
    total = sum(sizes.values())
    if total > MOST_INLINED:
        named = ", ".join(f"{absolute(path)} ({size:,} bytes)" for size, path in large[:5]) or "many small datasets"
        if not is_file:
            problem = f"{total:,} bytes of values would be read to open it, because only HDF5 can decode them: {named}"
            raise WriteError(problem, store=source, remedy="Download the file, and open it there.")
        problem = f"{total:,} bytes of values would have to be stored in the JSON file, because Zarr cannot read them "
        problem += f"from the HDF5 file, and at most {MOST_INLINED:,} are allowed: {named}"
        remedy = 'Convert without to="virtual", which copies the data.'
        cli = "Convert it without --to virtual, which copies the data."
        raise WriteError(problem, store=source, remedy=remedy, remedy_cli=cli)
    for size, path in large if is_file else ():
        message = f"{size:,} bytes of {absolute(path)} in {source} are stored in the JSON file, because Zarr cannot "
        message += "read them from the HDF5 file."
        warn(message)


def _recorded(tree: Hdf5Tree) -> dict[str, tuple[Store, str, Recorded]]:
    """Return the HDF5 files by their locations: the store of each, its name there, and its present state."""
    files = {}
    for location in (file.location for file in tree.sources):
        store, name = open_parent(location, tree.storage if is_url(location) else {})
        state = store.state(name)
        if state is None:
            raise changed(location)
        # relative to the folder of the JSON file, so that both can be moved together
        relative = relative_source(location, tree.target)
        inside = relative.removeprefix("../") if relative.startswith("../") else None
        files[location] = store, name, Recorded(state, inside, store.sample(name, state.size))
    return files


def _document(
    plan: WritePlan,
    staying: Mapping[str, VirtualSource],
    inside: Mapping[str, bytes],
    files: Mapping[str, tuple[Store, str, Recorded]],
) -> bytes:
    """Return the JSON, one line for each key."""
    used = {source.location for source in staying.values()}
    recorded = {to_posix(location): record.as_json() for location, (_, _, record) in files.items() if location in used}
    record = {"version": FORMAT_VERSION, "sources": recorded}

    def entry(key: str, value: bytes) -> bytes:
        is_text = key.rpartition("/")[2] in DOCUMENTS or key == zarr2.CONSOLIDATED
        text = value.decode("utf-8") if is_text else f"base64:{base64.b64encode(value).decode('ascii')}"
        return f"{json.dumps(key)}: {json.dumps(text)}".encode()

    entries = [entry(key, value) for key, value in inside.items()]
    for path, source in staying.items():
        stored, url = plan.arrays[path].node.stored, json.dumps(to_posix(source.location))
        codec = chunk_codec(stored)
        for piece in source.pieces():
            key = join(path, stored.chunk_name(piece.indices))
            if piece.size:
                entries.append(f"{json.dumps(key)}: [{url}, {piece.offset}, {piece.size}]".encode())
            else:
                entries.append(entry(key, encode_chunk(stored, codec, source, piece.indices)[0]))
    start = f'{{"version": 1,\n"{RECORD}": {json.dumps(record)},\n"refs": {{\n'.encode()
    return start + b",\n".join(entries) + b"\n}}\n"
