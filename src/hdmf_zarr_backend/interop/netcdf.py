"""`open_netcdf`: files that netcdf-c wrote, as groups with dimensions, variables and typed attributes.

netcdf-c has stored what Zarr cannot express in several ways. All of them can be read, the newest first:

====================  ==================================================================================================
NCZarr 2.0            ``_nczarr_group``, ``_nczarr_array``, ``_nczarr_attr`` among the attributes
4.8.1 to 4.9.2        ``_NCZARR_GROUP``, ``_NCZARR_ARRAY`` (also in lower case) in ``.zgroup`` and ``.zarray``, and
                      ``_NCZARR_ATTR`` among the attributes
mode ``zarr``         ``_ARRAY_DIMENSIONS``, as xarray has it
the draft of 2018     separate objects and keys, and data types that count bits: `read_draft`
====================  ==================================================================================================

Only the first is also written, by `formats.nczarr`.

The package imports this module when one of its names is first used.

Source: netcdf-c 4.10 for its output; "NetCDF ZARR Storage Representation" (2018) for its draft and its types.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from hdmf.build import ObjectMapper

from hdmf_zarr_backend.arrays.chunk_cache import ChunkCache
from hdmf_zarr_backend.arrays.lazy import ArrayContext, LazyArray
from hdmf_zarr_backend.errors import ChunkError, MetadataError, NotZarrError, at, known_arguments
from hdmf_zarr_backend.files.parser import check_texts, parse, read_documents
from hdmf_zarr_backend.formats import nczarr, zarr2
from hdmf_zarr_backend.formats.attributes import decode_attributes
from hdmf_zarr_backend.formats.dtypes import element_of, numpy_dtype
from hdmf_zarr_backend.formats.reserved import DIMENSIONS, NCZARR_ATTR
from hdmf_zarr_backend.model.nodes import Attributes, Dataset, Group, Node, absolute, join, split
from hdmf_zarr_backend.stores.base import Store
from hdmf_zarr_backend.stores.json_text import load
from hdmf_zarr_backend.stores.opening import NOWHERE, open_store

__all__ = [
    "COMPLEX",
    "NetcdfDimension",
    "NetcdfGroup",
    "NetcdfType",
    "NetcdfVariable",
    "kind_of",
    "lazy_array",
    "open_netcdf",
    "texts_of",
]

Array = npt.NDArray[Any]

COMPLEX = "_Complex"

NUMBERS = {"i1": "byte", "u1": "ubyte", "i2": "short", "u2": "ushort", "i4": "int", "u4": "uint", "i8": "int64",
           "u8": "uint64", "f4": "float", "f8": "double"}  # fmt: skip
"""netCDF's names of number types."""

_KINDS = {"bool": "ubyte", "datetime": "string", "complex": COMPLEX, "compound": "compound"}


# ---- types -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NetcdfType:
    """A type that a group defines, for variables anywhere in the file.

    Attributes
    ----------
    path : str
        Absolute path.
    kind : str
        ``"compound"``, ``"enum"``, ``"opaque(10)"``; ``""`` if it is given in another form.
    dtype : numpy.dtype or None
        Type of the elements; for an enumeration, of its integers. None if the definition does not name a type of Zarr.
    constants : dict
        The numbers of an enumeration, by name.
    text_lengths : dict
        Maximum number of characters of the text fields of a compound, by name.
    definition : object
        As in the file, with the types of Zarr; the draft of 2018 does not specify the form of definitions.
    """

    path: str
    kind: str
    dtype: np.dtype[Any] | None = None
    constants: dict[str, int] = field(default_factory=dict)
    text_lengths: dict[str, int] = field(default_factory=dict)
    definition: Any = None


def defined_types(path: str, definitions: Mapping[str, Any], attributes: Mapping[str, Any]) -> dict[str, NetcdfType]:
    """Return the types that the group at ``path`` defines, by name.

    A definition is a Zarr type, such as a list of fields for a compound, or an object with one among its values; an
    inner object of numbers has the constants of an enumeration.
    """
    return {name: _defined(path, name, definition, attributes) for name, definition in definitions.items()}


def _defined(path: str, name: str, definition: Any, attributes: Mapping[str, Any]) -> NetcdfType:
    parts = list(definition.values()) if isinstance(definition, dict) else [definition]
    dtype = next((_dtype(part) for part in parts if isinstance(part, (str, list))), None)
    constants = next((part for part in parts if isinstance(part, dict)), {})
    constants = {name: value for name, value in constants.items() if type(value) is int}
    lengths = {field: attributes.get(f"{name}.{field}") for field in (dtype.names if dtype is not None else None) or ()}
    return NetcdfType(
        path=absolute(join(path, name)),
        kind="enum" if constants else "" if dtype is None else kind_of(dtype),
        dtype=dtype,
        constants=constants,
        text_lengths={field: int(n) for field, n in lengths.items() if isinstance(n, (int, np.integer))},
        definition=definition,
    )


