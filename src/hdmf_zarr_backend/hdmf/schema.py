"""The schema: what it says of builders, and the cached namespaces <-> the catalogs of hdmf.

`restore_types` sets attribute types in files that do not store them (hdmf-zarr 0.13 and 0.14, LINDI, Zindi): unsigned
integers, NaN and infinities; for other types hdmf accepts the wider type of JSON. `check_conversions` refuses values
that hdmf has changed while it built containers: 1.5 becomes 1 where a schema asks for an integer, -1 a large unsigned
number, None text, and rows lose the names of their fields.

Source: ``ObjectMapper.convert_dtype`` and ``ObjectMapper.get_attr_value`` of hdmf.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Collection, Iterable, Iterator
from datetime import datetime
from functools import cache, lru_cache
from typing import Any

import numpy as np
from hdmf.backends.utils import NamespaceToBuilderHelper
from hdmf.build import ConstructError, DatasetBuilder, GroupBuilder, ObjectMapper
from hdmf.data_utils import DataIO
from hdmf.spec import DatasetSpec, GroupSpec, RefSpec, SpecReader, SpecWriter
from hdmf.term_set import TermSetWrapper

from hdmf_zarr_backend import errors
from hdmf_zarr_backend.encoding import dtypes, reserved
from hdmf_zarr_backend.encoding.casting import UNEVEN, cast, flatten, infer
from hdmf_zarr_backend.encoding.reserved import cached_versions, data_type_of, newest_version, spec_location
from hdmf_zarr_backend.errors import at, warn
from hdmf_zarr_backend.hdmf.dataio import keep_settings, unwrapped
from hdmf_zarr_backend.hdmf.namespaces import HDMF_ERRORS, USE_INSTALLED, fits, is_registered, source_texts
from hdmf_zarr_backend.hdmf.targets import builder_path, builders_below, containers_below
from hdmf_zarr_backend.model.nodes import Hierarchy, absolute, join, split
from hdmf_zarr_backend.store.base import Store
from hdmf_zarr_backend.write.array_planner import first_leaf, shape_of

# hdmf-zarr writes the bare tokens NaN and Infinity, which are no JSON (hdmf-zarr#381); strict writers have these texts.
_SPELLED = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}
_OTHER_SCHEMA = "Pass a manager that knows its namespace, or open an NWB file with NWBZarrIO."
_EXTENSION = 'Import the package of the extension before, or pass extensions="{}.namespace.yaml", its schema.'


def is_untyped(spec: Any) -> bool:
    """Tell whether a specification is that of a named group or dataset without a type."""
    return spec.data_type_def is None and spec.data_type_inc is None and spec.name is not None


def _held(builder: Any) -> Iterator[tuple[str, Any]]:
    """Yield the datasets of a group, and the datasets that it links to, by name."""
    yield from getattr(builder, "datasets", {}).items()
    for name, link in getattr(builder, "links", {}).items():
        if isinstance(link.builder, DatasetBuilder):
            yield name, link.builder


def _may_need_types(attributes: dict[str, Any]) -> bool:
    """Return whether there are integers or text that may be a number; called for each object of a file."""
    typed = (int, list, np.ndarray)
    return any(type(each) in typed or (type(each) is str and each in _SPELLED) for each in attributes.values())


def restore_types(builder: Any, node: Any, catalog: Any) -> None:
    """Cast the attributes of the builder of ``node`` and of its untyped datasets to schema types that JSON lacks."""
    held = (dataset.attributes for _, dataset in _held(builder))
    if not _may_need_types(builder.attributes) and not any(map(_may_need_types, held)):
        return  # most attributes are text or floats
    namespace, data_type = builder.attributes.get("namespace"), data_type_of(builder)
    # a file with NCZarr's attributes states the type of each attribute
    is_stated = node is None or reserved.NCZARR_ATTR in node.attributes
    if is_stated or not isinstance(namespace, str) or not is_registered(catalog, namespace, data_type):
        return
    spec = catalog.get_spec(namespace, data_type)
    _cast(builder, spec)
    for name, dataset in _held(builder):
        if data_type_of(dataset) is None:
            subspec = spec.get_dataset(name)
            if isinstance(subspec, DatasetSpec):  # hdmf returns a link spec if no dataset has this name
                _cast(dataset, subspec)


def unsigned_attributes(root: Any) -> dict[str, dict[str, Any]]:
    """Return, by path, the unsigned attributes that `restore_types` made from the schema in files without types."""
    unsigned = {
        path: {name: value for name, value in builder.attributes.items() if np.asarray(value).dtype.kind == "u"}
        for path, builder in builders_below(root)
    }
    return {path: values for path, values in unsigned.items() if values}


def _cast(builder: Any, spec: Any) -> None:
    for attribute in spec.attributes:
        name, dtype_name = attribute.name, attribute.dtype
        if not isinstance(dtype_name, str) or name not in builder.attributes:
            continue
        kind = _kind_of(dtype_name)
        value = builder.attributes[name]
        if kind == "f":
            builder.attributes[name] = _floats(value)
        elif kind == "u":  # hdmf-zarr#323: an integer of JSON is signed, which a schema of unsigned ones refuses
            dtype = dtypes.numpy_of(dtype_name)
            if type(value) is int and 0 <= value <= np.iinfo(dtype).max:
                builder.attributes[name] = dtype.type(value)
            elif isinstance(value, np.ndarray) and value.dtype == np.int64 and value.size and value.min() >= 0:
                builder.attributes[name] = value.astype(dtype)


@lru_cache(maxsize=256)
def _kind_of(dtype_name: str) -> str | None:
    """Return NumPy's kind for a number type of the schema (also ``f`` for ``numeric``); None for other types."""
    if dtype_name == "numeric":
        return "f"
    try:
        return dtypes.numpy_of(dtype_name).kind if dtypes.kind_of(dtype_name) == "number" else None
    except errors.ValueRefusedError:
        return None


