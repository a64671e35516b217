"""`Hdf5Writer`: Zarr file -> HDF5 file, each node with its type, layout and attributes; `Filler` writes the values.

Objects are written first, then links, then attributes (which may refer to any object), then values, so that most errors
occur before large data are written.
"""

from __future__ import annotations

import functools
import io
import itertools
import math
import operator
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import h5py
import numpy as np
from h5py import h5d, h5f, h5fd, h5g, h5o, h5p, h5r, h5s, h5t

from hdmf_zarr_backend import errors
from hdmf_zarr_backend.array.chunks import ChunkCache, ChunkReader, absent_chunk, check_unwritten, fill_array
from hdmf_zarr_backend.encoding import references
from hdmf_zarr_backend.encoding.attributes import decode_attributes
from hdmf_zarr_backend.encoding.chunk_codec import ChunkCodec, chunk_codec, value_bytes
from hdmf_zarr_backend.encoding.chunks import in_layout
from hdmf_zarr_backend.encoding.dtypes import numpy_dtype
from hdmf_zarr_backend.encoding.elements import describe
from hdmf_zarr_backend.encoding.hdf5_types import from_note, raw_of, text_of, to_hdf5
from hdmf_zarr_backend.encoding.hdf5_values import Array, array_of, decode_text, decoder
from hdmf_zarr_backend.encoding.layout import Layout
from hdmf_zarr_backend.encoding.reserved import HDF5, SPECLOC, as_dict, hdf5_note, notes_of, spec_location
from hdmf_zarr_backend.errors import at
from hdmf_zarr_backend.hdf5 import attributes
from hdmf_zarr_backend.hdf5.datasets import DatasetForm, chosen_note, creation_list, is_same_layout, stored_fill
from hdmf_zarr_backend.hdf5.files import OpenGroups, warn_broken
from hdmf_zarr_backend.hdf5.filters import CodecPipeline, codecs_of, filters_of, pipeline_of
from hdmf_zarr_backend.hdf5.rawcopy import Index, Region, write_direct
from hdmf_zarr_backend.hdf5.reader import decode_region
from hdmf_zarr_backend.hdf5.tree import Placement, ZarrNode
from hdmf_zarr_backend.model.element import Compound, Reference
from hdmf_zarr_backend.model.nodes import Dataset, Group, StoredArray, absolute, indices_of, lengths_of
from hdmf_zarr_backend.model.render import few
from hdmf_zarr_backend.options import WriteOptions
from hdmf_zarr_backend.store.base import Store, resource_failure
from hdmf_zarr_backend.store.local import NO_LINKS
from hdmf_zarr_backend.write.sources import StoredChunks, ZarrSource
from hdmf_zarr_backend.write.tasks import region_of, runner, task_bytes_for, whole_chunk

_MANY_ATTRIBUTES = 1000  # with more attributes on one object, the format of HDF5 1.8 is used


