"""Nodes in format-2 form <-> nodes of documents of format 3.

The model holds every array in its *format-2 form*, so that reading, planning, appending, comparing and exporting know
one form only. The two forms differ in what `zarr3_types`, `zarr3_codecs` and `zarr3_attributes` translate, and in this:

=====================  =========================================  ===================================================
what                   format-2 form                              format-3 document
=====================  =========================================  ===================================================
scalar                 shape ``(1,)``                             shape ``()``
references             ``"|O"`` with the filter ``references``    ``string``
rows with text or      ``"|O"``, shape ``(n, k)``, with the       ``struct``, shape ``(n,)``; text of fixed length
references             filter ``struct``
no fill value          ``null``                                   the zero of the type
names of dimensions    ``_ARRAY_DIMENSIONS``                      the same, and ``dimension_names``
=====================  =========================================  ===================================================

``canonical(documented(x)) == x`` except for the names of the axes that format 3 does not have, and for a fill value of
zero, which comes back as none. A node that was read keeps its document; what is not changed in it is written as it was.

Source: hdmf-zarr 0.14, storage specification; docs/format for what this package adds to it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any

from hdmf_zarr_backend.errors import MetadataError, ZarrBackendError
from hdmf_zarr_backend.formats import zarr3, zarr3_attributes, zarr3_codecs, zarr3_types
from hdmf_zarr_backend.formats.reserved import DIMENSIONS, DTYPE, NOTES, notes_of
from hdmf_zarr_backend.formats.zarr3_codecs import Chain
from hdmf_zarr_backend.model.memo import Memo
from hdmf_zarr_backend.model.nodes import ArrayNode, Attributes, GroupNode, Hierarchy, Node, Original, absolute, join

_LARGEST_ELEMENT = 255
"""That Blosc knows; it takes larger ones, and what a filter has made, for bytes."""


@dataclass(slots=True, frozen=True)
class DecodedForm:
    """Data type, codecs and fill value of a format-3 document in their format-2 form; arrays share it unchanged.

    Attributes
    ----------
    chain : Chain
        The codecs.
    filters : list of dict or None
        Those of the chain, and the one for rows of both byte orders.
    data_type, fill_value : object
        Of format 2.
    default : object
        The ``zarr_dtype`` that follows from the data type.
    is_text : bool
        Whether elements are text, which references are stored as.
    """

    chain: Chain
    filters: list[dict[str, Any]] | None
    data_type: Any
    fill_value: Any
    default: Any
    is_text: bool


def _decode(stored: Any, codecs: list[Any], fill_value: Any, axes: int, noted: Any) -> DecodedForm:
    chain = zarr3_codecs.decode_codecs(codecs, axes)
    filters = chain.filters
    kind = zarr3_types.object_kind(stored)
    if kind is None:
        data_type = zarr3_types.decode_type(stored, chain.endian)
        if noted is not None and zarr3_types.itemsize(noted) == zarr3_types.itemsize(data_type):
            data_type = noted
        default = zarr3_types.word_of_type(data_type)
        if isinstance(data_type, list) and zarr3_types.is_mixed(data_type):
            filters = [zarr3_codecs.byte_order_filter(data_type), *(filters or [])]
    else:
        data_type, default = "|O", "str" if kind == zarr3_types.STRING else "bytes"
        _check_objects(stored, filters)
    fill = zarr3_types.decode_fill(fill_value, data_type, stored)
    return DecodedForm(chain, filters, data_type, fill, default, kind == zarr3_types.STRING)


decode_form: Memo[DecodedForm] = Memo(_decode)
"""Returns the format-2 form of ``(data type, codecs, fill value, number of axes, noted type)`` of a format-3 document.

The noted type is the data type in the note of the array or None; it counts where format 3 cannot express a type.

Raises
------
MetadataError
    A data type, codec or fill value that this package does not know.