def _floats(value: Any) -> Any:
    """Return text that spells a number, and lists with such text, as numbers; other values unchanged."""
    if type(value) is str:
        return _SPELLED.get(value, value)
    if not isinstance(value, list) and not (isinstance(value, np.ndarray) and value.dtype == object):
        return value
    try:
        shape, leaves = flatten(value)
        numbers = [_SPELLED.get(leaf, leaf) if type(leaf) is str else leaf for leaf in leaves]
        if numbers == leaves or not {*map(type, numbers)} <= {int, float}:
            return value
        return np.array(numbers, np.float64).reshape(shape)
    except (errors.ValueRefusedError, OverflowError):
        return value  # rows differ in length


class ContainerError(errors.MetadataError, ConstructError):  # type: ignore[misc]
    """No container can be made from the builders of a file. Also hdmf's own error class for this."""


class TypeCheck:
    """Checks that the namespaces that are loaded define the types of the builders of a file."""

    def __init__(self, catalog: Any, source: str) -> None:
        self._spec = cache(catalog.get_spec)
        self._key, self._source = catalog.group_spec_cls.type_key(), source
        self._types = {
            name: frozenset(catalog.get_namespace(name).get_registered_types()) for name in catalog.namespaces
        }
        self._members: dict[int, dict[str, tuple[str, Any]]] = {}  # by id: the catalog keeps the specifications alive

    def is_known(self, builder: Any) -> bool:
        """Return whether the type of a builder is in its namespace."""
        return builder.attributes.get(self._key) in self._types.get(builder.attributes.get("namespace"), ())

    def file(self, root: Any) -> None:
        """Check all builders of a file."""
        if self._key not in root.attributes:
            raise ContainerError(f"the root has no {self._key}", store=self._source, path="/", remedy=_OTHER_SCHEMA)
        for _, builder in builders_below(root):
            self.builder(builder)

    def builder(self, builder: Any) -> None:
        """Check one builder."""
        if self._key not in builder.attributes:
            return
        data_type, namespace = builder.attributes[self._key], builder.attributes.get("namespace")
        if not isinstance(namespace, str):
            remedy = "Add the attribute 'namespace', or write the file again."
            raise self._error(f"the type {data_type!r} has no namespace", builder, remedy)
        if not isinstance(data_type, str):
            raise self._error(f"{data_type!r} is not the name of a type", builder, "Store the attribute as text.")
        if namespace not in self._types:
            remedy = f"The loaded namespaces are: {', '.join(sorted(self._types))}. " if self._types else ""
            remedy += _EXTENSION.format(namespace) if "core" in self._types else _OTHER_SCHEMA
            raise self._error(f"the namespace {namespace!r} of the type {data_type!r} is not loaded", builder, remedy)
        if data_type not in self._types[namespace]:
            # a warning: hdmf leaves out what it has no class for, and an NWB file with an unknown extension is readable
            what = f"The type {data_type!r} of {builder_path(builder)} in {self._source}"
            warn(f"{what} is not in {namespace!r}: left out.", errors.UnreadTypeWarning)
        elif isinstance(builder, GroupBuilder):
            self._check_members(builder, self._spec(namespace, data_type))

    def _check_members(self, builder: Any, spec: GroupSpec) -> None:
        """Check that the named members of the schema are groups or datasets in the file as in the schema."""
        # by id of the specification: one file has thousands of objects of few types
        expected = self._members.get(id(spec))
        if expected is None:
            kinds = (("group", spec.groups), ("link", spec.links), ("dataset", spec.datasets))
            named = ((each.name, (kind, each)) for kind, specs in kinds for each in specs)
            expected = self._members[id(spec)] = {name: each for name, each in named if name is not None}
        for name, member in builder.groups.items():
            kind, wanted = expected.get(name, ("", None))
            # hdmf matches a group with a type by that: lab metadata may have the name of the dataset /general/lab
            if kind == "dataset" and self._key not in member.attributes:
                problem = "the file has a group where the schema names a dataset"
                raise self._error(problem, member, "Restore the dataset from a copy.")
            if kind == "link":
                message = f"{builder_path(member)} in {self._source} is a group, and a link in the schema: left out."
                warn(message, errors.UnreadTypeWarning)
            if kind == "group" and wanted.data_type is None:
                self._check_members(member, wanted)
        for name, member in builder.datasets.items():
            if expected.get(name, ("", None))[0] == "group" and member is not None:
                message = f"{builder_path(member)} in {self._source} is a dataset, and a group in the schema: left out."
                warn(message, errors.UnreadTypeWarning)

    def _error(self, problem: str, builder: Any, remedy: str) -> ContainerError:
        return ContainerError(problem, store=self._source, path=builder_path(builder), remedy=remedy)


