"""Nodes <-> the metadata documents of Zarr format 3.

A node at ``p`` has the document ``p/zarr.json``; consolidated documents are inside that of the root.
`encoding.data_types`, `encoding.codecs` and `encoding.fills` translate data types, codecs and fill values. What else
differs between nodes, which are as in format 2, and documents is in docs/format/format-3.md, "Differences from format
2"; what the convention cannot express is in the note of the node. In a node, references and rows with text or
references are ``"|O"`` with the filter ``references`` or ``struct``; ``stored_axes`` counts the axes of the document.

``parse_node(encode_node(x)) == x``, except for names of axes that a document does not have, and for a fill value of
zero, which comes back as None. An array that was read keeps its document, with its unknown keys and short forms.

Source: Zarr v3 specification, "Metadata", "Chunk key encoding"; zarr-python for inline consolidated metadata; hdmf-zarr
0.14, storage specification; docs/format for the additions of this package.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from operator import attrgetter
from typing import Any, TypeAlias

from hdmf_zarr_backend.encoding import codecs as codecs_of
from hdmf_zarr_backend.encoding import data_types
from hdmf_zarr_backend.encoding import references as references_of
from hdmf_zarr_backend.encoding.elements import inline_block
from hdmf_zarr_backend.encoding.fills import fill_from_format_3, fill_in_format_3, named
from hdmf_zarr_backend.encoding.references import REFERENCE_3, REFERENCE_TEXTS, element_of_word, is_reference
from hdmf_zarr_backend.encoding.reserved import (
    DIMENSIONS,
    DTYPE,
    LINKS,
    NOTES,
    SPECLOC,
    as_dict,
    notes_of,
    spec_location,
)
from hdmf_zarr_backend.errors import MetadataError, UsageError, ZarrBackendError
from hdmf_zarr_backend.model.element import REFERENCE
from hdmf_zarr_backend.model.nodes import (
    Attributes,
    ChunkKeys,
    Damaged,
    Dataset,
    Group,
    Hierarchy,
    Memo,
    Node,
    Order,
    Original,
    Shape,
    StoredArray,
    checked_grid,
    join,
    split,
)
from hdmf_zarr_backend.options import ChunkKeyEncoding

DOCUMENT = "zarr.json"
CONSOLIDATED = "consolidated_metadata"  # key of the consolidated documents in that of the root
# hdmf-zarr 0.14 has the same minimum: the length of a field cannot grow without writing all rows again.
TEXT_CHARACTERS = 512  # minimum length of text and references in rows, in characters
BLOCK: dict[str, Any] = {"kind": "inline", "must_understand": False}  # the consolidated block without its documents
# Keys of documents that the specification defines.
GROUP_KEYS = frozenset({"zarr_format", "node_type", "attributes"})
ARRAY_KEYS = GROUP_KEYS | {
    "shape", "data_type", "chunk_grid", "chunk_key_encoding", "fill_value", "codecs", "storage_transformers",
    "dimension_names",
}  # fmt: skip
_REQUIRED = frozenset({"shape", "data_type", "chunk_grid", "chunk_key_encoding", "codecs"})
_ORDER = (
    "zarr_format", "node_type", "shape", "data_type", "chunk_grid", "chunk_key_encoding", "fill_value", "codecs",
    "attributes",
)  # fmt: skip
_DAMAGE = (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError, RecursionError)
NEW_KEYS = ChunkKeys("default", "/")  # of new arrays
# The encodings of chunk keys by name, each with its default separator.
KEY_ENCODINGS: dict[str, ChunkKeys] = {"default": NEW_KEYS, "v2": ChunkKeys("v2", ".")}
# Agreed upon in hdmf-zarr issue 335 and pull request 336; in 391, scalars got the shape () in place of the mark.
DTYPE_3 = "_DTYPE"
LINKS_3 = "_LINKS"
REFERENCE_FIELDS_3 = "_REFERENCE_FIELDS"
SCALAR_3 = "_SCALAR"  # the mark of scalars in drafts of the convention
_ATTRIBUTES = "attributes"
_AS_TEXT = {"dtype": "json", "text": True}
_TYPE = "type"
_WORD = "word"  # not `zarr_dtype`: hdmf-zarr 0.14 treats an object with that key as a reference
_ONLY_IN_3 = frozenset({DTYPE_3, LINKS_3, REFERENCE_FIELDS_3})
_NESTED = (dict, list)
_NAMES = "dimension_names"
_KEPT = (DTYPE_3, REFERENCE_FIELDS_3, DTYPE, SCALAR_3)
_LARGEST_ELEMENT = 255  # that Blosc has; larger ones, and the output of filters, are treated as bytes
_TRANSFORMERS = "storage_transformers"
Stated: TypeAlias = tuple[Shape, Shape, Any, Any]
# The shape of an array, that of one cell of its grid (a chunk or a shard), and the keys of cells.
Grid: TypeAlias = tuple[Shape, Shape, ChunkKeys]
# Returns the properties of an array that its document states, except for the shape.
_properties: Callable[[StoredArray], tuple[Any, ...]] = attrgetter(
    "data_type", "fill_value", "compressor", "filters", "order", "chunk_keys", "chunks", "shards"
)


def check_document(document: Any, path: str) -> Grid | None:
    """Return the grid that a document states, None if it is of a group; type, codecs and fill value are not checked."""
    kind = document.get("node_type") if isinstance(document, dict) and document.get("zarr_format") == 3 else None
    if kind not in ("array", "group"):
        raise MetadataError(f"{DOCUMENT} is not a document of Zarr format 3", path=path)
    attributes = document.get("attributes")
    if attributes is not None and not isinstance(attributes, dict):
        raise MetadataError("the attributes are not a JSON object", path=path)
    if kind == "group":
        return None
    if not document.keys() >= _REQUIRED:
        raise MetadataError(f"{DOCUMENT} lacks {', '.join(sorted(_REQUIRED - document.keys()))}", path=path)
    grid = document["chunk_grid"]
    configuration = grid.get("configuration") if isinstance(grid, dict) and grid.get("name") == "regular" else None
    if not isinstance(configuration, dict):
        problem = f"the chunk grid {grid!r} is not regular"
        raise MetadataError(problem, path=path, remedy="Write it again with regular chunks.")
    shape, chunks = checked_grid(document["shape"], configuration.get("chunk_shape"), "chunk_shape", path)
    encoding = document["chunk_key_encoding"]
    stated = encoding if isinstance(encoding, dict) else {"name": encoding}
    usual, options = KEY_ENCODINGS.get(str(stated.get("name"))), stated.get("configuration") or {}
    separator = options.get("separator", usual.separator) if usual and isinstance(options, dict) else None
    if usual is None or separator not in (".", "/"):
        raise MetadataError(f"the chunk key encoding {encoding!r} is unknown", path=path)
    codecs = document["codecs"]
    if not isinstance(codecs, list) or not {type(codec) for codec in codecs} <= {dict, str}:
        raise MetadataError(f"codecs {codecs!r} is not a list of codecs", path=path)
    return shape, chunks, usual if separator == usual.separator else ChunkKeys(usual.encoding, separator)


def stated(document: dict[str, Any]) -> Stated:
    """Return shape, that of one cell of the grid (a chunk or a shard), data type and codecs of an array document."""
    cell = document["chunk_grid"]["configuration"]["chunk_shape"]
    return tuple(document["shape"]), tuple(cell), document["data_type"], document["codecs"]


def stated_as_read(stored: StoredArray) -> Stated | None:
    """Return what `stated` does of the document that an array was read from; None if it was changed since."""
    original = stored.original
    return stated(original.document) if original and original.stored == _properties(stored) else None


# ---- the consolidated document --------------------------------------------------------------------------------------


def documents(path: str, node: Node) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield key and document of one node; those of the root are in `last`."""
    if path:
        yield join(path, DOCUMENT), encode_node(node)


