"""An HDF5 file of everything that HDMF files hold, and single differences to plant in a copy of it."""

import json
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from hdmf_zarr_backend.comparison import Difference

SPEC = {"namespaces": [{"name": "core", "version": "2.0", "doc": "é"}]}
TABLE = np.dtype([("start", "<i4"), ("target", h5py.ref_dtype), ("note", h5py.string_dtype())])
NUMBERS = {"shape": (6, 4), "dtype": "<i4", "chunks": (3, 2), "maxshape": (None, 4), "shuffle": True}


def ragged(*rows: list[int]) -> np.ndarray:
    result = np.empty(len(rows), dtype=h5py.vlen_dtype("<i8"))
    for index, row in enumerate(rows):
        result[index] = np.array(row)
    return result


RAGGED = ragged([1, 2], [4])


def write_sample(file: h5py.File) -> None:
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
    group.attrs.create("ragged", ragged([1, 2], [3]), dtype=h5py.vlen_dtype("<i8"))
    numbers = file.create_dataset("numbers", compression="gzip", fillvalue=-1, **NUMBERS)
    numbers[...] = np.arange(24).reshape(6, 4)
    file.create_dataset("numbers_copy", compression="gzip", fillvalue=-1, **NUMBERS)[...] = numbers[...]
    file.create_dataset("chunked", data=np.arange(5), chunks=(2,))
    layout = h5py.VirtualLayout((3,), "<f8")
    layout[...] = h5py.VirtualSource("elsewhere.h5", "/data", (3,))
    file.create_virtual_dataset("virtual", layout)
    file["plain"] = np.array([0.0, np.nan, -1.5, np.inf])
    file["scalar"] = np.float64(2.5)
    file["flags"] = np.array([True, False])
    file.create_dataset("named_one", data=1).attrs["object_id"] = "00000000-0000-0000-0000-000000000003"
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
    regions = [file["numbers"].regionref[0:2, 1:3], file["plain"].regionref[...]]
    file["regions"] = np.array(regions, h5py.regionref_dtype)
    table = file.create_dataset("table", (2,), TABLE)
    table[...] = np.array([(1, file["plain"].ref, "x"), (2, file["numbers"].ref, "y")], TABLE)
    rows = file.create_group("trials")
    rows.attrs["colnames"] = ["start"]
    rows.create_dataset("id", data=np.arange(4), maxshape=(None,), chunks=(2,))
    rows.create_dataset("start", data=np.zeros(4), maxshape=(None,), chunks=(2,))
    group.attrs["target"] = file["plain"].ref
    group.attrs.create("targets", [file["plain"].ref, file["refs"].ref], dtype=h5py.ref_dtype)
    group.attrs["part"] = file["plain"].regionref[1:3]
    file["specifications/core/2.0/namespace"] = json.dumps(SPEC)
    file.attrs[".specloc"] = file["specifications"].ref


Plant = Callable[[h5py.File], object]


def of(value: Any, file: h5py.File) -> Any:
    return value(file) if callable(value) else value


def remade(path: str, **options: object) -> Plant:
    """Make a dataset anew with its values and all settings but some; it must not be the target of a reference."""

    def plant(file: h5py.File) -> None:
        old = file[path]
        kept = {
            "dtype": old.dtype, "chunks": old.chunks, "maxshape": old.maxshape if old.chunks else None,
            "compression": old.compression, "compression_opts": old.compression_opts, "shuffle": old.shuffle,
            "fillvalue": old.fillvalue if old.chunks else None, "data": old[()],
        }  # fmt: skip
        attributes = dict(old.attrs)
        del file[path]
        file.create_dataset(path, **(kept | options)).attrs.update(attributes)

    return plant


def relinked(path: str, link: Any) -> Plant:
    return lambda file: (file.__delitem__(path), file.__setitem__(path, of(link, file)))


def dropped(path: str, attribute: str | None = None) -> Plant:
    return lambda file: (file if attribute is None else file[path].attrs).__delitem__(attribute or path)


def put(path: str, index: object, value: Any) -> Plant:
    """Change an element; of references, by reading and writing all."""

    def plant(file: h5py.File) -> None:
        if file[path].shape and file[path].dtype in (h5py.ref_dtype, h5py.regionref_dtype):
            values = file[path][...]
            values[index] = of(value, file)
            file[path][...] = values
        else:
            file[path][index] = value

    return plant


def attribute(path: str, name: str, value: Any, **options: object) -> Plant:
    return lambda file: file[path].attrs.create(name, of(value, file), **options)


def retyped(field: str, dtype: object) -> Plant:
    def plant(file: h5py.File) -> None:
        fields = [(name, dtype if name == field else TABLE[name]) for name in TABLE.names or ()]
        rows = file["table"][...]
        del file["table"]
        file.create_dataset("table", data=rows.astype(np.dtype(fields)), dtype=np.dtype(fields))

    return plant


def field(name: str, value: Any) -> Plant:
    def plant(file: h5py.File) -> None:
        rows = file["table"][...]
        rows[name][1] = of(value, file)
        file["table"][...] = rows

    return plant


