"""An HDF5 file with one of everything that a conversion must keep, beyond what HDMF writes."""

from pathlib import Path
from typing import Any

import h5py
import numpy as np
from h5py import h5d, h5p, h5r, h5s, h5t

UTF8, ASCII = h5py.string_dtype("utf-8"), h5py.string_dtype("ascii")
REF, REGION = h5py.ref_dtype, h5py.regionref_dtype
COLOURS = h5py.enum_dtype({"red": 1, "blue": 2}, basetype=">i2")
NUMBERS = ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16")
ROW = np.dtype([("start", "<i4"), ("target", REF), ("note", UTF8), ("weight", "<f4"), ("part", REGION)])
ODD_ROW = np.dtype(
    [
        ("target", REF), ("triple", "<i2", (3,)), ("inner", [("x", "<f8"), ("y", "S3")]), ("flag", "?"), ("z", "<c8"),
        ("text", "S4"), ("name", ASCII),
    ]
)  # fmt: skip
PLAIN_ROW = np.dtype([("x", "<f8"), ("y", ">i2"), ("z", "S3"), ("w", [("a", "?"), ("b", "<u1", (2,))])])
PADDED_ROW = np.dtype([("a", "i1"), ("b", "<f8")], align=True)


def low_level(file: h5py.File, path: str, tid: Any, values: Any, memory: Any = None) -> None:
    """Make a dataset of a type that h5py's own interface cannot make."""
    space = h5s.create_simple(values.shape) if values.shape else h5s.create(h5s.SCALAR)
    h5d.create(file.id, path.encode(), tid, space).write(h5s.ALL, h5s.ALL, values, memory)


def bfloat16(order: int = h5t.ORDER_LE) -> Any:
    """Return the type of floats of 2 bytes with the exponent of float32, which h5py reads as such."""
    tid = h5t.IEEE_F16LE.copy()
    tid.set_order(order)
    tid.set_fields(15, 7, 8, 0, 7)
    tid.set_ebias(127)
    return tid


def fixed_text(size: int, padding: int, charset: int) -> Any:
    tid = h5t.C_S1.copy()
    tid.set_size(size)
    tid.set_strpad(padding)
    tid.set_cset(charset)
    return tid


def references(*objects: Any) -> np.ndarray[Any, Any]:
    return np.array([None if node is None else node.ref for node in objects], REF)


def regions_of(target: h5py.Dataset) -> list[Any]:
    """Return region references of every form: a block, all, steps, indices, points, nothing."""
    points, nothing = target.id.get_space(), target.id.get_space()
    points.select_elements(np.array([[3, 1], [0, 0]], "u8"))
    nothing.select_none()
    result = [
        h5r.create(target.file.id, target.name.encode(), h5r.DATASET_REGION, space) for space in (points, nothing)
    ]
    blocks = [target.regionref[1:3, 0:2], target.regionref[...], target.regionref[::2, 1:4:2]]
    return [*blocks, target.regionref[[0, 2, 5], :], *result]


def write_everything(path: Path) -> Path:
    """Write the file.

    The target of references is ``/data/target``, a dataset of shape (6, 4) that lies at its first path by name.
    """
    with h5py.File(path, "w") as file:
        file.attrs["object_id"] = "id of the root"
        target = file.create_dataset("data/target", data=np.arange(24).reshape(6, 4))
        target.attrs["object_id"] = "id of the target"
        _numbers(file, file.create_group("numbers"))
        _storage(file, file.create_group("storage"))
        _text(file, file.create_group("text"))
        _references(file, file.create_group("references"), target)
        _rows(file.create_group("rows"), target)
        _links(file.create_group("links"), target)
        _attributes(file.create_group("attributes"), target)
        _scales(file, target)
        _specifications(file)
        file["type"] = np.dtype([("a", "<i4"), ("b", UTF8)])
        file["type"].attrs["ref"] = target.ref
        ordered = file.create_group("ordered", track_order=True)
        ordered.create_dataset("of named type", (2,), file["type"], track_order=True)
        ordered.create_group("inner")
        ordered.attrs.create("of named type", h5py.Empty("<i4"), dtype=file["type"])
        file["ünï cödé"] = np.arange(3)
        file.create_group("empty")
    return path


