"""Cached namespaces <-> arrays of JSON text under ``/specifications/<namespace>/<version>/<source>``; names of axes.

The names of axes are read from the JSON, since loading a schema with hdmf takes longer than converting a small file.

Source: hdmf-zarr storage specification, "Caching format specifications".
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, lru_cache
from itertools import accumulate
from typing import Any, TypeAlias

import numpy as np

from hdmf_zarr_backend.array.chunks import ChunkCache, ChunkReader
from hdmf_zarr_backend.encoding import reserved
from hdmf_zarr_backend.encoding.casting import to_text
from hdmf_zarr_backend.encoding.elements import describe_any
from hdmf_zarr_backend.encoding.layout import Layout, new_dataset
from hdmf_zarr_backend.encoding.nczarr import decode_dimensions, set_dimensions
from hdmf_zarr_backend.encoding.reserved import cached_versions, data_type_of, newest_version, notes_of, spec_location
from hdmf_zarr_backend.errors import MetadataError, NameRefusedError, ZarrBackendError, at
from hdmf_zarr_backend.model.element import REFERENCE, UTF8
from hdmf_zarr_backend.model.nodes import Dataset, Group, Hierarchy, join, split
from hdmf_zarr_backend.store.base import Store
from hdmf_zarr_backend.store.memory import InlinedStore
from hdmf_zarr_backend.write.plan import PlannedArray, WritePlan
from hdmf_zarr_backend.write.sources import ElementSource

SPECIFICATIONS = "specifications"

USE_INSTALLED = {
    "remedy": "Open with load_namespaces=False to read the file with the installed schema.",
    "remedy_cli": "Check it with `zarrio validate --installed`, or copy it with `zarrio convert --no-check`.",
}

HDMF_ERRORS = (ValueError, TypeError, LookupError, AttributeError, NameError, RecursionError)
"""Errors that HDMF raises for invalid specifications, which it does not check."""


def newest_versions(hierarchy: Hierarchy) -> dict[str, str]:
    """Return ``{namespace: version}`` of the newest cached version of each."""
    return {name: newest_version(versions) for name, versions in cached_versions(hierarchy).items() if versions}


def is_registered(catalog: Any, namespace: Any, data_type: str | None) -> bool:
    """Tell whether a catalog has a data type in a namespace."""
    return namespace in catalog.namespaces and data_type in catalog.get_namespace(namespace).get_registered_types()


# In other versions than a file has, these are read with the installed ones: newer releases read older files.
_OF_HDMF = frozenset({"core", "hdmf-common", "hdmf-experimental"})


def version_conflicts(catalog: Any, hierarchy: Hierarchy) -> list[str]:
    """Return which extensions are loaded in another version than the file was written with."""
    return [
        f"{name!r} {catalog.get_namespace(name).version} is loaded, and the file has {version}"
        for name, version in newest_versions(hierarchy).items()
        if name in catalog.namespaces and name not in _OF_HDMF and catalog.get_namespace(name).version != version
    ]


def source_texts(store: Store, hierarchy: Hierarchy, path: str) -> Callable[[str], str]:
    """Return a function for the JSON text of a source of a cached namespace; it raises a MetadataError without one."""
    cache = ChunkCache()
    # request all at once, unless they are inlined, and without a listing (hdmf-zarr#332)
    if store.abilities.is_remote:
        keys = [join(array_path, node.stored.first_chunk) for array_path, node in hierarchy.arrays(path)]
        store = InlinedStore(store, store.get_many(keys))

    def text(source: str) -> str:
        source_path = join(path, source)
        with at(store, source_path):
            node = hierarchy.get(source_path)
            if not isinstance(node, Dataset):
                raise MetadataError(f"the cached source {source!r} is missing", **USE_INSTALLED)
            values = np.asarray(ChunkReader(store, source_path, node.stored, cache).read(), dtype=object).reshape(-1)
            value = values[0] if len(values) == 1 else None
            if isinstance(value, bytes):
                value = value.decode("utf-8")
            if not isinstance(value, str):
                raise MetadataError("a cached source is not text", **USE_INSTALLED)
            return value

    return text


# ---- writing -------------------------------------------------------------------------------------------------------

Texts = Mapping[str, Mapping[str, Mapping[str, str]]]


def add_specs(plan: WritePlan, texts: Texts, *, location: str) -> None:
    """Add the cached namespaces to ``plan``; existing ones are kept."""
    root = plan.hierarchy.group("")
    if not texts:
        return
    if SPECIFICATIONS in root.members and reserved.SPECLOC not in root.attributes:
        problem = f"the name {SPECIFICATIONS!r} is taken by the cached namespaces"
        with at(location, SPECIFICATIONS):
            raise NameRefusedError(problem, remedy="Rename it, or write with cache_spec=False.")
    group_path = spec_location(root.attributes.get(reserved.SPECLOC)) or SPECIFICATIONS
    if reserved.SPECLOC not in root.attributes:
        root.attributes = {**root.attributes, reserved.SPECLOC: group_path}
    added: set[str] = set()
    for name, versions in texts.items():
        for version, sources in versions.items():
            path = join(group_path, f"{name}/{version}")
            if path in plan.hierarchy:
                continue  # this version is cached already
            for group in accumulate(path.split("/"), join):
                if group not in plan.hierarchy:
                    plan.hierarchy.add(group, Group())
                    added.add(group)
            for source, text in sources.items():
                planned = plan.arrays[join(path, source)] = text_array(text)
                plan.hierarchy.add(join(path, source), planned.node)
    plan.added |= {path for path in added if split(path)[0] not in added}
    plan.changed |= {""} if added else set()


def text_array(text: str) -> PlannedArray:
    """Plan an array with one text, like each source of a namespace."""
    values = np.array([text], dtype=object)
    node, notes = new_dataset(UTF8, (), Layout())
    node.attributes[reserved.DIMENSIONS] = ["_anonymous1"]
    return PlannedArray(node, ElementSource(values, node.stored.shape, to_text), notes=notes)


# ---- names of axes --------------------------------------------------------------------------------------------------

Spec: TypeAlias = Mapping[str, Any]
"""The JSON of a specification. Those of ``hdmf.spec`` are mappings of the same form, with what they inherit."""

FindSpec: TypeAlias = Callable[[str, str], Spec | None]
"""``(namespace, type)`` -> the specification of the type; None for an unknown one."""


def names_in(group: Group, *, without: Iterable[str] = ()) -> dict[str, int]:
    """Return ``{name: length}`` of the axes of the arrays in ``group``, except those of the members in ``without``."""
    left_out = set(without)
    lengths: dict[str, int] = {}
    for name, node in group.members.items():
        if isinstance(node, Dataset) and name not in left_out:
            names = node.attributes.get(reserved.DIMENSIONS)
            if isinstance(names, list) and len(names) == len(node.stored.shape):
                lengths.update(zip(map(str, names), node.stored.shape, strict=True))
    return lengths


def name_axes(plan: WritePlan, schema: FindSpec | None) -> None:
    """Name the axes of arrays without labels after the schema, if it is known, in the order of the array names."""
    if schema is None:
        return
    labels = _Schema(schema).labels(plan.hierarchy)
    # By group: NCZarr, netCDF and xarray take axes of one name in a group for one dimension, which has one length.
    lengths: dict[str, dict[str, int]] = defaultdict(dict)
    for path, node in plan.hierarchy.arrays():
        planned, taken = plan.arrays.get(path), lengths[split(path)[0]]
        if planned is None:
            continue
        if planned.iterator is not None:  # its axes are named later, when their lengths are known
            planned.labels = planned.labels or labels.get(path)
            planned.taken = taken
        elif reserved.DIMENSIONS in node.attributes:
            own = decode_dimensions(node.attributes)
            planned.notes.pop("dims", None)
            set_dimensions(node, labels.get(path) if own is None else own, taken, planned.notes)


def rename_axes(hierarchy: Hierarchy, paths: Iterable[str]) -> None:
    """Rename the axes of arrays whose shapes have changed, so that each name has one length in its group."""
    groups: dict[str, list[str]] = defaultdict(list)
    for parent, name in map(split, paths):
        groups[parent].append(name)
    for parent, members in groups.items():
        group = hierarchy.get(parent)
        if not isinstance(group, Group):
            continue
        lengths = names_in(group, without=members)
        for name in members:
            node = group.members[name]
            if isinstance(node, Dataset) and reserved.DIMENSIONS in node.attributes:
                notes = {key: value for key, value in notes_of(node.attributes).items() if key != "dims"}
                set_dimensions(node, decode_dimensions(node.attributes), lengths, notes)


# ---- the schema ------------------------------------------------------------------------------------------------------


def specs_in(catalog: Any) -> FindSpec:
    """Return the schema in a ``NamespaceCatalog`` of hdmf."""
    return lambda *key: catalog.get_spec(*key) if is_registered(catalog, *key) else None


def cached_specs(store: Store, hierarchy: Hierarchy) -> FindSpec | None:
    """Return the cached schema of a file, from its JSON; None if that is damaged, which `validate` reports."""
    versions, types = newest_versions(hierarchy), dict[str, dict[str, Spec]]()
    location = str(spec_location(hierarchy.root.attributes.get(reserved.SPECLOC)))

    def load(namespace: str) -> dict[str, Spec]:
        if namespace not in types:
            types[namespace] = {}  # before those that it includes, which may include this one
            text = source_texts(store, hierarchy, join(location, f"{namespace}/{versions[namespace]}"))
            for header in json.loads(text(reserved.NAMESPACE))["namespaces"]:
                known = types.setdefault(header["name"], {})
                entries = ((entry.get("source"), entry.get("namespace")) for entry in header["schema"])
                for source, other in dict.fromkeys(entries):
                    known.update({**(load(other) if source is None else _types_in(text(source))), **known})
        return types[namespace]

    try:
        for namespace in versions:
            load(namespace)
    except (ZarrBackendError, *HDMF_ERRORS):
        return None
    return lambda namespace, data_type: types.get(namespace, {}).get(data_type)


def link_names(find: FindSpec | None) -> Callable[[Any], set[Any]]:
    """Return a function for the names of the members of a group, by its type, that a schema allows to be links only."""
    types_of = _Schema(find or (lambda *key: None)).types_of
    return lambda node: {link.get("name") for spec in types_of(node).values() for link in spec.get("links") or ()}


@lru_cache(maxsize=64)  # files that are converted in one process mostly have the same schema
def _types_in(source: str) -> dict[str, Spec]:
    """Return ``{name: specification}`` of the types that the JSON of a cached source defines."""
    return dict(reversed([*_defined(json.loads(source))]))  # the first definition of a type counts


def _defined(spec: Spec) -> Iterator[tuple[str, Spec]]:
    """Yield the types that a specification and its members define; an error if it has another form."""
    name = _type_name(spec, "def")
    if not all(isinstance(each, str | None) for each in (name, _type_name(spec, "inc"), spec.get("name"))):
        raise TypeError("a specification has names that are not text")
    if name is not None:
        yield name, spec
    for section in ("datasets", "groups"):
        for member in spec.get(section) or ():
            yield from _defined(member)


def _type_name(spec: Spec, suffix: str) -> Any:
    """Return the name of the type that a specification defines (``def``) or includes (``inc``)."""
    return spec.get(f"neurodata_type_{suffix}", spec.get(f"data_type_{suffix}"))


class _Schema:
    """Specifications of types and of their members, each as a list with those that it inherits from, nearest first."""

    def __init__(self, find: FindSpec) -> None:
        self._find = find
        self.types = cache(self._types)

    def labels(self, hierarchy: Hierarchy) -> dict[str, tuple[str | None, ...]]:
        """Return ``{path: labels of the axes}`` of the arrays in a file, chosen as by hdmf's ``ObjectMapper.build``."""
        labels_by_path: dict[str, tuple[str | None, ...]] = {}
        stack: list[tuple[str, Any, str, list[Spec]]] = [("", hierarchy.root, "", [])]
        while stack:
            path, group, namespace, specs = stack.pop()
            if types := self.types_of(group):
                namespace, specs = group.attributes["namespace"], [*types.values()]
            groups, datasets = _members(specs, "groups"), _members(specs, "datasets")
            for name, node in group.members.items():
                if isinstance(node, Group):
                    stack.append((join(path, name), node, namespace, self._whole(namespace, groups[name, None])))
                    continue
                types = self.types_of(node)
                kinds = [(name, None), *((None, data_type) for data_type in types)]
                # the specification of a member comes before that of its type, as for hdmf: a GrayscaleImage in Images
                member = next((datasets[kind] for kind in kinds if kind in datasets), [])
                labels = _labels_of(self._whole(namespace, member) or [*types.values()], node)
                if labels is not None:
                    labels_by_path[join(path, name)] = labels
        return labels_by_path

    def types_of(self, node: Any) -> dict[str, Spec]:
        """Return the specifications of the type of a node or builder, as `types` has them."""
        namespace, data_type = node.attributes.get("namespace"), data_type_of(node)
        return self.types(namespace, data_type) if isinstance(namespace, str) and data_type is not None else {}

    def _types(self, namespace: str, data_type: str) -> dict[str, Spec]:
        """Return ``{type: specification}`` of a type and of those that it extends; empty for an unknown type."""
        types: dict[str, Spec] = {}
        while data_type not in types and (spec := self._find(namespace, data_type)) is not None:
            types[data_type] = spec
            data_type = _type_name(spec, "inc")
        return types

    def _whole(self, namespace: str, specs: list[Spec]) -> list[Spec]:
        """Return the specifications of a member of a group with those of the type that it includes."""
        return [*specs, *self.types(namespace, _type_name(specs[-1], "inc")).values()] if specs else []