def last(hierarchy: Hierarchy, inlined: Mapping[str, bytes], *, consolidate: bool) -> dict[str, dict[str, Any]]:
    """Return the document of the root, which completes the file; as `encoding.registry.Format.last`."""
    root = encode_node(hierarchy.root)
    if not consolidate:
        return {DOCUMENT: root}
    members: dict[str, dict[str, Any]] = {}
    for path, node in hierarchy.walk():
        if path:
            members[path] = encode_node(node)
        # zarr-python writes an empty block for each group, and so does hdmf-zarr 0.14.
        if path and isinstance(node, Group):
            members[path][CONSOLIDATED] = {**BLOCK, "metadata": {}}
    return {DOCUMENT: {**root, CONSOLIDATED: {**BLOCK, "metadata": members, **inline_block(inlined)}}}


def parse_consolidated(document: Any, *, damaged: Damaged | None = None) -> Hierarchy | None:
    """Return the hierarchy for the document of a root, None if it has no consolidated block."""
    block = document.get(CONSOLIDATED) if isinstance(document, dict) else None
    if not isinstance(block, dict) or not isinstance(block.get("metadata"), dict):
        return None
    root = {key: value for key, value in document.items() if key != CONSOLIDATED}
    return _hierarchy({**block["metadata"], "": root}.items(), damaged)