@dataclass
class Hdf5Writer:
    """Writes the content of a Zarr file to a new HDF5 file."""

    path: str
    placement: Placement
    typed: Mapping[str, Mapping[str, Any]]  # attributes whose types are not in the file
    allows_null: bool
    options: WriteOptions
    layouts: Mapping[str, Layout]

    def write(self) -> None:
        """Write everything."""
        # First in the oldest version of the format, which every HDF5 library reads. What needs a newer one is noticed
        # while objects and attributes are written, before large data are.
        try:
            self._write(is_new=False)
        except attributes.NewerFormatNeededError:
            self._write(is_new=True)

    def _write(self, *, is_new: bool) -> None:
        self._is_new = is_new
        self._types: set[bytes] = set()
        self._references: dict[str, Any] = {}
        self.json_attributes: list[str] = []  # attributes that HDF5 has no type for, and their objects
        nodes = self.placement.nodes
        if any("datatypes" in hdf5_note(placed.node) for placed in nodes):  # named types before datasets that use them
            nodes = sorted(nodes, key=lambda placed: isinstance(placed.node, Dataset))
        # exclusive: the second attempt replaces the file of the first one, and no other file is ever replaced
        with OutputFile(self.path, exclusive=not is_new) as output, h5py.File(self._create_file(output)) as file:
            self._output, self._groups = output, OpenGroups(file.id)
            planned = [(placed, self._create(placed)) for placed in nodes]
            root, creation = h5g.open(file.id, b"/"), _link_creation()
            for link in self.placement.links:
                with writing_at(self.placement.main.location, absolute(link.path)), attributes.refusing("this link"):
                    group, name = self._within(link.path)
                    if link.form == "hard":
                        group.links.create_hard(name, root, _raw(link.target), lcpl=creation)
                    elif link.form == "soft":
                        group.links.create_soft(name, _bytes(link.target), creation)
                    else:
                        group.links.create_external(name, _bytes(link.file), _raw(link.target), creation)
            for placed in nodes:
                if attributes.LINK_ORDER in (note := hdf5_note(placed.node)):
                    attributes.order_links(h5g.open(*self._within(placed.path)), note, creation)
            for placed in nodes:
                self._attributes(placed)

            def advance(path: str, nbytes: int) -> None:
                output.check()  # a full disk ends the conversion here, and not after all other values
                self.options.receiver.advance(path, nbytes)

            filler = Filler(self._groups, self._refer, self.options, advance)
            filler.fill(planned)
            if filler.nulls and not self.allows_null:
                listed = few(sorted(filler.nulls))
                target = self.placement.target
                warn_broken(f"{target}: pynwb cannot read null references in HDF5, which are in {listed}")

    def _create_file(self, output: OutputFile) -> Any:
        # In a function of its own, so that the properties die with this call: HDF5 crashes at exit if the traceback
        # of an error keeps them, with the frame, until then.
        access, creation = h5p.create(h5p.FILE_ACCESS), h5p.create(h5p.FILE_CREATE)
        access.set_fclose_degree(h5f.CLOSE_STRONG)
        access.set_libver_bounds(h5f.LIBVER_V18 if self._is_new else h5f.LIBVER_EARLIEST, h5f.LIBVER_LATEST)
        attributes.set_orders(creation, hdf5_note(self.placement.main.hierarchy.root))
        access.set_fileobj_driver(h5fd.fileobj_driver, output)
        return h5f.create(os.fsencode(self.path), h5f.ACC_TRUNC, creation, access)

    def _within(self, path: str) -> tuple[Any, bytes]:
        """Return the open parent group of an object in the new file, and its name in that group."""
        return self._groups.within(_raw(path))

    def _create(self, placed: ZarrNode) -> DatasetForm | None:
        """Create a group, or a dataset without values; return the form of a dataset."""
        self._output.check()
        with named(placed), attributes.refusing():
            if isinstance(placed.node, Group):
                note = hdf5_note(placed.node)
                if placed.path:
                    creation = h5p.create(h5p.GROUP_CREATE)
                    attributes.set_orders(creation, note)
                    h5g.create(*self._within(placed.path), lcpl=_link_creation(), gcpl=creation)
                for name, noted in as_dict(note.get("datatypes")).items():
                    tid, path = to_hdf5(from_note(as_dict(noted).get("type"))), _member(placed.path, name)
                    # a copy, because HDF5 gives no name to a predefined type
                    self._checked(tid).copy().commit(*self._groups.within(path), _link_creation())
                    self._types.add(path)
                return None
            return self._create_dataset(placed, placed.node)

    def _create_dataset(self, placed: ZarrNode, node: Dataset) -> DatasetForm:
        notes = notes_of(node.attributes)
        note = notes[HDF5] if isinstance(notes.get(HDF5), dict) else None
        specs = spec_location(placed.file.hierarchy.root.attributes.get(SPECLOC))
        described = describe(node, is_spec=specs is not None and placed.own.startswith(f"{specs}/"))
        shape = described.axes if described.shape is None else described.shape
        form = DatasetForm(node.stored, described.form, described.element, shape)
        tid = self._named_type((note or {}).get("named"), self._checked(to_hdf5(form.element)))
        noted = notes.get("maxshape")  # it may include the axes of elements
        maxshape: tuple[int | None, ...] = shape
        if isinstance(noted, list) and len(noted) >= len(shape):
            bounds = zip(shape, noted, strict=False)
            maxshape = tuple(None if bound is None else max(int(bound), n) for n, bound in bounds)
        layout, is_null = self.layouts.get(placed.path), note is not None and note.get("null")
        if layout is not None and not is_null:
            note = chosen_note(layout, node.stored, note, tid, shape, maxshape)
        properties = creation_list(node.stored, note, form.element, tid, shape, maxshape)
        if is_null and 0 in node.stored.shape:
            space = h5s.create(h5s.NULL)
        elif shape:
            space = h5s.create_simple(shape, tuple(h5s.UNLIMITED if n is None else n for n in maxshape))
        else:
            space = h5s.create(h5s.SCALAR)
        h5d.create(*self._within(placed.path), tid, space, properties, lcpl=_link_creation())
        return form

    def _checked(self, tid: Any) -> Any:
        """Return a type if the format version of the file can store it."""
        # HDF5 2.0 takes numbers that use less than half of their bits for damage in a file without checksums
        if attributes.is_sparse(tid) and not self._is_new:
            raise attributes.NewerFormatNeededError
        return tid

    def _named_type(self, path: Any, tid: Any) -> Any:
        """Return the named type at ``path`` if it equals ``tid``, else ``tid``."""
        if not isinstance(path, str) or _raw(path) not in self._types:
            return tid
        named_tid = h5o.open(*self._within(path))
        return named_tid if isinstance(named_tid, h5t.TypeID) and named_tid.equal(tid) else tid

    def _attributes(self, placed: ZarrNode) -> None:
        self._output.check()
        with named(placed), attributes.refusing():
            note = hdf5_note(placed.node)
            remarks = as_dict(note.get("attributes"))
            values = decode_attributes(placed.node.attributes, resolve=references.decode_attribute_reference)
            if placed.file is self.placement.main:
                values.update(self.typed.get(placed.own, {}))
            specs = None if placed.path else spec_location(placed.node.attributes.get(SPECLOC))
            if specs is not None and specs in placed.file.hierarchy:
                values[SPECLOC] = references.ZarrReference(".", specs)
            values.update({name: None for name, remark in remarks.items() if "value" in as_dict(remark)})
            ordered = {name: values[name] for name in attributes.in_order(values, note, attributes.ATTRIBUTE_ORDER)}
            self._write_attributes(_raw(placed.path), ordered, remarks, placed.file)
            for name, datatype in as_dict(note.get("datatypes")).items():
                noted = as_dict(as_dict(datatype).get("attributes"))
                self._write_attributes(_member(placed.path, name), dict.fromkeys(noted), noted, placed.file)

    def _write_attributes(
        self, path: bytes, values: dict[str, Any], remarks: dict[str, Any], file: references.LinkedFile
    ) -> None:
        """Write the attributes of an object."""
        # without the index of HDF5 1.8, adding one attribute goes through all that are there
        if len(values) > _MANY_ATTRIBUTES and not self._is_new:
            raise attributes.NewerFormatNeededError
        node, refer = h5o.open(*self._groups.within(path)), functools.partial(self._refer, file=file)
        for name, value in values.items():
            note = as_dict(remarks.get(name))
            if attributes.write_attribute(node, name, value, note, refer, self._named_type, is_new=self._is_new):
                self.json_attributes.append(f"{name!r} of {text_of(path)}")

    def _refer(self, reference: references.ZarrReference, file: references.LinkedFile) -> Any:
        """Return an h5py reference; with a warning a null reference, if the target is not in the new file."""
        path, other = self.placement.target_of(reference, file)
        if path is None:
            # pynwb cannot read a null reference, so a checked NWB file gets an error that says which file to convert
            # first
            if other is not None and not self.allows_null:
                what = f"a reference leads to {reference.path} of {other}, which is not copied"
                problem = f"{what}, and HDF5 references cannot leave their file"
                first = f"Convert {other} first, to an HDF5 file of the same name beside the target: links then lead "
                first += "to that file, and nothing of it is copied. Or"
                remedy = f"{first} pass check=False to write null references."
                cli = f"{first} use --no-check to write null references."
                raise errors.MissingTargetError(problem, store=file.location, remedy=remedy, remedy_cli=cli)
            target = f"{reference.source}:{reference.path}, which is not in the new file"
            warn_broken(f"A reference in {file.location} points to {target}; HDF5 references cannot leave their file.")
            return None
        if reference.region is not None:
            space = h5d.open(*self._within(path)).get_space()
            decode_region(reference.region, space)
            return h5r.create(*self._within(path), h5r.DATASET_REGION, space)
        if path not in self._references:
            self._references[path] = h5r.create(*self._within(path), h5r.OBJECT)
        return self._references[path]