"""


def _check_objects(stored: Any, filters: list[dict[str, Any]] | None) -> None:
    first = filters[0]["id"] if filters else None
    if first not in ("vlen-utf8", "vlen-bytes"):
        raise MetadataError(
            f"elements of type {stored!r} are stored with {first or 'bytes'!r}", remedy="Run `zarrio verify`."
        )


@dataclass(slots=True, frozen=True)
class EncodedForm:
    """Data type, codecs and fill value for a format-3 document; documents share it unchanged.

    Attributes
    ----------
    data_type, codecs, fill_value : object
        As in the document; the codecs are those of a chunk.
    default : object
        The ``zarr_dtype`` that follows from the data type.
    noted : object
        The data type for the note, where format 3 cannot express it.
    """

    data_type: Any
    codecs: list[dict[str, Any]]
    fill_value: Any
    default: Any
    noted: Any


def _encode(data_type: Any, filters: Any, compressor: Any, order: str, axes: int, fill_value: Any) -> EncodedForm:
    first = (filters or [{}])[0]
    known = plain = data_type
    if first.get("id") == zarr3_codecs.STRUCT:
        known = plain = zarr3_codecs.field_types(first["fields"])
    elif first.get("id") == zarr3_codecs.BYTE_ORDER:
        plain = first["stored"]
    if plain == "|O":
        stored: Any = zarr3_types.BYTES if first.get("id") == "vlen-bytes" else zarr3_types.STRING
        default: Any = "str" if stored == zarr3_types.STRING else "bytes"
        endian, itemsize, noted = None, 1, None
    else:
        stored, default = zarr3_types.encode_type(plain), zarr3_types.word_of_type(plain)
        endian, itemsize = zarr3_types.endian_of(plain), zarr3_types.itemsize(plain)
        noted = known if zarr3_types.decode_type(stored, endian) != known else None
    if filters or itemsize > _LARGEST_ELEMENT:
        itemsize = 1
    codecs = zarr3_codecs.encode_codecs(
        filters,
        compressor,
        is_object=data_type == "|O",
        transposed=axes if order == "F" else 0,
        endian=endian,
        itemsize=itemsize,
    )
    return EncodedForm(stored, codecs, zarr3_types.encode_fill(fill_value, known, stored), default, noted)


encode_form: Memo[EncodedForm] = Memo(_encode)
"""Returns the format-3 form of ``(data type, filters, compressor, order, number of axes, fill value)`` of format 2.

Raises
------
UsageError
    Format 3 cannot express a filter.
