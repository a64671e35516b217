"""`describe`: the meaning of a stored array; data types of format 2 and HDMF's names of types <-> `Element`.

`describe` derives the meaning of an array from its document and attributes, for HDMF builders, HDF5 datasets,
comparisons, validation and listings. The format page has its rules, in "What an array means". `new_datasets` is the
inverse, for new arrays. Standard library only, so that a file can be listed without NumPy.

Source: hdmf-zarr storage specification, "dtype mappings"; files of hdmf-zarr 0.1 to 0.13.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

from hdmf_zarr_backend.errors import MetadataError, ValueRefusedError, ZarrBackendError
from hdmf_zarr_backend.formats import type_codes
from hdmf_zarr_backend.formats.reserved import DTYPE, notes_of
from hdmf_zarr_backend.formats.type_codes import KINDS, MAX_DEPTH, code_element, field_shape, itemsize
from hdmf_zarr_backend.model.elements import ASCII, REFERENCE, REGION, UTF8, Element
from hdmf_zarr_backend.model.memo import Memo
from hdmf_zarr_backend.model.nodes import Attributes, Dataset
from hdmf_zarr_backend.model.stored import StoredArray

Form: TypeAlias = Literal["plain", "objects", "rows"]

NUMBER_WORDS: dict[str, str] = {
    "float": "<f4", "double": "<f8", "long": "<i8", "int": "<i4", "short": "<i2", "uint": "<u4",
    **{name: number.ordered("<") for name, number in type_codes.NUMBERS.items()},
}  # fmt: skip
"""HDMF's name of a number -> data type. ``int`` has 32 bits and ``float`` single precision, as in the specification."""

WORDS: dict[str, Literal["text", "ascii", "bytes", "object", "region"]] = {
    "text": "text", "utf": "text", "utf8": "text", "utf-8": "text", "isodatetime": "text", "datetime": "text",
    "str": "text", "str_": "text", "ascii": "ascii", "bytes": "bytes", "bytes_": "bytes", "object": "object",
    "object_": "object", "ref": "object", "reference": "object", "region": "region",
}  # fmt: skip
"""Other type names of HDMF or ``zarr_dtype`` -> `Kind` of `formats.dtypes`."""

TIME_WORDS = frozenset({"isodatetime", "datetime"})
"""Types of text that the note of a dataset records."""

OPEN_WORDS = frozenset({"numeric", "any"})
"""Types of HDMF that leave the type to the data."""

_ELEMENTS = {"text": UTF8, "ascii": ASCII, "bytes": ASCII, "object": REFERENCE, "region": REGION}

_OBJECTS = "|O"


# ---- types of elements --------------------------------------------------------------------------------------------


def type_element(data_type: Any, objects: dict[str, Element] | None = None) -> Element:
    """Return the `Element` for a data type of format 2."""
    try:
        return _type_element(data_type, objects or {}, 0)
    except (TypeError, ValueError) as error:
        if isinstance(error, MetadataError):
            raise
        problem = f"the data type {data_type!r} is unknown ({error})"
        remedy = "Convert the array with the program that wrote it, or run `zarrio verify` on the file."
        raise MetadataError(problem, remedy=remedy) from error


def _type_element(data_type: Any, objects: dict[str, Element], depth: int) -> Element:
    if isinstance(data_type, str):
        return code_element(data_type)
    if not isinstance(data_type, list):
        raise TypeError("a data type is a string or a list of fields")
    if depth > MAX_DEPTH:
        raise ValueError("nested too deep")
    fields = []
    for name, kind, *rest in data_type:
        if name == "":  # NumPy would rename the field
            raise ValueError("a field has an empty name")
        member = objects.get(str(name), REFERENCE) if kind == _OBJECTS else _type_element(kind, {}, depth + 1)
        if shape := field_shape(rest):
            member = Element("array", base=member, shape=shape)
        fields.append((str(name), member))
    return Element("compound", fields=tuple(fields))