def parse_documents(documents: Mapping[str, Any], *, damaged: Damaged | None = None) -> Hierarchy:
    """Return the hierarchy for ``{key: document}``; ``damaged`` receives the errors of nodes that are left out."""
    named = ((split(key)[0], document) for key, document in documents.items() if split(key)[1] == DOCUMENT)
    return _hierarchy(named, damaged)


def _hierarchy(documents: Iterable[tuple[str, Any]], damaged: Damaged | None) -> Hierarchy:
    nodes: dict[str, Node] = {}
    for path, document in documents:
        try:
            nodes[path] = parse_node(document, path)
        except MetadataError as error:
            if damaged is None:
                raise
            damaged[path] = error
    return Hierarchy.from_flat(nodes, damaged, zarr_format=3)


# ---- documents -> nodes ---------------------------------------------------------------------------------------------


def parse_node(document: Any, path: str) -> Node:
    """Return the node for a ``zarr.json``."""
    if (grid := check_document(document, path)) is not None:
        try:
            return _decode_array(document, *grid)
        except ZarrBackendError as error:  # some of which are ValueErrors or TypeErrors too
            error.locate(path=path)
            raise
        except _DAMAGE as error:
            problem = f"the document contradicts itself ({type(error).__name__}: {error})"
            raise MetadataError(problem, path=path) from error
    extra = {key: document[key] for key in document if key not in GROUP_KEYS and key != CONSOLIDATED}
    return Group(decode_values(document.get("attributes") or {}), {}, extra, keeps_attributes=True)


def _decode_array(document: dict[str, Any], shape: Shape, cell: Shape, keys: ChunkKeys) -> Dataset:
    stated = document.get("attributes") or {}
    noted, fill_value = notes_of(stated).get(_TYPE), named(document.get("fill_value"))
    if fill_value != document.get("fill_value"):
        document = {**document, "fill_value": fill_value}
    described = _decode(document["data_type"], document["codecs"], fill_value, len(shape), noted)
    chain, data_type, fill_value, default, is_text = described
    if chain.chunks is not None and any(n % c for n, c in zip(cell, chain.chunks, strict=True)):
        raise MetadataError(f"shards {cell} are not a whole number of chunks {chain.chunks}")
    attributes = decode_values(stated)
    attributes.pop(DTYPE, None)
    zarr_dtype, rows = _decode_word(stated, default, is_text=is_text)
    stored = StoredArray(
        shape=shape,
        chunks=chain.chunks or cell,
        data_type=data_type,
        fill_value=fill_value,
        compressor=chain.compressor,
        filters=chain.filters,
        order=chain.order,
        zarr_format=3,
        chunk_keys=keys,
        shards=None if chain.shards is None else replace(chain.shards, shape=cell),
    )
    node = Dataset(stored, attributes, keeps_attributes=True)
    names = document.get(_NAMES)
    if isinstance(names, list) and any(name is not None for name in names):
        attributes.setdefault(DIMENSIONS, names)
    if is_text and element_of_word(zarr_dtype) is not None:
        stored.filters = [dict(REFERENCE_TEXTS), *(chain.filters or [])[1:]]
        stored.fill_value = None
    _set_word(node, zarr_dtype, rows=rows, is_old=stated.get(DTYPE) == "scalar" or stated.get(SCALAR_3) is True)
    keep_document(node, document)
    return node


def keep_document(node: Dataset, document: dict[str, Any]) -> None:
    """Let a node be encoded as ``document``, which describes it, as long as nothing that it states changes."""
    # attributes are replaced and not changed inside, so a shallow copy is enough
    node.stored.original = Original(document, _properties(node.stored), dict(node.attributes))


