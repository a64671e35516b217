"""Files that netcdf-c wrote: groups with dimensions, variables and typed attributes, for HDMF containers to use.

netcdf-c has said what Zarr does not in several ways. All of them are read, the newest first:

====================  ==================================================================================================
NCZarr 2.0            ``_nczarr_group``, ``_nczarr_array``, ``_nczarr_attr`` among the attributes
4.8.1 to 4.9.2        ``_NCZARR_GROUP``, ``_NCZARR_ARRAY`` (also in lower case) in ``.zgroup`` and ``.zarray``, and
                      ``_NCZARR_ATTR`` among the attributes
mode ``zarr``         ``_ARRAY_DIMENSIONS``, as xarray has it
the draft of 2018     objects ``.zdataset``, ``.zdims``, ``.zattr_type``; ``dimensions`` and ``typedef`` in ``.zarray``;
                      data types that count bits
====================  ==================================================================================================

Nothing of this is ever written, but for the first, which is `mapping.nczarr`.

Source: netcdf-c 4.10 for what it writes; "NetCDF ZARR Storage Representation" (2018) for its draft and its types.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from hdmf_zarr_backend.mapping import nczarr
from hdmf_zarr_backend.mapping.attributes import decode_attributes
from hdmf_zarr_backend.mapping.reserved import DIMENSIONS, NCZARR_ATTR
from hdmf_zarr_backend.model import v2
from hdmf_zarr_backend.model.nodes import ArrayNode, Attributes, GroupNode, Node, absolute, join
from hdmf_zarr_backend.read.parser import parse
from hdmf_zarr_backend.storage.arrays import LazyArray
from hdmf_zarr_backend.storage.chunks import ChunkCache
from hdmf_zarr_backend.storage.jsontext import load
from hdmf_zarr_backend.storage.keys import KeyStore
from hdmf_zarr_backend.storage.opening import open_keys

__all__ = ["NetcdfDimension", "NetcdfGroup", "NetcdfVariable", "open_netcdf"]

_SCALAR_DIMENSION = "_scalar_"
_DRAFT_TYPE = re.compile(r"([<>|])([iu])(8|16|32|64)")
_CACHE_BYTES = 2**26


@dataclass(frozen=True, slots=True)
class NetcdfDimension:
    """A dimension of a group.

    Attributes
    ----------
    name : str
        Its name.
    size : int
        Its length.
    unlimited : bool
        Whether it may grow.
    """

    name: str
    size: int
    unlimited: bool = False


@dataclass(slots=True)
class NetcdfVariable:
    """A variable.

    Attributes
    ----------
    path : str
        Absolute path.
    data : LazyArray
        The array as it is stored; can be the data of an HDMF container, which then links to it or copies it.
    dimensions : tuple of str
        Absolute paths of its dimensions; empty for a scalar.
    attributes : dict
        With their types: NumPy scalars and arrays, text, lists of text.
    kind : str
        What netCDF calls its type: ``"short"``, ``"double"``, ``"char"``, ``"string"``, ``"opaque(29)"``,
        ``"_Complex"``.
    typedef : str or None
        Path of the type that the draft of 2018 names.
    """

    path: str
    data: LazyArray
    dimensions: tuple[str, ...]
    attributes: dict[str, Any]
    kind: str
    typedef: str | None = None

    @property
    def dimension_names(self) -> tuple[str, ...]:
        """The last parts of the paths of the dimensions."""
        return tuple(name.rpartition("/")[2] for name in self.dimensions)

    def read(self) -> Any:
        """Return the values as netCDF has them.

        Returns
        -------
        array or scalar
            Strings are ``str``; bool is ``uint8``; dates are ISO 8601 text, with their unit in the attribute ``units``;
            complex numbers are rows of ``r`` and ``i``; all other values are as they are stored.
        """
        values = _as_netcdf(np.asarray(self.data[()]), self.kind)
        return values.reshape(-1)[0] if not self.dimensions and values.size == 1 else values


@dataclass(slots=True)
class NetcdfGroup:
    """A group.

    Attributes
    ----------
    path : str
        Absolute path.
    attributes : dict
        As of `NetcdfVariable`.
    dimensions, variables, groups : dict
        By name.
    """

    path: str
    attributes: dict[str, Any]
    dimensions: dict[str, NetcdfDimension] = field(default_factory=dict)
    variables: dict[str, NetcdfVariable] = field(default_factory=dict)
    groups: dict[str, NetcdfGroup] = field(default_factory=dict)

    def __getitem__(self, path: str) -> NetcdfGroup | NetcdfVariable:
        name, _, rest = path.strip("/").partition("/")
        if rest:
            return self.groups[name][rest]
        return self.variables[name] if name in self.variables else self.groups[name]


def open_netcdf(source: Any, *, storage_options: Mapping[str, Any] | None = None) -> NetcdfGroup:
    """Return the root group of a file that netcdf-c wrote in Zarr format 2, or of any other file of that format.

    Parameters
    ----------
    source : str, Path, mapping, zarr.abc.store.Store or zarr.Group
        The file.
    storage_options : mapping, optional
        For URLs, as of `ZarrIO`.

    Raises
    ------
    StoreNotFoundError, NotZarrError, MetadataError
        As of `read.parser.parse`.
    """
    keys = open_keys(source, storage_options)
    parsed = parse(keys)
    reader = _Reader(keys, parsed.keys(keys), is_draft=keys.get(".zdataset") is not None)
    root = parsed.hierarchy.root
    assert isinstance(root, GroupNode)  # as `parse` guarantees
    made = reader.group("", root)
    stack = [("", root, made)]
    while stack:  # no recursion: a file may be nested deeper than Python's calls
        path, node, group = stack.pop()
        for name, child in sorted(node.members.items()):
            below = join(path, name)
            if isinstance(child, ArrayNode):
                group.variables[name] = reader.variable(below, child)
            else:
                group.groups[name] = reader.group(below, child)
                stack.append((below, child, group.groups[name]))
    return made


@dataclass(slots=True)
class _Reader:
    keys: KeyStore
    chunks: KeyStore
    is_draft: bool
    cache: ChunkCache = field(default_factory=lambda: ChunkCache(_CACHE_BYTES))

    def group(self, path: str, node: GroupNode[Attributes]) -> NetcdfGroup:
        said = _said(node, nczarr.GROUP)
        dimensions = said.get("dimensions", said.get("dims"))
        if dimensions is None and self.is_draft:
            dimensions = self._object(path, ".zdims")
        found = NetcdfGroup(absolute(path), self._attributes(path, node))
        for name, size in dict(dimensions or {}).items():
            is_plain = not isinstance(size, dict)
            length, unlimited = (size, False) if is_plain else (size.get("size", 0), bool(size.get("unlimited")))
            found.dimensions[name] = NetcdfDimension(name, int(length), unlimited)
        return found

    def variable(self, path: str, node: ArrayNode[Attributes]) -> NetcdfVariable:
        if self.is_draft:
            node.data_type = _draft_type(node.data_type)
        data = LazyArray(self.chunks, path, node, self.cache)
        attributes = self._attributes(path, node)
        if data.dtype.kind in "mM":
            attributes.setdefault("units", np.datetime_data(data.dtype)[0])
        return NetcdfVariable(
            absolute(path), data, self._dimensions(path, node), attributes, _kind(data.dtype), node.extra.get("typedef")
        )

    def _dimensions(self, path: str, node: ArrayNode[Attributes]) -> tuple[str, ...]:
        said = _said(node, nczarr.ARRAY)
        if said.get("scalar"):
            return ()
        named = said.get("dimension_references", said.get("dimrefs", node.extra.get("dimensions")))
        if named is not None:
            return tuple(map(str, named))
        parent = path.rpartition("/")[0]
        names = node.attributes.get(DIMENSIONS)
        if names == [_SCALAR_DIMENSION]:
            return ()
        if not isinstance(names, list) or len(names) != len(node.shape):
            names = [f"_anonymous{n}" for n in node.shape]
        return tuple(absolute(join(parent, str(name))) for name in names)

    def _attributes(self, path: str, node: Node) -> dict[str, Any]:
        shown = {name: value for name, value in node.attributes.items() if not name.startswith("_NCZARR_")}
        types = _said(node, NCZARR_ATTR).get("types")
        if types is None and self.is_draft:
            types = self._object(path, ".zattr_type")
        if types is not None:
            shown[NCZARR_ATTR] = {
                "types": {name: _numeric(kind, is_draft=self.is_draft) for name, kind in types.items()}
            }
        return decode_attributes(shown, resolve=dict)

    def _object(self, path: str, name: str) -> Any:
        text = self.keys.get(v2.key_of(path, name))
        found = {} if text is None else load(text, key=v2.key_of(path, name))
        return found if isinstance(found, dict) else {}


def _said(node: Node, name: str) -> dict[str, Any]:
    """Return what netcdf-c says of a node under a name of NCZarr 2.0, or the older ones."""
    for holder in (node.attributes, node.extra):
        for key in (name, name.upper()):
            if isinstance(holder.get(key), dict):
                return dict(holder[key])
    return {}


def _numeric(kind: Any, *, is_draft: bool) -> Any:
    return _draft_type(kind) if is_draft else kind


def _draft_type(kind: Any) -> Any:
    """Return a type of the draft, which counts bits, as Zarr has it."""
    match = _DRAFT_TYPE.fullmatch(kind) if isinstance(kind, str) else None
    if match is None:
        return kind
    size = int(match[3]) // 8
    return f"{match[1] if size > 1 else '|'}{match[2]}{size}"


_KINDS = {"i1": "byte", "u1": "ubyte", "i2": "short", "u2": "ushort", "i4": "int", "u4": "uint", "i8": "int64",
          "u8": "uint64", "f4": "float", "f8": "double"}  # fmt: skip


def _kind(dtype: np.dtype[Any]) -> str:
    """Return netCDF's name for a data type."""
    if dtype.kind == "b":
        return "ubyte"
    if dtype.kind == "S":
        return "char" if dtype.itemsize == 1 else "string"
    if dtype.kind in "mMOUT":
        return "string"
    if dtype.kind == "c":
        return "_Complex"
    if dtype.names is not None:
        return "compound"
    return f"opaque({dtype.itemsize})" if dtype.kind == "V" else _KINDS.get(dtype.str[1:], dtype.name)


def _as_netcdf(values: npt.NDArray[Any], kind: str) -> npt.NDArray[Any]:
    letter = values.dtype.kind
    if letter == "b":
        return values.astype("u1")
    if letter == "c":
        part = values.real.dtype
        return np.ascontiguousarray(values).view([("r", part), ("i", part)])
    if kind == "string" and letter in "mM":
        return np.datetime_as_string(values).astype(object) if letter == "M" else values.astype("i8").astype(str)
    if kind == "string" and letter == "S":
        return np.array([item.decode("utf-8") for item in values.reshape(-1)], object).reshape(values.shape)
    return values