def word_element(word: Any) -> Element:
    """Return the `Element` for the type of a field of rows in ``zarr_dtype``."""
    if isinstance(word, dict):
        return REGION if word.get("reftype") == "region" else REFERENCE
    word = str(word)
    if word in WORDS:
        return _ELEMENTS[WORDS[word]]
    if word in NUMBER_WORDS:
        return code_element(NUMBER_WORDS[word])
    if word in OPEN_WORDS:
        return UTF8
    try:
        found = code_element(word.replace("datetime64", "<M8").replace("timedelta64", "<m8"))
    except ValueError as error:
        raise ValueRefusedError(f"{word!r} is not a data type of HDMF") from error
    return ASCII if found.kind == "text" and found.size is not None else found


def row_fields(word: Any) -> dict[str, Element]:
    """Return the fields of rows by name from their ``zarr_dtype``; hdmf-zarr repeated some."""
    fields: dict[str, Any] = {}
    for entry in word if isinstance(word, list) else ():
        if isinstance(entry, dict) and "name" in entry:
            fields.setdefault(str(entry["name"]), entry.get("dtype"))
    return {name: word_element(dtype) for name, dtype in fields.items()}


def row_word(element: Element) -> str:
    """Return the type of a field of rows for ``zarr_dtype``; the inverse of `word_element`."""
    if element.kind == "text":
        return "str" if element.encoding == "utf-8" else "bytes"
    return element.kind if element.kind == "region" else str(hdmf_type(element))


def hdmf_type(element: Element) -> Any:
    """Return HDMF's name of a type: the NumPy name of a number, "utf", "ascii", "object", or a list of fields."""
    kind, size = element.kind, element.size
    if kind == "compound":
        return [{"name": name, "dtype": hdmf_type(member)} for name, member in element.fields]
    if element.base is not None:
        return hdmf_type(element.base)
    if kind == "text":
        return "utf" if (element.encoding, size) == ("utf-8", None) else "ascii"
    if kind in ("bool", "datetime"):
        return element.detail or kind
    names = {"opaque": f"V{size}", "reference": "object", "region": "object"}
    return names.get(kind) or f"{_number_kind(element)}{8 * (size or 0)}"


# ---- arrays -------------------------------------------------------------------------------------------------------


@dataclass(slots=True, frozen=True)
class Described:
    """The meaning of an array.

    Attributes
    ----------
    stored : Element
        Type of the elements in Zarr, which is the type that HDMF reads.
    form : {"plain", "objects", "rows"}
        How elements are stored: numbers and the like; text or references as objects; compound rows with objects.
    axes : tuple of int
        Its shape in HDMF: rows have one axis, a scalar has none.
    itemsize : int or None
        Bytes of one element in memory; None for text and references.
    note : dict or None
        The note of the dataset in HDF5; None if it was never in HDF5.
    is_marked : bool
        Whether ``zarr_dtype`` or the note marks it as a scalar. It is a scalar if it also has one element.
    """

    stored: Element
    form: Form
    axes: tuple[int, ...]
    itemsize: int | None
    note: dict[str, Any] | None
    is_marked: bool

    @property
    def is_scalar(self) -> bool:
        """Whether it is a scalar dataset of HDMF."""
        return not self.axes

    @property
    def is_null(self) -> bool:
        """Whether the dataset has an empty dataspace: a type but no value."""
        return self.note is not None and self.note.get("null") is True and 0 in self.axes

    @property
    def noted(self) -> Element | None:
        """The type of the dataset in HDF5, if it is recorded and fits the stored elements."""
        if self.note is None or "type" not in self.note:
            return None
        found = noted_element(self.note["type"])
        if self.is_null:
            return found  # without stored elements, any type fits
        if found.kind == "array" and (not found.shape or self.axes[-len(found.shape) :] != found.shape):
            return None  # the axes of elements are the last ones of the array
        return found if _fits(found, self.stored) else None

    @property
    def element(self) -> Element:
        """The meaning of one element: the recorded type of HDF5, or else the stored type."""
        return self.noted or self.stored

    @property
    def shape(self) -> tuple[int, ...] | None:
        """Shape of the dataset, without the axes of elements that are arrays; None without a dataspace."""
        if self.is_null:
            return None
        shape = self.axes[: len(self.axes) - len(self.element.shape)]
        return () if self.is_marked and math.prod(shape) == 1 else shape