@Memo
def _decode(
    stored: Any, codecs: list[Any], fill_value: Any, axes: int, noted: Any
) -> tuple[codecs_of.Chain, Any, Any, Any, bool]:
    """Return codecs, data type and fill value of a node, the ``zarr_dtype`` of that type, and whether it is text."""
    # `noted` is the data type in the note of the node, for types that format 3 cannot express
    chain = codecs_of.decode_codecs(codecs, axes)
    kind = data_types.object_kind(stored)
    if kind is None:
        data_type = data_types.decode_type(stored, chain.endian)
        if noted is not None and data_types.itemsize(noted) == data_types.itemsize(data_type):
            data_type = noted
        default = data_types.word_of_type(data_type)
        if isinstance(data_type, list) and data_types.is_mixed(data_type):
            one_order = {"id": codecs_of.BYTE_ORDER, "stored": data_types.little(data_type)}
            chain = replace(chain, filters=[one_order, *(chain.filters or [])])
    else:
        data_type, default = "|O", "str" if kind == data_types.STRING else "bytes"
        first = chain.filters[0]["id"] if chain.filters else None
        if first not in ("vlen-utf8", "vlen-bytes"):
            raise MetadataError(f"elements of type {stored!r} are stored with {first or 'bytes'!r}")
    return chain, data_type, fill_from_format_3(fill_value, data_type, stored), default, kind == data_types.STRING


def _set_word(node: Dataset, zarr_dtype: Any, *, rows: bool, is_old: bool) -> None:
    """Set ``zarr_dtype`` and the axes of a node; ``is_old``: marked as a scalar as in format 2 or in drafts."""
    stored = node.stored
    attributes = node.attributes
    noted = notes_of(attributes)
    notes = {key: value for key, value in noted.items() if key not in (_WORD, _TYPE, "rows")}
    scalar = not stored.shape
    if rows:
        # structured elements become objects with an axis of fields, which is always the last one
        notes["rows"] = True
        known = {str(field.get("name")): field.get("dtype") for field in zarr_dtype if isinstance(field, dict)}
        fields = []
        for name, inner, *_ in stored.data_type:
            kind = "text" if element_of_word(known.get(name)) is None else "reference"
            fields.append([name, inner, kind if isinstance(inner, str) and inner[1:2] in "US" else "number"])
        axes = stored.stored_axes = len(stored.shape)
        stored.order = codecs_of.order_of([*codecs_of.axes_in_order(stored.order, axes), axes])
        stored.shape, stored.chunks = ((*(n or (1,)), len(fields)) for n in (stored.shape, stored.chunks))
        if stored.shards is not None:
            stored.shards = replace(stored.shards, shape=(*stored.shards.shape, len(fields)))
        stored.filters = [{"id": codecs_of.STRUCT, "fields": fields}, *(stored.filters or [])]
        stored.data_type, stored.fill_value = "|O", None
    elif scalar:  # a node has one axis where the document has none
        stored.shape, stored.chunks, stored.stored_axes = (1,), (1,), 0
        if stored.shards is not None:
            stored.shards = replace(stored.shards, shape=(1,))
    # of rows and references, the ``zarr_dtype`` is their type also where they are scalars
    has_word = isinstance(zarr_dtype, list) or (isinstance(zarr_dtype, str) and element_of_word(zarr_dtype) is not None)
    if scalar and (noted.get(_WORD) is not None or has_word):
        notes["scalar"] = True
    elif scalar:
        zarr_dtype = "scalar"
    elif is_old and stored.size == 1:
        zarr_dtype = zarr_dtype if has_word else "scalar"
        attributes.pop(SCALAR_3, None)
    attributes.pop(NOTES, None)
    attributes.update({DTYPE: zarr_dtype, NOTES: notes} if notes else {DTYPE: zarr_dtype})


# ---- nodes -> documents ---------------------------------------------------------------------------------------------


def encode_node(node: Node) -> dict[str, Any]:
    """Return the ``zarr.json`` of a node."""
    if isinstance(node, Dataset):
        return _encode_array(node)
    attributes = encode_values(node.attributes)
    return {"zarr_format": 3, "node_type": "group", "attributes": attributes, **node.extra}


