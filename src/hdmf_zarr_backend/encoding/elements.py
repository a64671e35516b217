"""`describe`: the meaning of a stored array; data types of format 2 and HDMF's names of types <-> `Element`.

The format page has the rules of `describe`, in "What an array means"; `layout` is the inverse, for new arrays. Standard
library only, so that a file can be listed without NumPy. `inline_block` has the small arrays that are read at open.

Source: hdmf-zarr storage specification, "dtype mappings"; files of hdmf-zarr 0.1 to 0.13.
"""

from __future__ import annotations

import base64
import binascii
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

from hdmf_zarr_backend.encoding import data_types
from hdmf_zarr_backend.encoding.hdf5_types import from_note
from hdmf_zarr_backend.encoding.references import element_of_word
from hdmf_zarr_backend.encoding.reserved import DTYPE, HDF5, notes_of
from hdmf_zarr_backend.errors import MetadataError, ValueRefusedError, ZarrBackendError
from hdmf_zarr_backend.model.element import (
    ASCII,
    REFERENCE,
    REGION,
    UTF8,
    ArrayOf,
    Compound,
    Element,
    Enum,
    Number,
    Opaque,
    Precision,
    Reference,
    Sequence,
    Text,
    Time,
    Unknown,
)
from hdmf_zarr_backend.model.nodes import Dataset, Memo, StoredArray

Form: TypeAlias = Literal["plain", "objects", "rows"]

# Other type names of HDMF or ``zarr_dtype`` -> `Kind` of `encoding.dtypes`. hdmf-zarr up to 0.13 wrote what the input
# was, not a type: int, int64, <f8, str_, or nothing at all.
WORDS: dict[str, Literal["text", "ascii", "bytes", "object", "region"]] = {
    "text": "text", "utf": "text", "utf8": "text", "utf-8": "text", "isodatetime": "text", "datetime": "text",
    "str": "text", "str_": "text", "ascii": "ascii", "bytes": "bytes", "bytes_": "bytes", "object": "object",
    "object_": "object", "ref": "object", "reference": "object", "region": "region",
}  # fmt: skip
TIME_WORDS = frozenset({"isodatetime", "datetime"})  # types of text that the note of a dataset records
OPEN_WORDS = frozenset({"numeric", "any"})  # types of HDMF that leave the type to the data
_ELEMENTS: dict[str, Element] = {"text": UTF8, "ascii": ASCII, "bytes": ASCII, "object": REFERENCE, "region": REGION}
_OBJECTS = "|O"
_SHUFFLES = {1: "shuffle", 2: "bitshuffle", -1: "autoshuffle"}  # of Blosc


def type_element(data_type: Any, objects: dict[str, Element] | None = None) -> Element:
    """Return the `Element` for a data type of format 2."""
    try:
        return _type_element(data_type, objects or {}, 0)
    except (TypeError, ValueError) as error:
        raise data_types.unknown_type(data_type, error) from error


def _type_element(data_type: Any, objects: dict[str, Element], depth: int) -> Element:
    if isinstance(data_type, str):
        return data_types.code_element(data_type)
    if depth > data_types.MAX_DEPTH:
        raise TypeError("nested too deep")
    if not isinstance(data_type, list):
        raise TypeError("a data type is a string or a list of fields")
    fields = []
    for name, kind, *rest in data_type:
        if name == "":  # NumPy would rename the field
            raise ValueError("a field has an empty name")
        member = objects.get(str(name), REFERENCE) if kind == _OBJECTS else _type_element(kind, {}, depth + 1)
        if shape := data_types.field_shape(rest):
            member = ArrayOf(member, shape)
        fields.append((str(name), member))
    return Compound(tuple(fields))


def word_element(dtype_name: Any) -> Element:
    """Return the `Element` for the type of a field of rows in ``zarr_dtype``."""
    if (reference := element_of_word(dtype_name)) is not None:
        return reference
    dtype_name = str(dtype_name)
    if dtype_name in WORDS:
        return _ELEMENTS[WORDS[dtype_name]]
    if (number := data_types.NUMBERS.get(data_types.NUMBER_WORDS.get(dtype_name, dtype_name))) is not None:
        return number
    if dtype_name in OPEN_WORDS:
        return UTF8
    try:
        element = data_types.code_element(dtype_name.replace("datetime64", "<M8").replace("timedelta64", "<m8"))
    except ValueError as error:
        raise ValueRefusedError(f"{dtype_name!r} is not a data type of HDMF") from error
    return ASCII if isinstance(element, Text) and element.size is not None else element


