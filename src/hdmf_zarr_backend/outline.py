"""`Outline`: the metadata of a file as a JSON document, and as a tree in text and in HTML.

Imports neither hdmf, nor zarr, nor NumPy. Arrays are not read; their stored size is requested only with ``sizes``.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from hdmf_zarr_backend.encoding import reserved
from hdmf_zarr_backend.encoding.elements import codec_labels, describe_any, type_label
from hdmf_zarr_backend.encoding.parser import ParsedFile, Resolver, parse
from hdmf_zarr_backend.encoding.references import ZarrReference, decode_attribute_reference, is_reference
from hdmf_zarr_backend.encoding.registry import BOTH
from hdmf_zarr_backend.errors import DamagedMetadataWarning, at, warn, without_secrets
from hdmf_zarr_backend.model.nodes import Dataset, Group, Hierarchy, Node, absolute, grid_of, join, split
from hdmf_zarr_backend.model.render import (
    UNICODE,
    Column,
    Item,
    Sum,
    counted,
    escape,
    folded,
    item_tree,
    readable,
    size_text,
    sum_of,
)
from hdmf_zarr_backend.options import ReadOptions
from hdmf_zarr_backend.store.base import DOCUMENTS, Store
from hdmf_zarr_backend.store.journal import warn_of_pending
from hdmf_zarr_backend.store.opening import FileSource, open_store

_VALUE_LENGTH = 80
_LABEL_LENGTH = 60


@dataclass(slots=True)
class Outline:
    """The content of a file, from its metadata: ``has_both`` if these are of both formats of Zarr."""

    location: str
    hierarchy: Hierarchy
    consolidated: bool
    stored: dict[str, int] | None = None  # ``{path: bytes}`` of the chunks of each array, None if not requested
    specs: bool = False  # show the cached specifications
    values: bool = False  # show the values of attributes, not only the references among them
    has_both: bool = False
    is_hdf5: bool = False  # the nodes are those of an HDF5 file, as they are in Zarr after a conversion
    datasets: dict[str, Any] | None = None  # ``{path: value}`` of small datasets, None if not requested
    spec_path: str | None = field(init=False)
    has_shards: bool = field(init=False)
    _resolver: Resolver = field(init=False, repr=False)

    def __post_init__(self) -> None:
        # An NWB file has 20 to 70 datasets of cached specifications, which would hide its own.
        path = reserved.spec_location(self.hierarchy.root.attributes.get(reserved.SPECLOC))
        # a dataset there holds none: the tree, its totals and the document show it, as every other one
        self.spec_path = path if path is not None and isinstance(self.hierarchy.get(path), Group) else None
        self._resolver = Resolver(None, self.hierarchy, self.location)
        self.has_shards = any(node.stored.shards for _, node in self.hierarchy.arrays())

    @property
    def zarr_format(self) -> int | str:
        """The Zarr format of the file: 2, 3 or ``"both"``; ``"HDF5"`` for an HDF5 file."""
        return "HDF5" if self.is_hdf5 else BOTH if self.has_both else self.hierarchy.zarr_format

    # ---- as a document ------------------------------------------------------------------------------------------

    def document(self, *, depth: int | None = None) -> dict[str, Any]:
        """Return the content as one JSON object, down to `depth` levels below the root."""
        nodes: list[dict[str, Any]] = []
        for path, node in self._visible():
            level = path.count("/") + 1 if path else 0
            if depth is None or level <= depth:
                nodes.append(self._entry(path, node))
            if isinstance(node, Group) and (depth is None or level < depth):
                nodes += [
                    {"path": absolute(join(path, link["name"])), "kind": "link", **link}
                    for link in self._links(path, node)
                ]
        return {
            "location": self.location,
            "zarr_format": self.zarr_format,
            "consolidated": self.consolidated,
            "specifications": reserved.cached_versions(self.hierarchy),
            "nodes": nodes,
        }

    def _visible(self) -> Iterator[tuple[str, Node]]:
        return self.hierarchy.walk(without=None if self.specs else self.spec_path)

    def _entry(self, path: str, node: Node) -> dict[str, Any]:
        """Return what is shown of a group or an array, as JSON."""
        array = self._array(path, node) if isinstance(node, Dataset) else {}
        kind, data_type = "array" if array else "group", reserved.data_type_of(node)
        entry: dict[str, Any] = {"path": absolute(path), "kind": kind, "type": data_type, **array}
        references: dict[str, list[dict[str, Any]]] = {}
        values: dict[str, Any] = {}
        # JSON that looks like a reference
        noted = reserved.as_dict(reserved.notes_of(node.attributes).get("attributes"))
        for name, shown in reserved.shown_attributes(node.attributes).items():
            value = readable(shown)
            items = value if isinstance(value, list) and value else [value]
            if name in noted or not all(map(is_reference, items)):
                values[name] = value
                continue
            with at(self.location, path):
                references[name] = [self._reference(decode_attribute_reference(item)) for item in items]
        entry |= {"references": references} if references else {}
        return entry | ({"attributes": values} if self.values else {})

    def _array(self, path: str, node: Dataset) -> dict[str, Any]:
        stored = node.stored
        # what a dataset means, and for damaged or foreign arrays what is stored: an outline shows every file that
        # parses
        means = describe_any(node)
        array = {
            "dtype": type_label(node),
            "shape": list(means.axes),
            "maxshape": reserved.notes_of(node.attributes).get("maxshape"),
            "dimensions": node.attributes.get(reserved.DIMENSIONS),
            "chunks": list(stored.chunks),
            "chunk_count": math.prod(stored.grid),
            "shards": None if stored.shards is None else list(stored.shards.shape),
            "chunk_key_encoding": key_encoding(node),
            "codecs": codec_labels(stored),
            "bytes": None if means.itemsize is None else means.itemsize * stored.size,
        }
        if self.is_hdf5:
            from hdmf_zarr_backend.model.content import hdf5_filter  # on use: it imports NumPy

            note, axes = reserved.hdf5_note(node), means.axes  # the chunks and filters that the dataset has in its file
            chunks = (*note["chunks"], *axes[len(note["chunks"]) :]) if "chunks" in note else axes
            count = math.prod(grid_of(axes, chunks)) if "chunks" in note else 1
            filters = [hdf5_filter(number, (), None).name for number, _, _ in note.get("filters", [])]
            array |= {"chunks": list(chunks), "chunk_count": count, "codecs": filters}
        if self.stored is not None:
            array["stored_bytes"] = self.stored.get(path, 0)
        if self.datasets is not None:
            array["value"] = self.datasets.get(path)
        return array

    def _reference(self, reference: ZarrReference) -> dict[str, Any]:
        location = self._resolver.locate(self._resolver.main, reference.source)
        return {"path": absolute(reference.path)} | ({} if location == self.location else {"file": location})

    def _links(self, path: str, node: Group) -> list[dict[str, Any]]:
        return [
            {"name": link.name, "target": self._reference(link.target), "source": link.target.source}
            for link in self._resolver.main.links(path, node)
        ]

    # ---- for a tree ---------------------------------------------------------------------------------------------

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns of the tree."""
        first = [Column("type"), Column("dtype"), Column("shape"), Column("chunks"), Column("count", "right")]
        shards = [Column("shards")] if self.has_shards else []
        stored = [] if self.stored is None else [Column("stored", "right"), Column("ratio", "right")]
        values = [] if self.datasets is None else [Column("value")]
        return (*first, *shards, Column("codecs"), Column("size", "right"), *stored, *values)

    def tree(self, times: str = UNICODE.times) -> Item:
        """Return the tree of the nodes, for `model.render`; ``times`` is between the lengths of a shape."""
        return item_tree(self.hierarchy, partial(self._item, times))

    def _item(self, times: str, path: str, node: Node) -> Item:
        entry = self._entry(path, node)
        data_type = entry["type"] or ""
        item = Item(split(path)[1] or "/", path, node, [data_type])
        if path == self.spec_path and not self.specs:
            known = reserved.cached_versions(self.hierarchy)
            cached = [f"{namespace} {', '.join(versions)}" for namespace, versions in known.items()]
            item.text = f"cached specifications: {'; '.join(cached) or 'none'}"
            return item  # which is not counted
        targets = {name: ", ".join(map(target_text, items)) for name, items in entry.get("references", {}).items()}
        attributes = [Item(f"@{name}", cells=["reference"], target=target) for name, target in targets.items()]
        for name, value in sorted(entry.get("attributes", {}).items()):
            text = json.dumps(value, ensure_ascii=False, default=repr)
            attributes.append(Item(f"@{name}", cells=[""], text=_shortened(text, _VALUE_LENGTH)))
        item.attributes = attributes
        if isinstance(node, Group):
            links = ((link["name"], target_text(link["target"])) for link in self._links(path, node))
            item.members = [Item(name, cells=["link"], target=target, sum=Sum(links=1)) for name, target in links]
            item.sum, item.likeness = Sum(groups=1), data_type
            return item
        label, count, size = entry["dtype"], entry["chunk_count"], entry["bytes"]
        item.sum = Sum(arrays=1, size=size or 0, stored=entry.get("stored_bytes", 0))
        item.likeness = data_type, label, len(node.stored.shape)
        item.cells = cells = [
            data_type,
            label if len(label) <= _LABEL_LENGTH else f"{label[: _LABEL_LENGTH - 4]}...}}",
            lengths_text(entry["shape"], times) or "scalar",
            lengths_text(entry["chunks"], times) if count > 1 else "",
            f"{count:,}",
            *([lengths_text(entry["shards"] or (), times)] if self.has_shards else []),
            ", ".join(entry["codecs"]),
            "" if size is None else size_text(size),
        ]
        if self.stored is not None:
            stored = entry["stored_bytes"]
            cells += [size_text(stored), f"{size / stored:.1f}" if stored and size else ""]
        if self.datasets is not None:
            cells.append(_shortened(" ".join(str(self.datasets.get(path, "")).split()), _LABEL_LENGTH))
        return item

    def heading(self, name: str, total: Sum) -> str:
        """Return one line about the file, with ``name`` as its name: the ``total`` of its tree."""
        parts = [format_label(self.zarr_format)]
        parts += [] if self.is_hdf5 else ["consolidated" if self.consolidated else "not consolidated"]
        parts += [counted(n, noun) for n, noun in total.counts()]
        parts.append(f"{size_text(total.size)} uncompressed without text and references")
        if self.stored is not None:
            parts.append(f"{size_text(sum(self.stored.values()))} stored")
        return f"{without_secrets(name)}: {', '.join(parts)}"