def describe(node: Dataset[Attributes], notes: dict[str, Any] | None = None, *, is_spec: bool = False) -> Described:
    """Return the meaning of a stored array."""
    notes = notes_of(node.attributes) if notes is None else notes
    note = notes["hdf5"] if isinstance(notes.get("hdf5"), dict) else None
    charset, enum = (note.get("charset"), note.get("enum")) if note else (None, None)
    codec = node.stored.first_filter.get("id")
    word = node.attributes.get(DTYPE)
    stored, form, itemsize = _known(node.stored.data_type, word, codec, notes.get("text"), charset, enum)
    is_marked = _is_marked(word, notes) or (is_spec and note is None and word is None)
    axes = _axes(node.stored, word, notes)
    if is_marked and math.prod(axes) == 1:
        axes = ()
    return Described(stored, form, axes, itemsize, note, is_marked)


def describe_any(node: Dataset[Attributes]) -> Described:
    """Return the result of `describe`; for an unknown type, an element of kind ``unknown``. For listings."""
    try:
        return describe(node)
    except ZarrBackendError:
        unknown = Element("unknown", detail=str(node.stored.data_type))
        return Described(unknown, "plain", node.stored.shape, None, None, is_marked=False)


def is_scalar(node: Dataset[Attributes]) -> bool:
    """Tell whether an array is a scalar dataset of HDMF, without looking at its type."""
    notes = notes_of(node.attributes)
    word = node.attributes.get(DTYPE)
    axes = _axes(node.stored, word, notes)
    return not axes or (_is_marked(word, notes) and math.prod(axes) == 1)


def stored_text(stored: StoredArray) -> Literal["text", "bytes"] | None:
    """Tell whether variable-length elements of an array are stored as UTF-8 text or as bytes; None for others."""
    return _STORED_TEXT.get(stored.first_filter.get("id"))


_STORED_TEXT: dict[Any, Literal["text", "bytes"]] = {"vlen-utf8": "text", "vlen-bytes": "bytes"}


def _is_marked(word: Any, notes: dict[str, Any]) -> bool:
    return word == "scalar" or notes.get("scalar") is True


def _axes(stored: StoredArray, word: Any, notes: dict[str, Any]) -> tuple[int, ...]:
    """Return the shape without the last axis of rows of objects, which has the fields unless they are tuples."""
    is_rows = stored.data_type == _OBJECTS and isinstance(word, list)
    return stored.shape[:-1] if is_rows and (notes.get("rows") is True or len(stored.shape) == 2) else stored.shape


def _stored_element(
    data_type: Any, word: Any, codec: Any, text: Any, charset: Any, enum: Any
) -> tuple[Element, Form, int | None]:
    """Return the type of the elements in Zarr, their form, and their bytes in memory."""
    if data_type == _OBJECTS:
        if isinstance(word, list):
            return Element("compound", fields=tuple(row_fields(word).items())), "rows", None
        if word in ("object", "region"):
            return _ELEMENTS[word], "objects", None
        is_ascii = text == "ascii" or (codec == "vlen-bytes" and word != "scalar")
        return ASCII if is_ascii else UTF8, "objects", None
    if _has_objects(data_type):
        return type_element(data_type, row_fields(word)), "rows", None
    element = type_element(data_type)
    if isinstance(enum, dict) and element.kind in ("int", "uint"):
        element = replace(element, kind="enum", detail=element.kind, members=tuple(enum.items()))
    elif isinstance(charset, str) and element.kind == "text" and element.size is not None:
        element = replace(element, encoding=charset)
    return element, "plain", itemsize(data_type)


