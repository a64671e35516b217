"""Files that netcdf-c wrote: groups with dimensions, variables and typed attributes, for HDMF containers to use.

netcdf-c has said what Zarr does not in several ways. All of them are read, the newest first:

====================  ==================================================================================================
NCZarr 2.0            ``_nczarr_group``, ``_nczarr_array``, ``_nczarr_attr`` among the attributes
4.8.1 to 4.9.2        ``_NCZARR_GROUP``, ``_NCZARR_ARRAY`` (also in lower case) in ``.zgroup`` and ``.zarray``, and
                      ``_NCZARR_ATTR`` among the attributes
mode ``zarr``         ``_ARRAY_DIMENSIONS``, as xarray has it
the draft of 2018     objects and keys of its own, and data types that count bits: `netcdfdraft`
====================  ==================================================================================================

Nothing of this is ever written, but for the first, which is `mapping.nczarr`.

Source: netcdf-c 4.10 for what it writes; "NetCDF ZARR Storage Representation" (2018) for its draft and its types.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hdmf_zarr_backend.arrays.chunks import ChunkCache
from hdmf_zarr_backend.arrays.codecs import numpy_dtype
from hdmf_zarr_backend.arrays.lazy import LazyArray
from hdmf_zarr_backend.errors import ZarrBackendError
from hdmf_zarr_backend.interop.netcdfarrays import lazy_array
from hdmf_zarr_backend.interop.netcdfdraft import TYPEDEFS, read_draft
from hdmf_zarr_backend.interop.netcdftypes import (
    COMPLEX,
    NetcdfType,
    as_attributes,
    as_netcdf,
    complex_type,
    defined_types,
    kind_of,
    units_of,
)
from hdmf_zarr_backend.mapping import nczarr
from hdmf_zarr_backend.mapping.attributes import decode_attributes
from hdmf_zarr_backend.mapping.reserved import DIMENSIONS, NCZARR_ATTR
from hdmf_zarr_backend.model.nodes import ArrayNode, Attributes, GroupNode, Node, absolute, join
from hdmf_zarr_backend.read.parser import parse
from hdmf_zarr_backend.stores.base import KeyStore
from hdmf_zarr_backend.stores.opening import open_keys

__all__ = ["NetcdfDimension", "NetcdfGroup", "NetcdfType", "NetcdfVariable", "open_netcdf"]

_SCALAR_DIMENSION = "_scalar_"
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
        The array as it is stored, strings as ``str``; can be the data of an HDMF container, which then links to it or
        copies it. Strings, and all data of a file that follows the draft of 2018, are copied, since a link to them
        would be read as something else.
    dimensions : tuple of str
        Absolute paths of its dimensions; empty for a scalar.
    attributes : dict
        With their types: NumPy scalars and arrays, text, lists of text. bool is ``uint8``; dates are text, and the
        unit of those in ``a`` is in ``a.units``.
    kind : str
        What netCDF calls its type: ``"short"``, ``"double"``, ``"char"``, ``"string"``, ``"opaque(29)"``,
        ``"_Complex"``.
    typedef : str or None
        Path of the type that it has by name: as the draft of 2018 says, or ``/_Complex``.
    user_type : NetcdfType or None
        That type, where a group defines it.
    """

    path: str
    data: LazyArray
    dimensions: tuple[str, ...]
    attributes: dict[str, Any]
    kind: str
    typedef: str | None = None
    user_type: NetcdfType | None = None

    @property
    def dimension_names(self) -> tuple[str, ...]:
        """The last parts of the paths of the dimensions."""
        return tuple(name.rpartition("/")[2] for name in self.dimensions)

    def read(self) -> Any:
        """Return the values as netCDF has them.

        Returns
        -------
        array or scalar
            Strings are ``str``; bool is ``uint8``; dates are ISO 8601 text and durations numbers in text, with their
            unit in the attribute ``units``; complex numbers are rows of ``r`` and ``i``; all other values are as they
            are stored.

        Raises
        ------
        ChunkError
            A chunk does not decode, or a string is not UTF-8.
        """
        values = as_netcdf(np.asarray(self.data[()]))
        if self.kind == COMPLEX and self.user_type is not None:
            values = values.astype(self.user_type.dtype)
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
    typedefs : dict of str to NetcdfType
        The types that the group defines, by name; with ``_Complex`` in the root where a variable is of complex numbers.
    version : str or None
        Of the root: the version of NCZarr that the file says it follows.
    """

    path: str
    attributes: dict[str, Any]
    dimensions: dict[str, NetcdfDimension] = field(default_factory=dict)
    variables: dict[str, NetcdfVariable] = field(default_factory=dict)
    groups: dict[str, NetcdfGroup] = field(default_factory=dict)
    typedefs: dict[str, NetcdfType] = field(default_factory=dict)
    version: str | None = None

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

    Returns
    -------
    NetcdfGroup
        All groups, dimensions, variables and attributes, from the metadata alone; a variable reads when it is asked to.

    Raises
    ------
    StoreNotFoundError, NotZarrError
        Nothing is there, or no Zarr group.
    MetadataError
        A document is damaged; the node is named.
    StoreError
        There is no consolidated document, and the server cannot list what it has; or it does not answer.
    UsageError
        ``source`` is nothing that a Zarr file can be in.
    """
    keys = open_keys(source, storage_options)
    root: Node | None = read_draft(keys)
    is_draft = root is not None
    chunks = keys
    if root is None:
        parsed = parse(keys)
        root, chunks = parsed.hierarchy.root, parsed.keys(keys)
    assert isinstance(root, GroupNode)  # as `parse` guarantees
    reader = _Reader(chunks, is_draft=is_draft)
    made = reader.group("", root)
    version = _said(root, nczarr.SUPERBLOCK).get("version")
    made.version = None if version is None else str(version)
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
    reader.give_types(made)
    return made


