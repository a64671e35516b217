"""`open_netcdf` reads files of netcdf-c, also in its draft of 2018, as datasets of xarray; `add_nczarr` writes for it.

xarray opens most of them, without what only netcdf-c states: groups of dimensions, which are unlimited, types of
attributes. It does so in ``_nczarr_group``, ``_nczarr_array`` and ``_nczarr_attr`` among the attributes, up to 4.9.2 in
capitals, in ``.zgroup`` and ``.zarray``. The draft, whose types count bits, is read as if it were of the first form.

Source: netcdf-c 4.10 for its output; "NetCDF ZARR Storage Representation" (2018) for its draft and its types.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from hdmf_zarr_backend import errors
from hdmf_zarr_backend.array.chunks import ChunkCache
from hdmf_zarr_backend.array.lazy import LazyArray
from hdmf_zarr_backend.encoding import nczarr, zarr2, zarr3
from hdmf_zarr_backend.encoding.attributes import decode_attributes
from hdmf_zarr_backend.encoding.parser import check_texts, parse, read_documents
from hdmf_zarr_backend.encoding.registry import FORMATS, sealed
from hdmf_zarr_backend.encoding.reserved import DIMENSIONS, NCZARR_ATTR, as_dict
from hdmf_zarr_backend.errors import at, known_arguments
from hdmf_zarr_backend.extras import library_of
from hdmf_zarr_backend.interop.datasets import to_dask
from hdmf_zarr_backend.model.json_text import check_strict, dump, load
from hdmf_zarr_backend.model.nodes import Dataset, Group, Node, absolute, join, split
from hdmf_zarr_backend.options import WriteOptions
from hdmf_zarr_backend.store.base import Store
from hdmf_zarr_backend.store.opening import open_store
from hdmf_zarr_backend.store.transaction import open_for_writing


@known_arguments
def open_netcdf(source: Any, *, storage_options: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the groups of a netCDF file of Zarr format 2 as datasets of xarray, from its metadata only.

    Parameters
    ----------
    source : str, Path, mapping, zarr.abc.store.Store or zarr.Group
        The file.
    storage_options : mapping, optional
        Options for URLs, with the names of fsspec or obstore.

    Returns
    -------
    dict of str to xarray.Dataset
        By absolute path, as from ``xarray.open_groups``; ``xarray.DataTree.from_dict`` makes a tree of them. Variables
        are dask arrays, text is ``str``, attributes have the types that the file states. A dimension is named by the
        last part of its path, or by the path if that name has another length. ``encoding`` has the ``dimensions`` of
        the group, ``unlimited_dims``, ``nczarr_version`` and, from the draft, ``typedefs``; that of a variable its
        ``typedef``.

    Raises
    ------
    StoreNotFoundError, NotZarrError
        Nothing exists there, or it is not a Zarr group.
    MetadataError
        A document is damaged; the node is named.
    """
    store = open_store(source, storage_options)
    # only the draft has this document, at the root; it costs a request where a file is remote
    if (dataset := store.get(_DATASET)) is None:
        parsed = parse(store)
        hierarchy, store = parsed.hierarchy, parsed.store(store)
    else:  # with the attributes of NCZarr 2.0
        texts = read_documents(store, zarr2.DOCUMENT_NAMES)
        paths = sorted({split(key)[0] for key in texts} | {""})
        beside = [join(path, name) for path in paths for name in (_ATTRIBUTE_TYPES, _DIMENSIONS, _TYPEDEFS)]
        texts |= store.get_many(beside) | {_DATASET: dataset}
        check_texts(texts.values(), store.read_rules)
        with at(store):
            stored = {key: _object(load(text, key=key), key) for key, text in texts.items()}
            documents = {key: document for path in paths for key, document in _documents_2(stored, path).items()}
            documents[zarr2.ATTRIBUTES][nczarr.SUPERBLOCK] = {"version": stored[_DATASET].get("nczarr_version")}
            hierarchy = zarr2.parse_documents(documents)
    if isinstance(hierarchy.root, Dataset):
        raise errors.NotZarrError("this is an array, not a group", store=store.location, remedy="Open it with zarr.")
    # one cache for all variables; without it, dask would decode a chunk for each of its parts
    cache = ChunkCache(2**26)
    groups = ((path, node) for path, node in hierarchy.walk() if isinstance(node, Group))
    return {absolute(path): _dataset(store, cache, path, group) for path, group in groups}


