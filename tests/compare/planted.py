"""An HDF5 file of everything that HDMF files hold, and single differences to plant in a copy of it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np

SPEC = {"namespaces": [{"name": "core", "version": "2.0", "doc": "é"}]}
TABLE = np.dtype([("start", "<i4"), ("target", h5py.ref_dtype), ("note", h5py.string_dtype())])
NUMBERS = {"shape": (6, 4), "dtype": "<i4", "chunks": (3, 2), "maxshape": (None, 4), "shuffle": True}


def ragged(*rows: list[int]) -> np.ndarray:
    made = np.empty(len(rows), dtype=h5py.vlen_dtype("<i8"))
    for index, row in enumerate(rows):
        made[index] = np.array(row)
    return made


RAGGED = ragged([1, 2], [4])


def write_sample(file: h5py.File) -> None:
    """One of everything that HDMF files hold."""
    file.attrs["namespace"] = "core"
    file.attrs["object_id"] = "00000000-0000-0000-0000-000000000001"
    group = file.create_group("group")
    group.attrs["count"] = np.uint8(5)
    group.attrs["rates"] = np.array([1.0, np.nan, 3.0], dtype="<f4")
    group.attrs["labels"] = ["a", "b"]
    group.attrs.create("author", "ä", dtype=h5py.string_dtype("utf-8"))
    group.attrs["empty"] = h5py.Empty("<f4")
    group.attrs["nothing"] = np.zeros((0, 2), "<i2")
    group.attrs["complex"] = np.array([1 + 2j])
    group.attrs.create(
        "ragged", np.array([np.array([1, 2]), np.array([3])], dtype=object), dtype=h5py.vlen_dtype("<i8")
    )
    numbers = file.create_dataset("numbers", compression="gzip", fillvalue=-1, **NUMBERS)
    numbers[...] = np.arange(24).reshape(6, 4)
    copied = file.create_dataset("numbers_copy", compression="gzip", fillvalue=-1, **NUMBERS)
    copied[...] = numbers[...]
    file.create_dataset("chunked", data=np.arange(5), chunks=(2,))
    layout = h5py.VirtualLayout((3,), "<f8")
    layout[...] = h5py.VirtualSource("elsewhere.h5", "/data", (3,))
    file.create_virtual_dataset("virtual", layout)
    file["plain"] = np.array([0.0, np.nan, -1.5, np.inf])
    file["scalar"] = np.float64(2.5)
    file["flags"] = np.array([True, False])
    file.create_dataset("text", data=["one", "två", ""], dtype=h5py.string_dtype("utf-8"))
    file.create_dataset("ascii", data=["one", "two"], dtype=h5py.string_dtype("utf-8"))
    file.create_dataset("filled", (3,), chunks=(2,), fillvalue="x", dtype=h5py.string_dtype("utf-8"))
    file.create_dataset("fixed", data=np.array([b"abc", b"de"], dtype="S5"))
    file["void"] = np.array([b"\0\1\2", b"abc"], dtype="V3")
    file["cube"] = np.zeros((2,), dtype=np.dtype([("v", "<f4", (3,)), ("w", ">i2")]))
    file.create_dataset("colour", data=[1, 2], dtype=h5py.enum_dtype({"red": 1, "blue": 2}, basetype="i1"))
    file["when"] = np.array([0, 5], dtype="M8[s]").astype(h5py.opaque_dtype("M8[s]"))
    file.create_dataset("null", data=h5py.Empty("<f8"))
    file["no_rows"] = np.zeros((0, 3))
    file["named"] = np.dtype("<i4")
    file["same"] = file["group"]
    file["soft"] = h5py.SoftLink("/plain")
    file["outside"] = h5py.ExternalLink("other.h5", "/data")
    file["group/root"] = file["/"]
    file["refs"] = np.array([file["plain"].ref, file["group"].ref, file["/"].ref], dtype=h5py.ref_dtype)
    file.create_dataset("null_ref", (1,), dtype=h5py.ref_dtype)
    file["regions"] = np.array(
        [file["numbers"].regionref[0:2, 1:3], file["plain"].regionref[...]], h5py.regionref_dtype
    )
    table = file.create_dataset("table", (2,), TABLE)
    table[...] = np.array([(1, file["plain"].ref, "x"), (2, file["numbers"].ref, "y")], TABLE)
    group.attrs["target"] = file["plain"].ref
    group.attrs.create("targets", [file["plain"].ref, file["refs"].ref], dtype=h5py.ref_dtype)
    group.attrs["part"] = file["plain"].regionref[1:3]
    file["specifications/core/2.0/namespace"] = json.dumps(SPEC)
    file.attrs[".specloc"] = file["specifications"].ref


def remake(file: h5py.File, path: str, **options: object) -> None:
    """Make a dataset anew with its values and all settings but some; it must not be the target of a reference."""
    old = file[path]
    kept = {
        "dtype": old.dtype,
        "chunks": old.chunks,
        "maxshape": old.maxshape if old.chunks else None,
        "compression": old.compression,
        "compression_opts": old.compression_opts,
        "shuffle": old.shuffle,
        "fillvalue": old.fillvalue if old.chunks else None,
        "data": old[()],
    }
    attributes = dict(old.attrs)
    del file[path]
    new = file.create_dataset(path, **(kept | options))
    new.attrs.update(attributes)


def relink(file: h5py.File, path: str, link: object) -> None:
    del file[path]
    file[path] = link


def put(path: str, index: object, value: object) -> Callable[[h5py.File], None]:
    def plant(file: h5py.File) -> None:
        file[path][index] = value

    return plant


def set_attribute(path: str, name: str, value: object, **options: object) -> Callable[[h5py.File], None]:
    return lambda file: file[path].attrs.create(name, value, **options)


def refer(file: h5py.File, path: str) -> h5py.Reference:
    return file[path].ref


def retype_table(field: str, dtype: object) -> Callable[[h5py.File], None]:
    def plant(file: h5py.File) -> None:
        fields = [(name, dtype if name == field else TABLE[name]) for name in TABLE.names or ()]
        rows = file["table"][...]
        del file["table"]
        file.create_dataset("table", data=rows.astype(np.dtype(fields)), dtype=np.dtype(fields))

    return plant


def change_row(file: h5py.File, field: str, value: object) -> None:
    rows = file["table"][...]
    rows[field][1] = value
    file["table"][...] = rows


def replace_reference(path: str, index: int, target: Callable[[h5py.File], object]) -> Callable[[h5py.File], None]:
    def plant(file: h5py.File) -> None:
        values = file[path][...]
        values[index] = target(file)
        file[path][...] = values

    return plant


# name -> kind, path, attribute, how the difference is planted in a copy of the sample
PLANTED: dict[str, tuple[str, str, str | None, Callable[[h5py.File], object]]] = {
    "missing dataset": ("missing", "/flags", None, lambda f: f.__delitem__("flags")),
    "missing link": ("missing", "/soft", None, lambda f: f.__delitem__("soft")),
    "missing name of an object": ("missing", "/group/root", None, lambda f: f.__delitem__("group/root")),
    "extra group": ("extra", "/new", None, lambda f: f.create_group("new")),
    "group for dataset": ("type", "/flags", None, lambda f: relink(f, "flags", f.create_group(None))),
    "dataset for link": ("type", "/soft", None, lambda f: relink(f, "soft", np.zeros(4))),
    "dataset for type": ("type", "/named", None, lambda f: relink(f, "named", np.zeros(4))),
    "soft link, other target": ("link", "/soft", None, lambda f: relink(f, "soft", h5py.SoftLink("/text"))),
    "hard for soft link": ("link", "/soft", None, lambda f: relink(f, "soft", f["plain"])),
    "hard link, other object": ("link", "/group/root", None, lambda f: relink(f, "group/root", f["same"])),
    "external for soft": ("link", "/soft", None, lambda f: relink(f, "soft", h5py.ExternalLink("other.h5", "/plain"))),
    "external, file": ("link", "/outside", None, lambda f: relink(f, "outside", h5py.ExternalLink("o2.h5", "/data"))),
    "external, path": ("link", "/outside", None, lambda f: relink(f, "outside", h5py.ExternalLink("other.h5", "/d"))),
    "wider integers": ("dtype", "/numbers_copy", None, lambda f: remake(f, "numbers_copy", dtype="<i8")),
    "unsigned": ("dtype", "/chunked", None, lambda f: remake(f, "chunked", dtype="<u8")),
    "bool as integer": ("dtype", "/flags", None, lambda f: remake(f, "flags", dtype="i1")),
    "enum, other names": (
        "dtype",
        "/colour",
        None,
        lambda f: remake(f, "colour", dtype=h5py.enum_dtype({"red": 1, "green": 2}, basetype="i1")),
    ),
    "named type": ("dtype", "/named", None, lambda f: relink(f, "named", np.dtype("<i8"))),
    "compound field": ("dtype", "/table", None, retype_table("start", np.dtype("<i8"))),
    "reference instead of region": (
        "dtype",
        "/null_ref",
        None,
        lambda f: relink(f, "null_ref", f.create_dataset(None, (1,), dtype=h5py.regionref_dtype)),
    ),
    "big-endian": ("byte-order", "/numbers_copy", None, lambda f: remake(f, "numbers_copy", dtype=">i4")),
    "big-endian field": ("byte-order", "/table", None, retype_table("start", np.dtype(">i4"))),
    "ascii": ("text-encoding", "/ascii", None, lambda f: remake(f, "ascii", dtype=h5py.string_dtype("ascii"))),
    "fixed length": (
        "text-encoding",
        "/ascii",
        None,
        lambda f: remake(f, "ascii", data=np.array([b"one", b"two"]), dtype=None),
    ),
    "longer text": ("text-encoding", "/fixed", None, lambda f: remake(f, "fixed", dtype="S6")),
    "fixed utf-8": (
        "text-encoding",
        "/fixed",
        None,
        lambda f: remake(f, "fixed", data=f["fixed"][...].astype(h5py.string_dtype("utf-8", 5)), dtype=None),
    ),
    "ascii field": ("text-encoding", "/table", None, retype_table("note", h5py.string_dtype("ascii"))),
    "more rows": ("shape", "/numbers", None, lambda f: f["numbers"].resize(7, axis=0)),
    "fewer rows, not growing": ("shape", "/text", None, lambda f: remake(f, "text", data=["one", "två"])),
    "scalar in an array": ("shape", "/scalar", None, lambda f: remake(f, "scalar", data=[2.5])),
    "limit": ("maxshape", "/numbers_copy", None, lambda f: remake(f, "numbers_copy", maxshape=(8, 4))),
    "chunks": ("chunks", "/numbers_copy", None, lambda f: remake(f, "numbers_copy", chunks=(6, 2))),
    "no chunks any more": ("chunks", "/chunked", None, lambda f: remake(f, "chunked", chunks=None, maxshape=None)),
    "virtual": ("layout", "/virtual", None, lambda f: relink(f, "virtual", np.zeros(3))),
    "level": ("filters", "/numbers_copy", None, lambda f: remake(f, "numbers_copy", compression_opts=9)),
    "no shuffle": ("filters", "/numbers_copy", None, lambda f: remake(f, "numbers_copy", shuffle=False)),
    "checksum": ("filters", "/numbers_copy", None, lambda f: remake(f, "numbers_copy", fletcher32=True)),
    "lzf": (
        "filters",
        "/numbers_copy",
        None,
        lambda f: remake(f, "numbers_copy", compression="lzf", compression_opts=None),
    ),
    "fill": ("fill", "/numbers_copy", None, lambda f: remake(f, "numbers_copy", fillvalue=7)),
    "text fill": ("fill", "/filled", None, lambda f: remake(f, "filled", fillvalue="y")),
    "number": ("value", "/numbers", None, put("numbers", (5, 3), 99)),
    "NaN to number": ("value", "/plain", None, put("plain", 1, 0.0)),
    "sign of zero": ("value", "/plain", None, put("plain", 0, -0.0)),
    "infinity": ("value", "/plain", None, put("plain", 3, -np.inf)),
    "scalar value": ("value", "/scalar", None, put("scalar", (), 2.6)),
    "flag": ("value", "/flags", None, put("flags", 1, True)),
    "letter": ("value", "/text", None, put("text", 1, "tva")),
    "fixed letter": ("value", "/fixed", None, put("fixed", 1, b"df")),
    "opaque": ("value", "/void", None, put("void", 0, np.void(b"\0\1\3"))),
    "enum value": ("value", "/colour", None, put("colour", 1, 1)),
    "time": (
        "value",
        "/when",
        None,
        lambda f: f["when"].write_direct(np.array([0, 6], "M8[s]").astype(f["when"].dtype)),
    ),
    "array in a compound": (
        "value",
        "/cube",
        None,
        lambda f: f["cube"].write_direct(np.array([((0, 0, 0), 0), ((0, 1, 0), 0)], f["cube"].dtype)),
    ),
    "field": ("value", "/table", None, lambda f: change_row(f, "start", 3)),
    "text field": ("value", "/table", None, lambda f: change_row(f, "note", "z")),
    "specification": (
        "value",
        "/specifications/core/2.0/namespace",
        None,
        put("specifications/core/2.0/namespace", (), json.dumps({"namespaces": []})),
    ),
    "reference": ("reference", "/refs", None, replace_reference("refs", 1, lambda f: f["text"].ref)),
    "null reference": ("reference", "/refs", None, replace_reference("refs", 1, lambda _: h5py.Reference())),
    "no null reference": ("reference", "/null_ref", None, replace_reference("null_ref", 0, lambda f: f["text"].ref)),
    "region": (
        "reference",
        "/regions",
        None,
        replace_reference("regions", 0, lambda f: f["numbers"].regionref[0:3, 1:3]),
    ),
    "region, target": (
        "reference",
        "/regions",
        None,
        replace_reference("regions", 1, lambda f: f["text"].regionref[...]),
    ),
    "reference field": ("reference", "/table", None, lambda f: change_row(f, "target", refer(f, "text"))),
    "reference attribute": (
        "reference",
        "/group",
        "target",
        lambda f: f["group"].attrs.create("target", refer(f, "text"), dtype=h5py.ref_dtype),
    ),
    "list of references": (
        "reference",
        "/group",
        "targets",
        lambda f: f["group"].attrs.create("targets", [refer(f, "plain"), refer(f, "text")], dtype=h5py.ref_dtype),
    ),
    "region attribute": (
        "reference",
        "/group",
        "part",
        lambda f: f["group"].attrs.create("part", f["plain"].regionref[0:3], dtype=h5py.regionref_dtype),
    ),
    "location of the specifications": (
        "reference",
        "/",
        ".specloc",
        lambda f: f.attrs.create(".specloc", refer(f, "group"), dtype=h5py.ref_dtype),
    ),
    "attribute": ("attribute", "/group", "count", set_attribute("group", "count", 6, dtype="u1")),
    "attribute, NaN": (
        "attribute",
        "/group",
        "rates",
        set_attribute("group", "rates", np.array([1, np.nan, np.nan], "<f4")),
    ),
    "attribute, text": ("attribute", "/", "namespace", set_attribute("/", "namespace", "cure")),
    "attribute, list": ("attribute", "/group", "labels", set_attribute("group", "labels", ["a", "c"])),
    "attribute, complex": ("attribute", "/group", "complex", set_attribute("group", "complex", np.array([1 - 2j]))),
    "attribute, ragged": (
        "attribute",
        "/group",
        "ragged",
        set_attribute("group", "ragged", RAGGED, dtype=RAGGED.dtype),
    ),
    "missing attribute": ("attribute", "/group", "labels", lambda f: f["group"].attrs.__delitem__("labels")),
    "missing empty attribute": ("attribute", "/group", "empty", lambda f: f["group"].attrs.__delitem__("empty")),
    "extra attribute": ("attribute", "/plain", "unit", set_attribute("plain", "unit", "V")),
    "attribute of a type": ("attribute", "/named", "unit", set_attribute("named", "unit", "V")),
    "attribute dtype": ("attribute-dtype", "/group", "count", set_attribute("group", "count", 5, dtype="u2")),
    "attribute text for number": ("attribute-dtype", "/group", "count", set_attribute("group", "count", "5")),
    "empty attribute dtype": ("attribute-dtype", "/group", "empty", set_attribute("group", "empty", h5py.Empty("<f8"))),
    "attribute order": (
        "attribute-byte-order",
        "/group",
        "rates",
        set_attribute("group", "rates", np.array([1, np.nan, 3], ">f4")),
    ),
    "attribute encoding": (
        "attribute-text-encoding",
        "/",
        "namespace",
        set_attribute("/", "namespace", "core", dtype=h5py.string_dtype("ascii")),
    ),
    "attribute, fixed length": (
        "attribute-text-encoding",
        "/",
        "namespace",
        set_attribute("/", "namespace", np.bytes_(b"core")),
    ),
    "attribute shape": ("attribute-shape", "/group", "count", set_attribute("group", "count", [5], dtype="u1")),
    "attribute, longer": ("attribute-shape", "/group", "labels", set_attribute("group", "labels", ["a", "b", "c"])),
    "attribute, empty for nothing": (
        "attribute-shape",
        "/group",
        "nothing",
        set_attribute("group", "nothing", h5py.Empty("<i2")),
    ),
    "object id": (
        "object_id",
        "/",
        "object_id",
        set_attribute("/", "object_id", "00000000-0000-0000-0000-000000000002"),
    ),
    "missing object id": ("object_id", "/", "object_id", lambda f: f.attrs.__delitem__("object_id")),
}


def changed(sample: Path, folder: Path, plant: Callable[[h5py.File], object]) -> Path:
    path = folder / "b.h5"
    shutil.copy(sample, path)
    with h5py.File(path, "r+") as file:
        plant(file)
    return path