def _raw(path: str) -> bytes:
    return _bytes(absolute(path))


def _bytes(text: str) -> bytes:
    if "\0" in text:
        problem = f"HDF5 names cannot contain NUL, as {text!r} does"
        raise errors.NameRefusedError(problem, remedy="Rename it in the Zarr file.")
    return raw_of(text)


def _member(path: str, name: str) -> bytes:
    """Return the path of a member of a group, after checking its name."""
    if "/" in name or name in ("", "."):
        problem = f"HDF5 has no member with the name {name!r}"
        raise errors.NameRefusedError(problem, remedy="Rename it in the Zarr file.")
    return _raw(f"{path}/{name}")


def _link_creation() -> Any:
    properties = h5p.create(h5p.LINK_CREATE)
    properties.set_char_encoding(h5t.CSET_UTF8)
    return properties


# ---- the file --------------------------------------------------------------------------------------------------------


class OutputFile(io.FileIO):
    """A new file for the driver ``fileobj`` of h5py, which HDF5 writes through Python; a context manager."""

    # HDF5's own drivers ignore errors of the system when they close an object: data are lost without an error, and the
    # process may crash at exit. So HDF5 never sees an error here. The first one is kept, and raised after HDF5 has
    # closed the file, at the end of the ``with`` block.

    def __init__(self, path: str, *, exclusive: bool) -> None:
        mode = "x+" if exclusive else "w+"
        super().__init__(path, mode, opener=lambda path, flags: os.open(path, flags | NO_LINKS, 0o666))
        self._error: OSError | KeyboardInterrupt | None = None

    def __exit__(self, *_: object) -> None:
        with self._keep_error():
            self.close()
        self.check()

    def check(self) -> None:
        """Raise the first error, if any."""
        if self._error is not None:
            raise self._error

    @contextmanager
    def _keep_error(self) -> Iterator[None]:
        try:
            yield
        except (OSError, KeyboardInterrupt) as error:  # HDF5 must not see Ctrl-C either
            self._error = self._error or error

    def write(self, data: Any) -> int:
        """Write all of ``data``. After an error, nothing is written."""
        left = memoryview(data)
        with self._keep_error():
            while left and self._error is None:
                left = left[super().write(left) :]
        return len(data)

    def readinto(self, target: Any) -> int:
        """Fill ``target``, with zeros after the end of the file."""
        left = memoryview(target)
        with self._keep_error():
            while left and (count := super().readinto(left)):
                left = left[count:]
        left[:] = bytes(len(left))
        return len(target)

    def truncate(self, size: int | None = None) -> int:
        """Set the length of the file."""
        with self._keep_error():
            super().truncate(size)
        return size or 0

    def flush(self) -> None:
        """Do nothing: the file has no buffer."""