def specs_at(catalog: Any, hierarchy: Hierarchy, path: str) -> list[Any]:
    """Return the specifications of a group or dataset: of its type, and of what its parent has by its name."""
    # the second one is of another type where a file is older than the schema: electrodes were a DynamicTable
    node = hierarchy.get(path)
    own, namespace = (None, None) if node is None else (data_type_of(node), node.attributes.get("namespace"))
    specs = [catalog.get_spec(namespace, own)] if own and is_registered(catalog, namespace, own) else []
    parent, name = split(path)
    namespace = hierarchy.root.attributes.get("namespace")
    for spec in specs_at(catalog, hierarchy, parent) if path else ():
        members = (*spec.groups, *spec.datasets) if isinstance(spec, GroupSpec) else ()
        for member in (each for each in members if each.name == name):
            data_type = member.data_type_inc
            is_other = data_type not in (None, own) and is_registered(catalog, namespace, data_type)
            specs += [member, catalog.get_spec(namespace, data_type)] if is_other else [member]
    return specs


def why_required(
    catalog: Any, hierarchy: Hierarchy, path: str, *, attribute: str | None = None, is_rename: bool = False
) -> str | None:
    """Return why the schema needs a member (``is_rename``: its name), or an attribute; None if it does not."""
    parent, name = split(path)
    where = path if attribute is not None else parent
    node = hierarchy.get(where)
    owner = (None if node is None else data_type_of(node)) or absolute(where)
    for spec in specs_at(catalog, hierarchy, where):
        members = (*spec.groups, *spec.datasets, *spec.links) if isinstance(spec, GroupSpec) else ()
        wanted: Any = next((each for each in members if each.name == name), None)
        what, is_only = repr(name), True
        if attribute is not None:
            wanted, what = spec.get_attribute(attribute), f"the attribute {attribute!r}"
        elif wanted is None:
            typed = [each for each in members if each.name is None and each.required]
            wanted = next((each for each in typed if is_of(catalog, hierarchy.get(path), each.data_type_inc)), None)
        if wanted is None:
            continue
        if attribute is None and wanted.name is None:  # one object of this type is needed, whatever its name
            data_type = str(wanted.data_type_inc)
            what = f"a{'n' * data_type.startswith(tuple('AEIO'))} {data_type}"
            others = (other for key, other in getattr(node, "members", {}).items() if key != name)
            is_only = not any(is_of(catalog, other, data_type) for other in others)
        if is_rename and wanted.name is not None:
            return f"{what} is a name that the schema has in {owner}"
        if not is_rename and wanted.required and is_only:
            return f"the schema requires {what} in {owner}"
    return None