def _numbers(file: h5py.File, group: h5py.Group) -> None:
    for code in NUMBERS:
        for order in "<>":
            dtype = np.dtype(code).newbyteorder(order)
            group[f"{order}{code}"] = np.arange(5).astype(dtype)
            group[f"scalar {order}{code}"] = np.array(3, dtype)
            group.attrs.create(f"{order}{code}", np.arange(3), dtype=dtype)
            group.attrs.create(f"scalar {order}{code}", np.array(3), dtype=dtype)
    group["special"] = np.array([np.nan, np.inf, -np.inf, -0.0, 5e-324])
    group["bool"], group["scalar bool"] = np.array([True, False]), np.True_
    group.create_dataset("enum", data=[1, 2], dtype=COLOURS)
    group.create_dataset("scalar enum", data=2, dtype=COLOURS)
    wide = h5t.enum_create(h5t.STD_I32LE)
    wide.enum_insert(b"FALSE", 0)
    wide.enum_insert(b"TRUE", 1)
    low_level(file, "numbers/wide bool", wide, np.array([True, False]), h5t.py_create(np.dtype("?"), logical=True))
    low_level(file, "numbers/bits", h5t.STD_B16BE, np.array([1, 2], ">u2"), h5t.STD_B16BE)
    twelve = h5t.STD_U16LE.copy()
    twelve.set_precision(12)
    twelve.set_offset(2)
    low_level(file, "numbers/twelve bits", twelve, np.array([1, 4095], "<u2"))
    low_level(file, "numbers/bfloat16", bfloat16(), np.array([1.5, -2], "<f4"))
    group["opaque"], group["scalar opaque"] = np.array([b"\0\1\2", b"abc"], "V3"), np.void(b"abc")
    group["when"] = np.array([0, 5], "M8[s]").astype(h5py.opaque_dtype("M8[s]"))
    group["scalar when"] = np.array(5, "M8[ns]").astype(h5py.opaque_dtype("M8[ns]"))
    group.create_dataset("pairs", (3,), np.dtype(("<i2", (2,))))[...] = np.arange(6).reshape(3, 2)
    pair = h5t.array_create(h5t.STD_I16LE, (2,))
    scalar = h5d.create(file.id, b"numbers/scalar pair", pair, h5s.create(h5s.SCALAR))
    scalar.write(h5s.ALL, h5s.ALL, np.arange(2, dtype="<i2"), pair)
    group["nothing"] = np.zeros((0, 3), "<f4")
    group.create_dataset("null", data=h5py.Empty("<f8"))


def _storage(file: h5py.File, group: h5py.Group) -> None:
    data = np.arange(2000, dtype="<i4").reshape(100, 20)
    group.create_dataset("growing", data=data, chunks=(7, 20), maxshape=(None, 20))
    group.create_dataset("bounded", data=data, chunks=(7, 20), maxshape=(200, 40))
    many = {"compression": "gzip", "compression_opts": 9, "shuffle": True, "fletcher32": True}
    group.create_dataset("gzip", data=data, chunks=(10, 10), **many)
    group.create_dataset("lzf", data=data, chunks=(10, 10), compression="lzf")
    group.create_dataset("scaled", data=data, chunks=(10, 10), scaleoffset=0)
    if h5py.h5z.filter_avail(h5py.h5z.FILTER_SZIP):
        group.create_dataset("szip", data=data, chunks=(10, 10), compression="szip")
    group.create_dataset("half written", (100, 20), "<f4", chunks=(10, 10), fillvalue=-1.5)[:10] = 3
    never = h5p.create(h5p.DATASET_CREATE)
    never.set_fill_time(h5d.FILL_TIME_NEVER)
    h5d.create(group.id, b"never filled", h5t.STD_I32LE, h5s.create_simple((4,)), never).write(
        h5s.ALL, h5s.ALL, np.arange(4, dtype="<i4")
    )
    group.create_dataset("fill nan", (4,), "<f4", fillvalue=np.nan)
    group.create_dataset("fill text", (3,), UTF8, chunks=(2,), fillvalue="å")
    group.create_dataset("fill fixed", (3,), "S4", chunks=(2,), fillvalue=b"ab")
    group.create_dataset("fill bool", (3,), "?", fillvalue=True)
    group.create_dataset("fill enum", (3,), COLOURS, fillvalue=2)
    row = np.dtype([("a", "<i4"), ("b", "S3")])
    group.create_dataset("fill rows", (3,), row, fillvalue=np.array((1, b"x"), row))
    compact = h5p.create(h5p.DATASET_CREATE)
    compact.set_layout(h5d.COMPACT)
    values = np.arange(3, dtype="<i4")
    node = h5d.create(file.id, b"storage/compact", h5t.STD_I32LE, h5s.create_simple((3,)), compact)
    node.write(h5s.ALL, h5s.ALL, values)
    group.create_dataset("small chunks", data=np.arange(300_000, dtype="<i2"), chunks=(1000,), compression="gzip")
    group.create_dataset("large", data=np.arange(200_000.0).reshape(-1, 4))
    group.create_dataset("empty and growing", (0, 3), "<f8", maxshape=(None, 3), chunks=(8, 3))
    group.create_dataset("growing text", data=["a", "b"], dtype=UTF8, maxshape=(None,), chunks=(4,), compression="gzip")


