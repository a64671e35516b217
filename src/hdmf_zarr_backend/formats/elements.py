"""`describe`: the meaning of a stored array; and how arrays of objects are stored, and labels for listings.

`describe` derives the meaning of an array from its document and attributes, for HDMF builders, HDF5 datasets, netCDF
variables, comparisons, validation and listings. The format page has its rules, in "What an array means". The functions
that return an `ObjectForm` are the inverse, for new arrays of text, references and rows. Standard library only, so that
a file can be listed without NumPy.

Source: hdmf-zarr storage specification, "dtype mappings"; files of hdmf-zarr 0.1 to 0.13; `hdf5.types` for the JSON of
HDF5 types.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

from hdmf_zarr_backend.errors import MetadataError, ValueRefusedError, ZarrBackendError
from hdmf_zarr_backend.formats import type_codes
from hdmf_zarr_backend.formats.reserved import DTYPE, notes_of
from hdmf_zarr_backend.formats.type_codes import KINDS, NAMES, field_shape, itemsize, split_code, split_unit
from hdmf_zarr_backend.model.elements import Element
from hdmf_zarr_backend.model.memo import Memo
from hdmf_zarr_backend.model.nodes import ArrayNode, Attributes

__all__ = [
    "ASCII",
    "NUMBER_WORDS",
    "OPEN_WORDS",
    "REFERENCE",
    "REGION",
    "UTF8",
    "WORDS",
    "Described",
    "Form",
    "ObjectForm",
    "codec_labels",
    "describe",
    "describe_any",
    "element_label",
    "hdmf_type",
    "is_scalar",
    "noted_element",
    "reference_form",
    "row_fields",
    "row_word",
    "rows_form",
    "stored_text",
    "text_form",
    "type_element",
    "type_label",
    "word_element",
]

Form: TypeAlias = Literal["plain", "objects", "rows"]

UTF8 = Element("text", encoding="utf-8")
ASCII = Element("text", encoding="ascii")
REFERENCE = Element("reference")
REGION = Element("region")

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
"""Other type names of HDMF or ``zarr_dtype`` -> kind of element."""

OPEN_WORDS = frozenset({"numeric", "any"})
"""Types of HDMF that leave the type to the data."""

_ELEMENTS = {"text": UTF8, "ascii": ASCII, "bytes": ASCII, "object": REFERENCE, "region": REGION}
_REFERENCES = frozenset({"reference", "region"})

_OBJECTS = "|O"
_LONG_DOUBLES = frozenset({"f16", "c32"})  # in NumPy on some machines: only read, never written
_DATES = {"M": "datetime64", "m": "timedelta64"}
_REMEDY = "Run `zarrio verify` on the file."
_MAX_DEPTH = 32


# ---- types of elements ----------------------------------------------------------------------------------------------


def type_element(data_type: Any, objects: dict[str, Element] | None = None) -> Element:
    """Return the `Element` for a data type of format 2.

    Parameters
    ----------
    data_type : str or list
        ``"<f4"``, or a list of ``[name, type]`` or ``[name, type, shape]``.
    objects : dict, optional
        Elements of the fields with objects; by default they are references.

    Raises
    ------
    MetadataError
        The argument is not a data type.
    """
    try:
        return _type_element(data_type, objects or {}, 0)
    except (TypeError, ValueError) as error:
        if isinstance(error, MetadataError):
            raise
        raise MetadataError(
            f"the data type {data_type!r} is unknown ({error})",
            remedy="Convert the array with the program that wrote it, or run `zarrio verify` on the file.",
        ) from error


def _type_element(data_type: Any, objects: dict[str, Element], depth: int) -> Element:
    if isinstance(data_type, str):
        return _simple_element(data_type)
    if not isinstance(data_type, list):
        raise TypeError("a data type is a string or a list of fields")
    if depth > _MAX_DEPTH:
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


def _simple_element(data_type: str) -> Element:
    order, kind, digits, unit = split_code(data_type)
    size = int(digits or 0)
    byte_order: Literal["<", ">"] = ">" if order == ">" else "<"
    if kind in _DATES:
        return Element("datetime", 8, byte_order, detail=_DATES[kind] + _date_unit(unit))
    if kind in KINDS:
        code = f"{kind}{size}"
        if code not in NAMES and code not in _LONG_DOUBLES:
            raise ValueError(f"{KINDS[kind]} does not have {size} bytes")
        return Element(KINDS[kind], size, "|" if size == 1 else byte_order)
    if kind == "S":
        return Element("text", max(1, size), encoding="ascii", detail="null-padded")
    return Element("opaque", size) if kind == "V" else UTF8


def _date_unit(text: str | None) -> str:
    """Return the unit of a date as in NumPy: ``"[s]"`` for ``"1s"``; empty without a unit."""
    if not text:
        return ""
    count, unit = split_unit(text)
    return f"[{unit}]" if count == 1 else f"[{count}{unit}]"


def word_element(word: Any) -> Element:
    """Return the `Element` for the type of a field of rows in ``zarr_dtype``.

    Raises
    ------
    ValueRefusedError
        The type does not exist.
    """
    if isinstance(word, dict):
        return REGION if word.get("reftype") == "region" else REFERENCE
    word = str(word)
    if word in WORDS:
        return _ELEMENTS[WORDS[word]]
    if word in NUMBER_WORDS:
        return _simple_element(NUMBER_WORDS[word])
    if word in OPEN_WORDS:
        return UTF8
    try:
        found = _simple_element(word.replace("datetime64", "<M8").replace("timedelta64", "<m8"))
    except ValueError as error:
        raise ValueRefusedError(f"{word!r} is not a data type of HDMF") from error
    return ASCII if found.kind == "text" and found.size is not None else found


def row_fields(word: Any) -> dict[str, Element]:
    """Return the fields of rows by name from their ``zarr_dtype``; hdmf-zarr repeated some.

    Raises
    ------
    ValueRefusedError
        A field has a type that does not exist.
    """
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


# ---- arrays ---------------------------------------------------------------------------------------------------------


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
        """The type of the dataset in HDF5, if it is recorded and fits the stored elements.

        Raises
        ------
        MetadataError
            The recorded type is not valid.
        """
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


def describe(node: ArrayNode[Attributes], notes: dict[str, Any] | None = None, *, is_spec: bool = False) -> Described:
    """Return the meaning of a stored array.

    Parameters
    ----------
    node : ArrayNode
        The array.
    notes : dict, optional
        Its note, if it is not among its attributes yet.
    is_spec : bool
        Whether it is a cached specification, which old files do not mark as a scalar.

    Raises
    ------
    MetadataError
        Its data type is unknown.
    ValueRefusedError
        A field of its rows has a type that does not exist.
    """
    notes = notes_of(node.attributes) if notes is None else notes
    note = notes.get("hdf5")
    note = note if isinstance(note, dict) else None
    charset, enum = (note.get("charset"), note.get("enum")) if note else (None, None)
    codec = node.first_filter.get("id")
    word = node.attributes.get(DTYPE)
    stored, form, itemsize = _known(node.data_type, word, codec, notes.get("text"), charset, enum)
    is_marked = _is_marked(word, notes) or (is_spec and note is None and word is None)
    axes = _axes(node, word, notes)
    if is_marked and math.prod(axes) == 1:
        axes = ()
    return Described(stored, form, axes, itemsize, note, is_marked)


def describe_any(node: ArrayNode[Attributes]) -> Described:
    """Return the result of `describe`; for an unknown type, an element of kind ``unknown``. For listings."""
    try:
        return describe(node)
    except ZarrBackendError:
        return Described(
            Element("unknown", detail=str(node.data_type)), "plain", node.shape, None, None, is_marked=False
        )


def is_scalar(node: ArrayNode[Attributes]) -> bool:
    """Tell whether an array is a scalar dataset of HDMF, without looking at its type."""
    notes = notes_of(node.attributes)
    word = node.attributes.get(DTYPE)
    axes = _axes(node, word, notes)
    return not axes or (_is_marked(word, notes) and math.prod(axes) == 1)


def stored_text(node: ArrayNode[Attributes]) -> Literal["text", "bytes"] | None:
    """Tell whether variable-length elements of an array are stored as UTF-8 text or as bytes; None for others."""
    return _STORED_TEXT.get(node.first_filter.get("id"))


_STORED_TEXT: dict[Any, Literal["text", "bytes"]] = {"vlen-utf8": "text", "vlen-bytes": "bytes"}


def _is_marked(word: Any, notes: dict[str, Any]) -> bool:
    return word == "scalar" or notes.get("scalar") is True


def _axes(node: ArrayNode[Attributes], word: Any, notes: dict[str, Any]) -> tuple[int, ...]:
    """Return the shape without the last axis of rows of objects, which has the fields unless they are tuples."""
    is_rows = node.data_type == _OBJECTS and isinstance(word, list)
    return node.shape[:-1] if is_rows and (notes.get("rows") is True or len(node.shape) == 2) else node.shape


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
    return _plain_element(type_element(data_type), charset, enum), "plain", itemsize(data_type)


def _plain_element(element: Element, charset: Any, enum: Any) -> Element:
    """Return the `Element` of numbers or fixed-length text, with the charset or enumeration recorded for HDF5."""
    if isinstance(enum, dict) and element.kind in ("int", "uint"):
        return replace(element, kind="enum", detail=element.kind, members=tuple(enum.items()))
    if isinstance(charset, str) and element.kind == "text" and element.size is not None:
        return replace(element, encoding=charset)
    return element


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
    return _has_own_layout(noted) or noted.size == stored.size


def _has_own_layout(noted: Element) -> bool:
    """Tell whether elements of a recorded type have another size than the stored ones."""
    return noted.kind == "bool" or (bool(noted.detail) and noted.kind in ("int", "uint", "float"))


def _number_kind(element: Element) -> str:
    """Return the kind of a type; the kind of numbers for enumerations and dates, references for region references."""
    if element.kind in ("enum", "datetime"):
        return element.detail
    return {"bitfield": "uint", "region": "reference"}.get(element.kind, element.kind)


# ---- new arrays of objects ------------------------------------------------------------------------------------------

VLEN_UTF8: dict[str, Any] = {"id": "vlen-utf8"}
VLEN_BYTES: dict[str, Any] = {"id": "vlen-bytes"}
JSON2: dict[str, Any] = {
    "id": "json2", "encoding": "utf-8", "allow_nan": True, "check_circular": True, "ensure_ascii": True, "indent": None,
    "separators": [",", ":"], "skipkeys": False, "sort_keys": True, "strict": True,
}  # fmt: skip
MSGPACK2: dict[str, Any] = {"id": "msgpack2", "raw": False, "use_bin_type": True, "use_single_float": False}
PICKLE: dict[str, Any] = {"id": "pickle", "protocol": 5}
OBJECT_CODECS: dict[str, dict[str, Any]] = {"JSON": JSON2, "MsgPack": MSGPACK2, "Pickle": PICKLE}
"""Codecs for references and rows, by the name of the numcodecs class."""
DEFAULT_OBJECT_CODEC = JSON2


@dataclass(slots=True, frozen=True)
class ObjectForm:
    """How a new array of objects is stored.

    Attributes
    ----------
    codec : dict
        Configuration of the first filter, which encodes the objects.
    zarr_dtype : object
        The attribute ``zarr_dtype``.
    notes : dict
        Entries of the note of the array.
    data_type : str
        Data type of the array.
    """

    codec: dict[str, Any]
    zarr_dtype: Any
    notes: dict[str, Any] = field(default_factory=dict)
    data_type: str = _OBJECTS


def text_form(element: Element = UTF8, *, is_scalar: bool = False, as_bytes: bool = False) -> ObjectForm:
    """Return the stored form of text of variable length.

    Parameters
    ----------
    element : Element
        UTF-8 or ASCII text.
    is_scalar : bool
        Whether it is a scalar.
    as_bytes : bool
        Whether it is not valid UTF-8, and stored as bytes.
    """
    if as_bytes:
        return ObjectForm(dict(VLEN_BYTES), "scalar" if is_scalar else "bytes")
    notes = {"text": "ascii"} if element.encoding == "ascii" else {}
    return ObjectForm(dict(VLEN_UTF8), "scalar" if is_scalar else "str", notes)


def reference_form(
    element: Element, codec: dict[str, Any] = DEFAULT_OBJECT_CODEC, *, is_scalar: bool = False
) -> ObjectForm:
    """Return the stored form of object or region references with an object codec."""
    return ObjectForm(dict(codec), row_word(element), {"scalar": True} if is_scalar else {})


def rows_form(
    fields: Sequence[tuple[str, Element]], codec: dict[str, Any] = DEFAULT_OBJECT_CODEC, *, is_scalar: bool = False
) -> ObjectForm:
    """Return the stored form of compound rows with text or references; the last axis has the fields."""
    words = [{"name": name, "dtype": row_word(member)} for name, member in fields]
    return ObjectForm(dict(codec), words, {"rows": True, **({"scalar": True} if is_scalar else {})})


# ---- recorded types of HDF5 -----------------------------------------------------------------------------------------

_PADDING = {"nullterm": "null-terminated", "nullpad": "null-padded", "spacepad": "space-padded"}
_NAMED = {"bool": Element("bool", 1), "object": REFERENCE, "region": REGION}
_BOOL_MEMBERS = (("FALSE", 0), ("TRUE", 1))
_DATETIME_TAG = "NUMPY:"  # h5py's tag of opaque types for NumPy's dates


def noted_element(value: Any) -> Element:
    """Return the `Element` for the JSON of an HDF5 type.

    Raises
    ------
    MetadataError
        The JSON does not describe a type.
    """
    return _known_noted(value)


def _noted_element(value: Any) -> Element:
    try:
        return _noted(value, 0)
    except (ValueError, TypeError, KeyError, AttributeError, IndexError) as error:
        raise MetadataError(f"{value!r} is not an HDF5 type ({error})", remedy=_REMEDY) from error


_known_noted: Memo[Element] = Memo(_noted_element)


def _noted(value: Any, depth: int) -> Element:
    if depth > _MAX_DEPTH:
        raise ValueError("nested too deep")
    if isinstance(value, str):
        return _NAMED.get(value) or _simple_element(value)
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
    if tag.startswith(_DATETIME_TAG):
        return _simple_element(tag.removeprefix(_DATETIME_TAG))
    return Element("opaque", int(value["opaque"]), detail=tag)


_READERS: dict[str, Callable[[dict[str, Any], int], Element]] = {
    "text": _noted_text,
    "number": _noted_number,  # before "fields", which such a number has too
    "fields": _noted_compound,
    "enum": _noted_enum,
    "bitfield": lambda value, _: replace(_simple_element(value["bitfield"]), kind="bitfield"),
    "opaque": _noted_opaque,
    "complex": _noted_complex,
    "array": _noted_array,
    "sequence": lambda value, depth: Element("sequence", base=_noted(value["sequence"], depth)),
}


# ---- labels for listings ---------------------------------------------------------------------------------------------

_SHUFFLES = {1: "shuffle", 2: "bitshuffle", -1: "autoshuffle"}  # of Blosc


def type_label(node: ArrayNode[Attributes]) -> str:
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
        return "{" + ", ".join(map(_field_label, element.fields)) + "}"
    if element.base is not None:
        return f"{element_label(element.base)}{list(element.shape)}"
    if kind in ("text", "opaque"):
        name = kind if kind == "opaque" or element.encoding == "utf-8" else "ascii"
        return name if size is None else f"{name}[{size}]"
    if kind in _REFERENCES:
        return kind
    if kind == "unknown":
        return element.detail
    return f"{hdmf_type(element)}{' big-endian' if element.byte_order == '>' and kind != 'datetime' else ''}"


def _field_label(item: tuple[str, Element]) -> str:
    return f"{item[0]}: {element_label(item[1])}"


def codec_labels(node: ArrayNode[Attributes]) -> list[str]:
    """Return the codecs of an array in the order in which they are applied, each with what was chosen for it."""
    return list(map(_codec_label, node.codecs))


def _codec_label(config: dict[str, Any]) -> str:
    name = str(config.get("id"))
    shuffle = config.get("shuffle")
    shuffled = _SHUFFLES.get(shuffle, "") if isinstance(shuffle, int) else ""
    chosen = [config.get("cname"), config.get("clevel", config.get("level")), shuffled]
    return " ".join(str(part) for part in [name, *chosen] if part not in (None, ""))
