"""`WritePlan`: the metadata that will be on disk, the sources of values, shards, and the stored form in format 3.

Its names are checked here too: what a store cannot hold, or what is not portable.
"""

from __future__ import annotations

import base64
import math
import os
import re
import unicodedata
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from operator import ge
from typing import Any, Literal, TypeAlias

import numpy as np

from hdmf_zarr_backend.encoding import zarr3
from hdmf_zarr_backend.encoding.casting import cast, to_bytes, to_text
from hdmf_zarr_backend.encoding.chunk_codec import chunk_codec
from hdmf_zarr_backend.encoding.chunks import cell_texts
from hdmf_zarr_backend.encoding.codecs import in_core_words, is_expressible
from hdmf_zarr_backend.encoding.elements import describe
from hdmf_zarr_backend.encoding.fills import encode_scalar
from hdmf_zarr_backend.encoding.layout import (
    DEFAULT_COMPRESSOR,
    OBJECT_BYTES,
    SHARD_BYTES,
    SHARDED_BYTES,
    SHARDED_CHUNK_BYTES,
    Layout,
    Sharding,
    chunks_inside,
    default_chunks,
    shards_by_bytes,
)
from hdmf_zarr_backend.encoding.zarr3 import KEY_ENCODINGS
from hdmf_zarr_backend.errors import (
    FilterReplacedWarning,
    NameRefusedError,
    NestingError,
    PortableNameWarning,
    UsageError,
    ValueRefusedError,
    at,
    warn,
)
from hdmf_zarr_backend.model.nodes import Dataset, Hierarchy, Shards, StoredArray, absolute, split
from hdmf_zarr_backend.model.render import few
from hdmf_zarr_backend.options import MEMORY_BUDGET, ChunkKeyEncoding, WriteOptions
from hdmf_zarr_backend.store.base import JOURNAL, Store, is_document
from hdmf_zarr_backend.store.files import partial_path
from hdmf_zarr_backend.write.sources import ArraySource, row_blocks


@dataclass(slots=True)
class PlannedArray:
    """One array of a plan."""

    node: Dataset  # its metadata on disk
    source: ArraySource | None = None  # None for an iterator and for an array without elements
    iterator: Any = None  # a data chunk iterator; the shape of the node grows while it is exhausted
    maxshape: tuple[int | None, ...] | None = None
    notes: dict[str, Any] = field(default_factory=dict)  # for its reserved attribute
    labels: tuple[str | None, ...] | None = None  # those of HDMF, for an array whose lengths are not yet known
    taken: dict[str, int] = field(default_factory=dict)  # names of axes in the group, for the same
    sharding: Sharding | None = None  # as requested; the node gets them with its form in format 3
    has_given_codecs: bool = False  # whether the user gave its filters or its compressor


@dataclass(slots=True)
class WritePlan:
    """A hierarchy, the metadata on disk, and the sources of its values."""

    hierarchy: Hierarchy = field(default_factory=Hierarchy)
    arrays: dict[str, PlannedArray] = field(default_factory=dict)  # by path
    # of a change of a file: paths of new nodes, above which all is there, and of nodes whose documents change; and the
    # arrays that get other values where they are
    added: set[str] = field(default_factory=set)
    changed: set[str] = field(default_factory=set)
    replaced: dict[str, Dataset] = field(default_factory=dict)

    chunk_key_encoding: ChunkKeyEncoding = "default"  # of new arrays in format 3
    is_nczarr: bool = False
    """Whether the nodes get the attributes of NCZarr, for netcdf-c, when the lengths of all arrays are known."""

    def apply(self, options: WriteOptions) -> None:
        """Set what the options change in a plan: of a write, a conversion, a dry run, a change that adds arrays."""
        self.chunk_key_encoding = options.chunk_key_encoding or "default"
        self.is_nczarr |= options.nczarr  # a file that has these attributes keeps them


def encode_fill(value: Any, dtype: np.dtype[Any]) -> Any:
    """Return a fill value of a type as JSON."""
    return None if value is None else encode_scalar(cast(value, dtype))


def encode_object_fill(value: Any, codec_id: Any) -> str | None:
    """Return the fill value of text or bytes of variable length as JSON; bytes in Base64."""
    if value is None:
        return None
    if codec_id not in ("vlen-utf8", "vlen-bytes"):
        problem = f"references, and rows with text or references, have no fill value {value!r}"
        raise ValueRefusedError(problem, remedy="Leave out fillvalue; a reference that was never written is null.")
    item: Any = value.item() if isinstance(value, np.generic) else value[()] if isinstance(value, np.ndarray) else value
    try:
        return to_text(item) if codec_id == "vlen-utf8" else base64.b64encode(to_bytes(item)).decode()
    except ValueRefusedError as error:
        raise ValueRefusedError(f"the fill value: {error.problem}", remedy=error.remedy) from error.__cause__