def converted(specs: list[Any], data: Any, builder: Any, location: str) -> tuple[Any, Any]:
    """Return values for the dataset of a builder, with their type, as its specification asks for; or refuse them."""
    if not specs:
        return data, None
    # a column has the type that its table states, and the shape of its own type
    spec, with_shape = (next((each for each in specs if each.get(key)), specs[0]) for key in ("dtype", "shape"))
    with at(location, builder_path(builder)):
        if isinstance(spec.dtype, RefSpec):
            if isinstance(first_leaf(data), (*_NUMBERS, str, bytes)):
                raise errors.ValueRefusedError("the schema has references here", remedy="Give objects of the file.")
            spec = specs[0]  # hdmf converts no containers
        if isinstance(spec.dtype, list):
            data = _checked_rows([field.name for field in spec.dtype], data)
        try:
            values, dtype = ObjectMapper.convert_dtype(spec, data)
        except ValueError as error:
            raise errors.ValueRefusedError(f"the schema has another type ({error})", remedy=_REMEDY) from error
        _check(data, values, builder, None, location)
        shape, wanted = shape_of(unwrapped(data)), with_shape.shape
        shapes = wanted if wanted and isinstance(wanted[0], (list, tuple)) else [wanted] if wanted else []
        if shapes and not any(fits(each, shape) for each in shapes):
            problem = f"the schema allows the shapes {shapes}, and the data have {shape}"
            raise errors.ValueRefusedError(problem, remedy="Give data of such a shape.")
        if not shapes and shape and spec.data_type is None and (builder.data is None or not shape_of(builder.data)):
            raise errors.ValueRefusedError("the schema has one value here", remedy="Give one value.")
        # hdmf takes any text for a time, with which pynwb cannot read the file.
        if spec.dtype == "isodatetime" and not shape:
            text = values.decode(errors="replace") if isinstance(values, bytes) else str(values)
            try:
                datetime.fromisoformat(text)
            except ValueError as error:
                problem = f"{text!r} is not a time in the form of ISO 8601"
                remedy = 'Give a datetime, or a text such as "2025-03-01T12:00:00+00:00".'
                raise errors.ValueRefusedError(problem, remedy=remedy) from error
    return values, dtype


def _checked_rows(names: list[str], data: Any) -> Any:
    """Return rows, which are checked and converted when they are stored; refuse an array without the fields."""
    dtype = getattr(unwrapped(data), "dtype", None)
    if isinstance(dtype, np.dtype) and not dtype.hasobject and set(dtype.names or ()) != set(names):
        problem = f"the schema has rows with the fields {', '.join(names)}, and the data are of type {dtype}"
        remedy = "Give a list of tuples, or a structured array with these fields."
        raise errors.ValueRefusedError(problem, remedy=remedy)
    return list(data) if isinstance(data, np.ndarray) and data.dtype.names is not None else data