_known: Memo[tuple[Element, Form, int | None]] = Memo(_stored_element)


def _has_objects(data_type: Any) -> bool:
    if not isinstance(data_type, list):
        return bool(data_type == _OBJECTS)
    return any(_has_objects(field[1]) for field in data_type if isinstance(field, list) and len(field) > 1)


def _fits(noted: Element, stored: Element) -> bool:
    """Tell whether stored elements fit a recorded type; if not, they were replaced since the conversion."""
    if noted.kind == "array" and noted.base is not None:
        noted = noted.base
    if _number_kind(noted) != _number_kind(stored):
        return False
    if stored.kind == "compound":
        return [name for name, _ in noted.fields] == [name for name, _ in stored.fields]
    if stored.kind == "text" and stored.size is None:  # also used for scalars of fixed length
        return True
    has_own_layout = noted.kind == "bool" or (bool(noted.detail) and noted.kind in ("int", "uint", "float"))
    return has_own_layout or noted.size == stored.size


def _number_kind(element: Element) -> str:
    """Return the kind of a type; the kind of numbers for enumerations and dates, references for region references."""
    if element.kind in ("enum", "datetime"):
        return element.detail
    return {"bitfield": "uint", "region": "reference"}.get(element.kind, element.kind)


# ---- types of HDF5 in the notes of a conversion, as `hdf5.types` makes their JSON ------------------------------------

_PADDING = {"nullterm": "null-terminated", "nullpad": "null-padded", "spacepad": "space-padded"}
_NAMED = {"bool": Element("bool", 1), "object": REFERENCE, "region": REGION}
_BOOL_MEMBERS = (("FALSE", 0), ("TRUE", 1))

DATES = "NUMPY:"
"""Prefix of the tag of opaque types in which h5py stores NumPy's dates."""


def _noted_element(value: Any) -> Element:
    try:
        return _noted(value, 0)
    except (ValueError, TypeError, KeyError, AttributeError, IndexError) as error:
        raise MetadataError(f"{value!r} is not an HDF5 type ({error})") from error


JSON_ROW: dict[str, Any] = {"fields": [["json", {"text": "utf-8"}]]}
"""The HDF5 type of an attribute that only JSON holds, as in a note."""

noted_element: Memo[Element] = Memo(_noted_element)
"""Returns the `Element` for the JSON of an HDF5 type.

Raises
------
MetadataError
    The JSON does not describe a type.
"""


def _noted(value: Any, depth: int) -> Element:
    if depth > MAX_DEPTH:
        raise ValueError("nested too deep")
    if isinstance(value, str):
        return _NAMED.get(value) or code_element(value)
    for key, read in _READERS.items():
        if key in value:
            return read(value, depth + 1)
    raise KeyError("it has none of the keys of a type")


def _noted_text(value: dict[str, Any], _: int) -> Element:
    padding = _PADDING[value["pad"]] if "pad" in value or "size" in value else ""
    return Element("text", value.get("size"), encoding=str(value["text"]), detail=padding)


def _noted_enum(value: dict[str, Any], depth: int) -> Element:
    base = _noted(value["base"], depth)
    members = tuple((str(name), int(number)) for name, number in value["enum"])
    if members == _BOOL_MEMBERS:  # h5py reads such enumerations of any size as bool
        return replace(base, kind="bool")
    return replace(base, kind="enum", detail=base.kind, members=members)


def _noted_complex(value: dict[str, Any], depth: int) -> Element:
    part = _noted(value["complex"], depth)
    return replace(part, kind="complex", size=2 * (part.size or 0), detail="native")


def _noted_array(value: dict[str, Any], depth: int) -> Element:
    return Element("array", base=_noted(value["array"], depth), shape=tuple(map(int, value["shape"])))