# ---- values ----------------------------------------------------------------------------------------------------------

BLOCK_BYTES = 8 * 2**20  # bytes of one block; more if one chunk of the array or of the dataset is larger

Encoded: TypeAlias = list[tuple[Index, bytes]]

_ENOUGH_BYTES = 2**20
_OBJECT_BYTES = 256  # estimated, of an element


@dataclass(slots=True)
class _Target:
    """A dataset to fill, and how."""

    placed: ZarrNode
    form: DatasetForm
    dataset: Any
    refer: Callable[[Any], Any]
    dtype: np.dtype[Any]  # NumPy type of the values
    memory: Any  # their memory type
    chunks: Index | None = None
    pipeline: CodecPipeline | None = None
    is_kept: bool = False

    def write(self, region: Region, block: Array) -> None:
        """Store a block of the array, in the memory layout of the dataset."""
        try:
            values = np.ascontiguousarray(self._values(block, lengths_of(region)))
        except (ValueError, TypeError, KeyError, IndexError, OverflowError) as error:
            if isinstance(error, errors.ZarrBackendError):
                raise
            raise errors.MetadataError(f"the values do not fit the type {self.form.element} ({error})") from error
        with attributes.refusing():
            if lengths := lengths_of(region):
                space = self.dataset.get_space()
                space.select_hyperslab(tuple(part.start for part in region), lengths)
                self.dataset.write(h5s.create_simple(lengths), space, values, self.memory)
            else:
                self.dataset.write(h5s.ALL, h5s.ALL, values.reshape(self.dtype.shape), self.memory)

    def _values(self, block: Array, shape: tuple[int, ...]) -> Array:
        dtype, element, stored_as = self.dtype, self.form.element, self.form.stored_as
        if stored_as == "rows" and isinstance(element, Compound):
            is_flat = block.dtype == object and block.ndim > len(shape)
            rows = block.reshape(-1, len(element.fields)) if is_flat else block.reshape(-1)
            result: Array = np.empty(len(rows), dtype)
            for column, (name, member) in enumerate(element.fields):
                decode = decoder(member, dtype[name], self.refer)
                result[name] = array_of([decode(row[column]) for row in rows], (len(rows),), dtype[name])
            return result.reshape(shape)
        if stored_as == "objects":
            convert = self.refer if isinstance(element, Reference) else _text
            return array_of([convert(item) for item in block.flat], shape, dtype)
        base = dtype.base
        if base.names is not None and block.dtype != base:
            block = in_layout(block, base)
        return block.astype(base, copy=False).reshape((*shape, *dtype.shape))

    def flush(self) -> None:
        """Let HDF5 encode the chunks that it holds."""
        # when it closes a dataset, it does the same, but ignores the errors of its filters
        if self.chunks and self.dataset.get_create_plist().get_nfilters():
            self.dataset.flush()