def is_of(catalog: Any, node: Any, data_type: Any) -> bool:
    """Return whether a node has a type, or one that extends it."""
    own = None if node is None else data_type_of(node)
    if own is None or data_type is None or own == data_type:
        return own is not None and own == data_type
    namespace = node.attributes.get("namespace")
    return is_registered(catalog, namespace, own) and bool(catalog.is_sub_data_type(namespace, own, data_type))


OTHER_VERSION = "Use the version that the file has; a process that does not import the extension takes it from there."


def container_error(error: Exception, root: Any, source: str, conflicts: list[str]) -> ContainerError:
    """Return the error for what hdmf raised while it constructed; extensions of other versions are a likely cause."""
    builder, text = root, str(error.args[-1] if error.args else type(error).__name__).rstrip(".")
    if isinstance(error, ConstructError) and len(error.args) == 2:
        builder = error.args[0]
    problem = f"no container can be made from the file ({text})"
    remedy = "Run `zarrio validate` on the file, and `zarrio verify` if it finds nothing. A field that is missing is "
    remedy += "added by io.replace, in mode 'r+': io.replace('/session_description', 'text')."
    if conflicts:
        problem = f"an extension has another version than in the file: {'; '.join(conflicts)} ({text})"
        remedy = OTHER_VERSION
    return ContainerError(problem, store=source, path=builder_path(builder), remedy=remedy)


def max_shape_of(manager: Any, builder: Any, expandable: Collection[str]) -> tuple[int | None, ...] | None:
    """Return the shape that the schema allows for a dataset of an ``expandable`` type, as HDF5IO does, or None."""
    shape = builder.matched_spec_shape
    if shape is None or not expandable or manager.get_builder_dt(builder) is None:
        return None
    return tuple(shape) if any(manager.is_sub_data_type(builder, name) for name in expandable) else None


def documentation(manager: Any, builder: Any) -> str | None:
    """Return the schema's documentation of a builder's type or, without a type, of its specification, if known."""
    data_type, namespace = manager.get_builder_dt(builder), manager.get_builder_ns(builder)
    if data_type is not None and namespace is not None:
        return str(manager.namespace_catalog.get_spec(namespace, data_type).doc)
    doc = getattr(builder.matched_spec, "doc", None)
    return None if doc is None else str(doc)


_REMEDY = "Give values that the type of the schema holds."
_IN_MEMORY = (list, tuple, np.ndarray)
_NUMBERS = (bool, int, float, complex, np.bool_, np.number)


def check_conversions(root: Any, manager: Any, location: str, *, is_stored: Callable[[Any, Any], bool]) -> None:
    """Keep settings of the containers below ``root``, check their values, and order fields of rows by the schema."""
    # what is stored already has other values than its builder if it was changed, and is not written
    for container in containers_below(root):
        builder = manager.get_builder(container)
        if builder is None:
            continue
        if hasattr(builder, "data"):  # an export builds again what is stored
            keep_settings(container.data, builder)
        if is_stored(container, builder):
            continue
        mapper = manager.type_map.get_map(container)
        if hasattr(builder, "data"):
            if isinstance(builder.dtype, list):
                _order_fields(container.data, builder)
            else:
                _check(container.data, builder.data, builder, None, location)
        for path, name, attribute in _values_in(mapper):
            given, holder = getattr(container, attribute, None), member_at(builder, path)
            if given is not None and holder is not None:
                converted = holder.attributes.get(name) if name else getattr(holder, "data", None)
                _check(given, converted, holder, name or None, location)


def _order_fields(given: Any, builder: Any) -> None:
    """Put the values of rows, of which hdmf makes tuples, in the order of the fields of the schema."""
    rows, source = unwrapped(builder.data), unwrapped(given)
    if not isinstance(rows, list):
        return
    names = tuple(field["name"] for field in builder.dtype)
    dtype = getattr(source, "dtype", None)
    for position, row in enumerate(source if isinstance(source, list) else [None] * len(rows)):
        own = getattr(dtype, "names", None) if row is None else row.dtype.names if isinstance(row, np.void) else None
        # hdmf takes the values in their order and the names of the schema, so that they would be in wrong fields
        if own is not None and own != names and set(own) == set(names):
            rows[position] = tuple(rows[position][own.index(name)] for name in names)


