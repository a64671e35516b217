"""`Hdf5Planner`: plans the copy of an HDF5 file to Zarr. And checks whether pynwb can read a file.

It makes no builders, because they lack hard links, lists of references and exact types. What Zarr cannot express
is kept in the notes, so that the conversion back to HDF5 gives the same file.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from typing import Any, Literal

import h5py
import numpy as np

from hdmf_zarr_backend import errors
from hdmf_zarr_backend.encoding import references
from hdmf_zarr_backend.encoding.attributes import encode_attributes
from hdmf_zarr_backend.encoding.elements import describe
from hdmf_zarr_backend.encoding.hdf5_types import text_of, to_note
from hdmf_zarr_backend.encoding.layout import Layout
from hdmf_zarr_backend.encoding.nczarr import encode_dimensions
from hdmf_zarr_backend.encoding.parser import ParsedFile
from hdmf_zarr_backend.encoding.reserved import DIMENSIONS, HDF5, LINKS, NOTES, SPECLOC, refused_version, root_notes
from hdmf_zarr_backend.hdf5.attributes import attribute_names, noted_orders, read_attribute, storable_type
from hdmf_zarr_backend.hdf5.datasets import describe as describe_dataset
from hdmf_zarr_backend.hdf5.files import check_allocated, reading
from hdmf_zarr_backend.hdf5.plan import is_joined, plan_described
from hdmf_zarr_backend.hdf5.reader import Hdf5Data, Hdf5References
from hdmf_zarr_backend.hdf5.tree import Hdf5Tree, Placed
from hdmf_zarr_backend.hdmf.namespaces import FindSpec, cached_specs, link_names, name_axes, newest_versions, specs_in
from hdmf_zarr_backend.model.nodes import Attributes, Dataset, Group, Hierarchy, absolute, join, split
from hdmf_zarr_backend.model.render import few
from hdmf_zarr_backend.options import MEMORY_BUDGET, ReadOptions, ReadRules
from hdmf_zarr_backend.store.base import Store
from hdmf_zarr_backend.write.plan import ShardsOfFile, WritePlan, ask_for_shards, checked_name
from hdmf_zarr_backend.write.sources import source_caches
from hdmf_zarr_backend.write.writer import PlannedKeys

_SMALL = 1024


@dataclass
class Hdf5Planner:
    """Plans the copy of an HDF5 file."""

    tree: Hdf5Tree
    codec: dict[str, Any] | bool | Literal["keep"] = "keep"
    keeps_chunks: bool = False
    shards: ShardsOfFile = None
    strict: bool = False
    rules: ReadOptions | None = None
    left_out: dict[str, Any] | None = None
    """Gets the errors of datasets that cannot be planned, by path; None: they are raised."""

    def __post_init__(self) -> None:
        self._references = Hdf5References(self.tree)
        self._taken: dict[str, dict[str, int]] = {}
        self._has_types = any(placed.kind == "datatype" for placed in self.tree.nodes)
        self.plan = WritePlan(Hierarchy(Group()))
        self.joined: list[str] = []  # paths of the arrays whose chunks are larger than in HDF5
        self.without_fill: list[str] = []  # paths of the arrays that lose their fill value

    def plan_file(self, zarr_format: int, *, is_checked: bool, or_installed: bool = False) -> WritePlan:
        """Plan everything; ``is_checked``: refuse NWB that pynwb cannot read; ``or_installed``: as for `schema_of`."""
        notes: dict[str, dict[str, Any]] = {"": root_notes()}
        for placed in self.tree.nodes:
            try:
                with reading(placed.file.location, text_of(placed.raw)):
                    self._plan(placed, notes)
            except (errors.DamagedFileError, errors.UnsupportedFileError, errors.WriteError) as error:
                if self.left_out is None or placed.kind == "group":
                    raise
                self.left_out[placed.path] = error
        for link in self.tree.links:
            parent, name = split(link.path)
            entry = references.encode_link(references.Link(checked_name(name), link.target))
            self.plan.hierarchy.group(parent).attributes.setdefault(LINKS, []).append(entry)
            if link.note is not None:
                notes[parent].setdefault(HDF5, {}).setdefault("links", {})[name] = link.note
        for parent, links in self.tree.notes.items():
            notes[parent].setdefault(HDF5, {}).setdefault("links", {}).update(links)
        for path, note in notes.items():
            if note:
                self.plan.hierarchy.group(path).attributes[NOTES] = note
        planned, hierarchy = PlannedKeys(self.plan, self.tree.target), self.plan.hierarchy
        source = self.tree.main.location
        old = "1.x" if "nwb_version" in self.plan.arrays else None  # a dataset in NWB 1.x
        is_nwb = is_checked and _is_nwb(source, hierarchy.root.attributes, old)
        schema = schema_of(planned, hierarchy, or_installed=or_installed and is_nwb)
        if is_nwb:
            self._check_copies(link_names(schema))
            check_planned(source, planned, hierarchy)
        name_axes(self.plan, schema)
        hierarchy.zarr_format = zarr_format
        return self.plan

    def _check_copies(self, fixed: Callable[[Any], set[Any]]) -> None:
        """Refuse a copy of an object of another file where pynwb reads a link only, which no other group has."""
        for parent, links in self.tree.notes.items():
            for name in links.keys() & fixed(self.plan.hierarchy.group(parent)):
                target = f"{links[name]['path']} of {links[name]['source']}"
                problem = f"the schema allows only a link here, and no group of the file has its target, {target}"
                remedy = "Export the file with NWBZarrIO, which adds that, or use check=False (--no-check)."
                source, path = self.tree.main.location, join(parent, name)
                raise errors.MissingTargetError(problem, store=source, path=path, remedy=remedy)

    def _plan(self, placed: Placed, notes: dict[str, dict[str, Any]]) -> None:
        parent, name = split(placed.path)
        if placed.path:
            checked_name(name)
        node = placed.file.open(placed.raw)
        if placed.kind == "datatype":
            datatypes = notes[parent].setdefault(HDF5, {}).setdefault("datatypes", {})
            refer = partial(self._references.refer, file=placed.file)
            attributes = {
                each: {**read_attribute(attribute, refer, in_zarr=False)[1], **self._named_type(attribute)}
                for each, attribute in attribute_names(node)
            }
            datatypes[name] = {"type": to_note(storable_type(node))}
            if attributes:
                datatypes[name]["attributes"] = attributes
        elif placed.kind == "group":
            note = notes.setdefault(placed.path, {})
            if orders := noted_orders(node, node.get_create_plist()):
                note.setdefault(HDF5, {}).update(orders)
            attributes = self._attributes(node, placed, note)
            self.plan.hierarchy.add(placed.path, Group(attributes))
        else:
            self._dataset(node, placed)

    # ---- attributes -------------------------------------------------------------------------------------------------

    def _attributes(self, node: Any, placed: Placed, note: dict[str, Any]) -> Attributes:
        """Return the JSON attributes of an object; everything else that HDF5 has is added to ``note``."""
        values: dict[str, Any] = {}
        remarks: dict[str, Any] = {}
        specifications: str | None = None
        refer = partial(self._references.refer, file=placed.file)
        for name, attribute in attribute_names(node):
            value, remark = read_attribute(attribute, refer)
            # hdmf writes the location of the specifications as a reference; in some files it is a path
            if name == SPECLOC and not placed.path:
                if isinstance(value, str):
                    _, remark = read_attribute(attribute, refer, in_zarr=False)
                stated = getattr(value, "node_path", value)
                if isinstance(stated, str):
                    specifications, value = stated.strip("/"), None
            if value is not None:
                values[name] = value
            if remark := {**remark, **self._named_type(attribute)}:
                remarks[name] = remark
        if remarks:
            note.setdefault(HDF5, {})["attributes"] = remarks

        def encode(value: Any) -> dict[str, Any] | None:
            is_reference = isinstance(value, references.ZarrReference)
            return references.encode_attribute_reference(value) if is_reference else None

        encoded = encode_attributes(values, notes=note, reference=encode, strict=self.strict)
        encoded.pop(NOTES, None)  # added later, when all notes are known
        if specifications is not None:
            encoded[SPECLOC] = specifications
        return encoded

    def _named_type(self, node: Any) -> dict[str, str]:
        """Return the note of the named type of a dataset or attribute, empty if it has none."""
        placed = self.tree.named_type(node.get_type()) if self._has_types else None
        return {} if placed is None else {"named": absolute(placed.path)}

    # ---- datasets ---------------------------------------------------------------------------------------------------

    def _dataset(self, node: Any, placed: Placed) -> None:
        data = Hdf5Data(placed.file, placed.raw, self._references)
        dataset = h5py.Dataset(node)
        if self.rules is not None:
            check_allocated(dataset, self.rules)
        description = describe_dataset(dataset)
        description.note.update(self._named_type(node))
        values: Any = data
        if data.shape and description.kind in ("text", "ascii") and np.prod(data.shape) <= _SMALL:
            # at once, because the plan looks at the values, and the write reads them again
            values = data[tuple(slice(0, n) for n in data.shape)]
        options = Layout(compressor=None if self.codec == "keep" else self.codec)
        if self.keeps_chunks and description.kind == "number" and description.chunks is not None:
            options.chunks = description.chunks + description.inner
        encode, keep = partial(self._references.encode, file=placed.file), self.codec == "keep"
        planned = plan_described(values, dataset, description, options, encode, keep=keep)
        if is_joined(description, planned):
            self.joined.append(placed.path)
        if description.loses_fill:
            self.without_fill.append(placed.path)
        ask_for_shards(planned, self.shards)
        array: Dataset = planned.node
        maxshape = planned.notes.get("maxshape")
        means = None if maxshape is None else describe(array, planned.notes)
        if means is not None and (means.is_scalar or maxshape == list(means.axes)):  # that of the array
            del planned.notes["maxshape"]
        taken = self._taken.setdefault(split(placed.path)[0], {})
        dimensions = encode_dimensions(None, array.stored.shape, taken, planned.notes)
        attributes = self._attributes(node, placed, planned.notes)
        array.attributes = {**attributes, **array.attributes, DIMENSIONS: dimensions}
        if planned.notes:
            array.attributes[NOTES] = planned.notes
        self.plan.hierarchy.add(placed.path, array)
        self.plan.arrays[placed.path] = planned


@contextmanager
def planned_hdf5(
    store: Store, rules: ReadRules | None = None
) -> Iterator[tuple[PlannedKeys, ParsedFile, dict[str, int]]]:
    """Yield the HDF5 file at the location of a store as it is in Zarr: its chunks, its nodes, its bytes in HDF5."""
    rules = rules or store.read_rules
    tree = Hdf5Tree(store.location, store.location, store.options, rules)
    with closing(tree), source_caches(MEMORY_BUDGET):
        planner = Hdf5Planner(tree, codec=False, keeps_chunks=True, left_out={})
        plan = planner.plan_file(2, is_checked=False)
        datasets = (placed for placed in tree.nodes if placed.kind == "dataset")
        sizes = {placed.path: int(placed.file.open(placed.raw).get_storage_size()) for placed in datasets}
        planned, parsed = PlannedKeys(plan, store.location), ParsedFile(plan.hierarchy, consolidated=False)
        planned.read_rules, parsed.left_out = rules, planner.left_out or {}
        yield planned, parsed, sizes


# ---- whether pynwb can read a file, before anything is written -------------------------------------------------------

# Errors that pynwb and hdmf raise for files that they cannot read, in addition to their own error classes: the
# constructor of a container may fail with whatever Python raises.
_UNREADABLE = (
    ValueError, TypeError, LookupError, AttributeError, NameError, RuntimeError, OSError, ArithmeticError,
    AssertionError,
)  # fmt: skip

_UNREAD = "to convert it anyway; pynwb cannot read the copy as it is, zarr-python can."
_ANYWAY = {"remedy": f"Pass check=False {_UNREAD}", "remedy_cli": f"Use --no-check {_UNREAD}"}
_MENDED = " If a field is missing, io.replace adds it to the copy, such as io.replace('/session_description', 'text')."


def _is_nwb(source: str, attributes: Attributes, old: str | None = None) -> bool:
    """Tell by the root whether this is an NWB file; refuse a version, or an ``old`` one, that pynwb cannot read."""
    version = attributes.get("nwb_version", old)
    if attributes.get("neurodata_type") != "NWBFile" and version is None:
        return False
    # also a missing one, one that is not text, and NWB 1.x
    if problem := refused_version(version):
        raise errors.UnsupportedFileError(problem, store=source, **_ANYWAY)
    return True


def check_planned(source: str, store: Store, hierarchy: Hierarchy) -> None:
    """Refuse an NWB file that pynwb cannot read, from the plan of its copy, before anything is written."""
    if find_spec("pynwb") is None:
        return
    from hdmf.build import BuildManager
    from pynwb import get_type_map

    from hdmf_zarr_backend.hdmf.files import ReadSession
    from hdmf_zarr_backend.hdmf.lazy import construction_errors
    from hdmf_zarr_backend.hdmf.schema import load_cached_namespaces

    try:
        with _pynwb_reads(source):
            manager = BuildManager(get_type_map())
            load_cached_namespaces(manager.type_map, store, hierarchy)
            root = ReadSession(store, ParsedFile(hierarchy, consolidated=True), manager).root()
            with construction_errors(root, source, manager.namespace_catalog, hierarchy):
                manager.construct(root)
    except errors.ZarrBackendError as error:
        # not the location of the planned file, which does not exist yet
        if not isinstance(error, errors.UnsupportedFileError):
            error.store = None
        error.locate(source)
        raise


def schema_of(store: Store, hierarchy: Hierarchy, *, or_installed: bool = False) -> FindSpec | None:
    """Return the cached schema of a file; with ``or_installed``, that of pynwb if none is cached."""
    if newest_versions(hierarchy):
        return cached_specs(store, hierarchy)
    if not or_installed or find_spec("pynwb") is None:
        return None
    from pynwb import get_type_map

    return specs_in(get_type_map().namespace_catalog)


def check_zarr(main: references.LinkedFile) -> dict[str, dict[str, Any]]:
    """Refuse a Zarr file that pynwb cannot read as NWB; return the attributes whose types are only in the schema."""
    attributes = main.hierarchy.root.attributes
    if not _is_nwb(main.location, attributes) or find_spec("pynwb") is None:
        return {}
    from hdmf_zarr_backend.hdmf.schema import unsigned_attributes  # imported here: hdmf is slow to import
    from hdmf_zarr_backend.nwb import NWBZarrIO

    store: Any = main.store.unwrapped
    with _pynwb_reads(main.location), NWBZarrIO(store, mode="r", lazy=False) as io:
        io.read()
        # a file of hdmf-zarr keeps no types: an unsigned attribute is a number there, and only the schema knows
        return {} if NOTES in attributes else unsigned_attributes(io.read_builder())


@contextmanager
def _pynwb_reads(source: str) -> Iterator[None]:
    """Refuse a file that the block cannot read: that is what errors of hdmf and pynwb in it mean."""
    from hdmf.backends.warnings import BrokenLinkWarning  # slow to import, like the next
    from hdmf.build.errors import BuildError, ConstructError, ContainerConfigurationError

    from hdmf_zarr_backend.hdmf.schema import OTHER_VERSION
    from hdmf_zarr_backend.hdmf.targets import builder_path

    try:
        # without the warnings of pynwb: the conversion itself warns
        with warnings.catch_warnings(record=True, action="always") as caught:
            yield
    except (BuildError, ConstructError, ContainerConfigurationError, *_UNREADABLE) as error:
        if isinstance(error, errors.ZarrBackendError) and not isinstance(error, ConstructError):
            raise  # it has a message already
        if isinstance(error, errors.ZarrBackendError) and error.remedy == OTHER_VERSION:
            problem = f"pynwb cannot read this file here: {error.problem}"
            raise errors.UnsupportedFileError(problem, store=source, path=error.path, remedy=OTHER_VERSION) from error
        broken = [str(each.message) for each in caught if issubclass(each.category, BrokenLinkWarning)]
        remedies = {name: f"{few(broken, ' ')} {text}" if broken else text + _MENDED for name, text in _ANYWAY.items()}
        cause: BaseException = error  # the original error of hdmf or pynwb, in one line
        while isinstance(cause, errors.ZarrBackendError) and cause.__cause__ is not None:
            cause = cause.__cause__
        if isinstance(cause, errors.ZarrBackendError):
            reason = f"{cause.problem}, at {cause.path}"
        elif isinstance(cause, ConstructError) and len(cause.args) == 2:
            # its text contains the whole builder of a container that cannot be constructed: thousands of lines
            reason = f"{cause.args[1].rstrip('.')}, at {builder_path(cause.args[0])}"
        else:
            reason = str(cause)
        problem = f"pynwb cannot read this file ({type(cause).__name__}: {' '.join(reason.split())[:300]})"
        raise errors.UnsupportedFileError(problem, store=source, **remedies) from error