def _text(item: Any) -> bytes:
    if isinstance(item, (str, bytes)):
        return decode_text(item)
    raise TypeError(f"{item!r} is not text")


@dataclass
class Filler:
    """Writes the values of Zarr arrays to HDF5 datasets that exist already, in one of three ways."""

    # Kept: the dataset has the chunks and filters of the array, so stored chunks are copied as they are. Encoded:
    # workers decode blocks of the array and encode chunks of the dataset, without HDF5's lock. Written: workers decode,
    # and HDF5 stores the values. Text, references and rows are converted in this process, because references belong to
    # the open file. Source: HDF5 reference manual, `H5Dwrite_chunk`.

    groups: OpenGroups
    refer: Callable[[references.ZarrReference, references.LinkedFile], Any]
    options: WriteOptions
    advance: Callable[[str, int], None]
    nulls: set[str] = field(default_factory=set)  # the datasets with null references
    caches: dict[str, ChunkCache] = field(default_factory=dict)
    """Of each file, for chunks that belong to two blocks; they take a quarter of the budget."""

    def fill(self, planned: list[tuple[ZarrNode, DatasetForm | None]]) -> None:
        """Write all values; groups have no form."""
        later: list[_Target] = []
        for placed, form in planned:
            if form is None or not form.stored.size:
                continue
            with named(placed):
                check_unwritten(placed.file.store, placed.own, form.stored)
                target = self._target(placed, form)
                if target.is_kept:
                    write_direct(h5py.Dataset(target.dataset), self._stored(target))
                elif form.stored_as == "plain" and form.shape and value_bytes(form.stored) > _ENOUGH_BYTES:
                    later.append(target)
                else:
                    for task in self._tasks(target, 0):
                        self._put(target, task, task.run())
                    target.flush()
        if later:
            with runner(self.options.executor) as pool:
                budget = self.options.memory_budget - self.options.memory_budget // 4
                most = task_bytes_for(budget, pool.workers)
                tasks = (task for number, target in enumerate(later) for task in self._tasks(target, most, number))
                # only this thread calls HDF5, in the order of the blocks: equal input gives equal files with any
                # executor
                for done, result in pool.run(tasks, budget=budget, in_order=True):
                    assert isinstance(done, BlockTask)
                    target = later[done.number]
                    with named(target.placed):
                        self._put(target, done, result)
            for target in later:
                target.flush()

    def _target(self, placed: ZarrNode, form: DatasetForm) -> _Target:
        dataset, stored = h5d.open(*self.groups.within(raw_of(absolute(placed.path)))), form.stored

        def refer(value: Any) -> Any:
            if value is None:
                self.nulls.add(absolute(placed.path))
                return None
            return self.refer(references.decode_reference(value), placed.file)

        tid = dataset.get_type()
        memory = attributes.memory_type(tid, writing=True)
        target = _Target(placed, form, dataset, refer, attributes.numpy_type(tid), memory)
        created = dataset.get_create_plist()
        if created.get_layout() != h5d.CHUNKED:
            return target
        target.chunks, filters = tuple(created.get_chunk()), filters_of(created)
        dtype, inner = numpy_dtype(stored.data_type), stored.shape[len(form.shape) :]
        own_dtype = np.dtype((dtype, inner)) if inner else dtype
        is_same = form.stored_as == "plain" and is_same_layout(form.element, own_dtype)
        pipeline = codecs_of(filters, dtype) if is_same else None
        if pipeline is None or pipeline.reframed:
            return target
        target.pipeline = pipeline
        if target.chunks == stored.chunks and stored.shards is None and stored.order == "C":
            own = pipeline_of(stored.filters, stored.compressor, dtype, noted=filters)
            target.is_kept = own is not None and [step[0] for step in own] == [step[0] for step in filters]
        return target

    def _stored(self, target: _Target) -> Iterator[tuple[Index, bytes | None]]:
        """Yield the chunks of an array as stored; None if HDF5 reads the same fill value without a chunk."""
        stored, store, node = target.form.stored, target.placed.file.store, target.placed.node
        dtype, missing = numpy_dtype(stored.data_type), None
        assert isinstance(node, Dataset)
        chunks = StoredChunks(store, target.placed.own, node, ZarrSource(store, target.placed.own, node, dtype))
        # a chunk that has only the fill value need not be stored; h5py cannot read the fill values of all other types
        created = target.dataset.get_create_plist()
        has_fill = dtype.kind in "biufc" and created.get_fill_time() != h5d.FILL_TIME_NEVER
        fill = stored_fill(created, dtype) if has_fill else None
        if fill is None or fill.tobytes() != fill_array(stored, dtype, ()).tobytes():
            missing = chunk_codec(stored).encode(fill_array(stored, dtype, stored.chunks))
        for index in indices_of(stored.grid):
            data = chunks.encoded(index)
            if data is None and store.read_rules.refuses_absent:
                raise absent_chunk(stored, index)
            yield index, missing if data is None else data
            count = math.prod(lengths_of(region_of(stored, index)))
            self.advance(absolute(target.placed.path), count * dtype.itemsize)

    def _tasks(self, target: _Target, most: int, number: int = 0) -> Iterator[BlockTask]:
        """Yield the blocks of an array, each of at most ``most`` bytes; ``most`` is 0 for blocks that stay here."""
        placed, stored, chunks = target.placed, target.form.stored, target.chunks
        cache = self.caches.setdefault(placed.file.location, ChunkCache(self.options.memory_budget // 4))
        pipeline = target.pipeline if most else None
        for region in block_slices(stored, target.form.shape, chunks, min(BLOCK_BYTES, most or BLOCK_BYTES)):
            yield BlockTask(placed.file.store, placed.own, stored, region, cache, chunks or (), pipeline, number)
        cache.forget(placed.own)

    def _put(self, target: _Target, task: BlockTask, result: Any) -> None:
        if task.pipeline is None:
            target.write(task.region, result)
        else:
            write_direct(h5py.Dataset(target.dataset), result)
        self.advance(absolute(target.placed.path), task.nbytes)


def named(placed: ZarrNode) -> AbstractContextManager[None]:
    """Add the node to errors raised in this block."""
    return writing_at(placed.file.location, absolute(placed.own))


@contextmanager
def writing_at(store: str, path: str) -> Iterator[None]:
    """Add store and path to errors raised in this block, also to those of the system."""
    with at(store, path):
        try:
            yield
        except OSError as error:
            if not isinstance(error, errors.ZarrBackendError):
                error.add_note(f"while writing {path!r} of {store!r}")
            raise


# ---- blocks ---------------------------------------------------------------------------------------------------------


def block_slices(stored: StoredArray, shape: Index, chunks: Index | None, block_bytes: int) -> Iterator[Region]:
    """Yield regions that together cover a dataset."""
    # A region consists of complete HDF5 chunks, so each of those is compressed once. If possible it has complete Zarr
    # chunks too; one that belongs to several regions is decoded once if the cache still has it.
    dtype = numpy_dtype(stored.data_type)
    itemsize = (_OBJECT_BYTES if dtype.hasobject else dtype.itemsize) * math.prod(stored.shape[len(shape) :])
    own = tuple(min(c, n) for c, n in zip(stored.chunks, shape, strict=False))
    unit = own if chunks is None else tuple(min(c, n) for c, n in zip(chunks, shape, strict=True))
    bound = max(block_bytes // max(1, itemsize), math.prod(own), math.prod(unit))
    near = tuple(-(-z // u) * u for z, u in zip(own, unit, strict=True))
    steps = _grown(unit, near, unit, bound)
    steps = _grown(steps, shape, steps, bound)
    for corner in itertools.product(*(range(0, n, step) for n, step in zip(shape, steps, strict=True))):
        yield tuple(slice(c, min(c + step, n)) for c, step, n in zip(corner, steps, shape, strict=True))


def _grown(block: Index, wanted: Index, unit: Index, bound: int) -> Index:
    """Return ``block`` enlarged towards ``wanted``, the last axis first, in complete units, to ``bound`` elements."""
    grown = list(block)
    for axis in reversed(range(len(block))):
        rest = math.prod(grown) // grown[axis]
        most = max(grown[axis], bound // rest // unit[axis] * unit[axis])
        grown[axis] = min(max(wanted[axis], grown[axis]), most)
        if grown[axis] < wanted[axis]:
            break
    return tuple(grown)


@dataclass(slots=True)
class BlockTask:
    """Decodes a block, which consists of complete chunks of the dataset; it can be sent to another process."""

    store: Store
    path: str
    stored: StoredArray
    region: Region  # the block, along the axes of the dataset
    cache: ChunkCache  # for chunks of the array that belong to two blocks
    chunks: Index  # chunk shape of the dataset, empty without chunks
    pipeline: CodecPipeline | None  # encodes the chunks; None to return values instead
    number: int  # an identifier for the caller

    @property
    def nbytes(self) -> int:
        """Bytes of the values."""
        lengths = (*lengths_of(self.region), *self.stored.shape[len(self.region) :])
        return math.prod(lengths) * numpy_dtype(self.stored.data_type).itemsize

    def run(self) -> Array | Encoded:
        """Return the values, or the chunks of the dataset with their indices."""
        try:
            with at(self.store, self.path):
                reader = ChunkReader(self.store, self.path, self.stored, self.cache)
                block = reader.read((*self.region, ...))
                return block if self.pipeline is None else self._encoded(block, self.pipeline)
        except errors.ZarrBackendError:
            raise  # some of these are also errors of the system
        except OSError as error:
            where = {"store": self.store.location, "path": self.path}
            problem = f"a chunk could not be read ({error})"
            raise resource_failure(error, "read", **where) or errors.StoreError(problem, **where) from error

    def _encoded(self, block: Array, pipeline: CodecPipeline) -> Encoded:
        codec = ChunkCodec(self.stored.data_type, pipeline.filters, pipeline.compressor, "C")
        whole = (*self.chunks, *self.stored.shape[len(self.chunks) :])
        first = [part.start // c for part, c in zip(self.region, self.chunks, strict=True)]
        chunks: Encoded = []
        for inside in itertools.product(*(range(-(-n // c)) for n, c in zip(block.shape, whole, strict=True))):
            piece = block[tuple(slice(i * c, (i + 1) * c) for i, c in zip(inside, whole, strict=True))]
            index = tuple(map(operator.add, first, inside))
            chunks.append((index, codec.encode(whole_chunk(piece, self.stored, codec.dtype, whole))))
        return chunks