def _dtype(declared: Any) -> np.dtype[Any] | None:
    try:
        return numpy_dtype(declared)
    except MetadataError:
        return None


def complex_type(dtype: np.dtype[Any]) -> NetcdfType:
    """Return the compound that represents complex numbers."""
    return NetcdfType(absolute(COMPLEX), "compound", _shown(dtype))


def kind_of(dtype: np.dtype[Any]) -> str:
    """Return netCDF's name for a data type."""
    element = element_of(dtype)
    if element.kind == "text":
        return "char" if element.size == 1 else "string"
    if element.kind in _KINDS:
        return _KINDS[element.kind]
    return f"opaque({element.size})" if element.kind == "opaque" else NUMBERS.get(dtype.str[1:], dtype.name)


# ---- values ----------------------------------------------------------------------------------------------------------


def as_netcdf(values: Array) -> Array:
    """Return values in the types of netCDF; text and dates as `str` in an array of objects.

    Raises
    ------
    ChunkError
        Text is not UTF-8.
    """
    letter, dtype = values.dtype.kind, values.dtype
    if letter == "M":
        return np.asarray(np.datetime_as_string(values)).astype(object)
    if letter == "m":
        return np.where(np.isnat(values), "NaT", values.astype("i8").astype(str)).astype(object)
    if letter == "U":
        return values.astype(object)
    if letter == "S" and dtype.itemsize > 1:
        return texts_of(values)
    shown = dtype if dtype.hasobject else _shown(dtype)
    return values if shown == dtype else values.view(shown)