"""


TEXT_CHARACTERS = 512
"""Least length of text and references in rows, in characters."""

_TYPE, _WORD = "type", "word"
_REFERENCE_WORDS = ("object", "region")
_NAMES = "dimension_names"
_KEPT = (zarr3_attributes.DTYPE_3, zarr3_attributes.REFERENCE_FIELDS_3, DTYPE, "_SCALAR")


# ---- format 3 -> format 2 -------------------------------------------------------------------------------------------


def canonical_hierarchy(hierarchy: Hierarchy) -> Hierarchy:
    """Return a hierarchy in its format-2 form.

    Raises
    ------
    MetadataError
        A document has something that this package does not know; the node is named.
    """
    root = _canonical(hierarchy.root, "", "")
    groups = [("", hierarchy.root, root)]
    while groups:  # no recursion: a file may be nested deeper than Python's calls
        path, there, here = groups.pop()
        if isinstance(there, GroupNode) and isinstance(here, GroupNode):
            for name, child in there.members.items():
                made = here.members[name] = _canonical(child, path, name)
                if isinstance(made, GroupNode):
                    groups.append((join(path, name), child, made))
    return Hierarchy(root, zarr_format=3)


def _canonical(node: Node, parent: str, name: str) -> Node:
    """Return a node in its format-2 form; a group without its members."""
    if isinstance(node, GroupNode):
        extra = {key: value for key, value in node.extra.items() if key != zarr3.CONSOLIDATED}
        return GroupNode(zarr3_attributes.decode_values(node.attributes), {}, extra, keeps_attributes=True)
    try:
        return canonical(node)
    except ZarrBackendError as error:
        raise error.located(path=absolute(join(parent, name))) from error.__cause__


def canonical(node: ArrayNode[Attributes]) -> ArrayNode[Attributes]:
    """Return an array in its format-2 form, with its document.

    Raises
    ------
    MetadataError
        A data type, codec or fill value that this package does not know.
    """
    try:
        return _canonical_array(node)
    except ZarrBackendError:
        raise  # some errors of this package are ValueErrors or TypeErrors too
    except _DAMAGE as error:
        raise MetadataError(
            f"the document contradicts itself ({type(error).__name__}: {error})", remedy="Run `zarrio verify`."
        ) from error


_DAMAGE = (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError, RecursionError)


def _canonical_array(node: ArrayNode[Attributes]) -> ArrayNode[Attributes]:
    noted = notes_of(node.attributes).get(_TYPE)
    form = decode_form(node.data_type, node.codecs or [], node.fill_value, len(node.shape), noted)
    chain = form.chain
    _check_shards(node.chunks, chain.chunks)
    attributes, rows = zarr3_attributes.decode_array_attributes(node.attributes, form.default)
    word = zarr3_attributes.decode_word(node.attributes, form.default, rows=rows, is_text=form.is_text)
    made: ArrayNode[Attributes] = ArrayNode(
        shape=node.shape,
        chunks=chain.chunks or node.chunks,
        data_type=form.data_type,
        fill_value=form.fill_value,
        compressor=chain.compressor,
        filters=form.filters,
        order=chain.order,
        separator=node.separator,
        attributes=attributes,
        keeps_attributes=True,
        prefix=node.prefix,
        shards=None if chain.shards is None else replace(chain.shards, shape=node.chunks),
    )
    if _NAMES in node.extra and DIMENSIONS not in attributes:
        _take_names(attributes, node.extra[_NAMES])
    if form.is_text and word in _REFERENCE_WORDS:
        made.filters = [{"id": zarr3_codecs.REFERENCES}, *(form.filters or [])[1:]]
        made.fill_value = None
    _set_word(made, word, rows=rows, is_old=zarr3_attributes.is_old_scalar(node.attributes))
    # attributes are set anew and not changed inside, so a shallow copy stays what was read
    made.original = Original(node, _stored_form(made), dict(made.attributes))
    return made


def _check_shards(shards: tuple[int, ...], chunks: tuple[int, ...] | None) -> None:
    if chunks is not None and any(n % c for n, c in zip(shards, chunks, strict=True)):
        raise MetadataError(f"shards {shards} hold no whole chunks {chunks}", remedy="Run `zarrio verify`.")


def _take_names(attributes: Attributes, names: Any) -> None:
    if isinstance(names, list) and names and any(name is not None for name in names):
        attributes[DIMENSIONS] = names


def _set_word(node: ArrayNode[Attributes], word: Any, *, rows: bool, is_old: bool) -> None:
    """Give an array ``zarr_dtype`` and the axes of its format-2 form; ``is_old``: old files may mark it as a scalar."""
    attributes = node.attributes
    notes = dict(notes_of(attributes))
    is_noted = notes.pop(_WORD, None) is not None
    notes.pop(_TYPE, None)
    notes.pop("rows", None)
    scalar = not node.shape
    if rows:
        notes["rows"] = True
        _add_field_axis(node, fields_of(node.data_type, word))
    elif scalar:
        _add_axis(node)
    if scalar and (is_noted or _keeps_word(word)):
        notes["scalar"] = True
    elif scalar:
        word = "scalar"
    elif is_old and node.size == 1:
        word = word if _keeps_word(word) else "scalar"
        zarr3_attributes.drop_marks(attributes)
    attributes.pop(NOTES, None)
    attributes.update({DTYPE: word, NOTES: notes} if notes else {DTYPE: word})


def _keeps_word(word: Any) -> bool:
    """Tell whether a scalar of a type has that type as its ``zarr_dtype``, and not "scalar": rows and references."""
    return isinstance(word, list) or word in _REFERENCE_WORDS


def _add_axis(node: ArrayNode[Attributes]) -> None:
    """Give a scalar the one axis of its format-2 form."""
    node.shape, node.chunks, node.key_axes = (1,), (1,), 0
    if node.shards is not None:
        node.shards = replace(node.shards, shape=(1,))


def _add_field_axis(node: ArrayNode[Attributes], fields: list[Any]) -> None:
    """Make objects with an axis of fields of structured elements."""
    node.key_axes = len(node.shape)
    node.shape, node.chunks = ((*(n or (1,)), len(fields)) for n in (node.shape, node.chunks))
    if node.shards is not None:
        node.shards = replace(node.shards, shape=(*node.shards.shape, len(fields)))
    node.filters = [zarr3_codecs.struct_filter(fields), *(node.filters or [])]
    node.data_type, node.fill_value = "|O", None


def _is_reference(word: Any) -> bool:
    return isinstance(word, dict) or word in _REFERENCE_WORDS


def fields_of(data_type: list[Any], zarr_dtype: Any) -> list[Any]:
    """Return name, data type and kind of the fields of rows that are stored as ``data_type``."""
    known = {str(field.get("name")): field.get("dtype") for field in zarr_dtype if isinstance(field, dict)}
    fields = []
    for name, inner, *_ in data_type:
        word = known.get(name)
        is_reference = _is_reference(word)
        is_text = isinstance(inner, str) and inner[1:2] in "US"
        fields.append([name, inner, ("reference" if is_reference else "text") if is_text else "number"])
    return fields


# ---- format 2 -> format 3 -------------------------------------------------------------------------------------------


def documented_group(node: GroupNode[Attributes]) -> GroupNode[Attributes]:
    """Return a group as its format-3 document states it."""
    return GroupNode(zarr3_attributes.encode_values(node.attributes), node.members, node.extra, keeps_attributes=True)


def documented(node: ArrayNode[Attributes]) -> ArrayNode[Attributes]:
    """Return an array as its format-3 document states it.

    Parameters
    ----------
    node : ArrayNode
        In its format-2 form, as `adapt` makes it.

    Raises
    ------
    UsageError
        Format 3 cannot express a filter.
    """
    original, before = node.original, node.document
    if original is not None and before is not None and original.stored == _stored_form(node):
        attributes = before.attributes
        if node.attributes != original.attributes:
            attributes = _attributes_like(node, original)
        elif node.shape[: len(before.shape)] == before.shape:
            return before
        axes = len(before.shape)
        extra = before.extra
        if _NAMES in extra and DIMENSIONS in attributes:
            extra = {**extra, _NAMES: attributes[DIMENSIONS]}
        return replace(before, shape=node.shape[:axes], attributes=attributes, extra=extra)
    made = _documented(node)
    if before is not None:  # keep the keys that other programs have added
        made.extra = {**made.extra, **{key: before.extra[key] for key in before.extra if key not in _STATED}}
    return made


_STATED = frozenset({"fill_value", "chunk_grid", "chunk_key_encoding", _NAMES})
"""Keys that `zarr3` keeps among the ``extra`` of a node and that are made anew when the node changes."""

_stored_form: Callable[[ArrayNode[Attributes]], tuple[Any, ...]] = attrgetter(
    "data_type", "fill_value", "compressor", "filters", "order", "separator", "prefix", "chunks", "shards"
)


def _attributes_like(node: ArrayNode[Attributes], original: Original) -> Attributes:
    """Return changed attributes, with those that state the type of the array unchanged."""
    attributes = _documented(node).attributes
    if node.attributes.get(DTYPE) == original.attributes.get(DTYPE):
        for key in _KEPT:
            attributes.pop(key, None)
        stored = original.document.attributes
        attributes = {**{key: stored[key] for key in _KEPT if key in stored}, **attributes}
    return attributes


def _documented(node: ArrayNode[Attributes]) -> ArrayNode[Attributes]:
    axes = len(node.shape) if node.key_axes is None else node.key_axes
    stored = encode_form(node.data_type, node.filters, node.compressor, node.order, axes, node.fill_value)
    first = (node.filters or [{}])[0]
    fields = first["fields"] if first.get("id") == zarr3_codecs.STRUCT else None
    attributes = zarr3_attributes.encode_array_attributes(node, stored.default, fields)
    if stored.noted is not None:
        attributes[NOTES] = {**notes_of(attributes), _TYPE: stored.noted}
    codecs, chunks = stored.codecs, node.chunks[:axes]
    if node.shards is not None:
        codecs = zarr3_codecs.encode_sharded(chunks, codecs, node.shards)
        chunks = node.shards.shape[:axes]
    extra: dict[str, Any] = {}
    names = attributes.get(DIMENSIONS)
    if isinstance(names, list) and len(names) == axes and axes:
        extra[_NAMES] = names
    return ArrayNode(
        shape=node.shape[:axes],
        chunks=chunks,
        data_type=stored.data_type,
        fill_value=stored.fill_value,
        separator=node.separator,
        prefix=node.prefix,
        codecs=codecs,
        attributes=attributes,
        extra={**extra, "storage_transformers": []},
        keeps_attributes=True,
    )


# ---- new arrays -----------------------------------------------------------------------------------------------------


def adapt(node: ArrayNode[Attributes], widths: dict[str, int]) -> None:
    """Change a planned array to a form that format 3 can express.

    Parameters
    ----------
    node : ArrayNode
        Of a new array; changed.
    widths : dict of str to int
        Of rows: characters of the longest text of each field that is text or a reference.
    """
    node.prefix, node.separator, node.extra = "c", "/", {}
    node.keeps_attributes = True
    notes = notes_of(node.attributes)
    if notes.get("rows") is True:
        node.key_axes = len(node.shape) - 1
    node.filters = _adapted_filters(node, widths)
    if node.attributes.get(DTYPE) == "scalar" or (notes.get("scalar") is True and node.shape[:1] == (1,)):
        node.key_axes = 0
    axes = len(node.shape) if node.key_axes is None else node.key_axes
    if axes < 2:
        node.order = "C"


def _adapted_filters(node: ArrayNode[Attributes], widths: dict[str, int]) -> list[dict[str, Any]] | None:
    filters = node.filters or []
    if notes_of(node.attributes).get("rows") is True:
        return [zarr3_codecs.struct_filter(row_fields(node, widths)), *filters[1:]]
    if node.data_type == "|O":
        is_reference = node.attributes.get(DTYPE) in _REFERENCE_WORDS
        return [{"id": zarr3_codecs.REFERENCES}, *filters[1:]] if is_reference else node.filters
    if zarr3_types.is_mixed(node.data_type):
        return [zarr3_codecs.byte_order_filter(node.data_type), *filters]
    return node.filters


def row_fields(node: ArrayNode[Attributes], widths: dict[str, int]) -> list[Any]:
    """Return name, data type and kind of the fields of new rows; ``widths`` as of `adapt`."""
    return [_row_field(field, widths) for field in node.attributes.get(DTYPE) or ()]


def _row_field(field: Any, widths: dict[str, int]) -> list[Any]:
    name, word = str(field["name"]), field["dtype"]
    if isinstance(word, str) and word in zarr3_types.NUMBER_NAMES:
        return [name, zarr3_types.decode_type(word), "number"]
    kind = "reference" if _is_reference(word) else "text"
    return [name, f"<U{max(TEXT_CHARACTERS, widths.get(name, 0))}", kind]


def row_bytes(node: ArrayNode[Attributes]) -> int | None:
    """Return the bytes of a stored row, None for an array without rows."""
    first = (node.filters or [{}])[0]
    return zarr3_codecs.struct_itemsize(first["fields"]) if first.get("id") == zarr3_codecs.STRUCT else None