def _noted_number(value: dict[str, Any], _: int) -> Element:
    """Return a number with a custom layout, in the JSON of `hdf5.types`."""
    name = str(value["number"])
    size = int(name[2:])
    layout = int(value["precision"]), int(value["offset"])
    detail = "" if layout == (8 * size, 0) else f"{layout[0]} bits from bit {layout[1]}"
    if "bias" in value:
        detail = f"sign, exponent and mantissa {tuple(map(int, value['fields']))}, bias {int(value['bias'])}"
    order: Literal["<", ">", "|"] = "|" if size == 1 else ">" if name[0] == ">" else "<"
    return Element(KINDS[name[1]], size, order, detail=detail)


def _noted_compound(value: dict[str, Any], depth: int) -> Element:
    fields = [(str(name), _noted(inner, depth)) for name, inner in value["fields"]]
    if [name for name, _ in fields] == ["r", "i"] and fields[0][1] == fields[1][1] and fields[0][1].kind == "float":
        part = fields[0][1]  # h5py's form of complex numbers
        return replace(part, kind="complex", size=2 * (part.size or 0))
    return Element("compound", fields=tuple(fields))


def _noted_opaque(value: dict[str, Any], _: int) -> Element:
    tag = str(value.get("tag", ""))
    if tag.startswith(DATES):
        return code_element(tag.removeprefix(DATES))
    return Element("opaque", int(value["opaque"]), detail=tag)


_READERS: dict[str, Callable[[dict[str, Any], int], Element]] = {
    "text": _noted_text,
    "number": _noted_number,  # before "fields", which such a number has too
    "fields": _noted_compound,
    "enum": _noted_enum,
    "bitfield": lambda value, _: replace(code_element(value["bitfield"]), kind="bitfield"),
    "opaque": _noted_opaque,
    "complex": _noted_complex,
    "array": _noted_array,
    "sequence": lambda value, depth: Element("sequence", base=_noted(value["sequence"], depth)),
}


# ---- labels for listings ---------------------------------------------------------------------------------------------

_SHUFFLES = {1: "shuffle", 2: "bitshuffle", -1: "autoshuffle"}  # of Blosc


def type_label(node: Dataset[Attributes]) -> str:
    """Return the type of the elements for listings: ``int16``, ``text``, ``reference``, ``{x: int32, to: reference}``.

    An unknown type is shown as in the document.
    """
    found = describe_any(node)
    content = notes_of(node.attributes).get("text")
    if found.form == "objects" and found.stored.kind == "text" and isinstance(content, str):
        return content  # such as isodatetime
    if found.stored == UTF8 and found.itemsize is not None:  # text of fixed length
        return f"text[{found.itemsize // 4}]"
    return element_label(found.stored)


def element_label(element: Element) -> str:
    """Return what a type is called in listings."""
    kind, size = element.kind, element.size
    if kind == "compound":
        return "{" + ", ".join(f"{name}: {element_label(member)}" for name, member in element.fields) + "}"
    if element.base is not None:
        return f"{element_label(element.base)}{list(element.shape)}"
    if kind in ("text", "opaque"):
        name = kind if kind == "opaque" or element.encoding == "utf-8" else "ascii"
        return name if size is None else f"{name}[{size}]"
    if kind in ("reference", "region"):
        return kind
    if kind == "unknown":
        return element.detail
    return f"{hdmf_type(element)}{' big-endian' if element.byte_order == '>' and kind != 'datetime' else ''}"


def codec_labels(stored: StoredArray) -> list[str]:
    """Return the codecs of an array in the order in which they are applied, each with what was chosen for it."""
    return list(map(_codec_label, stored.codecs))


def _codec_label(config: dict[str, Any]) -> str:
    name = str(config.get("id"))
    shuffle = config.get("shuffle")
    shuffled = _SHUFFLES.get(shuffle, "") if isinstance(shuffle, int) else ""
    chosen = [config.get("cname"), config.get("clevel", config.get("level")), shuffled]
    return " ".join(str(part) for part in [name, *chosen] if part not in (None, ""))