def _shown(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the netCDF type for the same bytes: for bool, for complex numbers, and for rows with such fields."""
    if dtype.kind == "b":
        return np.dtype("u1")
    if dtype.kind == "c":
        part = f"{dtype.str[0]}f{dtype.itemsize // 2}"
        return np.dtype([("r", part), ("i", part)])
    if dtype.subdtype is not None:
        return np.dtype((_shown(dtype.subdtype[0]), dtype.subdtype[1]))
    if not dtype.names or dtype.fields is None:
        return dtype
    fields = [dtype.fields[name] for name in dtype.names]
    formats, offsets = [_shown(kind[0]) for kind in fields], [kind[1] for kind in fields]
    return np.dtype({"names": dtype.names, "formats": formats, "offsets": offsets, "itemsize": dtype.itemsize})


def texts_of(values: Array) -> Array:
    """Return fixed-length text, which is padded with zeros, as `str`.

    Raises
    ------
    ChunkError
        The text is not UTF-8.
    """
    texts = np.empty(values.size, object)
    for position, text in enumerate(values.reshape(-1).tolist()):
        try:
            texts[position] = text.decode("utf-8")
        except UnicodeDecodeError as error:
            raise ChunkError(
                f"element {position} of the text is not UTF-8 ({error})",
                remedy="Open the array with zarr, which returns bytes.",
            ) from error
    return texts.reshape(values.shape)


def as_attributes(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return attributes in the types of netCDF; the unit of dates in ``a`` is the attribute ``a.units``."""
    found: dict[str, Any] = {}
    units: dict[str, Any] = {}
    for name, value in attributes.items():
        if not isinstance(value, (bool, np.generic, np.ndarray)):
            found[name] = value
            continue
        array = np.asarray(value)
        found[name] = as_netcdf(array)[()]
        units |= {f"{name}.{field}": unit for field, unit in units_of(array.dtype).items()}
    return units | found


def units_of(dtype: np.dtype[Any]) -> dict[str, str]:
    """Return the built-in attribute ``units`` of dates and durations, such as ``25s``; empty for other types."""
    if dtype.kind not in "mM":
        return {}
    unit, multiple = np.datetime_data(dtype)
    return {"units": unit if multiple == 1 else f"{multiple}{unit}"}


class CopiedArray(LazyArray):
    """An array that other files cannot link to."""

    @property
    def location(self) -> str:
        """Location of the file, marked as a store without an address."""
        return f"{NOWHERE}{self.keys.location}"


class DraftArray(CopiedArray):
    """An array of a file in the draft format of 2018."""

    @property
    def _async_array(self) -> Any:
        raise NotZarrError(
            "zarr-python would misread the data types of the draft of 2018",
            store=self.keys.location,
            path=self.name,
            remedy="Index the dataset itself.",
        )


class TextArray(CopiedArray):
    """Fixed-length text, padded with zeros, as ``str``."""

    def __init__(self, keys: Store, path: str, node: Dataset[Attributes], cache: ChunkCache) -> None:
        super().__init__(keys, path, node, cache, ArrayContext(elements=texts_of))

    @property
    def dtype(self) -> np.dtype[Any]:
        """``object``, as for all text."""
        return np.dtype(object)

    @property
    def text_type(self) -> type | None:
        """``str``."""
        return str

    def element(self, position: int) -> Any:
        """Raise an error: an element is read with its chunk."""
        raise LookupError(position)

    def __getitem__(self, key: Any) -> Any:
        with at(self.keys, self.name):
            return super().__getitem__(key)


for _kind in (DraftArray, TextArray):
    ObjectMapper.no_convert(_kind)  # hdmf would read the complete array to convert it


def lazy_array(keys: Store, path: str, node: Dataset[Attributes], cache: ChunkCache, *, is_draft: bool) -> LazyArray:
    """Return the array at ``path`` as data for a container, which links to it if that is possible."""
    made = DraftArray(keys, path, node, cache) if is_draft else LazyArray(keys, path, node, cache)
    is_text = made.dtype.kind == "S" and made.dtype.itemsize > 1
    return TextArray(keys, path, node, cache) if is_text else made


# ---- the draft of 2018 -----------------------------------------------------------------------------------------------

TYPEDEFS = "typedefs"

_DATASET = ".zdataset"
_ATTRIBUTE_TYPES = ".zattr_type"
_DIMENSIONS = ".zdims"
_TYPEDEFS = ".ztypedefs"

_BITS = re.compile(r"([<>|])(?=[iu]|f[36])([iuf])(8|16|32|64)")  # <f8 has eight bytes: there are no 8-bit floats
_OPAQUE = re.compile(r"opaque\(([1-9][0-9]*)\)")
_WORDS = {word: f"{'|' if code[1] == '1' else '<'}{code}" for code, word in NUMBERS.items()}

Documents = dict[str, Any]


def read_draft(keys: Store) -> Group[Attributes] | None:
    """Return the root of a file in the draft format, with NCZarr 2.0 attributes; None for other files.

    Raises
    ------
    MetadataError
        A document is damaged; store and node are named.
    NotZarrError
        The root is an array.
    """
    dataset = keys.get(_DATASET)
    if dataset is None:
        return None
    with at(keys):
        root = zarr2.parse_documents(_documents(keys, dataset)).root
    if not isinstance(root, Group):
        raise NotZarrError("the root is an array, not a group", store=keys.location, remedy="Open the array with zarr.")
    return root


def _documents(keys: Store, dataset: bytes) -> Documents:
    texts = read_documents(keys, zarr2.DOCUMENT_NAMES)
    paths = sorted({split(key)[0] for key in texts} | {""})
    beside = [zarr2.key_of(path, name) for path in paths for name in (_ATTRIBUTE_TYPES, _DIMENSIONS, _TYPEDEFS)]
    texts |= keys.get_many(beside) | {_DATASET: dataset}
    check_texts(texts.values(), keys.read_rules)
    stored = {key: load(text, key=key) for key, text in texts.items()}
    made = {zarr2.key_of(path, name): found for path in paths for name, found in _of_node(stored, path)}
    made[zarr2.ATTRIBUTES][nczarr.SUPERBLOCK] = {"version": _object(stored, "", _DATASET).get("nczarr_version")}
    return made


def _of_node(stored: Documents, path: str) -> Iterator[tuple[str, Documents]]:
    array, group = _object(stored, path, zarr2.ARRAY), _object(stored, path, zarr2.GROUP)
    attributes = {**_object(group, path, zarr2.ATTRIBUTES, inside=True), **_object(stored, path, zarr2.ATTRIBUTES)}
    types = _object(stored, path, _ATTRIBUTE_TYPES)
    if types:
        attributes[NCZARR_ATTR] = {
            "types": {name: _attribute_type(t, attributes.get(name)) for name, t in types.items()}
        }
    if zarr2.key_of(path, zarr2.ARRAY) in stored:
        references = array.pop("dimensions", None)
        if references is not None:
            attributes[nczarr.ARRAY] = {"dimension_references": references}
        yield (
            zarr2.ARRAY,
            {"zarr_format": 2, **array, **({"dtype": _plain(array["dtype"])} if "dtype" in array else {})},
        )
    else:
        definitions = {name: _plain_definition(each) for name, each in _object(stored, path, _TYPEDEFS).items()}
        attributes[nczarr.GROUP] = {"dimensions": _object(stored, path, _DIMENSIONS), TYPEDEFS: definitions}
        yield zarr2.GROUP, {"zarr_format": 2 if path else group.get("zarr_format", 2)}
    yield zarr2.ATTRIBUTES, attributes


def _object(documents: Documents, path: str, name: str, *, inside: bool = False) -> Documents:
    """Return a copy of the document ``name`` of a node, or of the entry ``name`` in another one; ``{}`` if missing."""
    found = documents.get(name if inside else zarr2.key_of(path, name), {})
    if not isinstance(found, dict):
        raise MetadataError(f"{name} is not a JSON object", path=absolute(path), remedy="Restore it from a copy.")
    return dict(found)


def _attribute_type(kind: Any, value: Any) -> Any:
    """Return the type of an attribute; the draft uses 8-bit integers for characters."""
    plain = _plain(kind)
    return None if isinstance(value, str) and isinstance(plain, str) and plain[1:2] in ("i", "u") else plain


def _plain_definition(stored: Any) -> Any:
    return {key: _plain(part) for key, part in stored.items()} if isinstance(stored, dict) else _plain(stored)


def _plain(kind: Any) -> Any:
    """Return the Zarr type for a type of the draft; other values unchanged."""
    if isinstance(kind, list):
        return [[f[0], _plain(f[1]), *f[2:]] if isinstance(f, list) and len(f) > 1 else f for f in kind]
    if not isinstance(kind, str):
        return kind
    opaque = _OPAQUE.fullmatch(kind)
    if opaque is not None:
        return f"|V{opaque[1]}"
    match = _BITS.fullmatch(kind)
    if match is None:
        return _WORDS.get(kind, kind)
    size = int(match[3]) // 8
    return f"{match[1] if size > 1 else '|'}{match[2]}{size}"


# ---- files -----------------------------------------------------------------------------------------------------------

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
        Whether it can grow.
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
        The array as stored, with strings as ``str``. It can be the data of an HDMF container, which then links to it or
        copies it. Strings, and all data of a file in the draft format of 2018, are copied, because a link to them would
        be misread.
    dimensions : tuple of str
        Absolute paths of its dimensions; empty for a scalar.
    attributes : dict
        With their types: NumPy scalars and arrays, text, lists of text. bool is ``uint8``; dates are text, and the unit
        of dates in ``a`` is in ``a.units``.
    kind : str
        netCDF's name of its type: ``"short"``, ``"double"``, ``"char"``, ``"string"``, ``"opaque(29)"``,
        ``"_Complex"``.
    typedef : str or None
        Path of its named type, as in the draft of 2018, or ``/_Complex``.
    user_type : NetcdfType or None
        The named type, if a group defines it.
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
        """Return the values in the types of netCDF.

        Returns
        -------
        array or scalar
            Strings are ``str``; bool is ``uint8``; dates are ISO 8601 text and durations numbers in text, with their
            unit in the attribute ``units``; complex numbers are rows of ``r`` and ``i``; all other values are as
            stored.

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
        As for `NetcdfVariable`.
    dimensions, variables, groups : dict
        By name.
    typedefs : dict of str to NetcdfType
        The types that the group defines, by name; with ``_Complex`` in the root if a variable has complex numbers.
    version : str or None
        For the root: the version of NCZarr recorded in the file.
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


@known_arguments
def open_netcdf(source: Any, *, storage_options: Mapping[str, Any] | None = None) -> NetcdfGroup:
    """Return the root group of a file of Zarr format 2, written by netcdf-c or another program.

    Parameters
    ----------
    source : str, Path, mapping, zarr.abc.store.Store or zarr.Group
        The file.
    storage_options : mapping, optional
        For URLs, as for `ZarrIO`.

    Returns
    -------
    NetcdfGroup
        All groups, dimensions, variables and attributes, from the metadata only; the values of a variable are read on
        access.

    Raises
    ------
    StoreNotFoundError, NotZarrError
        Nothing exists there, or it is not a Zarr group.
    MetadataError
        A document is damaged; the node is named.
    StoreError
        The file has no consolidated document and the server cannot list keys; or the server does not answer.
    UsageError
        ``source`` cannot contain a Zarr file.
    """
    keys = open_store(source, storage_options)
    root: Node | None = read_draft(keys)
    is_draft = root is not None
    chunks = keys
    if root is None:
        parsed = parse(keys)
        root, chunks = parsed.hierarchy.root, parsed.keys(keys)
    assert isinstance(root, Group)  # as `parse` guarantees
    reader = _Reader(chunks, is_draft=is_draft)
    made = reader.group("", root)
    version = _stored(root, nczarr.SUPERBLOCK).get("version")
    made.version = None if version is None else str(version)
    stack = [("", root, made)]
    while stack:  # not recursive: a file may be nested deeper than the recursion limit
        path, node, group = stack.pop()
        for name, child in sorted(node.members.items()):
            below = join(path, name)
            if isinstance(child, Dataset):
                group.variables[name] = reader.variable(below, child)
            else:
                group.groups[name] = reader.group(below, child)
                stack.append((below, child, group.groups[name]))
    reader.give_types(made)
    return made


@dataclass(slots=True)
class _Reader:
    keys: Store
    is_draft: bool
    cache: ChunkCache = field(default_factory=lambda: ChunkCache(_CACHE_BYTES))
    types: dict[str, NetcdfType] = field(default_factory=dict)
    typed: list[NetcdfVariable] = field(default_factory=list)

    def group(self, path: str, node: Group[Attributes]) -> NetcdfGroup:
        stored = _stored(node, nczarr.GROUP)
        dimensions = stored.get("dimensions", stored.get("dims"))
        found = NetcdfGroup(absolute(path), self._attributes(path, node))
        for name, size in dict(dimensions or {}).items():
            is_plain = not isinstance(size, dict)
            length, unlimited = (size, False) if is_plain else (size.get("size", 0), bool(size.get("unlimited")))
            found.dimensions[name] = NetcdfDimension(name, int(length), unlimited)
        found.typedefs = defined_types(path, stored.get(TYPEDEFS, {}) if self.is_draft else {}, found.attributes)
        self.types |= {defined.path: defined for defined in found.typedefs.values()}
        return found

    def variable(self, path: str, node: Dataset[Attributes]) -> NetcdfVariable:
        data = lazy_array(self.keys, path, node, self.cache, is_draft=self.is_draft)
        stored = numpy_dtype(node.stored.data_type)
        attributes = units_of(stored) | self._attributes(path, node)
        typedef = node.stored.extra.get("typedef")
        found = NetcdfVariable(absolute(path), data, self._dimensions(path, node), attributes, kind_of(stored), typedef)
        if typedef is not None or found.kind == COMPLEX:
            self.typed.append(found)
        return found

    def give_types(self, root: NetcdfGroup) -> None:
        """Set the types that groups define on the variables; all complex numbers have one type, the widest."""
        widths = [found.data.dtype for found in self.typed if found.kind == COMPLEX]
        if widths:
            made = complex_type(max(widths, key=lambda dtype: dtype.itemsize))
            root.typedefs[COMPLEX] = self.types[made.path] = made
        for found in self.typed:
            found.typedef = absolute(COMPLEX) if found.kind == COMPLEX else str(found.typedef)
            found.user_type = self.types.get(found.typedef)

    def _dimensions(self, path: str, node: Dataset[Attributes]) -> tuple[str, ...]:
        stored = _stored(node, nczarr.ARRAY)
        if stored.get("scalar"):
            return ()
        named = stored.get("dimension_references", stored.get("dimrefs"))
        if isinstance(named, list):
            return tuple(map(str, named))
        parent = path.rpartition("/")[0]
        names = node.attributes.get(DIMENSIONS)
        if names == [_SCALAR_DIMENSION]:
            return ()
        if not isinstance(names, list) or len(names) != len(node.stored.shape):
            names = [f"_anonymous{n}" for n in node.stored.shape]
        return tuple(absolute(join(parent, str(name))) for name in names)

    def _attributes(self, path: str, node: Node) -> dict[str, Any]:
        shown = {name: value for name, value in node.attributes.items() if not name.startswith("_NCZARR_")}
        types = _stored(node, NCZARR_ATTR).get("types")
        if types is not None:
            shown[NCZARR_ATTR] = {"types": types}
        with at(self.keys, path):
            return as_attributes(decode_attributes(shown, resolve=dict))


def _stored(node: Node, name: str) -> dict[str, Any]:
    """Return the metadata that netcdf-c stored for a node under a name of NCZarr 2.0, or an older name."""
    for holder in (node.attributes, node.extra):
        for key in (name, name.upper()):
            if isinstance(holder.get(key), dict):
                return dict(holder[key])
    return {}