@dataclass(slots=True)
class _Reader:
    keys: KeyStore
    is_draft: bool
    cache: ChunkCache = field(default_factory=lambda: ChunkCache(_CACHE_BYTES))
    types: dict[str, NetcdfType] = field(default_factory=dict)
    typed: list[NetcdfVariable] = field(default_factory=list)

    def group(self, path: str, node: GroupNode[Attributes]) -> NetcdfGroup:
        said = _said(node, nczarr.GROUP)
        dimensions = said.get("dimensions", said.get("dims"))
        found = NetcdfGroup(absolute(path), self._attributes(path, node))
        for name, size in dict(dimensions or {}).items():
            is_plain = not isinstance(size, dict)
            length, unlimited = (size, False) if is_plain else (size.get("size", 0), bool(size.get("unlimited")))
            found.dimensions[name] = NetcdfDimension(name, int(length), unlimited)
        found.typedefs = defined_types(path, said.get(TYPEDEFS, {}) if self.is_draft else {}, found.attributes)
        self.types |= {defined.path: defined for defined in found.typedefs.values()}
        return found

    def variable(self, path: str, node: ArrayNode[Attributes]) -> NetcdfVariable:
        data = lazy_array(self.keys, path, node, self.cache, is_draft=self.is_draft)
        stored = numpy_dtype(node.data_type)
        attributes = units_of(stored) | self._attributes(path, node)
        typedef = node.extra.get("typedef")
        found = NetcdfVariable(absolute(path), data, self._dimensions(path, node), attributes, kind_of(stored), typedef)
        if typedef is not None or found.kind == COMPLEX:
            self.typed.append(found)
        return found

    def give_types(self, root: NetcdfGroup) -> None:
        """Give the variables the types that groups define; all complex numbers are of one type, the widest."""
        widths = [found.data.dtype for found in self.typed if found.kind == COMPLEX]
        if widths:
            made = complex_type(max(widths, key=lambda dtype: dtype.itemsize))
            root.typedefs[COMPLEX] = self.types[made.path] = made
        for found in self.typed:
            found.typedef = absolute(COMPLEX) if found.kind == COMPLEX else str(found.typedef)
            found.user_type = self.types.get(found.typedef)

    def _dimensions(self, path: str, node: ArrayNode[Attributes]) -> tuple[str, ...]:
        said = _said(node, nczarr.ARRAY)
        if said.get("scalar"):
            return ()
        named = said.get("dimension_references", said.get("dimrefs"))
        if isinstance(named, list):
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
        if types is not None:
            shown[NCZARR_ATTR] = {"types": types}
        try:
            return as_attributes(decode_attributes(shown, resolve=dict))
        except ZarrBackendError as error:
            raise error.located(store=self.keys.location, path=absolute(path)) from error.__cause__


def _said(node: Node, name: str) -> dict[str, Any]:
    """Return what netcdf-c says of a node under a name of NCZarr 2.0, or the older ones."""
    for holder in (node.attributes, node.extra):
        for key in (name, name.upper()):
            if isinstance(holder.get(key), dict):
                return dict(holder[key])
    return {}