def lengths_text(lengths: Iterable[int], times: str = UNICODE.times) -> str:
    """Return the lengths of axes as text."""
    return f" {times} ".join(f"{n:,}" for n in lengths)


def _shortened(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length - 3]}..."


def format_label(zarr_format: int | str) -> str:
    """Return the Zarr format of a file, 2, 3 or ``"both"``, in words."""
    if zarr_format == "HDF5":
        return "HDF5"
    return "Zarr formats 2 and 3" if zarr_format == BOTH else f"Zarr format {zarr_format}"


def key_encoding(node: Dataset) -> dict[str, str]:
    """Return the encoding of the chunk keys of an array as JSON."""
    return {"name": node.stored.chunk_keys.encoding, "separator": node.stored.chunk_keys.separator}


def open_outline(
    path: FileSource,
    *,
    storage_options: Mapping[str, Any] | None = None,
    read_options: ReadOptions | None = None,
    **shown: bool,
) -> Outline:
    """Read the metadata of a file; ``shown`` are arguments of `outline_of`."""
    store = open_store(path, storage_options, read_options)
    if store.folder is not None:  # elsewhere it takes a request
        warn_of_pending(store)
    return outline_of(store, parse(store, use_inlined=False, leave_out=True), **shown)


def outline_of(
    store: Store, parsed: ParsedFile, *, sizes: bool = False, specs: bool = False, values: bool = False
) -> Outline:
    """Return the outline of a file whose metadata are parsed."""
    # one array that cannot be parsed is a warning: the outline is what shows the rest of the file
    for error in parsed.left_out.values():
        warn(f"{error} It is left out.", DamagedMetadataWarning)
    stored = dict.fromkeys((path for path, _ in parsed.hierarchy.arrays()), 0)
    # one list of all keys, also where each folder could be listed: on a server a list is a request per 1,000 keys
    for key, size in store.sizes("").items() if sizes else ():
        path, _, name = key.rpartition("/")
        while path not in stored and path:
            path = path.rpartition("/")[0]  # chunks in nested folders
        if name not in DOCUMENTS and path in stored:
            stored[path] += size
    known, has_both = stored if sizes else None, parsed.state is not None
    return Outline(store.location, parsed.hierarchy, parsed.consolidated, known, specs, values, has_both=has_both)