def _dataset(store: Store, cache: ChunkCache, path: str, group: Group) -> Any:
    with library_of("xarray", "open_netcdf()"):
        import xarray

    stated = _stated(group, nczarr.GROUP)
    dimensions = as_dict(stated.get("dimensions", stated.get("dims"))).items()
    sizes = {name: size if isinstance(size, dict) else {"size": size} for name, size in dimensions}
    lengths, variables = dict[str, int](), dict[str, Any]()  # by name
    members = ((name, node) for name, node in sorted(group.members.items()) if isinstance(node, Dataset))
    for name, node in members:
        below = join(path, name)
        names: list[str] = []
        for each, length in zip(_dimensions(below, node), node.stored.shape, strict=False):
            # xarray needs one length for a name in the dataset, and each name once in a variable; netCDF needs neither
            free = (each.rpartition("/")[2], each, f"{each}_{length}", f"{each}_{length}_{len(names)}")
            names.append(next(n for n in free if n not in names and lengths.setdefault(n, length) == length))
        array = LazyArray(store, below, node, cache)
        data = to_dask(array)
        # netcdf-c stores its strings as text of fixed length, and a char as one byte
        if array.dtype.kind == "S" and array.dtype.itemsize > 1:
            where = {"store": array.location, "path": array.name}
            data = data.map_blocks(_texts, **where, dtype=object, meta=np.empty(0, object))
        attributes, encoding = _attributes(store, below, node), {"typedef": node.stored.extra.get("typedef")}
        variables[name] = xarray.Variable(names, data if names else data.reshape(()), attributes, encoding)
    named = {name: variables.pop(name) for name in [*variables] if variables[name].dims == (name,)}
    coordinates = xarray.Coordinates(named, indexes={})  # an index would read the values
    dataset = xarray.Dataset(variables, coordinates, _attributes(store, path, group))
    dataset.encoding = {
        "dimensions": {name: size.get("size", 0) for name, size in sizes.items()},
        "unlimited_dims": {name for name, size in sizes.items() if size.get("unlimited")},
        "typedefs": stated.get("typedefs", {}),
        "nczarr_version": _stated(group, nczarr.SUPERBLOCK).get("version"),
    }
    return dataset


def _texts(values: Any, *, store: str, path: str) -> Any:
    """Return text of fixed length, which is padded with zeros, as ``str``."""
    try:
        return np.char.decode(values, "utf-8").astype(object)
    except UnicodeDecodeError as error:
        remedy = "Read bytes with zarr."
        raise errors.ChunkError("the text is not UTF-8", store=store, path=path, remedy=remedy) from error


def _dimensions(path: str, node: Dataset) -> list[str]:
    """Return the absolute path of the dimension of each axis, [] for a scalar; without names ``_anonymousN``."""
    stated, names, shape = _stated(node, nczarr.ARRAY), node.attributes.get(DIMENSIONS), node.stored.shape
    # netcdf-c stores a scalar as one element, whose dimension it may name
    if (stated.get("scalar") or names == ["_scalar_"]) and node.stored.size == 1:
        return []
    paths = stated.get("dimension_references", stated.get("dimrefs"))
    if isinstance(paths, list) and len(paths) == len(shape):
        return [str(each) for each in paths]
    if not isinstance(names, list) or len(names) != len(shape):
        names = [f"_anonymous{length}" for length in shape]
    return [absolute(join(split(path)[0], str(name))) for name in names]


def _attributes(store: Store, path: str, node: Node) -> dict[str, Any]:
    shown = {name: value for name, value in node.attributes.items() if not name.startswith("_NCZARR_")}
    shown |= {NCZARR_ATTR: _stated(node, NCZARR_ATTR)}
    with at(store, path):
        return decode_attributes(shown, resolve=dict)


def _stated(node: Node, name: str) -> dict[str, Any]:
    """Return what netcdf-c stored for a node under a name of NCZarr 2.0, or in capitals (up to 4.9.2)."""
    holders = [(holder, key) for holder in (node.attributes, node.extra) for key in (name, name.upper())]
    return next((dict(holder[key]) for holder, key in holders if isinstance(holder.get(key), dict)), {})


# of the draft of 2018
_DATASET, _ATTRIBUTE_TYPES, _DIMENSIONS, _TYPEDEFS = ".zdataset", ".zattr_type", ".zdims", ".ztypedefs"
_OPAQUE = re.compile(r"opaque\(([1-9][0-9]*)\)")
_BITS = re.compile(r"([<>|])(?=[iu]|f[36])([iuf])(8|16|32|64)")  # <f8 has eight bytes: there are no 8-bit floats


def _object(document: Any, key: str) -> dict[str, Any]:
    if not isinstance(document, dict):
        path, name = split(key)
        problem = f"{name} is not a JSON object"
        raise errors.MetadataError(problem, path=absolute(path), remedy="Restore it from a copy.")
    return document