def check_key_encoding(encoding: ChunkKeyEncoding | None, zarr_format: int) -> None:
    """Refuse an encoding of chunk keys for format 2."""
    if encoding is not None and zarr_format != 3:
        raise UsageError(
            "only Zarr format 3 has chunk_key_encoding: the keys of format 2, and of both formats, are those of 'v2'",
            remedy="Write with zarr_format=3, or leave chunk_key_encoding out.",
            remedy_cli="Use --zarr-format 3, or leave --chunk-key-encoding out.",
        )


def key_encoding_of(hierarchy: Hierarchy) -> ChunkKeyEncoding:
    """Return the encoding for keys of new chunks in a file: ``v2`` if the keys of all its arrays have one level."""
    arrays = [node for _, node in hierarchy.arrays()]
    return "v2" if arrays and all(node.stored.chunk_keys.separator == "." for node in arrays) else "default"


def _encode_array(node: Dataset) -> dict[str, Any]:
    stored = node.stored
    original = stored.original
    if original is None:
        return _made_document(node)
    before = original.document
    if original.stored != _properties(stored):  # the keys that other programs have added stay
        new = _made_document(node)
        return {**new, **{key: before[key] for key in before if key not in ARRAY_KEYS or key == _TRANSFORMERS}}
    document = {**before, "shape": list(stored.stored_shape)}
    if node.attributes != original.attributes:
        attributes: Attributes = _made_document(node)["attributes"]
        if node.attributes.get(DTYPE) == original.attributes.get(DTYPE):  # others may spell it otherwise
            for key in _KEPT:
                attributes.pop(key, None)
            stated = before.get("attributes") or {}
            attributes = {**{key: stated[key] for key in _KEPT if key in stated}, **attributes}
        document["attributes"] = attributes
        if _NAMES in before and DIMENSIONS in attributes:
            document[_NAMES] = attributes[DIMENSIONS]
    return {**{key: document[key] for key in _ORDER if key in document}, **document}


def _made_document(node: Dataset) -> dict[str, Any]:
    # hdmf-zarr 0.14 and zarr-python cannot read a node without a fill value, so there is always one.
    axes, array = len(node.stored.stored_shape), node.stored
    parts = _encode(array.data_type, array.filters, array.compressor, array.order, axes, array.fill_value)
    data_type, codecs, fill_value, default, noted = parts
    attributes = _encode_array_attributes(node, default)
    if noted is not None:
        attributes[NOTES] = {**notes_of(attributes), _TYPE: noted}
    chunks = node.stored.chunks[:axes]
    if node.stored.shards is not None:
        codecs = codecs_of.encode_sharded(chunks, codecs, node.stored.shards)
        chunks = node.stored.shards.shape[:axes]
    keys = node.stored.chunk_keys
    names = attributes.get(DIMENSIONS)
    # xarray moved to `dimension_names` for format 3 (xarray issue 9668), hdmf-zarr 0.14 writes the attribute only.
    # Writing both harms neither.
    has_names = isinstance(names, list) and len(names) == axes > 0
    return {
        "zarr_format": 3,
        "node_type": "array",
        "shape": list(node.stored.stored_shape),
        "data_type": data_type,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list(chunks)}},
        "chunk_key_encoding": {"name": keys.encoding, "configuration": {"separator": keys.separator}},
        "fill_value": fill_value,
        "codecs": codecs,
        "attributes": attributes,
        **({_NAMES: names} if has_names else {}),
        _TRANSFORMERS: [],
    }


@Memo
def _encode(
    data_type: Any, filters: Any, compressor: Any, order: Order, axes: int, fill_value: Any
) -> tuple[Any, list[dict[str, Any]], Any, Any, Any]:
    """Return data type, codecs and fill value of a document, ``zarr_dtype`` of the type, and the type for a note."""
    first = (filters or [{}])[0]
    known = plain = data_type
    if first.get("id") == codecs_of.STRUCT:
        known = plain = codecs_of.field_types(first["fields"])
    elif first.get("id") == codecs_of.BYTE_ORDER:
        plain = first["stored"]
    if plain == "|O":
        stored: Any = data_types.BYTES if first.get("id") == "vlen-bytes" else data_types.STRING
        default: Any = "str" if stored == data_types.STRING else "bytes"
        endian, itemsize, noted = None, 1, None
    else:
        stored, default = data_types.encode_type(plain), data_types.word_of_type(plain)
        endian, itemsize = data_types.endian_of(plain), data_types.itemsize(plain)
        noted = known if data_types.decode_type(stored, endian) != known else None
    if filters or itemsize > _LARGEST_ELEMENT:
        itemsize = 1
    permutation = codecs_of.axes_in_order(order, axes)
    codecs = codecs_of.encode_codecs(
        filters, compressor, is_object=data_type == "|O", axes=permutation, endian=endian, itemsize=itemsize
    )
    return stored, codecs, fill_in_format_3(fill_value, known, stored), default, noted