def ref(path: str) -> Callable[[h5py.File], h5py.Reference]:
    return lambda file: file[path].ref


def text(charset: str, length: int | None = None) -> Any:
    return h5py.string_dtype(charset, length)


COPY, NAMESPACE, REF = "numbers_copy", "specifications/core/2.0/namespace", {"dtype": h5py.ref_dtype}
FIXED = np.array([b"abc", b"de"], text("utf-8", 5))
REGION, ASCII = h5py.regionref_dtype, h5py.string_dtype("ascii")
GREEN = h5py.enum_dtype({"red": 1, "green": 2}, basetype="i1")

# name -> kind, path (and attribute, behind an @), how the difference is planted in a copy of the sample
PLANTED: dict[str, tuple[str, str, Plant]] = {
    "missing dataset": ("missing", "/flags", dropped("flags")),
    "missing link": ("missing", "/soft", dropped("soft")),
    "other name": ("renamed", "/named_one", lambda f: f.move("named_one", "named_two")),
    "last row": ("rows", "/trials", lambda f: [f[f"trials/{name}"].resize((3,)) for name in ("id", "start")]),
    "missing name of an object": ("missing", "/group/root", dropped("group/root")),
    "extra group": ("extra", "/new", lambda f: f.create_group("new")),
    "group for dataset": ("type", "/flags", relinked("flags", lambda f: f.create_group(None))),
    "dataset for link": ("type", "/soft", relinked("soft", np.zeros(4))),
    "dataset for type": ("type", "/named", relinked("named", np.zeros(4))),
    "soft link, other target": ("link", "/soft", relinked("soft", h5py.SoftLink("/text"))),
    "hard for soft link": ("link", "/soft", relinked("soft", lambda f: f["plain"])),
    "hard link, other object": ("link", "/group/root", relinked("group/root", lambda f: f["same"])),
    "external for soft": ("link", "/soft", relinked("soft", h5py.ExternalLink("other.h5", "/plain"))),
    "external, file": ("link", "/outside", relinked("outside", h5py.ExternalLink("o2.h5", "/data"))),
    "external, path": ("link", "/outside", relinked("outside", h5py.ExternalLink("other.h5", "/d"))),
    "wider integers": ("dtype", "/numbers_copy", remade(COPY, dtype="<i8")),
    "unsigned": ("dtype", "/chunked", remade("chunked", dtype="<u8")),
    "bool as integer": ("dtype", "/flags", remade("flags", dtype="i1")),
    "enum, other names": ("dtype", "/colour", remade("colour", dtype=GREEN)),
    "named type": ("dtype", "/named", relinked("named", np.dtype("<i8"))),
    "compound field": ("dtype", "/table", retyped("start", np.dtype("<i8"))),
    "region for reference": ("dtype", "/null_ref", remade("null_ref", data=None, shape=(1,), dtype=REGION)),
    "big-endian": ("byte-order", "/numbers_copy", remade(COPY, dtype=">i4")),
    "big-endian field": ("byte-order", "/table", retyped("start", np.dtype(">i4"))),
    "ascii": ("text-encoding", "/ascii", remade("ascii", dtype=text("ascii"))),
    "fixed length": ("text-encoding", "/ascii", remade("ascii", data=np.array([b"one", b"two"]), dtype=None)),
    "longer text": ("text-encoding", "/fixed", remade("fixed", dtype="S6")),
    "fixed utf-8": ("text-encoding", "/fixed", remade("fixed", data=FIXED, dtype=None)),
    "ascii field": ("text-encoding", "/table", retyped("note", text("ascii"))),
    "more rows": ("shape", "/numbers", lambda f: f["numbers"].resize(7, axis=0)),
    "fewer rows, not growing": ("shape", "/text", remade("text", data=["one", "två"])),
    "scalar in an array": ("shape", "/scalar", remade("scalar", data=[2.5])),
    "limit": ("maxshape", "/numbers_copy", remade(COPY, maxshape=(8, 4))),
    "chunks": ("chunks", "/numbers_copy", remade(COPY, chunks=(6, 2))),
    "no chunks any more": ("chunks", "/chunked", remade("chunked", chunks=None, maxshape=None)),
    "virtual": ("layout", "/virtual", relinked("virtual", np.zeros(3))),
    "level": ("filters", "/numbers_copy", remade(COPY, compression_opts=9)),
    "no shuffle": ("filters", "/numbers_copy", remade(COPY, shuffle=False)),
    "checksum": ("filters", "/numbers_copy", remade(COPY, fletcher32=True)),
    "lzf": ("filters", "/numbers_copy", remade(COPY, compression="lzf", compression_opts=None)),
    "fill": ("fill", "/numbers_copy", remade(COPY, fillvalue=7)),
    "text fill": ("fill", "/filled", remade("filled", fillvalue="y")),
    "number": ("value", "/numbers", put("numbers", (5, 3), 99)),
    "NaN to number": ("value", "/plain", put("plain", 1, 0.0)),
    "sign of zero": ("value", "/plain", put("plain", 0, -0.0)),
    "infinity": ("value", "/plain", put("plain", 3, -np.inf)),
    "scalar value": ("value", "/scalar", put("scalar", (), 2.6)),
    "flag": ("value", "/flags", put("flags", 1, True)),
    "letter": ("value", "/text", put("text", 1, "tva")),
    "fixed letter": ("value", "/fixed", put("fixed", 1, b"df")),
    "opaque": ("value", "/void", put("void", 0, np.void(b"\0\1\3"))),
    "enum value": ("value", "/colour", put("colour", 1, 1)),
    "time": ("value", "/when", lambda f: f["when"].write_direct(np.array([0, 6], "M8[s]").astype(f["when"].dtype))),
    "array in a compound": ("value", "/cube", lambda f: f["cube"].write_direct(
        np.array([((0, 0, 0), 0), ((0, 1, 0), 0)], f["cube"].dtype))),
    "field": ("value", "/table", field("start", 3)),
    "text field": ("value", "/table", field("note", "z")),
    "specification": ("value", f"/{NAMESPACE}", put(NAMESPACE, (), json.dumps({"namespaces": []}))),
    "reference": ("reference", "/refs", put("refs", 1, ref("text"))),
    "null reference": ("reference", "/refs", put("refs", 1, lambda _: h5py.Reference())),
    "no null reference": ("reference", "/null_ref", put("null_ref", 0, ref("text"))),
    "region": ("reference", "/regions", put("regions", 0, lambda f: f["numbers"].regionref[0:3, 1:3])),
    "region, target": ("reference", "/regions", put("regions", 1, lambda f: f["text"].regionref[...])),
    "reference field": ("reference", "/table", field("target", ref("text"))),
    "reference attribute": ("reference", "/group@target", attribute("group", "target", ref("text"), **REF)),
    "list of references": ("reference", "/group@targets", attribute(
        "group", "targets", lambda f: [f["plain"].ref, f["text"].ref], **REF)),
    "region attribute": ("reference", "/group@part", attribute(
        "group", "part", lambda f: f["plain"].regionref[0:3], dtype=REGION)),
    "location of the specifications": ("reference", "/@.specloc", attribute("/", ".specloc", ref("group"), **REF)),
    "attribute": ("attribute", "/group@count", attribute("group", "count", 6, dtype="u1")),
    "attribute, NaN": ("attribute", "/group@rates", attribute("group", "rates", np.array([1, np.nan, np.nan], "<f4"))),
    "attribute, text": ("attribute", "/@namespace", attribute("/", "namespace", "cure")),
    "attribute, list": ("attribute", "/group@labels", attribute("group", "labels", ["a", "c"])),
    "attribute, complex": ("attribute", "/group@complex", attribute("group", "complex", np.array([1 - 2j]))),
    "attribute, ragged": ("attribute", "/group@ragged", attribute("group", "ragged", RAGGED, dtype=RAGGED.dtype)),
    "missing attribute": ("attribute", "/group@labels", dropped("group", "labels")),
    "missing empty attribute": ("attribute", "/group@empty", dropped("group", "empty")),
    "extra attribute": ("attribute", "/plain@unit", attribute("plain", "unit", "V")),
    "attribute of a type": ("attribute", "/named@unit", attribute("named", "unit", "V")),
    "attribute dtype": ("attribute-dtype", "/group@count", attribute("group", "count", 5, dtype="u2")),
    "attribute text for number": ("attribute-dtype", "/group@count", attribute("group", "count", "5")),
    "empty attribute dtype": ("attribute-dtype", "/group@empty", attribute("group", "empty", h5py.Empty("<f8"))),
    "attribute order": ("attribute-byte-order", "/group@rates", attribute(
        "group", "rates", np.array([1, np.nan, 3], ">f4"))),
    "attribute encoding": ("attribute-text-encoding", "/@namespace", attribute("/", "namespace", "core", dtype=ASCII)),
    "attribute, fixed length": ("attribute-text-encoding", "/@namespace", attribute(
        "/", "namespace", np.bytes_(b"core"))),
    "attribute shape": ("attribute-shape", "/group@count", attribute("group", "count", [5], dtype="u1")),
    "attribute, longer": ("attribute-shape", "/group@labels", attribute("group", "labels", ["a", "b", "c"])),
    "empty for nothing": ("attribute-shape", "/group@nothing", attribute("group", "nothing", h5py.Empty("<i2"))),
    "object id": ("object_id", "/@object_id", attribute("/", "object_id", "00000000-0000-0000-0000-000000000002")),
    "missing object id": ("object_id", "/@object_id", dropped("/", "object_id")),
}  # fmt: skip


def changed(sample: Path, folder: Path, plant: Plant) -> Path:
    path = folder / "b.h5"
    shutil.copy(sample, path)
    with h5py.File(path, "r+") as file:
        plant(file)
    return path


def places(found: Iterable[Difference]) -> list[tuple[str, str]]:
    return [(one.kind, one.path if one.attribute is None else f"{one.path}@{one.attribute}") for one in found]