def row_fields(zarr_dtype: Any) -> dict[str, Element]:
    """Return the fields of rows by name from their ``zarr_dtype``; hdmf-zarr up to 0.13 repeated some."""
    fields: dict[str, Any] = {}
    for entry in zarr_dtype if isinstance(zarr_dtype, list) else ():
        if isinstance(entry, dict) and "name" in entry:
            fields.setdefault(str(entry["name"]), entry.get("dtype"))
    return {name: word_element(dtype) for name, dtype in fields.items()}


def row_word(element: Element) -> str:
    """Return the type of a field of rows for ``zarr_dtype``; the inverse of `word_element`."""
    if isinstance(element, Text):
        return "str" if element.charset == "utf-8" else "bytes"
    return element.kind if element == REGION else str(to_hdmf(element))


def to_hdmf(element: Element) -> Any:
    """Return HDMF's name of a type: the NumPy name of a number, "utf", "ascii", "object", or a list of fields."""
    match element:
        case Compound(fields):
            return [{"name": name, "dtype": to_hdmf(member)} for name, member in fields]
        case ArrayOf(base) | Sequence(base) | Enum(base):
            return to_hdmf(base)
        case Text():
            return "utf" if element == UTF8 else "ascii"
        case Opaque(size):
            return f"V{size}"
        case Time(name):
            return name
        case Number(kind, size):
            return kind if kind == "bool" else f"{'uint' if kind == 'bitfield' else kind}{8 * size}"
        case Reference():
            return "object"
    raise ValueRefusedError(f"HDMF has no name for {element}")


@dataclass(slots=True, frozen=True)
class Described:
    """The meaning of an array."""

    stored: Element  # in Zarr, which is the type that HDMF reads
    form: Form  # numbers and the like; text or references as objects; compound rows with objects
    axes: tuple[int, ...]  # its shape in HDMF: rows have one axis, a scalar has none
    itemsize: int | None  # bytes of one element in memory; None for text and references
    note: dict[str, Any] | None  # the note of the dataset in HDF5; None if it was never in HDF5
    is_marked: bool  # ``zarr_dtype`` or the note marks it as a scalar; it is one if it also has one element

    @property
    def is_scalar(self) -> bool:
        """Whether it is a scalar dataset of HDMF."""
        return not self.axes

    @property
    def fields(self) -> tuple[tuple[str, Element], ...]:
        """Names and types of the fields of compounds, none for other elements."""
        return self.stored.fields if isinstance(self.stored, Compound) else ()

    @property
    def is_null(self) -> bool:
        """Whether the dataset has an empty dataspace: a type but no value."""
        return self.note is not None and self.note.get("null") is True and 0 in self.axes

    @property
    def noted(self) -> Element | None:
        """The type of the dataset in HDF5, if it is recorded and fits the stored elements."""
        if self.note is None or "type" not in self.note:
            return None
        element = from_note(self.note["type"])
        if self.is_null:
            return element  # without stored elements, any type fits
        if isinstance(element, ArrayOf) and (not element.shape or self.axes[-len(element.shape) :] != element.shape):
            return None  # the axes of elements are the last ones of the array
        return element if _fits(element, self.stored) else None

    @property
    def element(self) -> Element:
        """The meaning of one element: the recorded type of HDF5, or else the stored type."""
        return self.noted or self.stored

    @property
    def shape(self) -> tuple[int, ...] | None:
        """Shape of the dataset, without the axes of elements that are arrays; None without a dataspace."""
        if self.is_null:
            return None
        element = self.element
        shape = self.axes[: len(self.axes) - len(element.shape)] if isinstance(element, ArrayOf) else self.axes
        return () if self.is_marked and math.prod(shape) == 1 else shape


def describe(node: Dataset, notes: dict[str, Any] | None = None, *, is_spec: bool = False) -> Described:
    """Return the meaning of a stored array."""
    notes = notes_of(node.attributes) if notes is None else notes
    note = notes[HDF5] if isinstance(notes.get(HDF5), dict) else None
    charset, enum = (note.get("charset"), note.get("enum")) if note else (None, None)
    codec = node.stored.first_filter.get("id")
    zarr_dtype = node.attributes.get(DTYPE)
    stored, form, itemsize = _stored_element(node.stored.data_type, zarr_dtype, codec, notes.get("text"), charset, enum)
    axes, is_marked = _axes(node, notes, is_spec=is_spec and note is None)
    return Described(stored, form, axes, itemsize, note, is_marked)