# ---- new arrays -----------------------------------------------------------------------------------------------------


def store_in_format_3(node: Dataset, widths: dict[str, int]) -> None:
    """Convert the node of a new array from format 2 to format 3."""
    stored = node.stored
    stored.zarr_format, stored.chunk_keys = 3, NEW_KEYS
    stored.extra, node.keeps_attributes = {}, True
    notes = notes_of(node.attributes)
    filters = stored.filters or []
    if notes.get("rows") is True:
        stored.stored_axes = len(stored.shape) - 1
        stored.filters = [{"id": codecs_of.STRUCT, "fields": row_fields(node, widths)}, *filters[1:]]
    elif stored.data_type == "|O":
        if element_of_word(node.attributes.get(DTYPE)) is not None:
            stored.filters = [dict(REFERENCE_TEXTS), *filters[1:]]
    elif data_types.is_mixed(stored.data_type):
        stored.filters = [{"id": codecs_of.BYTE_ORDER, "stored": data_types.little(stored.data_type)}, *filters]
    if node.attributes.get(DTYPE) == "scalar" or (notes.get("scalar") is True and stored.shape[:1] == (1,)):
        stored.stored_axes = 0
    if len(stored.stored_shape) < 2:
        stored.order = "C"


def row_fields(node: Dataset, widths: dict[str, int]) -> list[Any]:
    """Return name, data type and kind of the fields of new rows; ``widths`` as for `store_in_format_3`."""
    fields = []
    for field in node.attributes.get(DTYPE) or ():
        name, dtype_name = str(field["name"]), field["dtype"]
        if isinstance(dtype_name, str) and dtype_name in data_types.NUMBERS:
            fields.append([name, data_types.decode_type(dtype_name), "number"])
        else:
            kind = "text" if element_of_word(dtype_name) is None else "reference"
            fields.append([name, f"<U{max(TEXT_CHARACTERS, widths.get(name, 0))}", kind])
    return fields


def has_records(stored: StoredArray) -> bool:
    """Tell whether an array has rows with text or references that are stored as records with fields of fixed length."""
    return stored.first_filter.get("id") == codecs_of.STRUCT


def row_bytes(stored: StoredArray) -> int | None:
    """Return the bytes of a stored row, None for an array without records."""
    return data_types.itemsize(codecs_of.field_types(stored.first_filter["fields"])) if has_records(stored) else None


# ---- attributes -----------------------------------------------------------------------------------------------------


def encode_values(attributes: Attributes) -> Attributes:
    """Return the format-3 attributes of a group, or of an array except for those about its type."""
    encoded = {key: value for key, value in attributes.items() if key not in (DTYPE, LINKS)}
    if LINKS in attributes:
        encoded[LINKS_3] = attributes[LINKS]
    nested = {key: value for key, value in encoded.items() if isinstance(value, _NESTED) and key != LINKS_3}
    plain = as_dict(notes_of(attributes).get(_ATTRIBUTES)) if nested else {}  # JSON of the user, whatever its content
    encoded.update({key: references_of.to_zarr3(value) for key, value in nested.items() if key not in plain})
    # a user's JSON that hdmf-zarr 0.14 would mistake for a reference, and fail to read the file
    marked = [key for key, value in nested.items() if isinstance(value, dict) and {DTYPE, REFERENCE_3} & value.keys()]
    mistaken = [key for key in marked if key in plain or not is_reference(nested[key])]
    if mistaken:
        notes = notes_of(attributes)
        remarks = as_dict(notes.get(_ATTRIBUTES)) | dict.fromkeys(mistaken, _AS_TEXT)
        encoded[NOTES] = {**notes, _ATTRIBUTES: remarks}
        encoded.update({key: json.dumps(attributes[key]) for key in mistaken})
    return encoded