def _members(specs: list[Spec], section: str) -> dict[tuple[str | None, str | None], list[Spec]]:
    """Return the specifications of the members of a group, by name or, if they may have any, by type."""
    members: dict[tuple[str | None, str | None], list[Spec]] = defaultdict(list)
    for member in (member for spec in specs for member in spec.get(section) or ()):
        name = member.get("name")
        data_type = _type_name(member, "def") or _type_name(member, "inc")
        members[name, data_type if name is None else None].append(member)
    return members


def _labels_of(specs: list[Spec], node: Dataset) -> tuple[str | None, ...] | None:
    """Return the labels for the shape of an array; None if the specification does not allow its shape."""
    dims: Any
    # both from one specification, the nearest that has either
    bounds, dims = next(filter(any, ((spec.get("shape"), spec.get("dims")) for spec in specs)), (None, None))
    if bounds is None and isinstance(dims, (list, tuple)):
        bounds = [None] * len(dims)
    elif dims is None and isinstance(bounds, (list, tuple)):
        dims = [f"dim_{axis}" for axis, _ in enumerate(bounds)]
    if not bounds or not _are_lists(bounds, dims) or (means := describe_any(node)).is_scalar:
        return None
    dtype = next((spec["dtype"] for spec in specs if spec.get("dtype") is not None), None)
    is_row = not isinstance(dtype, str | None) or means.stored == REFERENCE
    shape = means.axes[:1] if is_row else means.axes
    is_choice = isinstance(bounds[0], (list, tuple))
    choices = zip(bounds, dims, strict=False) if is_choice else [(bounds, dims)]
    known = ((allowed, labels) for allowed, labels in choices if _are_lists(allowed, labels))
    fitting = [(allowed, labels) for allowed, labels in known if len(labels) == len(shape) and fits(allowed, shape)]
    # the most specific shape
    _, best = min(fitting, key=lambda choice: choice[0].count(None), default=(None, None))
    return None if best is None else tuple(best)


def _are_lists(*values: Any) -> bool:
    return all(isinstance(value, (list, tuple)) for value in values)


def fits(allowed: Any, shape: tuple[int, ...]) -> bool:
    """Tell whether a shape in the schema allows the shape of an array."""
    return len(allowed) == len(shape) and all(n in (None, length) for n, length in zip(allowed, shape, strict=True))