_NO_SHARDS = "neither Zarr format 2 nor a file of both formats has shards"
_USE_FORMAT_3 = {
    "remedy": "Write with zarr_format=3, or leave shards out.",
    "remedy_cli": "Use --zarr-format 3, or leave --shards out.",
}
_BLOCK_CELLS = 65536
ShardsOfFile: TypeAlias = tuple[int, ...] | Literal["auto"] | None  # the requested shards of a file


def ask_for_shards(planned: PlannedArray, shards: ShardsOfFile) -> None:
    """Set the requested shards of an array in a file conversion. Copied chunks are not changed."""
    node = planned.node
    if shards == "auto":
        planned.sharding = Sharding("auto")
    elif shards is not None:
        # a shard of one chunk would only add an index
        is_whole = math.prod(node.stored.grid) < 2
        if is_whole or len(shards) != len(node.stored.shape) or describe(node, planned.notes).form == "rows":
            return
        planned.sharding = Sharding(_of_whole_chunks(shards, node.stored.chunks), are_chunks_given=True)


def _of_whole_chunks(shards: tuple[int, ...], chunks: tuple[int, ...]) -> tuple[int, ...]:
    """Return lengths of shards, rounded up to complete chunks."""
    return tuple(-(-shard // chunk) * chunk for shard, chunk in zip(shards, chunks, strict=False))


def asks_for_shards(planned: PlannedArray) -> bool:
    """Tell whether the user asks for shards of an array; those of a stored array are kept only where they can be."""
    return planned.sharding is not None and not planned.sharding.is_kept


def checked_shards(shards: Any, zarr_format: int) -> ShardsOfFile:
    """Return the requested shards of a file, after checking them."""
    if shards is None:
        return None
    if zarr_format != 3:
        raise UsageError(_NO_SHARDS, **_USE_FORMAT_3)
    if isinstance(shards, str) and shards == "auto":
        return "auto"
    if not isinstance(shards, (tuple, list)) or not all(type(n) is int and n > 0 for n in shards):
        raise UsageError(f"shards {shards!r} are not lengths", remedy='Give a whole number for each axis, or "auto".')
    return tuple(shards)


def give_shards(planned: PlannedArray, shard_bytes: int = SHARD_BYTES) -> None:
    """Set the shards of a planned array in its format-3 form, and chunks that fit into them."""
    sharding, stored = planned.sharding, planned.node.stored
    if sharding is None:
        return
    if sharding.shape == "auto":
        _choose_shards(planned, shard_bytes, are_chunks_given=sharding.are_chunks_given)
        return
    shape = sharding.shape
    if stored.stored_axes == 0:
        raise UsageError("a scalar has no shards", remedy="Leave shards out.")
    if stored.stored_axes is not None:  # rows: the axis of fields is never divided
        shape = (*shape[: stored.stored_axes], *stored.chunks[stored.stored_axes :])
    if len(shape) != len(stored.shape):
        raise UsageError(f"shards {shape} do not fit the shape {stored.shape}", remedy="Give one length for each axis.")
    if not sharding.are_chunks_given:
        stored.chunks = chunks_inside(shape, stored.chunks)
    if any(shard % chunk for shard, chunk in zip(shape, stored.chunks, strict=True)):
        problem = f"shards {shape} are not a whole number of chunks {stored.chunks}"
        raise UsageError(problem, remedy="Give shards whose lengths are multiples of those of the chunks.")
    stored.shards = Shards(shape)


def _choose_shards(planned: PlannedArray, shard_bytes: int, *, are_chunks_given: bool) -> None:
    """Set shards by bytes, and larger chunks where they may change; no shards for a small array."""
    stored = planned.node.stored
    lengths: tuple[int | None, ...] = stored.shape
    if planned.iterator is not None:
        lengths = tuple(None if length is None else int(length) for length in planned.iterator.maxshape)
    row = zarr3.row_bytes(stored)
    if row is not None:
        itemsize = max(1, row // max(1, stored.shape[-1]))
    else:
        dtype = chunk_codec(stored).dtype
        itemsize = OBJECT_BYTES if dtype.hasobject else dtype.itemsize
    known = [length for length in lengths if length is not None]
    is_small = len(known) == len(lengths) and math.prod(known) * itemsize < SHARDED_BYTES
    if stored.stored_axes == 0 or not lengths or is_small:
        return
    is_free = not are_chunks_given and planned.iterator is None and not hasattr(planned.source, "encoded")
    if is_free and stored.stored_axes is None:
        target = min(SHARDED_CHUNK_BYTES, shard_bytes)
        stored.chunks = default_chunks(stored.shape, itemsize, target=target)
    stored.shards = Shards(shards_by_bytes(lengths, stored.chunks, itemsize, target=shard_bytes))


def choose_layout(planned: PlannedArray, layout: Layout) -> None:
    """Give the planned copy of an array the chunks, codecs and shards that the user has chosen; others stay."""
    stored, before = planned.node.stored, _encoding(planned.node.stored)
    if layout.chunks is not None:
        stored.chunks = (*layout.chunks, *stored.chunks[len(layout.chunks) :])  # rows have a last axis for their fields
    if layout.compressor is not None or layout.filters:
        objects = (stored.filters or [])[:1] if stored.data_type == "|O" else []  # makes bytes of objects
        stored.filters = [*objects, *(layout.filters or ())] or None
    if layout.compressor is not None:
        stored.compressor = layout.compressor_config()
    planned.has_given_codecs |= layout.has_given_codecs
    sharding = layout.sharding()
    if sharding is not None:
        planned.sharding = sharding
    elif planned.sharding is not None and isinstance(planned.sharding.shape, tuple):
        planned.sharding = replace(planned.sharding, shape=_of_whole_chunks(planned.sharding.shape, stored.chunks))
    _encode_again(planned, before)


def tell_apart(planned: PlannedArray, old: StoredArray) -> None:
    """Give an array that is written again chunks of another size, if open readers would take them for the old ones."""
    # the keys stay; a chunk that has not the size of the old ones does not decode, and such a reader then explains it
    stored, before = planned.node.stored, _encoding(planned.node.stored)
    is_longer = len(stored.shape) == len(old.shape) and all(map(ge, stored.shape, old.shape))
    # what a compressor stores cannot be taken for that of another one
    if is_longer and stored.chunks == old.chunks and _elements(stored) == _elements(old):
        return
    # but without one, any chunk of the right size decodes: also a compressed one, whose size nobody knows before
    if not (old.compressor or old.filters or planned.has_given_codecs) and stored.data_type != "|O":
        stored.compressor = stored.filters = None
    sizes = {math.prod(each.chunks) * chunk_codec(each).dtype.itemsize for each in (stored, old)}
    if len(sizes) == 1 and 0 not in (len(stored.shape), stored.stored_axes):
        stored.chunks = (stored.chunks[0] + 1, *stored.chunks[1:])
        if stored.shards is not None:
            stored.shards = replace(stored.shards, shape=_of_whole_chunks(stored.shards.shape, stored.chunks))
    _encode_again(planned, before)


def adapt_plan(
    plan: WritePlan, *, location: str, store: Store | None = None, memory_budget: int = MEMORY_BUDGET
) -> None:
    """Convert the new arrays of a plan for format 3 to their stored form. For format 2 it only refuses shards."""
    # a store that streams writes a shard chunk by chunk; the others hold it whole, besides the chunk that is encoded
    is_held = store is not None and store.stream_bytes is None
    shard_bytes = max(1, min(SHARD_BYTES, memory_budget // 2)) if is_held else SHARD_BYTES
    is_3 = plan.hierarchy.zarr_format == 3
    for path, planned in plan.arrays.items():
        if planned.node.stored.zarr_format == 2:
            with at(location, path):
                if is_3:
                    _store_in_format_3(planned, shard_bytes, f"{location}, {absolute(path)}")
                    planned.node.stored.chunk_keys = KEY_ENCODINGS[plan.chunk_key_encoding]
                elif asks_for_shards(planned):
                    raise UsageError(_NO_SHARDS, **_USE_FORMAT_3)


def _store_in_format_3(planned: PlannedArray, shard_bytes: int, where: str) -> None:
    """Give a planned array its form in format 3; codecs of a copy that the format lacks become the default one."""
    node, stored = planned.node, planned.node.stored
    before = _encoding(stored)
    if describe(node).form == "plain" and not is_expressible(stored.filters, stored.compressor, stored.data_type):
        codecs = ", ".join(str(step["id"]) for step in stored.codecs)
        if planned.has_given_codecs:
            problem = f"Zarr format 3 cannot express the codecs {codecs} in this order, or with this byte order"
            remedy = "Put filters for numbers, such as delta, before those for bytes, with the byte order of the data; "
            remedy += "or write with zarr_format=2."
            raise UsageError(problem, remedy=remedy, remedy_cli="Use --zarr-format 2.")
        message = f"{where}: Zarr format 3 cannot express the codecs {codecs}; the copy is stored with "
        message += f"{DEFAULT_COMPRESSOR['id']} instead"
        warn(message, FilterReplacedWarning)
        stored.filters, stored.compressor = None, dict(DEFAULT_COMPRESSOR)
    # text in rows has a fixed length in format 3: that of the longest one, so all rows are read twice
    widths: dict[str, int] = {}
    if describe(node).form == "rows" and planned.source is not None:
        fields = [(n, name, kind) for n, (name, _, kind) in enumerate(zarr3.row_fields(node, {})) if kind != "number"]
        widths = {name: 0 for _, name, _ in fields}
        for region in row_blocks((stored.shape[0], stored.shape[-1]), _BLOCK_CELLS // max(1, stored.shape[-1])):
            block = planned.source.read(region)
            for column, name, kind in fields:
                widths[name] = max(widths[name], *map(len, cell_texts(block[:, column].tolist(), kind)), 0)
    zarr3.store_in_format_3(node, widths)
    itemsize = zarr3.row_bytes(stored)
    # rows have a size in format 3, so chunks that were chosen by an assumed one are chosen again
    if itemsize is not None and stored.chunks[0] == default_chunks(stored.shape, OBJECT_BYTES)[0]:
        stored.chunks = (default_chunks(stored.shape[:1], itemsize)[0], *stored.chunks[1:])
    give_shards(planned, shard_bytes)
    _encode_again(planned, before)
    if not hasattr(planned.source, "encoded"):  # copied chunks keep the frame that they have
        stored.compressor = in_core_words(stored.compressor)
    if planned.has_given_codecs:
        zarr3.encode_node(node)  # raises an error if the format lacks one of them


def _encode_again(planned: PlannedArray, before: tuple[Any, ...]) -> None:
    """Take the values of a source, not its encoded chunks, if an array was encoded in another way ``before``."""
    source: Any = planned.source
    if hasattr(source, "encoded") and _encoding(planned.node.stored) != before:
        planned.source = source.decoded()


def _encoding(stored: StoredArray) -> tuple[Any, ...]:
    """Return the properties that determine the bytes of a chunk."""
    return *_elements(stored), stored.compressor, stored.chunks


def _elements(stored: StoredArray) -> tuple[Any, ...]:
    """Return the properties that determine what the bytes of a decoded chunk mean."""
    return stored.data_type, stored.filters or None, stored.order


# Source: "Naming Files, Paths, and Namespaces" of the Windows documentation.
_NOT_ON_WINDOWS = re.compile(r'[<>:"|?*\x01-\x1f]|[. ]$|^(con|prn|aux|nul|com[1-9]|lpt[1-9])(\.|$)', re.IGNORECASE)
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_LONGEST_KEY_NAME = 64  # bytes of the names of documents and most chunks, while they are written


def checked_name(name: str) -> str:
    """Return ``name`` if it is valid for a group, a dataset or a link."""
    is_reserved = is_document(name) or name.startswith(JOURNAL)
    if name in ("", ".", "..") or any(mark in name for mark in "/\\\0") or is_reserved:
        raise NameRefusedError(f"the name {name!r} cannot be stored", remedy="Rename it.")
    if not name.isprintable() and any("\ud800" <= mark <= "\udfff" for mark in name):
        raise NameRefusedError(f"the name {name!r} is not UTF-8", remedy="Rename it.")
    return name


def check_names(paths: Iterable[str], store: Store) -> None:
    """Refuse names in ``paths``, those of the nodes to be written, that are not valid in the keys of a store."""
    paths = list(paths)
    for path in paths if not store.abilities.control_characters else ():
        if _CONTROL.search(path):
            problem = "the name has a control character, which this store does not allow in keys"
            with at(store, path):
                raise NameRefusedError(problem, remedy="Rename it, or write to a local place.")
    if store.folder is None:
        return
    longest, folder, most = max(paths, key=len, default=""), os.path.dirname(store.folder), 0
    # Windows has no pathconf, and other systems may not know a limit
    with suppress(AttributeError, OSError, ValueError):
        most = os.pathconf(folder if os.path.isdir(folder) else "/", "PC_PATH_MAX")
    # the file is written under a longer name, beside its location
    size = len(os.fsencode(longest)) + len(os.fsencode(partial_path(store.folder))) + _LONGEST_KEY_NAME
    if 0 < most <= size:
        what = f"a path of {len(longest):,} letters, {longest.count('/') + 1:,} groups deep,"
        with at(store.folder, longest):
            problem = f"{what} is too long for this file system ({most:,} bytes with the folder)"
            raise NestingError(problem, remedy="Write to a zip file or an object store, or nest less deeply.")


def warn_of_names(paths: Iterable[str], location: str) -> None:
    """Warn of names that are not valid on Windows, or equal to another one there or on macOS (case, accents)."""
    first: dict[tuple[str, str], str] = {}
    unportable = []
    for path in paths:
        parent, name = split(path)
        plain = name if name.isascii() else unicodedata.normalize("NFC", name)
        if _NOT_ON_WINDOWS.search(name) or first.setdefault((parent, plain.casefold()), name) != name:
            unportable.append(absolute(path))
    if unportable:
        shown = few(list(map(repr, unportable)))
        message = f"names that are not valid on Windows, or equal to another one there: {shown} in {location}. They "
        message += "are stored; a copy of the file on such a system would lack them."
        warn(message, PortableNameWarning)