def _text(file: h5py.File, group: h5py.Group) -> None:
    group.create_dataset("utf8", data=["one", "två", ""], dtype=UTF8)
    group.create_dataset("ascii", data=["one", ""], dtype=ASCII)
    group.create_dataset("2d", data=[["a", "b"], ["c", "d"]], dtype=UTF8)
    group.create_dataset("many", data=[f"element {i}" for i in range(3000)], dtype=UTF8)
    group.create_dataset("no utf8", data=np.array([b"\xff\xfe", b"a"], object), dtype=UTF8)
    group.create_dataset("scalar no utf8", data=b"\xff\xfe", dtype=ASCII)
    group.create_dataset("scalar", data="å", dtype=UTF8)
    group.create_dataset("scalar ascii", data="a", dtype=ASCII)
    group.create_dataset("scalar empty", data="", dtype=UTF8)
    group.create_dataset("none", (0,), UTF8)
    group.create_dataset("never written", (3,), UTF8)
    group.create_dataset("null", data=h5py.Empty(UTF8))
    for padding in (h5t.STR_NULLTERM, h5t.STR_NULLPAD, h5t.STR_SPACEPAD):
        for charset in (h5t.CSET_ASCII, h5t.CSET_UTF8):
            tid = fixed_text(5, padding, charset)
            memory = tid if padding == h5t.STR_NULLTERM else h5t.py_create(tid.dtype)
            # null-terminated text that has no terminator is not rare
            values = np.array([b"abcde", b"a", b""], tid.dtype)
            low_level(file, f"text/fixed {padding}{charset}", tid, values, memory)
            low_level(file, f"text/scalar fixed {padding}{charset}", tid, np.array(b"ab", tid.dtype), memory)


def _references(file: h5py.File, group: h5py.Group, target: h5py.Dataset) -> None:
    everything = references(target, file, group, file["numbers"])
    group.create_dataset("list", data=everything)
    group.create_dataset("grid", data=everything.reshape(2, 2))
    group.create_dataset("scalar", data=target.ref, dtype=REF)
    group.create_dataset("null", (2,), REF)
    group.create_dataset("scalar null", (), REF)
    group.create_dataset("none", (0,), REF)
    group.create_dataset("some null", data=references(None, target, None))
    regions = regions_of(target)
    group.create_dataset("regions", data=np.array(regions, REGION))
    group.create_dataset("scalar region", data=regions[0], dtype=REGION)
    group.create_dataset("null regions", (2,), REGION)


def _rows(group: h5py.Group, target: h5py.Dataset) -> None:
    regions = regions_of(target)
    rows = [(1, target.ref, "å", np.nan, regions[0]), (2, target.file.ref, "", 1.5, regions[2])]
    group.create_dataset("table", (3,), ROW, maxshape=(None,), chunks=(2,))[:2] = np.array(rows, ROW)
    group.create_dataset("one row", (), ROW)[()] = np.array(rows[0], ROW)
    group.create_dataset("no rows", (0,), ROW, maxshape=(None,), chunks=(2,))
    odd = np.zeros(2, ODD_ROW)
    odd["target"], odd["triple"] = references(target, target), [[1, 2, 3], [4, 5, 6]]
    odd["inner"], odd["flag"], odd["z"] = [(1.5, b"ab"), (np.inf, b"")], [True, False], [1 + 2j, 0]
    odd["text"], odd["name"] = [b"abcd", b"\xff"], ["p", "q"]
    group.create_dataset("odd", data=odd)
    plain = np.zeros(3, PLAIN_ROW)
    plain["x"], plain["z"], plain["w"]["b"] = [1, 2, np.nan], [b"a", b"bcd", b""], [[1, 2], [3, 4], [5, 6]]
    group.create_dataset("plain", data=plain, maxshape=(None,), chunks=(2,))
    group.create_dataset("plain scalar", data=plain[0])
    group.create_dataset("padded", data=np.array([(1, 2.5), (3, 4)], PADDED_ROW))