def decode_values(attributes: Attributes) -> Attributes:
    """Return the attributes of a group node, or of an array node except for those about its type."""
    decoded = {key: value for key, value in attributes.items() if key not in _ONLY_IN_3}
    nested = {key: references_of.from_zarr3(value) for key, value in decoded.items() if type(value) in _NESTED}
    if any(value is not decoded[key] for key, value in nested.items()):  # there are references
        plain = as_dict(notes_of(attributes).get(_ATTRIBUTES))
        decoded.update({key: value for key, value in nested.items() if key not in plain})
    if LINKS_3 in attributes:
        decoded[LINKS] = attributes[LINKS_3]
    if isinstance(decoded.get(SPECLOC), dict):  # it is a reference
        decoded[SPECLOC] = spec_location(decoded[SPECLOC])
    return decoded


def _encode_array_attributes(node: Dataset, default: Any) -> Attributes:
    """Return the format-3 attributes of an array; ``default`` is the ``zarr_dtype`` of its data type."""
    encoded = encode_values(node.attributes)
    notes = dict(notes_of(encoded))
    zarr_dtype, axes, rows = node.attributes.get(DTYPE), node.stored.stored_axes, has_records(node.stored)
    usual = default  # which needs no note
    if axes == 0:
        notes.pop("scalar", None)
    notes.pop("rows", None)
    if isinstance(default, list):
        fields = zarr_dtype if isinstance(zarr_dtype, list) else []
        references = [field["name"] for field in fields if _is_reference_field(field)]
        if references:
            encoded[REFERENCE_FIELDS_3] = references
        if _looks_like_rows(default, references) != rows:
            notes["rows"] = rows
        usual = _default_fields(default, references) if rows else default
    elif zarr_dtype is not None:
        stated = default if zarr_dtype == "scalar" else zarr_dtype
        encoded[DTYPE_3] = references_of.OBJECT_REFERENCE if zarr_dtype == "object" else stated
        usual = zarr_dtype if zarr_dtype in ("object", "region", "scalar") else None if axes == 0 else default
    if zarr_dtype is not None and zarr_dtype != usual:
        notes[_WORD] = zarr_dtype
    encoded.pop(NOTES, None)
    if notes:
        encoded[NOTES] = notes
    if axes is not None and isinstance(names := encoded.get(DIMENSIONS), list):
        encoded[DIMENSIONS] = names[:axes]
        if not axes:
            del encoded[DIMENSIONS]
    return encoded


def _is_reference_field(field: Any) -> bool:
    return isinstance(field, dict) and element_of_word(field.get("dtype")) == REFERENCE


def _default_fields(default: list[Any], references: list[str]) -> list[dict[str, Any]]:
    """Return the ``zarr_dtype`` of rows for the data type and the names of reference fields."""
    words = {field["name"]: "str" if str(field["dtype"]).startswith("str") else field["dtype"] for field in default}
    return [{"name": name, "dtype": "object" if name in references else word} for name, word in words.items()]


def _looks_like_rows(default: list[Any], references: Any) -> bool:
    """Tell whether a structured type has rows with text or references; ``default`` as from `word_of_type`."""
    # with text these have numbers only; other programs, hdmf-zarr 0.14 too, have records with dates and records in them
    others = [str(field["dtype"]) for field in default if not str(field["dtype"]).startswith("str")]
    return bool(references) or (len(others) < len(default) and set(others) <= data_types.NUMBERS.keys())


def _decode_word(attributes: Attributes, default: Any, *, is_text: bool) -> tuple[Any, bool]:
    """Return ``zarr_dtype`` of an array with axes, and whether it has rows with text or references."""
    # `convert_to_v3` of hdmf-zarr 0.14 leaves `zarr_dtype` in format 3 and writes no `_DTYPE`.
    notes, old = notes_of(attributes), attributes.get(DTYPE)
    kept = notes.get(_WORD)
    if not isinstance(default, list):
        stated = attributes.get(DTYPE_3, old)
        if is_text and stated in ("object", "region", references_of.OBJECT_REFERENCE):
            default = "region" if stated == "region" else "object"
        return default if kept is None else kept, False
    fields = attributes.get(REFERENCE_FIELDS_3)
    rows = notes.get("rows")
    if not isinstance(rows, bool):
        rows = _looks_like_rows(default, fields or (isinstance(old, list) and any(map(_is_reference_field, old))))
    if kept is None and isinstance(old, list) and old:
        kept = old
    if kept is None:
        kept = _default_fields(default, fields if isinstance(fields, list) else []) if rows else default
    return kept, rows
