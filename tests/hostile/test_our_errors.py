"""What used to end in an error of h5py, HDMF or Python ends in one of ours, which names the store and the node."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import zarr as zarr_python
from h5py import h5a, h5d, h5s, h5t

from hdmf_zarr_backend import NWBZarrIO, ReadOptions, ZarrIO, convert
from hdmf_zarr_backend.cli.main import main
from hdmf_zarr_backend.comparison import compare
from hdmf_zarr_backend.errors import LimitError, MetadataError, StoreError, ValueRefusedError, ZarrBackendError
from tests import trees
from tests.everything import write_everything
from tests.hostile.files import encrypted, texts, with_namespace, zarr, zipped
from tests.places import store_files
from tests.proportion import ends
from tests.smallfiles import hdf5_dataset, hdf5_file

Run = Callable[..., tuple[int, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def run_it(*arguments: Any) -> tuple[int, str]:
        code = main([str(argument) for argument in arguments])
        said = capsys.readouterr().err
        assert "the operating system refuses" not in said
        return code, said

    return run_it


def zarr_file(path: Path, **document: Any) -> Path:
    """Write a file of format 2 with one array, whose document has some other parts."""
    whole = {"shape": [4], "chunks": [4], "dtype": "<i4", "fill_value": 0, "order": "C", "filters": None,
             "compressor": None, "zarr_format": 2, **document}  # fmt: skip
    return store_files(path, {".zgroup": {"zarr_format": 2}, "x/.zarray": whole, "x/0": bytes(16)})


def odd_hdf5(path: Path, tid: Any) -> Path:
    with h5py.File(path, "w") as file:
        h5d.create(file.id, b"odd", tid, h5s.create_simple((2,)))
    return path


def with_chunks(path: Path, **lengths: list[int]) -> Path:
    """Write a file of format 3 with one array of zarr, whose document states other lengths."""
    root = zarr_python.open_group(path, mode="w", zarr_format=3)
    root.create_array("x", shape=(8,), chunks=(1,), shards=lengths.pop("shards", None), dtype="i4")[:] = 1
    document = json.loads((path / "x/zarr.json").read_text())
    document["shape"] = document["chunk_grid"]["configuration"]["chunk_shape"] = lengths["shape"]
    return store_files(path, {"x/zarr.json": document, "zarr.json": {"zarr_format": 3, "node_type": "group"}})


# ---- HDF5 -----------------------------------------------------------------------------------------------------------
_PAIR = h5t.array_create(h5t.NATIVE_INT32, (2,))


def _row(member: Any, name: bytes = b"a") -> Any:
    tid = h5t.create(h5t.COMPOUND, member.get_size())
    tid.insert(name, 0, member)
    return tid


@pytest.mark.parametrize(("tid", "said"), [
    (h5t.array_create(_PAIR, (3,)), "arrays of arrays"),
    (_row(h5t.array_create(_PAIR, (3,))), "arrays of arrays"),
    (h5t.UNIX_D32LE, "no counterpart in NumPy"),
    (h5t.array_create(h5t.UNIX_D32LE, (2,)), "no counterpart in NumPy"),
    (_row(h5t.UNIX_D64LE), "no counterpart in NumPy"),
    (h5t.vlen_create(h5t.STD_REF_DSETREG), "sequences of region references"),
    (h5t.vlen_create(_row(h5t.STD_REF_DSETREG)), "sequences of region references"),
])  # fmt: skip
def test_types_of_hdf5_that_have_no_place_are_refused_by_name(tmp_path, run, tid, said):
    with h5py.File(tmp_path / "attribute.h5", "w") as file:
        h5a.create(file.id, b"odd", tid, h5s.create_simple((2,)))
    with pytest.raises(ValueRefusedError, match=said):
        convert(tmp_path / "attribute.h5", tmp_path / "a.zarr")
    source = odd_hdf5(tmp_path / "a.h5", tid)
    with pytest.raises(ValueRefusedError, match=said) as caught:
        convert(source, tmp_path / "a.zarr")
    assert (caught.value.store, caught.value.path) == (str(source), "/odd")
    assert not (tmp_path / "a.zarr").exists()
    code, told = run("convert", source, tmp_path / "b.zarr")
    assert code == 2
    assert said in told
    assert run("dry-run", source)[0] == 2
    # h5py would read region references in sequences beyond its memory, so they are not compared
    kinds = ["unreadable"] if said == "sequences of region references" else []
    assert [difference.kind for difference in compare(source, source)] == kinds
    assert run("compare", source, source) == (len(kinds), "")


def test_what_was_never_written_of_sequences_of_rows_is_compared(tmp_path, run):
    source = odd_hdf5(tmp_path / "a.h5", h5t.vlen_create(_row(h5t.NATIVE_INT16)))
    with h5py.File(source, "r") as file:
        try:
            file["odd"][:]
        except ValueError:
            pytest.skip("this release of h5py cannot read sequences that were never written")
    assert run("compare", source, source) == (0, "")


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_flipped_bytes_in_hdf5_end_in_an_error_of_ours(tmp_path, run):
    whole = write_everything(tmp_path / "whole.h5").read_bytes()
    damaged = tmp_path / "damaged.h5"
    outcomes = set()
    for seed in (*range(4), 45, 46, 77, 99, 102):
        data = bytearray(whole)
        random = np.random.default_rng(seed)
        for location in random.integers(100, 60_000, 6).tolist():  # where the headers are
            data[location] = int(random.integers(256))
        damaged.write_bytes(data)
        try:
            convert(damaged, tmp_path / "a.zarr", overwrite=True)
        except ZarrBackendError as error:
            outcomes.add(type(error).__name__)
            assert error.store == str(damaged)
        assert run("compare", damaged, damaged)[0] in (0, 1, 2)
        assert run("dry-run", damaged)[0] in (0, 2)
    assert outcomes


def test_names_in_hdf5_that_are_not_utf8_are_named(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for dataset, field in ((b"odd", b"a"), (b"odder", b"\xff")):
            h5d.create(file.id, dataset, _row(h5t.NATIVE_INT16, field), h5s.create_simple((2,)))
    with pytest.raises(ZarrBackendError) as caught:
        convert(tmp_path / "a.h5", tmp_path / "a.zarr")
    assert caught.value.path == "/odder"


# ---- sizes ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("length", [2**40, 2**62, 10**30, "HDF5"])
def test_arrays_without_end(tmp_path, run, length):
    source, target = tmp_path / "a.h5", tmp_path / "b.zarr"
    if length == "HDF5":
        hdf5_dataset(source, "x", shape=(2**62,), chunks=(2**20,), dtype="i1")
    else:
        source, target = zarr_file(tmp_path / "a.zarr", shape=[length], chunks=[4]), tmp_path / "b.h5"
    with ends():
        code, said = run("compare", source, source)
        assert code == 2
        assert "max_unwritten_bytes" in said
        assert "(/x)" in said
        with pytest.raises(ZarrBackendError) as caught:
            convert(source, target)
        assert caught.value.path == "/x"
    assert not target.exists()


@pytest.mark.filterwarnings("always::hdmf_zarr_backend.errors.DamagedMetadataWarning")
def test_more_axes_than_numpy_has(tmp_path, run, zarr_format):
    source = zarr_file(tmp_path / "a.zarr", shape=[1] * 70, chunks=[1] * 70)
    if zarr_format == 3:
        source = with_chunks(tmp_path / "b.zarr", shape=[1] * 70)
    with pytest.raises(MetadataError, match="70 axes") as caught:
        trees.read_builder(source)["x"].data[:]
    assert caught.value.path == "/x"
    for command in ("compare", "report", "upgrade", "inspect"):
        arguments = [source, source] if command == "compare" else [source]
        options = ["-o", tmp_path / f"{command}.html"] if command == "report" else []
        code, said = run(command, *options, *arguments)
        assert code in (0, 1, 2)
        assert code == 1 or "70 axes" in said, (command, code, said)


def test_axes_that_hdf5_does_not_have(tmp_path):
    source = zarr_file(tmp_path / "a.zarr", shape=[1] * 40, chunks=[1] * 40)
    with pytest.raises(ValueRefusedError, match="HDF5 refuses") as caught:
        convert(source, tmp_path / "a.h5")
    assert caught.value.path == "/x"


def test_shards_of_2_to_the_50_chunks(tmp_path):
    source = with_chunks(tmp_path / "a.zarr", shape=[2**50], shards=(8,))
    with ends(), pytest.raises(LimitError, match="max_unwritten_bytes") as caught:
        convert(source, tmp_path / "a.h5")
    assert caught.value.path == "/x"


# ---- names ----------------------------------------------------------------------------------------------------------
def _link(**entry: Any) -> dict[str, Any]:
    return {"zarr_link": [{"name": "link", "source": ".", "path": "/x", **entry}]}


def _note(**note: Any) -> dict[str, Any]:
    return {"x": [], "_hdmf": {"hdf5": note}}


@pytest.mark.filterwarnings("ignore::hdmf.backends.warnings.BrokenLinkWarning")
@pytest.mark.parametrize(("node", "attributes", "kind", "said", "path"), [
    *(("", _link(name=name), MetadataError, "cannot have the name", "/")
      for name in ("a\0b", "../../x", "a/b", "", ".")),
    *(("", _link(path=target), ZarrBackendError, None, "/link") for target in ("/a\0b", "/\ud800")),
    *(("", _note(datatypes={name: {"type": "<i4"}}), ZarrBackendError, None, "/") for name in ("a/b", "", "a\0b")),
    *(("x", {name: 1}, ValueRefusedError, "HDF5 refuses", "/x") for name in ("", "\ud800")),
    ("x", {"x": "a\0"}, ValueRefusedError, "HDF5 refuses the attribute 'x'", "/x"),
    *(("x", {"x": value, "_hdmf": {"attributes": {"x": {"dtype": "bytes"}}}}, ValueRefusedError, "end in NUL", "/x")
      for value in ("a\0", ["a\0", "b"])),
    *(("x", _note(attributes={"x": {"type": kind, "space": "null"}}), ZarrBackendError, None, "/x")
      for kind in ({"opaque": 2**20, "tag": "t" * 300}, {"enum": [], "base": "<i2"})),
])  # fmt: skip
def test_what_no_link_type_or_attribute_of_hdf5_can_be(tmp_path, run, node, attributes, kind, said, path):
    source = zarr_file(tmp_path / "a.zarr")
    (source / node / ".zattrs").write_text(json.dumps(attributes))
    with pytest.raises(kind, match=said) as caught:
        convert(source, tmp_path / "a.h5")
    assert (caught.value.store, caught.value.path) == (str(source), path)
    assert run("convert", source, tmp_path / "b.h5")[0] == 2
    assert os.listdir(tmp_path) == ["a.zarr"]


@pytest.mark.parametrize("policy", [None, "within", "follow", "never"])
@pytest.mark.parametrize("file", ["x\0y", "../x\0y", "/x\0y", "file:///x\0y", "../\ud800"])
@pytest.mark.filterwarnings("ignore::hdmf.backends.warnings.BrokenLinkWarning")
def test_a_link_to_a_file_that_no_path_names_leads_nowhere(tmp_path, file, policy):
    source = zarr_file(tmp_path / "a.zarr")
    (source / ".zattrs").write_text(json.dumps(_link(source=file)))
    with ZarrIO(source, read_options=ReadOptions(external_links=policy)) as io:
        root = io.read_builder()
        assert "link" not in root
        assert root["x"].data[:].tolist() == [0] * 4
    for link_data in (True, False):
        with pytest.raises(ZarrBackendError) as caught:
            convert(source, tmp_path / "a.h5", link_data=link_data)
        assert caught.value.path == "/link"


@pytest.mark.parametrize("name", [b"\xff\xfe", b"\xe9t\xe9"])
def test_a_report_of_names_that_are_not_utf8(tmp_path, run, name):
    source = zarr_file(tmp_path / "a.zarr")
    os.rename(source / "x", os.path.join(os.fsencode(source), name))
    code, said = run("report", "-o", tmp_path / "page.html", source)
    assert (code, said) == (0, "")
    assert "\\udcff" in (tmp_path / "page.html").read_text() or "\\udce9" in (tmp_path / "page.html").read_text()


# ---- attributes on the way back -------------------------------------------------------------------------------------
@pytest.mark.parametrize("datatypes", [5, None, [1], "x"])
def test_a_note_of_named_types_that_is_no_table_is_left_aside(tmp_path, datatypes):
    source = zarr_file(tmp_path / "a.zarr")
    (source / ".zattrs").write_text(json.dumps(_note(datatypes=datatypes)))
    convert(source, tmp_path / "a.h5", check=False)
    with h5py.File(tmp_path / "a.h5") as file:
        assert list(file) == ["x"]


@pytest.mark.parametrize("note", [5, {"x": 5}, *({"x": {"type": {"sequence": "<i2"}, **part}} for part in (
    {"shape": [2**62], "value": []}, {"shape": [2], "value": 5}, {"space": "null"}, {"value": [1]}))])  # fmt: skip
def test_notes_of_attributes_that_make_no_sense(tmp_path, run, note):
    source = zarr_file(tmp_path / "a.zarr")
    (source / "x" / ".zattrs").write_text(json.dumps({"x": 1, "_hdmf": {"hdf5": {"attributes": note}}}))
    hdf5_file(tmp_path / "b.h5", x=np.zeros(4, "i4"))
    assert run("compare", source, tmp_path / "b.h5")[0] in (1, 2)
    assert run("convert", source, tmp_path / "a.h5")[0] in (0, 2)


# ---- cached namespaces ----------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("namespace", "types"), [
    *((with_namespace(), types) for types in (
        [], {"groups": 5}, {"groups": [{}]}, {"groups": [{"neurodata_type_def": [], "doc": "d"}]},
        {"groups": [{"neurodata_type_def": a, "neurodata_type_inc": b, "doc": "d"} for a, b in ("AB", "BA")]})),
    *((namespace, {}) for namespace in (
        {"namespaces": [5]}, {"namespaces": [{}]}, with_namespace(name=[]), with_namespace(schema=5),
        with_namespace(schema=[{}]), with_namespace(schema=[]), with_namespace(schema=[{"namespace": "gone"}]))),
])  # fmt: skip
def test_cached_namespaces_with_odd_content(tmp_path, run, namespace, types):
    source = zarr("", *texts(namespace=namespace, demo=types)).make(tmp_path)
    try:
        NWBZarrIO(source, "r").close()
    except MetadataError as error:
        assert error.store == str(source)
        assert error.path is not None
        assert error.path.startswith("/specifications")
        assert "load_namespaces=False" in error.remedy
    else:
        assert namespace == with_namespace(schema=[])
    with NWBZarrIO(source, "r", load_namespaces=False) as io:
        assert io.read_builder()["plain"].data[1].tolist() == [4, 5, 6, 7]
    assert run("validate", source)[0] in (0, 1, 2)


def test_odd_attributes_and_cached_namespaces_are_compared(tmp_path, run):
    source = zarr_file(tmp_path / "a.zarr")
    (source / ".zattrs").write_text('{"x": [[1], [1, 2]]}')
    assert run("compare", source, source) == (0, "")
    assert run("convert", source, tmp_path / "a.h5") == (0, "")
    assert run("compare", source, tmp_path / "a.h5")[1] == ""
    source = zarr("", *texts(demo="[" * 100_000 + "]" * 100_000)).make(tmp_path)
    assert run("compare", source, source) == (0, "")


# ---- places ---------------------------------------------------------------------------------------------------------
def test_symbolic_links_to_themselves(tmp_path, run):
    source = zarr_file(tmp_path / "a.zarr")
    (source / "x" / "1").symlink_to("1")
    (source / "loop").symlink_to("loop")
    for name, other in (("p", "q"), ("q", "p")):
        (source / name).mkdir()
        (source / name / "0").symlink_to(f"../{other}", target_is_directory=True)
        (source / name / "1").symlink_to(f"../{other}", target_is_directory=True)
    with ends():
        for command in (["verify"], ["report", "-o", tmp_path / "page.html"]):
            assert run(*command, source)[0] in (0, 1)


def test_encrypted_entries_of_a_zip_file(tmp_path, run):
    path = zipped(encrypted)(tmp_path)
    with pytest.raises(StoreError, match="encrypted") as caught:
        ZarrIO(path, "r").read_builder()
    assert caught.value.store == str(path)
    for command in ("inspect", "verify", "validate"):
        code, said = run(command, path)
        assert code == 2
        assert "encrypted" in said
