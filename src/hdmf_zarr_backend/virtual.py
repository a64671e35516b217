"""`convert(to="virtual")`: makes a file of references to the chunks of an HDF5 file.

`convert` imports this module only for ``to="virtual"``.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Mapping
from contextlib import closing
from typing import Any

from hdmf_zarr_backend.encoding import registry, zarr2
from hdmf_zarr_backend.encoding.both import BOTH, ZarrFormat
from hdmf_zarr_backend.encoding.codecs import is_expressible
from hdmf_zarr_backend.encoding.elements import describe
from hdmf_zarr_backend.encoding.layout import WHOLE_BYTES
from hdmf_zarr_backend.encoding.parser import check_outside
from hdmf_zarr_backend.encoding.reserved import CHUNKS, FORMAT_VERSION, notes_of
from hdmf_zarr_backend.errors import (
    ReadOnlyStoreError,
    StoreError,
    StoreExistsError,
    StoreNotFoundError,
    UsageError,
    WriteError,
    warn,
)
from hdmf_zarr_backend.from_hdf5 import Hdf5Planner, check_version
from hdmf_zarr_backend.hdf5.rawcopy import VirtualSource, unwritten, virtual_source
from hdmf_zarr_backend.hdf5.reader import Hdf5Data
from hdmf_zarr_backend.hdf5.tree import Hdf5Tree
from hdmf_zarr_backend.model.links import is_url, relative_source, split_location, to_posix
from hdmf_zarr_backend.model.nodes import absolute, join
from hdmf_zarr_backend.options import Limits, ReadOptions, WriteOptions
from hdmf_zarr_backend.store.base import DOCUMENTS, Store
from hdmf_zarr_backend.store.local import LocalStore
from hdmf_zarr_backend.store.memory import MemoryStore
from hdmf_zarr_backend.store.opening import check_apart, check_free, open_folder, open_parent, open_store
from hdmf_zarr_backend.store.reference_files import RECORD, Recorded
from hdmf_zarr_backend.store.transaction import DirectChange, new_local_file, put_file
from hdmf_zarr_backend.write.plan import WritePlan, adapt_plan, encode_fill
from hdmf_zarr_backend.write.sources import IndexedSource, forget_decoded
from hdmf_zarr_backend.write.writer import PlanWriter, planned_bytes

MUCH_INLINED = 16 * 2**20
"""Bytes of a dataset in the JSON above which a warning is issued, or another way is chosen."""

MOST_INLINED = 128 * 2**20
"""Maximum bytes of values in one JSON file."""

SUFFIX = ".zarr.json"
"""Suffix of the name of a file of references."""


def convert_virtual(
    source: Any,
    target: Any,
    zarr_format: ZarrFormat | None,
    *,
    storage: dict[str, Any],
    reading: ReadOptions,
    options: WriteOptions,
    overwrite: bool,
    check: bool,
) -> tuple[WritePlan, str, str]:
    """Write the references of an HDF5 file; return the plan, and the paths or URLs of source and target.

    Parameters and errors as for `conversion.convert`.
    """
    source, target, number = _checked(source, target, zarr_format)
    if not is_url(source) and not os.path.lexists(source):
        raise StoreNotFoundError("the file does not exist", store=source, remedy="Check the path.")
    check_apart(source, target)
    abilities = open_folder(split_location(target)[0], storage if is_url(target) else {}).abilities
    if not abilities.write:  # checked before anything is read
        raise ReadOnlyStoreError(abilities.why, store=target, remedy="Make the references here, and upload them.")
    store = open_store(target, storage if is_url(target) else None)
    check_outside(store, is_new=True)
    check_free(store, overwrite=overwrite)
    is_nwb = check and check_version(source, storage)
    with closing(Hdf5Tree(source, target, storage, reading)) as tree:
        files = _recorded(tree.sources(), target, storage)
        plan = Hdf5Planner(tree).plan_file(number, is_checked=is_nwb)
        staying = _leave(plan, tree, target)
        _check_amount(plan, staying, source)
        inside: dict[str, bytes] = {}
        change = DirectChange(MemoryStore(inside, target))
        change.commit({}, PlanWriter(change, plan, WriteOptions(progress=options.progress)).write())
        text = _document(plan, staying, inside, files)
        for location, (opened, name, record) in files.items():
            if opened.state(name) != record.state:
                raise _has_changed(location)
    forget_decoded()
    limit = Limits().max_document_bytes
    if len(text) > limit:
        warn(
            f"{target} has {len(text):,} bytes, more than the default limit for reading; "
            f"open it with limits=Limits(max_document_bytes=2**{len(text).bit_length()}).",
            stacklevel=3,
        )
    if is_url(target):
        folder, name = split_location(target)
        put_file(open_folder(folder, storage), name, text)
    else:
        durable = options.durable
        target_store, exclusive = LocalStore(target), not overwrite
        with new_local_file(target_store, exclusive=exclusive, durable=durable) as path, open(path, "xb") as file:
            file.write(text)
    return plan, source, target


def _checked(source: Any, target: Any, zarr_format: ZarrFormat | None) -> tuple[str, str, int]:
    """Return source, target and format; refuse a target that cannot hold the references, or could not be read."""
    if not isinstance(source, str) or not isinstance(target, str):
        problem, place = "a virtual conversion is from an HDF5 file to a JSON file", getattr(target, "location", target)
        raise UsageError(problem, store=place, remedy="Give paths or URLs.")
    if zarr_format == BOTH:
        raise UsageError(
            "a virtual file is of one format",
            store=target,
            remedy="Use zarr_format=2 or 3.",
            remedy_cli="Use --zarr-format 2 or 3.",
        )
    if not target.endswith(".json"):
        raise UsageError(
            "references are written to one JSON file", store=target, remedy=f"Use a name that ends in {SUFFIX!r}."
        )
    if is_url(target) and not is_url(source):
        raise UsageError(
            "references on a server cannot point to a local file",
            store=target,
            remedy="Upload the HDF5 file first and give its URL, or make the references here and upload both.",
        )
    if not is_url(target) and os.path.isdir(target):
        raise StoreExistsError("a directory exists there", store=target, remedy="Choose another path.")
    if zarr_format not in (None, 2, 3):
        raise UsageError(f"zarr_format={zarr_format!r} is not a format of Zarr", remedy="Use 2 or 3.")
    return source, target, zarr_format or (3 if registry.default_format((2, 3)) == 3 else 2)


# ---- datasets that stay in their file -----------------------------------------------------------------------------


def _leave(plan: WritePlan, tree: Hdf5Tree, target: str) -> dict[str, VirtualSource]:
    """Return the datasets that can stay in their file, by path, and remove their sources from the plan."""
    chosen: dict[str, VirtualSource] = {}
    for placed in tree.nodes:
        planned = plan.arrays.get(placed.path)
        if planned is None or planned_bytes(planned) <= WHOLE_BYTES:
            continue
        found = virtual_source(planned.source)
        is_read = found is None and isinstance(planned.source, IndexedSource)
        if is_read and describe(planned.node, planned.notes).form == "plain":
            found = unwritten(Hdf5Data(placed.file, placed.raw).dataset(), planned.node.stored.shape)
        stored, is_in_3 = planned.node.stored, plan.hierarchy.zarr_format == 3
        if found is None or found.shape != stored.shape:
            continue
        if is_in_3 and not is_expressible(found.filters, found.compressor):
            continue
        if found.inlined <= MUCH_INLINED or found.inlined < planned_bytes(planned) // 2:  # smaller than a copy
            stored.chunks, stored.filters, stored.compressor = found.chunks, found.filters, found.compressor
            if not found.is_complete:
                stored.fill_value = encode_fill(found.fill[()], found.dtype)
            planned.source = found
            chosen[placed.path] = found
    adapt_plan(plan, location=target)
    staying = {path: found for path, found in chosen.items() if plan.arrays[path].source is found}
    for path in staying:
        plan.arrays[path].source = None
    if not all(found.is_complete for found in staying.values()):
        notes_of(plan.hierarchy.root.attributes).pop(CHUNKS, None)
    return staying


def _check_amount(plan: WritePlan, staying: Mapping[str, VirtualSource], source: str) -> None:
    """Warn of datasets with many bytes in the JSON, and refuse a JSON that is too large."""
    sizes = {
        path: staying[path].inlined if path in staying else planned_bytes(planned)
        for path, planned in plan.arrays.items()
    }
    large = sorted(((size, path) for path, size in sizes.items() if size > MUCH_INLINED), reverse=True)
    total = sum(sizes.values())
    if total > MOST_INLINED:
        named = ", ".join(f"{absolute(path)} ({size:,} bytes)" for size, path in large[:5]) or "many small datasets"
        raise WriteError(
            f"{total:,} bytes cannot stay in the HDF5 file, since Zarr cannot read them there, and would be stored "
            f"in the JSON; at most {MOST_INLINED:,} are allowed: {named}",
            store=source,
            remedy='Convert without to="virtual", which copies the data.',
            remedy_cli="Convert it without --to virtual, which copies the data.",
        )
    for size, path in large:
        warn(
            f"{size:,} bytes of {absolute(path)} in {source} cannot stay in the HDF5 file, since Zarr cannot read them "
            "there; they are stored in the JSON.",
            stacklevel=4,
        )


# ---- the sources ----------------------------------------------------------------------------------------------------


def _recorded(locations: list[str], target: str, options: Mapping[str, Any]) -> dict[str, tuple[Store, str, Recorded]]:
    """Return the HDF5 files by their locations: the store of each, its name there, and its present state."""
    found = {}
    for location in locations:
        store, name = open_parent(location, options if is_url(location) else {})
        state = store.state(name)
        if state is None:
            raise _has_changed(location)
        relative = relative_source(location, target)  # to the folder of the JSON file; None if no relative path exists
        inside = relative.removeprefix("../") if relative.startswith("../") else None
        found[location] = store, name, Recorded(state, inside, store.sample(name, state.size))
    return found


def _has_changed(location: str) -> StoreError:
    return StoreError(
        "the source has changed while its chunks were listed",
        store=location,
        remedy="Wait until no program writes to it, and start again.",
    )


# ---- the document ---------------------------------------------------------------------------------------------------


def _document(
    plan: WritePlan,
    staying: Mapping[str, VirtualSource],
    inside: Mapping[str, bytes],
    files: Mapping[str, tuple[Store, str, Recorded]],
) -> bytes:
    used = {found.location for found in staying.values()}
    recorded = {to_posix(location): record.as_json() for location, (_, _, record) in files.items() if location in used}
    record = {"version": FORMAT_VERSION, "sources": recorded}
    entries = []
    for key, value in inside.items():
        is_document = key.rpartition("/")[2] in DOCUMENTS or key == zarr2.CONSOLIDATED
        entries.append(_entry(key, value.decode("utf-8") if is_document else _base64(value)))
    for path, found in staying.items():
        stored = plan.arrays[path].node.stored
        url = json.dumps(to_posix(found.location))
        for piece in found.pieces():
            key = join(path, stored.chunk_name(piece.indices))
            if piece.data is not None:
                entries.append(_entry(key, _base64(piece.data)))
            else:
                entries.append(f"{json.dumps(key)}: [{url}, {piece.offset}, {piece.size}]".encode())
    start = f'{{"version": 1,\n"{RECORD}": {json.dumps(record)},\n"refs": {{\n'.encode()
    entries[0] = start + entries[0]
    entries[-1] += b"\n}}\n"
    return b",\n".join(entries)


def _entry(key: str, text: str) -> bytes:
    return f"{json.dumps(key)}: {json.dumps(text)}".encode()


def _base64(value: bytes) -> str:
    return f"base64:{base64.b64encode(value).decode('ascii')}"
