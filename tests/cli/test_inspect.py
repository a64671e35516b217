"""`zarrio inspect`: everything that metadata tell, of our files, hand-made ones and damaged ones."""

import json
import os
import shutil
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from pynwb import NWBFile
from pynwb.ecephys import ElectricalSeries

from hdmf_zarr_backend import ZarrDataIO, convert, report
from hdmf_zarr_backend.cli.main import main
from hdmf_zarr_backend.model.render import UNICODE
from tests.options import arguments
from tests.samples import dataset_builders, plain_nwbfile, reference_tree, write_hdf5, write_zarr
from tests.smallfiles import edited_json
from tests.trees import dataset, group, read_builder, root, write_builder

DOCUMENTATION = Path(__file__).resolve().parents[2] / "docs/reference/command-line.md"


@pytest.fixture(scope="module")
def nwb(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_zarr(tmp_path_factory.mktemp("nwb") / "a.nwb.zarr", plain_nwbfile())


def inspect(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    assert main(["inspect", *map(str, arguments)]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    return captured.out


def document(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict[str, Any]:
    result: dict[str, Any]
    (result,) = json.loads(inspect(capsys, *arguments, "--json"))
    result["nodes"] = {node["path"]: node for node in result["nodes"]}
    return result


def line_of(shown: str, name: str) -> str:
    (line,) = [line for line in shown.splitlines() if line.lstrip("│├└─ ").split("  ")[0] == name]
    return line


def test_the_tree_of_an_nwb_file(nwb, capsys):
    shown = inspect(capsys, nwb)
    heading, _, titles, top, *_ = shown.splitlines()
    assert heading.startswith(f"{nwb}: Zarr format 2, consolidated, ")
    assert titles.split() == ["type", "dtype", "shape", "chunks", "count", "codecs", "size"]
    assert top.split() == ["/", "NWBFile"]
    data = line_of(shown, "data").split()
    assert data[data.index("int16") :] == [
        "int16", "20", UNICODE.times, "3", "1", *["blosc", "lz4", "5", "shuffle", "120", "B"],
    ]  # fmt: skip
    assert line_of(shown, "trace").split()[-1] == "TimeSeries"
    assert line_of(shown, "identifier").split()[2:5] == ["text", "scalar", "1"]
    assert "core 2." in line_of(shown, "specifications")
    assert "nwb.base" not in shown


def test_the_documented_output_is_real(tmp_path, capsys):
    nwbfile = NWBFile(session_description="x", identifier="x", session_start_time=datetime(2024, 1, 1, tzinfo=UTC))
    shank = nwbfile.create_electrode_group(
        name="shank", description="x", location="CA1", device=nwbfile.create_device(name="probe")
    )
    for _ in range(4):
        nwbfile.add_electrode(group=shank, location="CA1")
    region = nwbfile.create_electrode_table_region([0, 1, 2, 3], "all")
    data = np.zeros((100_000, 4), "i2")
    nwbfile.add_acquisition(ElectricalSeries(name="raw", data=data, electrodes=region, rate=30000.0))
    _, _, page = DOCUMENTATION.read_text(encoding="utf-8").partition("## `zarrio inspect`")
    (block,) = [block for block in page.split("```") if block.startswith("text") and "NWBFile" in block]
    shown = inspect(capsys, write_zarr(tmp_path / "session.nwb.zarr", nwbfile)).splitlines()
    assert block.splitlines()[1:] == shown[2 : 2 + len(block.splitlines()) - 1]


def test_specifications_attributes_depth_and_long_runs_are_shown_on_request(nwb, tmp_path, capsys):
    assert "nwb.base" in inspect(capsys, nwb, "--specs")
    hidden, specs = document(capsys, nwb), document(capsys, nwb, "--specs")
    assert "core" in hidden["specifications"]
    assert not [path for path in hidden["nodes"] if path.startswith("/specifications")]
    assert [path for path in specs["nodes"] if path.endswith("/nwb.base")]
    assert "@" not in inspect(capsys, nwb)
    shown = inspect(capsys, nwb, "--attributes")
    assert "@conversion  " in shown
    assert '"TimeSeries"' in shown
    assert "zarr_dtype" not in shown
    nodes = document(capsys, nwb, "--attributes")["nodes"]
    assert nodes["/acquisition/trace/data"]["attributes"]["conversion"] == 0.5
    assert not [
        name for node in nodes.values() for name in node.get("attributes", {}) if name.startswith(("_", "zarr"))
    ]
    shown = inspect(capsys, nwb, "--depth", "1")
    assert "(1 group, 2 arrays, " in line_of(shown, "acquisition")
    assert "trace" not in shown
    paths = document(capsys, nwb, "--depth", "1")["nodes"]
    assert "/acquisition" in paths
    assert max(path.count("/") for path in paths) == 1
    path = write_builder(tmp_path / "a.zarr", root(*(group(f"trial_{number}") for number in range(100))))
    assert "97 more like these: trial_3 to trial_99" in inspect(capsys, path)
    assert "trial_57" in inspect(capsys, path, "--all")


@pytest.mark.parametrize("place", ["data", "/data", "inner/data"])
def test_a_dataset_in_the_place_of_the_cached_specifications_is_shown_everywhere(place, tmp_path, capsys):
    tree = root(dataset("data", np.arange(3)), group("inner", dataset("data", np.arange(3))))
    path = write_builder(tmp_path / "a.zarr", tree)
    (path / ".zmetadata").unlink()
    (path / ".zattrs").write_text(json.dumps({".specloc": place}))
    shown = inspect(capsys, path)
    assert "2 groups, 2 arrays, " in shown.splitlines()[0]
    assert sum("int64" in line for line in shown.splitlines()) == 2
    nodes = document(capsys, path)["nodes"]
    assert {path for path, node in nodes.items() if node["kind"] == "array"} == {"/data", "/inner/data"}


def test_links_and_references_are_shown_with_their_targets(tmp_path, capsys):
    path = tmp_path / "a.zarr"
    write_builder(path, reference_tree())
    shown = inspect(capsys, path)
    assert line_of(shown, "link_to_parent").split()[-3:] == ["link", "→", "/inner"]
    assert line_of(shown, "@to_root").endswith("→ /")
    assert line_of(shown, "@to_several").endswith("→ /target, /target/values")
    assert " reference " in line_of(shown, "reference_matrix")
    assert "{start: int32, to: reference, text: text}" in line_of(shown, "rows")
    nodes = document(capsys, path)["nodes"]
    assert nodes["/inner/deep/link_to_dataset"]["target"] == {"path": "/target/values"}
    assert nodes["/inner/deep"]["references"]["to_several"] == [{"path": "/target"}, {"path": "/target/values"}]
    assert nodes["/inner/deep/rows"]["shape"] == [2]
    assert nodes["/inner/deep/reference"]["shape"] == []


def test_an_external_link_names_the_file(small, capsys):
    with edited_json(small / ".zmetadata") as metadata:
        metadata["metadata"][".zattrs"]["zarr_link"] = [{"name": "far", "source": "../b.zarr", "path": "/x"}]
    assert line_of(inspect(capsys, small), "far").endswith(f"→ {small.parent}/b.zarr:/x")
    far = document(capsys, small)["nodes"]["/far"]
    assert far["target"] == {"path": "/x", "file": f"{small.parent}/b.zarr"}
    assert far["source"] == "../b.zarr"


def test_words_and_sizes_of_every_type(tmp_path, capsys):
    builders = dataset_builders()
    path = write_builder(tmp_path / "a.zarr", root(*builders.values()))
    nodes = document(capsys, path)["nodes"]
    read = read_builder(path)
    for name in builders:
        node = nodes[f"/{name}"]
        data = read[name].data
        assert node["shape"] == (list(np.shape(data)) if name != "text_rows" else [2]), name
        dtype = getattr(data, "dtype", None)
        if isinstance(dtype, np.dtype) and dtype.kind in "?biufc":
            assert node["dtype"].removesuffix(" big-endian") == dtype.name, name
            assert node["bytes"] == data.nbytes, name
    assert nodes["/texts"]["dtype"] == "text"
    assert nodes["/texts"]["bytes"] is None
    assert nodes["/time"]["dtype"] == "isodatetime"
    assert nodes["/ascii"]["dtype"] == "ascii"
    assert nodes["/rows"]["dtype"] == "{a: int16, b: float64, c: bool}"
    assert nodes["/big_endian"]["dtype"] == "int32 big-endian"


def test_shards(tmp_path, capsys):
    values = np.zeros((1000, 30), "i4")
    sharded = dataset("in_shards", ZarrDataIO(values, chunks=(100, 30), shards=(500, 30)))
    plain = dataset("plain", ZarrDataIO(values, chunks=(100, 30)))
    path = write_builder(tmp_path / "a.zarr", root(sharded, plain), zarr_format=3)
    nodes = document(capsys, path)["nodes"]
    assert [nodes[name]["shards"] for name in ("/in_shards", "/plain")] == [[500, 30], None]
    assert nodes["/in_shards"]["chunks"] == [100, 30]
    text = inspect(capsys, path)
    assert f"100 {UNICODE.times} 30     10  500 {UNICODE.times} 30  blosc" in line_of(text, "in_shards")
    assert "500" not in line_of(text, "plain")
    assert f"100 {UNICODE.times} 30 in shards of 500 {UNICODE.times} 30" in report(path)


def test_chunks_and_stored_sizes_also_of_chunks_in_folders(small, tmp_path, capsys):
    data = dataset("data", ZarrDataIO(np.zeros((1000, 30), "i4"), chunks=(100, 30)))
    path = write_builder(tmp_path / "c.zarr", root(data))
    node = document(capsys, path, "--sizes")["nodes"]["/data"]
    assert (node["chunks"], node["chunk_count"], node["bytes"]) == ([100, 30], 10, 120_000)
    assert node["stored_bytes"] == sum(file.stat().st_size for file in (path / "data").glob("[0-9]*"))
    assert "stored_bytes" not in document(capsys, path)["nodes"]["/data"]
    line = line_of(inspect(capsys, path, "--sizes"), "data")
    assert f"1,000 {UNICODE.times} 30  100 {UNICODE.times} 30     10  blosc lz4 5 shuffle" in line
    assert line.split()[-1] == f"{120_000 / node['stored_bytes']:.1f}"
    (small / "data/0").mkdir()
    (small / "data/0/0").write_bytes(b"12345")
    (small / "data/1").write_bytes(b"123")
    assert document(capsys, small, "--sizes")["nodes"]["/data"]["stored_bytes"] == 8


@pytest.mark.parametrize("command", ["inspect", "dry-run"])
@pytest.mark.parametrize("depth", ["-1", "1.5", "all", ""])
def test_what_is_no_depth(nwb, zarrio, command, depth):
    assert "invalid level value" in zarrio(command, nwb, f"--depth={depth}", code=2).err


def test_without_the_consolidated_document(nwb, tmp_path, capsys):
    copy = Path(shutil.copytree(nwb, tmp_path / "b.nwb.zarr"))
    (copy / ".zmetadata").unlink()
    shown, before = inspect(capsys, copy), inspect(capsys, nwb)
    assert "not consolidated" in shown.splitlines()[0]
    assert shown.splitlines()[1:] == before.splitlines()[1:]


@pytest.mark.parametrize(("make", "said"), [
    (lambda path: None, "the file does not exist"),
    (lambda path: path.mkdir(), "not a Zarr hierarchy"),
    (lambda path: path.write_bytes(b"\x89HDF\r\n\x1a\n"), "HDF5 cannot open this file"),
    (lambda path: (path.mkdir(), (path / "zarr.json").write_text("{}")), "format 3"),
    (lambda path: (path.mkdir(), (path / ".zgroup").write_text("{")), "not JSON"),
], ids=["absent", "empty", "hdf5", "format 3", "damaged"])  # fmt: skip
def test_what_cannot_be_looked_at_is_told_in_one_line(tmp_path, zarrio, make, said):
    path = tmp_path / "a.zarr"
    make(path)
    captured = zarrio("inspect", path, code=2)
    assert said in captured.err
    assert str(path) in captured.err
    assert captured.err.count("\n") == 1
    assert captured.out == ""


@pytest.mark.parametrize(("key", "name", "value"), [
    (".zattrs", "zarr_link", 5), (".zattrs", "zarr_link", [{"name": "x"}]),
    (".zattrs", "ref", {"zarr_dtype": "object", "value": {}}),
])  # fmt: skip
def test_damaged_metadata_are_told_with_file_and_node(small, zarrio, key, name, value):
    (small / ".zmetadata").unlink()
    with edited_json(small / key) as damaged:
        damaged[name] = value
    shown = zarrio("inspect", small, code=2).err
    assert str(small) in shown
    assert "(/)" in shown


def test_strange_but_legal_metadata_do_no_harm(small, capsys):
    with edited_json(small / ".zmetadata") as metadata:
        metadata["metadata"]["data/.zattrs"] = {
            "neurodata_type": ["x"], "data_type": "Fallback", "zarr_dtype": {"a": 1}, "_hdmf": "no note", "null": None,
            "nested": {"zarr_dtype": "object", "value": 3}, "_ARRAY_DIMENSIONS": 7,
        }  # fmt: skip
        metadata["metadata"]["data/.zarray"]["compressor"] = {"id": "blosc", "shuffle": [1], "clevel": {}}
    assert "Fallback" in line_of(inspect(capsys, small, "--attributes"), "data")
    document(capsys, small, "--attributes", "--sizes")


def test_a_name_of_the_file_cannot_move_the_cursor_or_fake_a_line(small, capsys):
    before = len(inspect(capsys, small).splitlines())
    odd = small / "a\n├── b\x1b[2J\u202e"
    odd.mkdir()
    (odd / ".zgroup").write_text('{"zarr_format": 2}')
    (small / ".zmetadata").unlink()
    lines = inspect(capsys, small).splitlines()
    assert len(lines) == before + 1
    assert all(line.isprintable() for line in lines)
    assert any("a\\n├── b\\x1b[2J\\u202e" in line for line in lines)


def test_groups_that_are_too_deep_for_a_model_are_told_in_one_line(small, zarrio, capsys):
    with edited_json(small / ".zmetadata") as metadata:
        metadata["metadata"] |= {"n/" * depth + ".zgroup": {"zarr_format": 2} for depth in range(1, 1500)}
    result = zarrio("inspect", small, "--model", code=2)
    assert "too deeply for a model" in result.err
    assert result.err.count("\n") == 1
    assert result.out == ""
    assert "/n" * 1499 in document(capsys, small)["nodes"]


@pytest.mark.parametrize(("options", "zarr_format", "heading", "encoding"), [
    ({}, 2, "Zarr format 2", {"name": "v2", "separator": "."}),
    ({"zarr_format": 3}, 3, "Zarr format 3", {"name": "default", "separator": "/"}),
    ({"zarr_format": 3, "chunk_key_encoding": "v2"}, 3, "Zarr format 3", {"name": "v2", "separator": "."}),
    ({"zarr_format": "both"}, "both", "Zarr formats 2 and 3", {"name": "v2", "separator": "."}),
])  # fmt: skip
def test_formats_and_keys_of_chunks(tmp_path, capsys, options, zarr_format, heading, encoding):
    path = write_builder(tmp_path / "a.zarr", root(dataset("a", np.arange(3))), **arguments(**options))
    result = document(capsys, path)
    assert result["zarr_format"] == zarr_format
    assert result["nodes"]["/a"]["chunk_key_encoding"] == encoding
    assert inspect(capsys, path).startswith(f"{path}: {heading}, consolidated")


# ---- HDF5, and values -----------------------------------------------------------------------------------------------
def test_hdf5_files_are_shown_as_they_are_in_hdf5(web, capsys):
    path = web.folder / "a.nwb"
    write_hdf5(path, plain_nwbfile())
    with h5py.File(path, "a") as file:
        file.create_dataset("packed", data=np.zeros((1000, 4), "f4"), chunks=(10, 4), compression="gzip", shuffle=True)
    for location in (path, f"{web.url}/a.nwb"):
        shown = inspect(capsys, location, "--sizes")
        assert shown.startswith(f"{location}: HDF5, ")
        assert "consolidated" not in shown
        packed = line_of(shown, "packed").split()[2:]
        assert packed[:8] == ["float32", "1,000", UNICODE.times, "4", "10", UNICODE.times, "4", "100"]
        assert packed[8:10] == ["shuffle,", "deflate"]
        assert line_of(shown, "trace").split()[-1] == "TimeSeries"
        assert "core 2." in line_of(shown, "specifications")


@pytest.mark.filterwarnings("always::hdmf_zarr_backend.errors.DamagedMetadataWarning")
def test_what_zarr_cannot_express_is_left_out_with_a_warning(tmp_path, capsys):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"] = 5
        file.create_dataset("ragged", (3,), dtype=h5py.vlen_dtype("i4"))
    assert main(["inspect", str(tmp_path / "a.h5")]) == 0
    captured = capsys.readouterr()
    assert line_of(captured.out, "x").split()[1:] == ["x", "int64", "scalar", "1", "8", "B"]
    assert "ragged" in captured.err
    assert "It is left out." in captured.err


@pytest.mark.parametrize("kind", ["Zarr", "HDF5"])
def test_values_of_scalars_and_short_arrays(tmp_path, capsys, kind):
    write = {"Zarr": write_zarr, "HDF5": write_hdf5}[kind]
    path = write(tmp_path / f"a.{kind}.nwb", plain_nwbfile())
    shown = inspect(capsys, path, "--values")
    assert shown.splitlines()[2].split()[-1] == "value"
    assert line_of(shown, "identifier").split()[-1] == "plain"
    nodes = document(capsys, path, "--values")["nodes"]
    assert nodes["/identifier"]["value"] == "plain"
    assert nodes["/session_start_time"]["value"].startswith("20")
    assert "value" not in document(capsys, path)["nodes"]["/identifier"]


def test_values_that_are_references_are_shown_by_what_they_lead_to(tmp_path, capsys):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["group/x"] = np.arange(3)
        file["references"] = np.array([file["group"].ref, file["group/x"].ref], h5py.ref_dtype)
    assert line_of(inspect(capsys, tmp_path / "a.h5", "--values"), "references").endswith("[-> /group, -> /group/x]")


@pytest.mark.parametrize("kind", ["zarr", "h5"])
def test_values_as_json_are_whole_unless_they_are_large_or_damaged(kind, tmp_path, capsys):
    text = "a long text\nof two lines " * 20
    tree = root(dataset("text", text), dataset("lost", np.arange(9)), dataset("large", np.zeros(1000)))
    path = write_builder(tmp_path / "a.zarr", tree)
    if kind == "h5":
        path = convert(path, tmp_path / "a.h5", check=False).target
    else:
        (path / "lost" / "0").write_bytes(b"damaged")
    nodes = document(capsys, path, "--values")["nodes"]
    assert nodes["/text"]["value"] == text
    assert line_of(inspect(capsys, path, "--values"), "text").endswith("...")
    assert nodes["/large"]["value"] is None
    assert nodes["/lost"]["value"] == ("cannot be read" if kind == "zarr" else list(range(9)))


@pytest.mark.parametrize("encoding", ["ascii", "cp1252"])
def test_what_a_console_cannot_show_is_escaped(encoding, tmp_path):
    path = write_builder(tmp_path / "a.zarr", root(dataset("µ → ☃", "☃")))
    environment = {**os.environ, "PYTHONIOENCODING": encoding, "PYTHONUTF8": "0"}
    for command in (["inspect", "--values"], ["verify"]):
        call = [sys.executable, "-m", "hdmf_zarr_backend", *command, str(path)]
        ended = subprocess.run(call, env=environment, capture_output=True, check=False, timeout=120)
        assert (b"Traceback" in ended.stderr, ended.returncode) == (False, 0), ended.stderr
        assert command[0] != "inspect" or b"\\u2603" in ended.stdout
        assert command[0] != "inspect" or b"`-- " in ended.stdout
