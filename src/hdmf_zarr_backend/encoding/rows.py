"""Elements that consist of others: rows of named fields, arrays, and sequences of any length. As JSON, they are lists.

Source: HDF5 reference manual, "Datatypes".
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from hdmf_zarr_backend.encoding.kind import (
    Convert,
    Kind,
    decode_array,
    each,
    encoder,
    from_hdf5,
    in_numpy,
    kind_of,
    label,
    note_size,
    plain_values,
    read_note,
    to_hdf5,
    to_hdmf,
    to_note,
)
from hdmf_zarr_backend.encoding.numbers import complex_of, decode_number, encode_number
from hdmf_zarr_backend.encoding.text import raw_of, text_of
from hdmf_zarr_backend.model.element import UTF8, ArrayOf, Compound, Element, Sequence

if TYPE_CHECKING:
    import numpy as np

    from hdmf_zarr_backend.encoding.kind import Array


JSON_ROW = Compound((("json", UTF8),))
"""The HDF5 type of an attribute that only JSON holds."""


class Rows(Kind[Compound | ArrayOf | Sequence]):
    """Rows, arrays and sequences, and the notes of their types.

    ::

        {"fields": [[name, type], ...]}   with "offsets" and "size" if it is padded
        {"array": type, "shape": [3]}     {"sequence": type}
    """

    elements = (Compound, ArrayOf, Sequence)
    keys = ("fields", "array", "sequence")
    hdf5_classes = ("COMPOUND", "ARRAY", "VLEN")

    def to_hdmf(self, element: Compound | ArrayOf | Sequence) -> Any:
        if isinstance(element, Compound):
            return [{"name": name, "dtype": to_hdmf(member)} for name, member in element.fields]
        return to_hdmf(element.base)

    def label(self, element: Compound | ArrayOf | Sequence) -> str:
        if isinstance(element, Compound):
            return "{" + ", ".join(f"{name}: {label(member)}" for name, member in element.fields) + "}"
        return f"{label(element.base)}{list(element.shape) if isinstance(element, ArrayOf) else []}"

    def fits(self, noted: Compound | ArrayOf | Sequence, stored: Compound | ArrayOf | Sequence) -> bool:
        if not isinstance(noted, Compound) or not isinstance(stored, Compound):
            return False
        return [name for name, _ in noted.fields] == [name for name, _ in stored.fields]

    def from_note(self, note: Any, depth: int) -> Element:
        if "sequence" in note:
            return Sequence(read_note(note["sequence"], depth))
        if "array" in note:
            return ArrayOf(read_note(note["array"], depth), tuple(map(note_size, note["shape"])))
        fields = tuple((str(name), read_note(inner, depth)) for name, inner in note["fields"])
        if "offsets" not in note:
            return complex_of(Compound(fields))
        return complex_of(Compound(fields, tuple(map(int, note["offsets"])), note_size(note["size"])))

    def to_note(self, element: Compound | ArrayOf | Sequence) -> Any:
        if isinstance(element, Sequence):
            return {"sequence": to_note(element.base)}
        if isinstance(element, ArrayOf):
            return {"array": to_note(element.base), "shape": list(element.shape)}
        padded = {} if element.offsets is None else {"offsets": list(element.offsets), "size": element.size}
        return {"fields": [[name, to_note(member)] for name, member in element.fields], **padded}

    def from_hdf5(self, tid: Any) -> Element:
        from h5py import h5t

        if tid.get_class() == h5t.COMPOUND:
            members = range(tid.get_nmembers())
            types = [tid.get_member_type(i) for i in members]
            fields = tuple((text_of(tid.get_member_name(i)), from_hdf5(types[i])) for i in members)
            offsets = tuple(tid.get_member_offset(i) for i in members)
            is_packed = [*offsets, tid.get_size()] == _packed(types)
            return complex_of(Compound(fields) if is_packed else Compound(fields, offsets, tid.get_size()))
        inner = from_hdf5(tid.get_super())
        if tid.get_class() == h5t.VLEN:
            return Sequence(inner)
        shape = tuple(tid.get_array_dims())
        return ArrayOf(inner.base, (*shape, *inner.shape)) if isinstance(inner, ArrayOf) else ArrayOf(inner, shape)

    def to_hdf5(self, element: Compound | ArrayOf | Sequence) -> Any:
        from h5py import h5t

        if isinstance(element, Sequence):
            return h5t.vlen_create(to_hdf5(element.base))
        if isinstance(element, ArrayOf):
            return h5t.array_create(to_hdf5(element.base), element.shape)
        types = [to_hdf5(member) for _, member in element.fields]
        packed = _packed(types)
        tid = h5t.create(h5t.COMPOUND, packed[-1] if element.size is None else element.size)
        for (name, _), offset, member in zip(element.fields, element.offsets or packed[:-1], types, strict=True):
            tid.insert(raw_of(name), offset, member)
        return tid

    def in_numpy(self, element: Compound | ArrayOf | Sequence) -> Element | None:
        if isinstance(element, ArrayOf):
            base = in_numpy(element.base)
            return None if base is None else ArrayOf(base, element.shape)
        if isinstance(element, Sequence) or element.offsets is not None:
            return None
        fields = [(name, in_numpy(member)) for name, member in element.fields]
        return Compound(tuple((name, member) for name, member in fields if member is not None))

    def encoder(self, element: Compound | ArrayOf | Sequence, refer: Convert) -> Convert:
        if isinstance(element, Compound):
            return _row_encoder([(name, encoder(member, refer)) for name, member in element.fields])
        convert = encoder(element.base, refer)
        dtype = to_hdf5(element.base).dtype if isinstance(element, Sequence) else None

        def encode(values: Any) -> Any:
            values = values if dtype is None else in_order_of(values, dtype)
            if getattr(values, "ndim", 0) > 1:
                return [encode(part) for part in values]
            return [convert(item) for item in values] if hasattr(values, "ndim") else []

        return encode

    def decoder(self, element: Compound | ArrayOf | Sequence, dtype: np.dtype[Any], refer: Convert) -> Convert:
        if isinstance(element, Sequence):
            base = to_hdf5(element.base).dtype
            return lambda value: decode_array(value, (len(value),), element.base, base, refer)
        if isinstance(element, ArrayOf):
            return lambda value: decode_array(value, element.shape, element.base, dtype.base, refer)
        if dtype.names is None:  # h5py reads two fields r and i as complex
            return lambda value: decode_number(value, dtype)
        converters = [kind_of(member).decoder(member, dtype[name], refer) for name, member in element.fields]
        return lambda value: tuple(convert(item) for convert, item in zip(converters, value, strict=True))

    def plain(self, values: Array, element: Compound | ArrayOf | Sequence, resolve: Convert) -> Array:
        import numpy as np

        if isinstance(element, ArrayOf):
            return plain_values(values, element.base, resolve)
        if isinstance(element, Sequence):
            return each(values, lambda item: _plain_sequence(item, element.base, resolve))
        columns = {name: plain_values(values[name], member, resolve) for name, member in element.fields}
        rows = np.empty(values.shape, [(name, c.dtype, c.shape[values.ndim :]) for name, c in columns.items()])
        for name, column in columns.items():
            rows[name] = column
        return rows


def _packed(types: list[Any]) -> list[int]:
    """Return the offsets of fields of these types without padding, and the bytes of all."""
    return [0, *itertools.accumulate(member.get_size() for member in types)]


def _row_encoder(fields: list[tuple[str, Convert]]) -> Convert:
    import numpy as np

    def encode(row: Any) -> list[Any]:
        if isinstance(row, (complex, np.complexfloating)):  # h5py reads two fields r and i as complex
            return [encode_number(row.real), encode_number(row.imag)]
        return [convert(row[name]) for name, convert in fields]

    return encode


def in_order_of(values: Any, dtype: np.dtype[Any]) -> Any:
    """Return a sequence from h5py with the byte order of the type in the file; h5py marks it as native."""
    has_order = hasattr(values, "ndim") and values.dtype == dtype.newbyteorder("=") and not dtype.isnative
    return values.view(dtype) if has_order else values


def _plain_sequence(item: Any, base: Element, resolve: Convert) -> Array:
    import numpy as np

    if not isinstance(item, np.ndarray):
        return np.empty(0)  # unwritten
    byte_order = getattr(base, "byte_order", "|")
    if item.dtype.isnative and byte_order != "|":
        # h5py returns the bytes as they are in the file, but with a native dtype
        item = item.view(item.dtype.newbyteorder(byte_order))
    return plain_values(item, base, resolve)