def untyped_members(spec: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield path and specification of a group or dataset, and of what has no type in it, at any depth."""
    yield path, spec
    for member in (*getattr(spec, "datasets", ()), *getattr(spec, "groups", ())):
        if is_untyped(member):
            yield from untyped_members(member, (*path, member.name))


def member_at(builder: Any, path: tuple[str, ...]) -> Any:
    """Return the builder of the group or dataset at ``path`` below another one, None if there is none."""
    for part in path:
        members = {**getattr(builder, "groups", {}), **getattr(builder, "datasets", {})}
        builder = members.get(part)
    return builder


# a mapper belongs to a type, of which a file may have thousands of objects
@lru_cache(maxsize=1024)
def _values_in(mapper: Any) -> list[tuple[tuple[str, ...], str, str]]:
    """Return path, attribute (empty for a dataset without a type) and name in the container of what hdmf converts."""
    values_of_spec = []
    for path, spec in untyped_members(mapper.spec):
        values = [(each, each.name) for each in spec.attributes if each.value is None]
        if path and isinstance(spec, DatasetSpec) and not isinstance(spec.dtype, list):
            values.append((spec, ""))
        for each, name in values:
            attribute = mapper.get_attribute(each)
            is_computed = bool(name) and attribute in mapper.obj_attrs  # by the mapper
            if attribute is not None and not is_computed and not isinstance(each.dtype, RefSpec):
                values_of_spec.append((path, name, attribute))
    return values_of_spec


def _check(given: Any, converted: Any, builder: Any, name: str | None, location: str) -> None:
    """Refuse a value that hdmf has ``converted`` to another one than was ``given``."""
    given = given.value if isinstance(given, TermSetWrapper) else given
    if given is converted or isinstance(given, DataIO) or isinstance(converted, DataIO):
        return
    try:
        if isinstance(given, _IN_MEMORY) and isinstance(converted, _IN_MEMORY):
            _check_arrays(given, converted)
        elif isinstance(given, _NUMBERS) and isinstance(converted, (*_NUMBERS, str, bytes)):
            _check_arrays([given], [converted])
        elif isinstance(given, str) and isinstance(converted, bytes):
            _check_text([given], is_ascii=True)
    except errors.ValueRefusedError as error:
        what = "" if name is None else f"the attribute {name!r}: "
        problem, remedy, path = f"{what}{error.problem}", _REMEDY, builder_path(builder)
        if error.remedy == UNEVEN:
            remedy = f"The schema wants one shape for all rows: pad {name or builder.name} with NaN."
        else:
            problem += ": the schema has another type, and hdmf would change the value"
        raise errors.ValueRefusedError(problem, store=location, path=path, remedy=remedy) from error.__cause__


def _check_arrays(given: Any, converted: Any) -> None:
    _, leaves = flatten(converted)
    # such as references
    if not leaves or not isinstance(leaves[0], (*_NUMBERS, str, bytes, np.ndarray)):
        return
    kind = np.asarray(leaves[0]).dtype.kind
    if kind in "SUT":  # hdmf turns None and numbers into text where the schema asks for text
        _check_text(given, is_ascii=kind == "S")
        return
    array = infer(converted)
    if array.dtype.kind in "biufc":
        cast(given, array.dtype)


def _check_text(given: Any, *, is_ascii: bool) -> None:
    _, leaves = flatten(given)
    lists = (np.ravel(leaf).tolist() if isinstance(leaf, np.ndarray) else [leaf] for leaf in leaves)
    for position, item in enumerate(itertools.chain.from_iterable(lists)):
        if item is None or isinstance(item, _NUMBERS):
            raise errors.ValueRefusedError(f"element {position}: {item!r} is not text")
        if is_ascii and isinstance(item, str) and not item.isascii():
            raise errors.ValueRefusedError(f"element {position}: {item!r} is not ASCII")


# ---- cached namespaces ----------------------------------------------------------------------------------------------
# apart from `namespaces`, because a conversion reads the names of axes from the JSON, and hdmf is slow to import


class TextSpecReader(SpecReader):  # type: ignore[misc]
    """Gives hdmf the sources of one cached namespace."""

    def __init__(self, store: Store, hierarchy: Hierarchy, path: str) -> None:
        super().__init__(source=f"{store.location}:{absolute(path)}")
        self._text, self._store, self._path = source_texts(store, hierarchy, path), store, path

    def read_spec(self, spec_path: str) -> Any:
        """Return the specification of one source."""
        with at(self._store, join(self._path, spec_path)):
            try:
                return json.loads(self._text(spec_path))
            except (ValueError, RecursionError) as error:
                problem = f"the cached specification {spec_path!r} is not JSON ({type(error).__name__})"
                raise errors.MetadataError(problem, **USE_INSTALLED) from error

    def read_namespace(self, ns_path: str) -> Any:
        """Return the list of namespaces in the source ``ns_path``."""
        document = self.read_spec(ns_path)
        if isinstance(document, dict) and isinstance(document.get("namespaces"), list):
            return document["namespaces"]
        with at(self._store, join(self._path, ns_path)):
            raise errors.MetadataError(f"the cached source {ns_path!r} lists no namespaces", **USE_INSTALLED)


def load_cached_namespaces(
    catalog: Any, store: Store, hierarchy: Hierarchy, namespaces: list[str] | None = None
) -> dict[str, Any]:
    """Load the newest version of each cached namespace into ``catalog``, in which hdmf keeps those that it has.

    So a cached "core" of another version is ignored where a type map has one.
    """
    versions = cached_versions(hierarchy)
    if not versions:
        message = f"No cached namespaces found in {store.location!r}: the installed ones are used."
        warn(message, errors.MissingNamespacesWarning)
        return {}
    location = str(spec_location(hierarchy.root.attributes.get(reserved.SPECLOC)))
    # all in one call of hdmf, which loads what a namespace includes from the reader of the included one
    readers = {}
    with at(store, location):
        for name in versions if namespaces is None else namespaces:
            if not versions.get(name):
                known = f"The cached namespaces are: {', '.join(versions)}."
                raise errors.MetadataError(f"the namespace {name!r} is not cached", remedy=known)
            # by number: hdmf-zarr 0.13 takes 2.9.0 for newer than 2.11.0, by the order of text
            path = join(join(location, name), newest_version(versions[name]))
            readers[name] = TextSpecReader(store, hierarchy, path)
        try:
            loaded: dict[str, Any] = catalog.load_namespaces(reserved.NAMESPACE, reader=readers)
        except errors.ZarrBackendError:
            raise  # a source cannot be read
        except HDMF_ERRORS as error:
            problem = f"HDMF does not understand the cached namespaces ({type(error).__name__}: {error})"
            raise errors.MetadataError(problem, **USE_INSTALLED) from error
    return loaded


class TextSpecWriter(SpecWriter):  # type: ignore[misc]
    """Collects the sources of one namespace as JSON text."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}  # by source; the namespace itself is under ``"namespace"``

    def write_spec(self, spec: Any, path: str) -> None:
        """Keep the text of one source file."""
        self.texts[path] = json.dumps(spec, separators=(",", ":"))

    def write_namespace(self, namespace: Any, path: str) -> None:
        """Keep the text of the namespace."""
        self.write_spec({"namespaces": [namespace]}, path)


def namespace_texts(catalogs: Iterable[Any]) -> dict[str, dict[str, dict[str, str]]]:
    """Return ``{namespace: {version: {source: text}}}`` of all namespaces, each from the first catalogue with it."""
    texts: dict[str, dict[str, dict[str, str]]] = {}
    for catalog in catalogs:
        for name in catalog.namespaces:
            if name in texts:
                continue
            writer = TextSpecWriter()
            NamespaceToBuilderHelper.convert_namespace(catalog, name).export(reserved.NAMESPACE, writer=writer)
            texts[name] = {str(catalog.get_namespace(name).version): writer.texts}
    return texts