def describe_any(node: Dataset) -> Described:
    """Return the result of `describe`; for an unknown type, an element of kind ``unknown``. For listings."""
    try:
        return describe(node)
    except ZarrBackendError:
        return Described(Unknown(str(node.stored.data_type)), "plain", node.stored.shape, None, None, is_marked=False)


def is_scalar(node: Dataset) -> bool:
    """Tell whether an array is a scalar dataset of HDMF, without looking at its type."""
    return not _axes(node, notes_of(node.attributes))[0]


def stored_text(stored: StoredArray) -> Literal["text", "bytes"] | None:
    """Tell whether variable-length elements of an array are stored as UTF-8 text or as bytes; None for others."""
    codec = stored.first_filter.get("id")
    return "text" if codec == "vlen-utf8" else "bytes" if codec == "vlen-bytes" else None


def _axes(node: Dataset, notes: dict[str, Any], *, is_spec: bool = False) -> tuple[tuple[int, ...], bool]:
    """Return the shape in HDMF, and whether the array is marked as a scalar, which has one element."""
    axes, zarr_dtype = node.stored.shape, node.attributes.get(DTYPE)
    is_marked = zarr_dtype == "scalar" or notes.get("scalar") is True or (is_spec and zarr_dtype is None)
    # The last axis of rows of objects has the fields unless they are tuples.
    is_rows = node.stored.data_type == _OBJECTS and isinstance(zarr_dtype, list)
    axes = axes[:-1] if is_rows and (notes.get("rows") is True or len(axes) == 2) else axes
    return () if is_marked and math.prod(axes) == 1 else axes, is_marked


@Memo
def _stored_element(
    data_type: Any, zarr_dtype: Any, codec: Any, text: Any, charset: Any, enum: Any
) -> tuple[Element, Form, int | None]:
    """Return the type of the elements in Zarr, their form, and their bytes in memory."""
    if data_type == _OBJECTS:
        if isinstance(zarr_dtype, list):
            return Compound(tuple(row_fields(zarr_dtype).items())), "rows", None
        if isinstance(zarr_dtype, str) and (reference := element_of_word(zarr_dtype)) is not None:
            return reference, "objects", None
        # hdmf-zarr up to 0.13 stored ASCII and dates with vlen-bytes. A scalar of either kind is text.
        is_ascii = text == "ascii" or (codec == "vlen-bytes" and zarr_dtype != "scalar")
        return ASCII if is_ascii else UTF8, "objects", None
    if _has_objects(data_type):
        return type_element(data_type, row_fields(zarr_dtype)), "rows", None
    element = type_element(data_type)
    if isinstance(enum, dict) and isinstance(element, Number) and element.kind in ("int", "uint"):
        element = Enum(element, tuple(enum.items()))
    elif isinstance(charset, str) and isinstance(element, Text) and element.size is not None:
        element = replace(element, charset=charset)
    return element, "plain", data_types.itemsize(data_type)


def _has_objects(data_type: Any) -> bool:
    if not isinstance(data_type, list):
        return bool(data_type == _OBJECTS)
    return any(_has_objects(field[1]) for field in data_type if isinstance(field, list) and len(field) > 1)


def _fits(noted: Element, stored: Element) -> bool:
    """Tell whether stored elements fit a recorded type; if not, they were replaced since the conversion."""
    match noted:
        case ArrayOf(base):
            return _fits(base, stored)
        case Compound(fields):
            return isinstance(stored, Compound) and [name for name, _ in fields] == [name for name, _ in stored.fields]
        case Text(_, size):  # None: also of scalars of fixed length
            return isinstance(stored, Text) and stored.size in (None, size)
        case Number(layout=Precision()) | Number(kind="bool"):
            return isinstance(stored, Number) and stored.kind == noted.kind
    return type(noted) is not Sequence and to_hdmf(noted) == to_hdmf(stored)


# ---- labels for listings ---------------------------------------------------------------------------------------------


