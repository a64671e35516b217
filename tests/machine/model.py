"""`Model`: one file in plain Python, and `content_of`: the same form of a file that is read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from hdmf.build import Builder, DatasetBuilder, GroupBuilder, LinkBuilder, ReferenceBuilder

from hdmf_zarr_backend import ZarrDataIO

Content: TypeAlias = dict[str, Any]
"""``{path: what is there}``: kind, attributes, type, shape and values, comparable with ``==``."""

ROWS: dict[str, tuple[str, ...]] = {"numbers and text": ("number", "text"), "all": ("number", "text", "object")}
"""The compound types of rows, by the names of their fields."""

_FIELDS: dict[str, Any] = {"number": "int32", "text": "text", "object": {"reftype": "object", "target_type": "Group"}}


@dataclass(frozen=True, slots=True)
class Target:
    """A reference to the node at a path of the same file."""

    path: str


@dataclass(frozen=True, slots=True)
class Group:
    attributes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Dataset:
    kind: str
    values: npt.NDArray[Any]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    chunks: tuple[int, ...] | None = None
    shards: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class Link:
    """A link to the node at a path of the same file."""

    target: str


Node: TypeAlias = Group | Dataset | Link


class Model:
    """A file: nodes by their absolute paths, parents before their members."""

    def __init__(self, nodes: Mapping[str, Node] | None = None) -> None:
        self.nodes: dict[str, Node] = {"/": Group()} if nodes is None else dict(nodes)

    def __repr__(self) -> str:
        return f"Model({self.nodes!r})"

    def copy(self) -> Model:
        return Model(self.nodes)

    def paths(self, *kinds: type[Node]) -> list[str]:
        return [path for path, node in self.nodes.items() if isinstance(node, kinds)]

    def datasets(self, *kinds: str) -> list[str]:
        return [path for path, node in self._datasets() if node.kind in kinds and node.values.ndim]

    def _datasets(self) -> Iterator[tuple[str, Dataset]]:
        return ((path, node) for path, node in self.nodes.items() if isinstance(node, Dataset))

    def dataset(self, path: str) -> Dataset:
        node = self.nodes[path]
        assert isinstance(node, Dataset)
        return node

    def set_values(self, path: str, values: npt.NDArray[Any]) -> None:
        self.nodes[path] = replace(self.dataset(path), values=values)

    def set_attribute(self, path: str, name: str, value: Any) -> None:
        node = self.nodes[path]
        assert not isinstance(node, Link)
        self.nodes[path] = replace(node, attributes={**node.attributes, name: value})

    def content(self) -> Content:
        return {path: _said(node) for path, node in self.nodes.items()}

    def builder(self) -> GroupBuilder:
        root = GroupBuilder("root")
        for path, node in self.nodes.items():
            if path != "/":
                add_node(root, path, node)
        for path, node in self.nodes.items():  # references lead to any of them
            if not isinstance(node, Link):
                set_attributes(root, path, node.attributes)
                fill_references(root, path, node)
        return root


def _said(node: Node) -> Any:
    if isinstance(node, Link):
        return ("link", node.target)
    attributes = {name: _plain(value) for name, value in sorted(node.attributes.items())}
    if isinstance(node, Group):
        return ("group", attributes)
    dtype = node.values.dtype.str if node.kind == "numbers" else node.kind
    return ("dataset", attributes, dtype, node.values.shape, _plain(node.values))


# ---- builders -------------------------------------------------------------------------------------------------------
def builder_at(root: GroupBuilder, path: str) -> Any:
    here: Any = root
    for name in filter(None, path.split("/")):
        here = here[name]
    return here


def add_node(root: GroupBuilder, path: str, node: Node) -> None:
    """Add the builder of a node without its attributes; references in it are added by `fill_references`."""
    parent, _, name = path.rpartition("/")
    group = builder_at(root, parent)
    if isinstance(node, Group):
        group.set_group(GroupBuilder(name))
    elif isinstance(node, Link):
        group.set_link(LinkBuilder(builder_at(root, node.target), name))
    else:
        group.set_dataset(_dataset_builder(name, node))


def _dataset_builder(name: str, node: Dataset) -> DatasetBuilder:
    if node.kind == "references":
        return DatasetBuilder(name, [], dtype="object")
    if node.kind in ROWS:
        return DatasetBuilder(name, [], dtype=[{"name": each, "dtype": _FIELDS[each]} for each in ROWS[node.kind]])
    if not node.values.ndim:
        return DatasetBuilder(name, node.values[()])
    options: dict[str, Any] = {"maxshape": (None,) * node.values.ndim}
    options |= {} if node.chunks is None else {"chunks": node.chunks}
    options |= {} if node.shards is None else {"shards": node.shards}
    data = node.values if node.kind == "numbers" else node.values.tolist()
    return DatasetBuilder(name, ZarrDataIO(data, **options), dtype=None if node.kind == "numbers" else "text")


def add(root: GroupBuilder, path: str, node: Node) -> None:
    add_node(root, path, node)
    if not isinstance(node, Link):
        set_attributes(root, path, node.attributes)
    fill_references(root, path, node)


def fill_references(root: GroupBuilder, path: str, node: Node) -> None:
    """Give the builder of a new dataset of references, or of rows, its values."""
    if isinstance(node, Dataset) and (node.kind == "references" or node.kind in ROWS):
        builder_at(root, path).data.extend(encoded(root, value) for value in node.values)


def set_attributes(root: GroupBuilder, path: str, attributes: Mapping[str, Any]) -> None:
    builder = builder_at(root, path)
    for name, value in attributes.items():
        builder.attributes[name] = encoded(root, value)


def encoded(root: GroupBuilder, value: Any) -> Any:
    """Return a value as builders have it: `Target` as the builder there, in a row as well."""
    if isinstance(value, Target):
        return ReferenceBuilder(builder_at(root, value.path))
    return tuple(encoded(root, item) for item in value) if isinstance(value, tuple) else value


# ---- what is read ---------------------------------------------------------------------------------------------------
def content_of(root: GroupBuilder) -> Content:
    """Return what the builders that were read from a file say, in the form of `Model.content`."""
    results: Content = {}
    stack: list[tuple[str, Builder]] = [("/", root)]
    while stack:
        path, builder = stack.pop()
        if isinstance(builder, LinkBuilder):
            results[path] = ("link", _path_of(builder.builder))
            continue
        attributes = {name: _plain(value) for name, value in sorted(builder.attributes.items())}
        if isinstance(builder, DatasetBuilder):
            results[path] = ("dataset", attributes, *_values_of(builder.data))
            continue
        results[path] = ("group", attributes)
        prefix = path.rstrip("/")
        for members in (builder.groups, builder.datasets, builder.links):
            stack.extend((f"{prefix}/{name}", member) for name, member in members.items())
    return results


def _values_of(data: Any) -> tuple[str, tuple[int, ...], Any]:
    dtype = getattr(data, "dtype", None)
    values = data[...] if getattr(data, "shape", ()) else np.asarray(getattr(data, "data", data))[()]
    kind = _kind_of(dtype)
    return np.dtype(dtype).str if kind == "numbers" else kind, tuple(np.shape(data)), _plain(values)


def _kind_of(dtype: Any) -> str:
    """Return the kind of a dataset by its data type: that of NumPy, or the list of hdmf for rows, or for references."""
    if names := dtype if isinstance(dtype, list) else getattr(dtype, "names", None):
        return next(name for name, fields in ROWS.items() if len(fields) == len(names))
    if isinstance(dtype, np.dtype) and dtype.kind == "O":
        return "text"
    return "references" if dtype == "object" else "numbers" if dtype is not None else "text"


def _plain(value: Any) -> Any:
    """Return values as lists, tuples and scalars of Python, and references as `Target`."""
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, np.generic):
        return _plain(value.item())
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, tuple):
        return tuple(_plain(item) for item in value)
    if isinstance(value, ReferenceBuilder):
        return Target(_path_of(value.builder))
    return Target(_path_of(value)) if isinstance(value, Builder) else value


def _path_of(builder: Builder) -> str:
    return "/" + str(builder.path).partition("/")[2]