def target_text(target: dict[str, Any]) -> str:
    """Return the path of the target of a link or reference, after the file if that is another one."""
    return f"{target['file']}:{target['path']}" if "file" in target else str(target["path"])


# ---- HTML -----------------------------------------------------------------------------------------------------------
# Nested parts open and close without scripts. All text comes from the file, which may be crafted, so it is escaped.

TREE_STYLE: Final = """\
.zarr-tree { font: 13px/1.6 ui-monospace, Menlo, Consolas, monospace; }
.zarr-tree details > *:not(summary) { margin-left: 1.4em; }
.zarr-tree summary { cursor: pointer; }
.zarr-tree .leaf { padding-left: 1em; }
.zarr-tree .name { font-weight: 600; }
.zarr-tree .details { opacity: .7; margin-left: .8em; }
.zarr-tree .more { opacity: .7; font-style: italic; padding-left: 1em; }
"""


def outline_html(outline: Outline, heading: str | None = None) -> str:
    """Return a file as HTML for a notebook: one line about it, and its tree."""
    root = outline.tree()
    heading = escape(heading or outline.heading(outline.location, root.sum))
    return f"<div><style>{TREE_STYLE}</style><p>{heading}</p>{tree_html(root, outline.columns)}</div>"


def tree_html(root: Item, columns: Sequence[Column]) -> str:
    """Return the tree of a file, from top to bottom."""
    titles = [column.title for column in columns]
    parts: list[str] = []
    # a stack replaces recursion, since a file may be nested deeply
    pending: list[tuple[Item | str, int]] = [(root, 0)]
    while pending:
        item, level = pending.pop()
        if isinstance(item, str):
            parts.append(item)
        elif item.members or item.attributes:
            # the first two levels are open; more would be pages of text in a notebook
            is_open = " open" if level <= 1 and not isinstance(item.node, Dataset) else ""
            parts.append(f"<details{is_open}><summary>{_line(item, titles, is_root=level == 0)}</summary>")
            children: list[Item | str] = [*item.attributes]
            for each in folded(item.members, show_all=False):
                if isinstance(each, list):
                    names = escape(f"{each[0].name} to {each[-1].name}")
                    more = f"{len(each):,} more like these: {names} ({sum_of(each)})"
                    children.append(f'<div class="more">{more}</div>')
                else:
                    children.append(each)
            pending.append(("</details>", level))
            pending += [(child, level + 1) for child in reversed(children)]
        else:
            parts.append(f'<div class="leaf">{_line(item, titles, is_root=level == 0)}</div>')
    return f'<div class="zarr-tree">{"".join(parts)}</div>'


_CELLS = {"count": "{} chunks", "shards": "in shards of {}", "ratio": "ratio {}"}
"""Text of the cells of a column, where a cell alone would not be understood."""


def _line(item: Item, titles: list[str], *, is_root: bool) -> str:
    details: list[str] = []
    if isinstance(item.node, Dataset):
        for title, cell in zip(titles, item.cells, strict=False):
            if cell and (title, cell) != ("count", "1"):
                text = escape(_CELLS.get(title, "{}").format(cell))
                details.append(f'<span title="{escape(title)}">{text}</span>')
    elif item.node is None:
        target = f"→ {item.target}" if item.target else item.text
        details.append(escape(" ".join(filter(None, [*item.cells, target]))))
    else:
        inside = str(item.sum if is_root else sum_of(item.members)) if item.members else ""
        details += [escape(word) for word in (*item.cells, item.text or inside) if word]
    return f'<span class="name">{escape(item.name)}</span><span class="details">{", ".join(details)}</span>'