def type_label(node: Dataset) -> str:
    """Return the type of elements for listings: ``int16``, ``text``, ``reference``, ``{x: int32, to: reference}``."""
    described = describe_any(node)
    content = notes_of(node.attributes).get("text")
    if described.form == "objects" and isinstance(described.stored, Text) and isinstance(content, str):
        return content  # such as isodatetime
    # This is text of fixed length, of four bytes a character.
    if described.stored == UTF8 and described.itemsize is not None:
        return f"text[{described.itemsize // 4}]"
    return _label(described.stored)


def _label(element: Element) -> str:
    match element:
        case Compound(fields):
            return "{" + ", ".join(f"{name}: {_label(member)}" for name, member in fields) + "}"
        case ArrayOf(base, shape):
            return f"{_label(base)}{list(shape)}"
        case Text(charset, size):
            return ("text" if charset == "utf-8" else "ascii") + ("" if size is None else f"[{size}]")
        case Opaque(size):
            return f"opaque[{size}]"
        case Reference():
            return element.kind
        case Unknown(name) | Time(name):
            return name
    return f"{to_hdmf(element)}{' big-endian' if getattr(element, 'byte_order', '') == '>' else ''}"


def codec_labels(stored: StoredArray) -> list[str]:
    """Return the codecs of an array in the order in which they are applied, each with what was chosen for it."""
    labels = []
    for config in stored.codecs:
        shuffle = config.get("shuffle")
        shuffled = _SHUFFLES.get(shuffle, "") if isinstance(shuffle, int) else ""
        parts = [str(config.get("id")), config.get("cname"), config.get("clevel", config.get("level")), shuffled]
        labels.append(" ".join(str(part) for part in parts if part not in (None, "")))
    return labels


# ---- chunks inside the consolidated document ------------------------------------------------------------------------
# Its block ``hdmf_inline``, in both formats, has the stored bytes of the scalars and of the cached specifications, so
# that a file opens with one round of requests. These chunks are stored as well. Other readers ignore the block, and
# other programs drop it when they consolidate.

# hdmf-zarr 0.13 needs 491 requests to open a file of 400 series on a web server: 412 of them fetch scalars one by one,
# and 69 look for documents of the cached specifications.
INLINE_KEY = "hdmf_inline"
INLINE_BYTES = 2**20  # maximum inlined bytes of one file
_VERSION = 1
_INLINE_ARRAY_BYTES = 4096
_FEW = 4


def inline_block(inlined: Mapping[str, bytes]) -> dict[str, Any]:
    """Return the block of a consolidated document with inlined chunks; ``{}`` without any."""
    block: dict[str, str] = {}
    left = INLINE_BYTES
    # The smallest chunks come first, so that as many as possible are saved a request.
    for key in sorted(inlined, key=lambda key: len(inlined[key])):
        left -= len(inlined[key])
        if left < 0:
            break
        block[key] = base64.b64encode(inlined[key]).decode("ascii")
    return {INLINE_KEY: {"version": _VERSION, "chunks": block}} if block else {}


def inlined_chunks(document: Any) -> dict[str, bytes]:
    """Return the chunks inside ``.zmetadata``, or the consolidated block of format 3; ``{}`` without a known block."""
    block = document.get(INLINE_KEY) if isinstance(document, dict) else None
    if not isinstance(block, dict) or block.get("version") != _VERSION or not isinstance(block.get("chunks"), dict):
        return {}
    try:
        return {str(key): base64.b64decode(text, validate=True) for key, text in block["chunks"].items()}
    except (TypeError, ValueError, binascii.Error) as error:
        problem = f"the block {INLINE_KEY!r} of the consolidated document is damaged ({error})"
        raise MetadataError(problem, path="/", remedy="Run `zarrio consolidate`.") from error


def is_read_at_open(node: Dataset) -> bool:
    """Tell whether hdmf reads an array whenever the file is opened: scalars, ids of tables, a few texts (dates)."""
    stored = node.stored
    if not stored.size or stored.shards is not None or math.prod(stored.grid) != 1:
        return False
    if is_scalar(node):
        return True
    few_texts = node.attributes.get(DTYPE) == "str" and stored.size <= _FEW
    return few_texts or node.attributes.get("neurodata_type", node.attributes.get("data_type")) == "ElementIdentifiers"


def is_inlined(node: Dataset, data: bytes) -> bool:
    """Tell whether the consolidated document also has the only chunk of an array that is read at open."""
    return len(data) <= _INLINE_ARRAY_BYTES or node.attributes.get(DTYPE) == "scalar"