def _links(group: h5py.Group, target: h5py.Dataset) -> None:
    group["soft"] = h5py.SoftLink("/data/target")
    group.create_group("sub")["x"] = np.arange(3)
    group["relative"] = h5py.SoftLink("sub/x")
    group["to group"] = h5py.SoftLink("/text")
    group["through"] = h5py.SoftLink("/links/to group/utf8")
    group["hard"], group["to hard"] = target, h5py.SoftLink("/links/hard")
    group["root"], group["ring"] = group.file["/"], group


def _attributes(group: h5py.Group, target: h5py.Dataset) -> None:
    result = group.attrs
    result["text"], result["texts"], result["bool"], result["nan"] = "å", ["a", "b"], True, np.nan
    result.create("ascii", "a", dtype=ASCII)
    result.create("asciis", ["a", "b"], dtype=ASCII)
    result.create("one text", "a", shape=(1,), dtype=UTF8)
    result["fixed"], result["fixeds"] = np.bytes_(b"abc"), np.array([b"abc", b"d"])
    result["grid"] = np.array([["a", "b"], ["c", "d"]], dtype=object)
    result.create("no utf8", b"\xff", dtype=UTF8)
    result.create("fixed no utf8", np.array([b"\xff"]))
    result["empty"], result["empty text"] = h5py.Empty("<f4"), h5py.Empty(UTF8)
    result["none"], result["bools"] = np.zeros((0, 2), "<i2"), np.array([True, False])
    result.create("no text", np.zeros(0), dtype=UTF8)
    result.create("no fixed", np.zeros(0, "S4"))
    result["matrix"], result["opaque"] = np.arange(6, dtype=">u2").reshape(2, 3), np.void(b"ab")
    result.create("enum", 1, dtype=COLOURS)
    regions = regions_of(target)
    result["ref"], result["region"] = target.ref, regions[0]
    result.create("refs", references(target, group, group.file))
    result.create("grid of refs", references(target, group, group.file, target).reshape(2, 2))
    result.create("regions", np.array(regions, REGION))
    result.create("null ref", np.array(None, REF))
    result.create("no refs", np.zeros(0), dtype=REF)
    result["rows"] = np.zeros(2, PLAIN_ROW)
    result.create("pairs", np.arange(6).reshape(3, 2), shape=(3, 2), dtype=np.dtype(("<i2", (2,))))
    result.create("table", np.array([(1, target.ref, "x", np.nan, regions[0])], ROW))
    ragged = np.empty(2, object)
    ragged[0], ragged[1] = np.array([1, 2]), np.array([3])
    result.create("ragged", ragged, dtype=h5py.vlen_dtype("<i8"))
    result["zarr_dtype"], result["_ARRAY_DIMENSIONS"], result["_hdmf"] = "mine", ["x", "y"], 5


def _scales(file: h5py.File, target: h5py.Dataset) -> None:
    """Dimension scales are attributes of types that nothing else uses."""
    target.dims[0].label = "time"
    scale = file.create_dataset("data/time", data=np.arange(6.0))
    scale.make_scale("seconds")
    target.dims[0].attach_scale(scale)


def _specifications(file: h5py.File) -> None:
    cached = file.create_group("specifications")
    cached["core/2.0/namespace"] = (
        '{"namespaces": [{"name": "core", "doc": "Types.", "version": "2.0", "schema": [{"source": "types"}]}]}'
    )
    cached["core/2.0/types"] = '{"groups": []}'
    cached["core/2.0/é"] = '{"é":  1}'
    cached["core/1.0/namespace"] = "{}"
    file.attrs[".specloc"] = cached.ref