def _documents_2(stored: dict[str, Any], path: str) -> dict[str, Any]:
    """Return the documents of Zarr format 2 of a node."""
    names = (zarr2.ARRAY, zarr2.GROUP, zarr2.ATTRIBUTES, _ATTRIBUTE_TYPES, _DIMENSIONS, _TYPEDEFS)
    keys = [join(path, name) for name in names]
    array, group, outer, types, dimensions, typedefs = (dict(stored.get(key, {})) for key in keys)
    attributes = {**_object(group.get(zarr2.ATTRIBUTES, {}), keys[2]), **outer}
    for name, stated in types.items():
        types[name] = _type(stated)
        if isinstance(attributes.get(name), str) and str(types[name])[1:2] in "iu":
            types[name] = None  # a char is an 8-bit integer
    attributes[NCZARR_ATTR] = {"types": types}
    if keys[0] in stored:
        attributes[nczarr.ARRAY] = {"dimension_references": array.pop("dimensions", None)}
        typed = {"dtype": _type(array["dtype"])} if "dtype" in array else {}
        return {keys[0]: {"zarr_format": 2, **array, **typed}, keys[2]: attributes}
    attributes[nczarr.GROUP] = {"dimensions": dimensions, "typedefs": _type(typedefs)}
    zarr_format = 2 if path else group.get("zarr_format", 2)  # a subgroup need not state its format
    return {keys[1]: {"zarr_format": zarr_format}, keys[2]: attributes}


def _type(stated: Any) -> Any:
    """Return the type of Zarr for one of the draft, whose types count bits; other values unchanged."""
    if isinstance(stated, dict):
        return {name: _type(each) for name, each in stated.items()}
    if isinstance(stated, list):
        return [[f[0], _type(f[1]), *f[2:]] if isinstance(f, list) and len(f) > 1 else f for f in stated]
    if opaque := _OPAQUE.fullmatch(str(stated)):
        return f"|V{opaque[1]}"
    bits = _BITS.fullmatch(str(stated))
    return stated if bits is None else f"{bits[1] if bits[3] != '8' else '|'}{bits[2]}{int(bits[3]) // 8}"


# ---- attributes for netcdf-c -----------------------------------------------------------------------------------------


@known_arguments
def add_nczarr(
    source: Any, *, storage_options: Mapping[str, Any] | None = None, write_options: WriteOptions | None = None
) -> list[str]:
    """Add the attributes that netcdf-c needs to open a file in its mode ``nczarr``.

    Parameters
    ----------
    source : str, Path, mapping, zarr.abc.store.Store or zarr.Group
        A file of format 2.
    storage_options : mapping, optional
        Options for URLs, with the names of fsspec or obstore.
    write_options : WriteOptions, optional
        Only ``strict_json``: write documents without NaN and Infinity tokens.

    Returns
    -------
    list of str
        Absolute paths of the arrays that netcdf-c can read: numbers in C order without filters, in groups with
        attributes that it can parse.

    Raises
    ------
    UsageError
        The file has format 3.
    ReadOnlyStoreError
        A store of this kind cannot be changed.
    StoreLockedError
        Another writer has the file open.

    Warns
    -----
    JournalWarning
        A change of the file was interrupted; it is undone or completed first.

    Notes
    -----
    The file may be read at the same time. Readers see the old or the new attributes, which are equivalent for them.
    """
    options = write_options or WriteOptions()
    options.check_used("NCZarr", "strict_json")
    store = open_store(source, storage_options)
    abilities = store.abilities
    if not abilities.change:
        problem = f"{abilities.why}: its attributes cannot be changed"
        remedy = "Write the file again with WriteOptions(nczarr=True)."
        cli = "Convert the file again with `zarrio convert --nczarr`."
        raise errors.ReadOnlyStoreError(problem, store=store.location, remedy=remedy, remedy_cli=cli)
    strict = options.strict_json
    with open_for_writing(store) as writer:
        parsed = parse(store)
        hierarchy = parsed.hierarchy
        if hierarchy.zarr_format != 2:
            problem = "NCZarr has no attributes in format 3"
            raise errors.UsageError(problem, store=store.location, remedy="Export the file to format 2.")
        if strict:
            check_strict(hierarchy, store.location)
        overlaid = sorted(nczarr.overlay(hierarchy))
        nodes = {join(path, zarr2.ATTRIBUTES): hierarchy.get(path) for path in overlaid}
        kept = {key: node for key, node in nodes.items() if node and (node.attributes or node.keeps_attributes)}
        texts = {key: dump(node.attributes, strict=strict) for key, node in kept.items()}
        documents: dict[str, bytes] = {}
        if parsed.consolidated:
            last = FORMATS[2].last(hierarchy, parsed.inlined, consolidate=True)
            documents = {key: dump(document, strict=strict) for key, document in last.items()}
        # else the digest of format 2 in format 3 would say that format 3 is out of date
        if parsed.state == "alike":  # format 3 has no NCZarr attributes and does not change
            root = store.get_many([zarr3.DOCUMENT])[zarr3.DOCUMENT]
            documents[zarr3.DOCUMENT] = sealed(root, documents[zarr2.CONSOLIDATED])
        with writer.change(root=parsed.root_keys) as change:
            change.delete(key for key in nodes if key not in kept)
            change.commit(texts, documents)
        return nczarr.listed(hierarchy)
