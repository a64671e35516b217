"""Random HDF5 files: every type, layout, filter, link and order that a conversion to Zarr and back must keep.

Types are built with h5py's low-level interface and values are random bytes wherever the type allows them, so that
NaN payloads, signalling NaNs and non-ASCII text occur. One seed gives one file.
"""

import random
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from h5py import h5a, h5d, h5f, h5g, h5o, h5p, h5r, h5s, h5t, h5z

from tests.everything import fixed_text
from tests.hdf5.independent_comparison import is_plain, memory_of

SIZES = (1, 2, 4, 8)
PADDINGS = (h5t.STR_NULLTERM, h5t.STR_NULLPAD, h5t.STR_SPACEPAD)
CHARSETS = (h5t.CSET_ASCII, h5t.CSET_UTF8)
ORDERS = (h5p.CRT_ORDER_TRACKED, h5p.CRT_ORDER_TRACKED | h5p.CRT_ORDER_INDEXED)
TEXTS = ("", "a", "µV", "two words", "日本", "x" * 20)
NAMES = ("a", "b", "Zeta", "data", "0", "µ", "with space", "a.b", "unit", "10", "9")
_COMPLEX = getattr(h5t, "COMPLEX", -1)  # HDF5 2.0


class RandomFile:
    """Writes one random HDF5 file; the seed decides everything about it."""

    def __init__(self, place: Path, seed: int) -> None:
        self._random = random.Random(seed)  # noqa: S311 - not for secrets
        self._committed: list[Any] = []
        self._objects: list[bytes] = [b"/"]
        self._arrays: list[bytes] = []
        self._names = 0
        self._is_dataset = False
        creation = h5p.create(h5p.FILE_CREATE)
        creation.set_link_creation_order(self._order())
        creation.set_attr_creation_order(self._order())
        access = h5p.create(h5p.FILE_ACCESS)
        access.set_fclose_degree(h5f.CLOSE_STRONG)
        self._is_new = self._chance(0.5)
        if self._is_new:
            access.set_libver_bounds(h5f.LIBVER_V18, h5f.LIBVER_LATEST)
        self._file = h5f.create(str(place).encode(), h5f.ACC_TRUNC, creation, access)
        try:
            self._fill_group(b"", h5g.open(self._file, b"/"), depth=2)
            for path in self._objects:
                node = h5o.open(self._file, path)
                for _ in range(self._random.randint(0, 4)):
                    self._attribute(node)
        finally:
            self._file.close()

    def _one(self, *choices: Any) -> Any:
        return self._random.choice(choices)

    def _chance(self, probability: float) -> bool:
        return self._random.random() < probability

    def _order(self) -> int:
        return int(self._one(0, 0, *ORDERS))

    # ---- types ------------------------------------------------------------------------------------------------------
    def _number_type(self) -> Any:
        kind = self._one("STD_I", "STD_U", "IEEE_F", "IEEE_F")
        size = self._one(*SIZES[1:]) if kind == "IEEE_F" else self._one(*SIZES)
        return getattr(h5t, f"{kind}{8 * size}{self._one('LE', 'BE')}")

    def _complex_type(self) -> Any:
        size, order = self._one(4, 8), self._one("LE", "BE")
        if self._chance(0.3) and hasattr(h5t, "COMPLEX_IEEE_F32LE"):
            return getattr(h5t, f"COMPLEX_IEEE_F{8 * size}{order}")
        part = getattr(h5t, f"IEEE_F{8 * size}{order}")
        tid = h5t.create(h5t.COMPOUND, 2 * size)
        tid.insert(b"r", 0, part)
        tid.insert(b"i", size, part)
        return tid

    def _enum_type(self) -> Any:
        if self._chance(0.4):
            return h5t.py_create(np.dtype("?"), logical=True)
        base = f"STD_{self._one('I', 'U')}{self._one(8, 16, 32, 64)}{self._one('LE', 'BE')}"
        tid = h5t.enum_create(getattr(h5t, base))
        for number, name in enumerate(self._random.sample(["red", "green", "bleu clair", "FALSE", "TRUE"], 3)):
            tid.enum_insert(name.encode(), number * 3)
        return tid

    def _fixed_text_type(self) -> Any:
        return self._text_type(self._random.randint(1, 12))

    def _text_type(self, size: int = h5t.VARIABLE) -> Any:
        return fixed_text(size, self._one(*PADDINGS), self._one(*CHARSETS))

    def _opaque_type(self) -> Any:
        tid = h5t.create(h5t.OPAQUE, self._random.randint(1, 9))
        tid.set_tag(self._one(b"", b"tag", b"a longer tag"))
        return tid

    def _odd_number_type(self) -> Any:
        tid = self._one(h5t.STD_U16LE, h5t.STD_I32BE, h5t.STD_U32LE).copy()
        bits = 8 * tid.get_size()
        least = 3 if self._is_new else bits // 2  # HDF5 2.0 refuses less in a file without checksums
        tid.set_precision(self._random.randint(least, bits - 4))
        tid.set_offset(self._random.randint(0, 4))
        return tid

    def _plain_type(self, depth: int = 2) -> Any:
        makers = [self._number_type] * 4 + [self._complex_type, self._enum_type, self._fixed_text_type]
        makers += [self._opaque_type, self._bitfield_type, self._odd_number_type]
        if depth:
            makers += [lambda: self._compound_type(lambda: self._plain_type(depth - 1))] * 2
            makers.append(lambda: self._array_type(depth))
        return self._one(*makers)()

    def _bitfield_type(self) -> Any:
        return getattr(h5t, f"STD_B{self._one(8, 16, 32, 64)}{self._one('LE', 'BE')}")

    def _array_type(self, depth: int) -> Any:
        shape = tuple(self._random.randint(1, 3) for _ in range(self._random.randint(1, 2)))
        while True:
            base = self._plain_type(depth - 1)
            if base.get_class() != h5t.ARRAY:
                return h5t.array_create(base, shape)

    def _compound_type(self, member: Any) -> Any:
        members = [member() for _ in range(self._random.randint(1, 4))]
        gaps = [self._one(0, 0, 0, 4) for _ in range(len(members) + 1)] if self._chance(0.3) else [0] * 9
        offset, places = gaps[0], []
        for tid, gap in zip(members, gaps[1:], strict=False):
            places.append(offset)
            offset += tid.get_size() + gap
        result = h5t.create(h5t.COMPOUND, offset)
        for name, location, tid in zip(NAMES, places, members, strict=False):
            result.insert(name.encode(), location, tid)
        return result

    def _rich_type(self) -> Any:
        makers = [self._text_type, self._text_type, self._reference_type]
        makers.append(lambda: self._compound_type(self._rich_member))
        return self._one(*makers)()

    def _rich_member(self) -> Any:
        makers = [self._text_type, self._reference_type, self._number_type, self._enum_type]
        makers += [self._fixed_text_type, self._complex_type, self._opaque_type]
        return self._one(*makers, *([] if self._is_dataset else [self._sequence_type]))()  # refused in datasets

    def _reference_type(self) -> Any:
        return self._one(h5t.STD_REF_OBJ, h5t.STD_REF_OBJ, h5t.STD_REF_DSETREG)

    def _sequence_type(self) -> Any:
        base = self._one(self._number_type, self._number_type, self._complex_type)()
        return h5t.vlen_create(base if base.get_class() != _COMPLEX else h5t.IEEE_F64BE)  # h5py has no such sequence

    # ---- values -----------------------------------------------------------------------------------------------------
    def _bytes_of(self, tid: Any) -> bytes:
        form, size = tid.get_class(), tid.get_size()
        if form == h5t.COMPOUND:
            result = bytearray(size)
            for index in range(tid.get_nmembers()):
                location, member = tid.get_member_offset(index), tid.get_member_type(index)
                result[location : location + member.get_size()] = self._bytes_of(member)
            return bytes(result)
        if form == h5t.ARRAY:
            return b"".join(self._bytes_of(tid.get_super()) for _ in range(int(np.prod(tid.get_array_dims()))))
        if form == _COMPLEX:
            return self._bytes_of(tid.get_super()) + self._bytes_of(tid.get_super())
        order = "big" if form in (h5t.INTEGER, h5t.FLOAT, h5t.ENUM, h5t.BITFIELD) and _is_big(tid) else "little"
        if form == h5t.ENUM:
            return int(tid.get_member_value(self._random.randrange(tid.get_nmembers()))).to_bytes(size, order)
        if form == h5t.STRING:
            return self._fixed_text(tid)
        if form == h5t.INTEGER and tid.get_precision() < 8 * size:
            return (self._random.getrandbits(tid.get_precision()) << tid.get_offset()).to_bytes(size, order)
        if form == h5t.FLOAT and self._chance(0.5):
            return self._special(size, order)
        return self._one(bytes(size), self._random.randbytes(size), self._random.randbytes(size))

    def _special(self, size: int, order: str) -> bytes:
        """Return a NaN of any payload, quiet or signalling, an infinity, a zero or a denormal."""
        quiet, infinite = {2: (0x7E00, 0x7C00), 4: (0x7FC00000, 0x7F800000), 8: (0x7FF8 << 48, 0x7FF0 << 48)}[size]
        sign = self._one(0, 1 << (8 * size - 1))
        number = self._one(quiet, quiet | 5, infinite | 1, infinite, 0, 1)
        return int(number | sign).to_bytes(size, order)  # type: ignore[arg-type] # a literal

    def _fixed_text(self, tid: Any) -> bytes:
        size, padding = tid.get_size(), tid.get_strpad()
        text = self._one(*TEXTS) if tid.get_cset() == h5t.CSET_UTF8 else self._one("", "a", "two words", "abc")
        raw = text.encode()
        while len(raw) > size:
            text = text[:-1]
            raw = text.encode()
        return raw.ljust(size, b" " if padding == h5t.STR_SPACEPAD else b"\0")

    def _value(self, tid: Any, dtype: np.dtype[Any]) -> Any:
        """Return one value of a rich type, as an array of ``dtype`` takes it."""
        form = tid.get_class()
        if form == h5t.STRING and tid.is_variable_str():
            return (self._one(*TEXTS) if tid.get_cset() == h5t.CSET_UTF8 else self._one("", "a", "abc")).encode()
        if form == h5t.REFERENCE:
            return self._reference(is_region=h5py.check_ref_dtype(dtype) is h5py.RegionReference)
        if form == h5t.VLEN:
            base = tid.get_super()
            raw = b"".join(self._bytes_of(base) for _ in range(self._random.randint(0, 3)))
            return np.frombuffer(raw, base.dtype)
        if form == h5t.COMPOUND and dtype.names is not None:
            members = [tid.get_member_type(index) for index in range(tid.get_nmembers())]
            return tuple(self._value(m, dtype[name]) for m, name in zip(members, dtype.names, strict=True))
        return np.frombuffer(self._bytes_of(tid), dtype)[0]

    def _reference(self, *, is_region: bool) -> Any:
        if self._chance(0.15) or (is_region and not self._arrays):
            return h5r.RegionReference() if is_region else h5r.Reference()
        if not is_region:
            return h5r.create(self._file, self._one(*self._objects), h5r.OBJECT)
        path = self._one(*self._arrays)
        space = h5d.open(self._file, path).get_space()
        self._select(space)
        return h5r.create(self._file, path, h5r.DATASET_REGION, space)

    def _select(self, space: Any) -> tuple[int, ...]:
        shape = space.get_simple_extent_dims()
        starts = tuple(self._random.randrange(n) for n in shape)
        counts = tuple(self._random.randint(1, n - start) for n, start in zip(shape, starts, strict=True))
        space.select_hyperslab(starts, counts)
        return counts

    def _write(self, target: Any, tid: Any, shape: tuple[int, ...], region: Any = None) -> None:
        count = int(np.prod(shape))
        if is_plain(tid):
            flat: Any = np.frombuffer(b"".join(self._bytes_of(tid) for _ in range(count)), f"V{tid.get_size()}").copy()
        else:
            flat = np.empty(count, tid.dtype)
            for index in range(count):
                flat[index] = self._value(tid, tid.dtype)
        where = [] if isinstance(target, h5a.AttrID) else [h5s.ALL, h5s.ALL]
        if region is not None:
            where = [h5s.create_simple(shape), region]
        target.write(*where, flat.reshape(shape), memory_of(tid))

    # ---- objects ----------------------------------------------------------------------------------------------------
    def _name(self) -> bytes:
        self._names += 1
        return f"{self._one(*NAMES)}{self._names}".encode()

    def _fill_group(self, path: bytes, group: Any, depth: int) -> None:
        for _ in range(self._random.randint(1, 6)):
            name = self._name()
            here = path + b"/" + name
            kind = self._one(*["dataset"] * 6, "group", "group", "type", "hard", "soft", "external")
            if kind == "group" and depth:
                creation = h5p.create(h5p.GROUP_CREATE)
                creation.set_link_creation_order(self._order())
                creation.set_attr_creation_order(self._order())
                result = h5g.create(group, name, lcpl=_utf8(), gcpl=creation)
                self._objects.append(here)
                self._fill_group(here, result, depth - 1)
            elif kind == "type":
                tid = self._one(self._plain_type, self._rich_type, self._sequence_type)().copy()
                tid.commit(group, name, _utf8())
                self._objects.append(here)
                if is_plain(tid):
                    self._committed.append(tid)
            elif kind == "hard" and len(self._objects) > 1:
                group.links.create_hard(name, self._file, self._one(*self._objects[1:]), _utf8())
            elif kind == "soft":
                group.links.create_soft(name, self._one(b"/nowhere", b"nowhere/at/all", *self._objects), _utf8())
            elif kind == "external":
                group.links.create_external(name, b"no such file.h5", self._one(b"/", b"/a/b"), _utf8())
            else:
                self._dataset(group, name)
                self._objects.append(here)
                shape = h5d.open(group, name).get_space().get_simple_extent_dims()
                if shape and 0 not in shape:
                    self._arrays.append(here)

    def _dataset(self, group: Any, name: bytes) -> None:  # noqa: C901 - one choice after the other
        if self._committed and self._chance(0.15):
            tid = self._one(*self._committed)
        else:
            self._is_dataset = True
            tid = self._rich_type() if self._chance(0.3) else self._plain_type()
            self._is_dataset = False
        creation = h5p.create(h5p.DATASET_CREATE)
        creation.set_attr_creation_order(self._order())
        form = self._one("scalar", "null", "array", "array", "array", "array", "chunked", "chunked", "chunked", "empty")
        if form == "null":
            h5d.create(group, name, tid, h5s.create(h5s.NULL), creation, lcpl=_utf8())
            return
        self._set_fill(creation, tid)
        if form == "scalar":
            self._write(h5d.create(group, name, tid, h5s.create(h5s.SCALAR), creation, lcpl=_utf8()), tid, ())
            return
        rank = 1 if (tid.get_class() == h5t.COMPOUND and not is_plain(tid)) else self._random.randint(1, 3)
        shape = tuple(self._random.randint(1, 6) for _ in range(rank))
        if form == "empty":
            shape = (0, *shape[1:])
        maxshape = shape
        if form != "array":
            maxshape = tuple(self._one(n, n + 3, h5s.UNLIMITED) or 1 for n in shape)
            bounds = [6 if n == h5s.UNLIMITED else n for n in maxshape]
            creation.set_chunk(tuple(self._random.randint(1, max(1, n)) for n in bounds))
            self._set_filters(creation, tid)
        elif self._chance(0.15) and tid.get_size() * int(np.prod(shape)) < 2000:
            creation.set_layout(h5d.COMPACT)
        result = h5d.create(group, name, tid, h5s.create_simple(shape, maxshape), creation, lcpl=_utf8())
        if form == "empty":
            return
        is_filled_text = tid.get_class() == h5t.STRING and creation.fill_value_defined() == h5d.FILL_VALUE_USER_DEFINED
        if is_filled_text:  # HDF5 itself does not read such a fill value in a file that is open for reading
            self._write(result, tid, shape)
        elif self._chance(0.25):
            space = result.get_space()
            self._write(result, tid, self._select(space), space)
        elif not self._chance(0.1):
            self._write(result, tid, shape)

    def _set_fill(self, creation: Any, tid: Any) -> None:
        if not self._chance(0.4):
            return
        form = tid.get_class()
        if form == h5t.STRING and tid.is_variable_str():
            charset = "utf-8" if tid.get_cset() == h5t.CSET_UTF8 else "ascii"
            creation.set_fill_value(np.array(self._one("", "fill", "x"), dtype=h5py.string_dtype(charset)))
        elif form in (h5t.INTEGER, h5t.FLOAT, h5t.ENUM) or (form == h5t.COMPOUND and _is_simple(tid)):
            creation.set_fill_value(np.frombuffer(self._bytes_of(tid), tid.dtype).reshape(()))

    def _set_filters(self, creation: Any, tid: Any) -> None:
        form = tid.get_class()
        if not is_plain(tid):
            if self._chance(0.3):
                creation.set_deflate(4)
            return
        if form == h5t.INTEGER and self._chance(0.15):
            creation.set_scaleoffset(h5z.SO_INT, 0)
        elif form in (h5t.INTEGER, h5t.FLOAT) and self._chance(0.1):
            creation.set_filter(h5z.FILTER_NBIT, h5z.FLAG_OPTIONAL, ())
        if self._chance(0.4):
            creation.set_shuffle()
        compression = self._one("gzip", "gzip", "lzf", None)
        if compression == "gzip":
            creation.set_deflate(self._random.randint(0, 9))
        elif compression == "lzf":
            creation.set_filter(h5z.FILTER_LZF, h5z.FLAG_OPTIONAL, ())
        if self._chance(0.3):
            creation.set_fletcher32()

    # ---- attributes -------------------------------------------------------------------------------------------------
    def _attribute(self, node: Any) -> None:
        makers = [self._plain_type, self._plain_type, self._number_type, self._rich_type, self._sequence_type]
        tid = self._one(*self._committed) if self._committed and self._chance(0.1) else self._one(*makers)()
        form = self._one("scalar", "scalar", "array", "array", "null", "empty")
        if form == "null":
            h5a.create(node, self._name(), tid, h5s.create(h5s.NULL))
            return
        shape = () if form == "scalar" else tuple(self._random.randint(1, 3) for _ in range(self._random.randint(1, 2)))
        shape = (0, *shape[1:]) if form == "empty" else shape
        space = h5s.create_simple(shape) if shape else h5s.create(h5s.SCALAR)
        result = h5a.create(node, self._name(), tid, space)
        if 0 not in shape:
            self._write(result, tid, shape)


def _utf8() -> Any:
    creation = h5p.create(h5p.LINK_CREATE)
    creation.set_char_encoding(h5t.CSET_UTF8)
    return creation


def _is_big(tid: Any) -> bool:
    return bool((tid.get_super() if tid.get_class() == h5t.ENUM else tid).get_order() == h5t.ORDER_BE)


def _is_simple(tid: Any) -> bool:
    """Tell whether h5py can set a fill value of a compound: numbers only, without gaps."""
    members = [tid.get_member_type(index) for index in range(tid.get_nmembers())]
    packed = sum(member.get_size() for member in members) == tid.get_size()
    return packed and all(member.get_class() in (h5t.INTEGER, h5t.FLOAT) for member in members)
