"""Models <-> hierarchies of metadata documents, including consolidated documents.

``to_consolidated(from_consolidated(d)) == d`` for every valid document ``d``, with its unknown keys and empty
attributes. Chunks inside a consolidated document are values and not part of the model.

Source: ZEP 6 (draft), "Implementing consolidated metadata via Zarr Object Models"; Zarr v2 and v3 specifications.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, is_dataclass
from typing import Any, Literal, TypeAlias

from hdmf_zarr_backend.builders.both import Fate, has_stored_chunks, keep_chunks
from hdmf_zarr_backend.builders.from_zarr import ZarrPlanner
from hdmf_zarr_backend.errors import FilterReplacedWarning, MetadataError, UsageError, at, printable
from hdmf_zarr_backend.formats import zarr2, zarr3
from hdmf_zarr_backend.formats.elements import describe_any, stored_text
from hdmf_zarr_backend.formats.nczarr import is_nczarr
from hdmf_zarr_backend.formats.reserved import DIMENSIONS
from hdmf_zarr_backend.model.nodes import Attributes, Dataset, Group, Hierarchy, Node, absolute, split
from hdmf_zarr_backend.model.stored import StoredArray
from hdmf_zarr_backend.stores.memory import MemoryStore
from hdmf_zarr_backend.transfer.names import checked_name
from hdmf_zarr_backend.transfer.plan import adapt_plan
from hdmf_zarr_backend.zom.models import ARRAYS, GROUPS, ArrayV2, ArrayV3, GroupModel, GroupV2, GroupV3, Model, walk

_SEPARATOR = "dimension_separator"
_NOTHING: frozenset[str] = frozenset()
_STATED = frozenset({"attributes"})
_OPTIONAL_3 = ("storage_transformers", "dimension_names")


# ---- hierarchy -> model ---------------------------------------------------------------------------------------------


def from_hierarchy(hierarchy: Hierarchy) -> Model:
    """Return the model of a hierarchy, which shares attributes and codecs with it."""
    if hierarchy.zarr_format == 3:
        return _from_documents_3({path: zarr3.encode_node(node) for path, node in hierarchy.walk()})
    if isinstance(hierarchy.root, Dataset):
        return _array_2(hierarchy.root)
    root = _group_2(hierarchy.root)
    stack = [(hierarchy.root.members, root.members)]
    while stack:  # not recursive: a file may be nested deeper than the recursion limit
        nodes, models = stack.pop()
        for name in sorted(nodes):
            node = nodes[name]
            if isinstance(node, Dataset):
                models[name] = _array_2(node)  # type: ignore[index] # a dict, created here
            else:
                group = models[name] = _group_2(node)  # type: ignore[index]
                stack.append((node.members, group.members))
    return root


def _array_2(node: Dataset[Attributes]) -> ArrayV2[Attributes]:
    stored = node.stored
    extra = stored.extra
    stated = _STATED if node.keeps_attributes else _NOTHING
    if extra and _SEPARATOR in extra:  # kept by the model of documents if it states the default
        extra = {key: value for key, value in extra.items() if key != _SEPARATOR}
        stated |= {_SEPARATOR}
    return ArrayV2(
        attributes=node.attributes,
        shape=list(stored.shape),
        chunks=list(stored.chunks),
        dtype=stored.data_type,
        compressor=stored.compressor,
        fill_value=stored.fill_value,
        order="F" if stored.order == "F" else "C",
        filters=stored.filters,
        dimension_separator=stored.chunk_keys.separator,
        extra=extra,
        stated=stated,
    )


def _group_2(node: Group[Attributes]) -> GroupV2[Attributes, Any]:
    stated = _STATED if node.keeps_attributes else _NOTHING
    return GroupV2(attributes=node.attributes, members={}, extra=node.extra, stated=stated)


def _from_documents_3(documents: Mapping[str, dict[str, Any]]) -> Model:
    """Return the model of ``{path: document}``, groups before members; creates implied groups."""
    models: dict[str, Model] = {}
    for path, document in documents.items():
        for group in _implied(path, models):
            _put(models, group, GroupV3(attributes={}, members={}))
        _put(models, path, _array_3(document) if document.get("node_type") == "array" else _group_3(document))
    return models[""]


def _implied(path: str, models: Mapping[str, Model]) -> list[str]:
    """Return the paths of the missing groups above ``path``, the root first."""
    missing: list[str] = []
    while path and (path := split(path)[0]) not in models:
        missing.append(path)
    return missing[::-1]


def _put(models: dict[str, Model], path: str, model: Model) -> None:
    models[path] = model
    if path:
        parent, name = split(path)
        group = models[parent]
        if not isinstance(group, GROUPS):
            raise MetadataError(
                "an array has members", path=absolute(parent), remedy="Run `zarrio verify` on the file."
            )
        group.members[name] = model  # type: ignore[index] # a dict, created here


def _array_3(document: Mapping[str, Any]) -> ArrayV3[Attributes]:
    stated = {key for key in _OPTIONAL_3 if key in document and document[key] is None}
    if "attributes" in document:
        stated.add("attributes")
    return ArrayV3(
        attributes=document.get("attributes") or {},
        shape=document["shape"],
        data_type=document["data_type"],
        chunk_grid=document["chunk_grid"],
        chunk_key_encoding=document["chunk_key_encoding"],
        fill_value=document.get("fill_value"),
        codecs=document["codecs"],
        storage_transformers=document.get("storage_transformers"),
        dimension_names=document.get("dimension_names"),
        extra={key: value for key, value in document.items() if key not in zarr3.ARRAY_KEYS},
        stated=frozenset(stated),
    )


def _group_3(document: Mapping[str, Any]) -> GroupV3[Attributes, Any]:
    extra = {key: value for key, value in document.items() if key not in zarr3.GROUP_KEYS}
    stated = frozenset({"attributes"}) if "attributes" in document else frozenset()
    return GroupV3(attributes=document.get("attributes") or {}, members={}, extra=extra, stated=stated)


# ---- model -> hierarchy ---------------------------------------------------------------------------------------------


def to_hierarchy(model: Model) -> Hierarchy:
    """Return the hierarchy of a model.

    Raises
    ------
    MetadataError
        A property has a value that is not valid in a document, or in format 3 an array has a type or codec that this
        package does not support; the node is named.
    NameRefusedError, UsageError
        As for `to_documents`.
    """
    if model.zarr_format == 3:
        return zarr3.parse_documents(to_documents(model))
    return Hierarchy.from_flat({path: _node_2(node, path) for path, node in _checked_nodes(model)})


def to_documents(model: Model) -> dict[str, dict[str, Any]]:
    """Return ``{key: document}`` of all nodes of a model.

    Raises
    ------
    MetadataError
        A property has a value that is not valid in a document; the node is named.
    NameRefusedError
        A member has a name that stores cannot hold, such as ".." or one with a slash; the group is named.
    UsageError
        Nodes of both formats are mixed, or a node is not an instance of a class in `zom.models`.
    """
    if model.zarr_format == 2:
        return zarr2.encode_documents(to_hierarchy(model))
    return {zarr3.key_of(path): document for path, document in _documents_3(model).items()}


def _documents_3(model: Model) -> dict[str, dict[str, Any]]:
    """Return ``{path: document}`` of all nodes of a model of format 3."""
    documents: dict[str, dict[str, Any]] = {}
    for path, node in _checked_nodes(model):
        document = document_of(node)
        zarr3.check_document(document, path)
        documents[path] = zarr3.in_order(document)
    return documents


def _checked_nodes(model: Model) -> Iterator[tuple[str, Model]]:
    for path, node in walk(model):
        if not isinstance(node, (*ARRAYS, *GROUPS)):
            raise UsageError(f"a {type(node).__name__} is not a node of a model", path=path, remedy="Use from_json.")
        if node.zarr_format != model.zarr_format:
            raise UsageError(
                f"a node of format {node.zarr_format} is in a hierarchy of format {model.zarr_format}",
                path=path,
                remedy="Give all nodes one format.",
            )
        if isinstance(node, GROUPS):
            _check_names(node, path)
        yield path.strip("/"), node


def _check_names(group: GroupModel, path: str) -> None:
    """Refuse names that would make a member another node, or put it outside the file."""
    with at(path=path):
        for name in group.members:
            checked_name(name)


def _node_2(model: Model, path: str) -> Node:
    attributes = attributes_of(model)
    parsed: Node
    if isinstance(model, ArrayV2):
        parsed = zarr2.parse_array(document_of(model), attributes, path)
    else:
        parsed = Group(attributes, extra=dict(model.extra))
    parsed.keeps_attributes = not attributes and "attributes" in model.stated
    return parsed


def attributes_of(model: Model) -> dict[str, Any]:
    """Return the attributes of a node as JSON, whatever their type.

    Raises
    ------
    UsageError
        They are neither a mapping nor a dataclass, and have no method that returns one.
    """
    attributes = model.attributes
    if isinstance(attributes, Mapping):
        return dict(attributes)
    if is_dataclass(attributes) and not isinstance(attributes, type):
        return asdict(attributes)
    if hasattr(attributes, "model_dump"):  # pydantic
        return dict(attributes.model_dump(mode="json"))
    raise UsageError(
        f"attributes of type {type(attributes).__name__} cannot be written as JSON",
        remedy="Use a mapping or a dataclass.",
    )


def document_of(model: Model) -> dict[str, Any]:
    """Return the document of one node: without the attributes in format 2, with them in format 3."""
    if isinstance(model, ArrayV2):
        return _document_of_array_2(model)
    if isinstance(model, GroupV2):
        return {"zarr_format": 2, **model.extra}
    attributes = attributes_of(model)
    document: dict[str, Any] = {"zarr_format": 3, "node_type": model.node_type}
    if isinstance(model, ArrayV3):
        document |= _properties_3(model)
    if attributes or "attributes" in model.stated:
        document["attributes"] = attributes
    return {**document, **model.extra}


def _document_of_array_2(model: ArrayV2[Any]) -> dict[str, Any]:
    document: dict[str, Any] = {
        "zarr_format": 2,
        "shape": list(model.shape),
        "chunks": list(model.chunks),
        "dtype": model.dtype,
        "compressor": _plain(model.compressor),
        "fill_value": model.fill_value,
        "order": model.order,
        "filters": None if model.filters is None else [dict(codec) for codec in model.filters],
    }
    if model.dimension_separator != "." or _SEPARATOR in model.stated:
        document[_SEPARATOR] = model.dimension_separator
    return {**document, **model.extra}


def _plain(codec: Mapping[str, Any] | None) -> dict[str, Any] | None:
    return None if codec is None else dict(codec)


def _properties_3(model: ArrayV3[Any]) -> dict[str, Any]:
    found: dict[str, Any] = {
        "shape": list(model.shape),
        "data_type": model.data_type,
        "chunk_grid": model.chunk_grid,
        "chunk_key_encoding": model.chunk_key_encoding,
        "fill_value": model.fill_value,
        "codecs": list(model.codecs),
    }
    for key in _OPTIONAL_3:
        value = getattr(model, key)
        if value is not None or key in model.stated:
            found[key] = None if value is None else list(value)
    return found


# ---- consolidated documents -----------------------------------------------------------------------------------------


def from_consolidated(document: Mapping[str, Any] | str | bytes) -> Model:
    """Return the model of a file from its consolidated document: ``.zmetadata``, or the root's ``zarr.json``.

    Parameters
    ----------
    document : mapping, str or bytes
        The document, or its text.

    Raises
    ------
    MetadataError
        The input is neither of these.
    """
    given = json.loads(document) if isinstance(document, (str, bytes)) else document
    if isinstance(given, Mapping) and given.get("zarr_format") == 3:
        found = zarr3.split_consolidated(dict(given))
        if found is None:
            raise MetadataError("this zarr.json has no consolidated metadata", path="/", remedy="Use to_zom.")
        documents = {path: found[0][path] for path in sorted(found[0], key=lambda path: path.split("/"))}
        for path, member in documents.items():
            zarr3.check_document(member, path)
        model = _from_documents_3(documents)
        assert isinstance(model, GROUPS)
        model.extra = {**model.extra, zarr3.CONSOLIDATED: found[1]}
        return model
    return from_hierarchy(zarr2.parse_consolidated(given))


def to_consolidated(model: GroupModel) -> dict[str, Any]:
    """Return the consolidated document of a model: ``.zmetadata`` in format 2, the root's ``zarr.json`` in format 3.

    Parameters
    ----------
    model : GroupV2 or GroupV3
        The root of a file.
    """
    if isinstance(model, GroupV2):
        return zarr2.wrap(to_documents(model))
    documents = _documents_3(model)
    block = documents[""].pop(zarr3.CONSOLIDATED, zarr3.BLOCK)
    return zarr3.join_consolidated(documents, block)


Rule: TypeAlias = Callable[[Model], Iterable[tuple[str, str]]]
"""Yields ``(kind, message)`` for each problem of one node."""


@dataclass(frozen=True, slots=True)
class ModelProblem:
    """A problem of a node of a model.

    Attributes
    ----------
    path : str
        Absolute path of the node.
    kind : str
        Name of the rule.
    message : str
        The problem.
    """

    path: str
    kind: str
    message: str

    def __str__(self) -> str:
        return printable(f"{self.path}: {self.message} [{self.kind}]")


def find_problems(model: Model, *, rules: Iterable[Rule] | None = None) -> list[ModelProblem]:
    """Return the problems of a model.

    Parameters
    ----------
    model : model
        The model.
    rules : iterable of callable, optional
        The rules to check; None: `RULES`.
    """
    asked = tuple(RULES if rules is None else rules)
    return [
        ModelProblem(path, kind, message)
        for path, node in walk(model)
        for rule in asked
        for kind, message in rule(node)
    ]


def check(model: Model, *, rules: Iterable[Rule] | None = None) -> None:
    """Raise an error for the first problem of a model.

    Parameters
    ----------
    model, rules
        As for `find_problems`.

    Raises
    ------
    MetadataError
        The message has the node, the rule and the number of problems.
    """
    found = find_problems(model, rules=rules)
    if found:
        more = f" ({len(found) - 1} more problems)" if len(found) > 1 else ""
        raise MetadataError(
            f"{found[0].message}{more}", path=found[0].path, remedy="See find_problems for all of them."
        )


# ---- the rules ------------------------------------------------------------------------------------------------------


def lengths_are_possible(node: Model) -> Iterator[tuple[str, str]]:
    """Shape and chunks have the same number of axes; lengths are not negative, and chunks not empty."""
    if not isinstance(node, ARRAYS):
        return
    chunks = _chunks(node)
    if any(not _is_length(n) for n in node.shape):
        yield "shape", f"shape {list(node.shape)} has an impossible length"
    if chunks is None:
        return
    if len(chunks) != len(node.shape):
        yield "rank", f"shape has {len(node.shape)} axes and chunks have {len(chunks)}"
    if any(not _is_length(n) or n < 1 for n in chunks):
        yield "chunks", f"chunks {list(chunks)} have an impossible length"


def dimensions_fit_the_shape(node: Model) -> Iterator[tuple[str, str]]:
    """Each axis has a name, and the names differ."""
    if not isinstance(node, ARRAYS):
        return
    for key, names in _names(node).items():
        if not isinstance(names, (list, tuple)) or not all(name is None or isinstance(name, str) for name in names):
            yield "dimensions", f"{key} {names!r} is not a list of names"
        elif len(names) != len(node.shape):
            yield "dimensions", f"{key} has {len(names)} names for {len(node.shape)} axes"
        elif len({name for name in names if name is not None}) != sum(name is not None for name in names):
            yield "dimensions", f"{key} {names!r} gives two axes the same name"


def dimensions_have_one_length(node: Model) -> Iterator[tuple[str, str]]:
    """All arrays of a group have the same length along a named dimension, as xarray and netCDF require."""
    if not isinstance(node, GROUPS):
        return
    lengths: dict[str, tuple[int, str]] = {}
    for member, array in sorted(node.members.items()):
        if not isinstance(array, ARRAYS):
            continue
        for names in _names(array).values():
            if not isinstance(names, (list, tuple)) or len(names) != len(array.shape):
                continue
            for name, length in zip(names, array.shape, strict=True):
                known, first = lengths.setdefault(str(name), (length, member))
                if name is not None and known != length:
                    yield "dimensions", f"{name!r} is {known} long in {first!r} and {length} in {member!r}"


def _names(node: ArrayV2[Any] | ArrayV3[Any]) -> Mapping[str, Any]:
    found: dict[str, Any] = {}
    attributes = attributes_of(node)
    if DIMENSIONS in attributes:
        found[DIMENSIONS] = attributes[DIMENSIONS]
    if isinstance(node, ArrayV3) and node.dimension_names is not None:
        found["dimension_names"] = node.dimension_names
    return found


def _chunks(node: ArrayV2[Any] | ArrayV3[Any]) -> list[Any] | None:
    if isinstance(node, ArrayV2):
        return list(node.chunks)
    configuration = node.chunk_grid.get("configuration")
    found = configuration.get("chunk_shape") if isinstance(configuration, Mapping) else None
    return list(found) if isinstance(found, (list, tuple)) else None


def _is_length(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


RULES: tuple[Rule, ...] = (lengths_are_possible, dimensions_fit_the_shape, dimensions_have_one_length)
"""Rules for all files that xarray and netCDF can read."""


_NOWHERE = "a model"
_KNOWN_KEYS = zarr3.ARRAY_KEYS | {_SEPARATOR}


@dataclass(frozen=True, slots=True)
class FormatMapping:
    """A model in the other format, and what has to be done with the chunks of the file.

    Attributes
    ----------
    model : GroupV2 or GroupV3
        The model.
    chunks : dict
        ``{path: action}`` for each array, with absolute paths. ``"kept"``: the stored chunks are used as they are;
        ``"moved"``: their bytes are used, under other keys or taken out of shards; ``"encoded"``: they are encoded
        again.
    problems : list of ModelProblem
        What the other format cannot express, or what depends on values.
    """

    model: GroupModel
    chunks: dict[str, Fate]
    problems: list[ModelProblem]


def to_format(model: GroupModel, zarr_format: Literal[2, 3]) -> FormatMapping:
    """Return the model of the same file in another format of Zarr.

    Data types, codecs, fill values, dimension names, chunk keys, and the attributes for links, references and types are
    converted. Arrays whose chunks are equal in both formats keep their chunk keys.

    Parameters
    ----------
    model : GroupV2 or GroupV3
        The model.
    zarr_format : {2, 3}
        The target format. A model in this format is returned as it is.

    Raises
    ------
    UsageError
        The format is unknown.
    MetadataError
        A property has a value that is not valid in a document, or an array has a type or codec that this package does
        not support; the node is named.
    """
    if zarr_format not in (2, 3):
        raise UsageError(f"there is no Zarr format {zarr_format!r}", remedy="Use 2 or 3.")
    if model.zarr_format == zarr_format:
        return FormatMapping(model, {path: "kept" for path, node in walk(model) if isinstance(node, ARRAYS)}, [])
    hierarchy = to_hierarchy(model)
    planner = ZarrPlanner(
        MemoryStore({}, _NOWHERE), hierarchy, None, zarr_format=zarr_format, is_in_place=True, reads_values=False
    )
    plan = planner.plan_file()
    encoded = [path for path, planned in plan.arrays.items() if not has_stored_chunks(planned)]
    for path in encoded:
        plan.arrays[path].source = None  # so that its values are not read
    with warnings.catch_warnings(action="ignore", category=FilterReplacedWarning):  # reported among the problems
        adapt_plan(plan, location=_NOWHERE)
    fates = keep_chunks(plan, hierarchy, encoded=encoded)
    problems = [*_of_file(hierarchy), *_problems(hierarchy, plan.hierarchy)]
    made = from_hierarchy(plan.hierarchy)
    assert isinstance(made, GROUPS)
    return FormatMapping(made, {absolute(path): fate for path, fate in sorted(fates.items())}, problems)


def _of_file(hierarchy: Hierarchy) -> Iterator[ModelProblem]:
    if hierarchy.zarr_format == 2 and is_nczarr(hierarchy):
        yield ModelProblem("/", "nczarr", "the attributes for netcdf-c do not exist in format 3, and are left out")


def _problems(before: Hierarchy, after: Hierarchy) -> Iterator[ModelProblem]:
    for path, node in before.walk():
        made = after.get(path)
        found = [*_extras(node)]
        if isinstance(node, Dataset) and isinstance(made, Dataset):
            found += [*(_to_3(node, made.stored) if after.zarr_format == 3 else _to_2(node.stored))]
        for kind, message in found:
            yield ModelProblem(absolute(path), kind, message)


def _extras(node: Node) -> Iterator[tuple[str, str]]:
    keys: Mapping[str, Any] = node.extra
    if isinstance(node, Dataset) and node.stored.original is not None:
        keys = node.stored.original.document
    transformers = keys.get("storage_transformers")
    unknown = sorted(keys.keys() - _KNOWN_KEYS) + (["storage_transformers"] if transformers else [])
    if unknown:
        yield "unknown-key", f"{', '.join(unknown)}: keys that neither format defines are left out"


def _to_3(node: Dataset[Attributes], made: StoredArray) -> Iterator[tuple[str, str]]:
    means = describe_any(node)
    if means.form == "rows":
        yield (
            "values",
            "text and references in rows get a fixed length, that of the longest; this model has the minimum",
        )
    elif means.stored.kind in ("reference", "region"):
        yield "object-ids", "references are stored as paths; the object ids beside them are left out"
    elif means.form == "objects" and (stored_text(node.stored), stored_text(made)) == ("bytes", "text"):
        yield "values", "bytes are stored as text, which requires that all of them are UTF-8"
    elif means.form == "plain" and _codecs(node.stored) != _codecs(made):
        yield "codecs", "format 3 cannot express these filters in this order; the default codec is used"


def _to_2(stored: StoredArray) -> Iterator[tuple[str, str]]:
    if stored.shards is not None:
        yield "shards", f"format 2 has no shards: each chunk of the shards {stored.shards.shape} becomes an object"


def _codecs(stored: StoredArray) -> tuple[Any, ...]:
    filters = [config for config in stored.filters or () if config["id"] != "byteorder"]
    return filters, stored.compressor
