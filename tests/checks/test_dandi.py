"""What the DANDI archive demands of a Zarr file, and the checksum that it has there."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pynwb import TimeSeries
from pynwb.file import Subject

from hdmf_zarr_backend import NWBZarrIO, verify
from hdmf_zarr_backend.check import verify as checking
from hdmf_zarr_backend.check.findings import Report
from hdmf_zarr_backend.cli.main import main
from hdmf_zarr_backend.encoding.references import ZarrReference
from hdmf_zarr_backend.errors import UsageError
from hdmf_zarr_backend.store.base import Abilities
from hdmf_zarr_backend.store.memory import MemoryStore
from tests import samples, trees
from tests.options import arguments


def written(path: Path, **options: Any) -> Path:
    """A file whose keys of chunks have two levels more in format 3 than in format 2, which is one too many."""
    inner = trees.group("d", trees.group("e", trees.dataset("grid", np.arange(24.0).reshape(4, 6))))
    tree = trees.root(trees.group("a", trees.group("b", trees.group("c", inner))))
    return trees.write_builder(path, tree, **arguments(**options))


@pytest.mark.filterwarnings("ignore:The NestedDirectoryStore is deprecated:FutureWarning")  # by zarr_checksum
def test_the_checksum_is_that_of_zarr_checksum(tmp_path, zarr_format):
    zarr_checksum = pytest.importorskip("zarr_checksum", reason="zarr_checksum is not installed")
    from zarr_checksum.generators import yield_files_local

    path = samples.write_zarr(tmp_path / "a.zarr", zarr_format=zarr_format)
    (path / "specifications" / 'naïve "name"').mkdir()
    (path / "specifications" / 'naïve "name"' / "0").write_bytes(b"x" * (checking._PIECE + 1))
    (path / "a-b").mkdir()  # sorts between "a" and "a/b" as a path
    (path / "a-b" / "empty").write_bytes(b"")
    wanted = zarr_checksum.compute_zarr_checksum(yield_files_local(path))
    report = verify(path, "structure", dandi=True).dandi
    assert report is not None
    assert report.checksum == str(wanted)
    assert (report.count, report.nbytes) == (wanted.count, wanted.size)


def test_the_checksum_of_known_trees_needs_a_listing():
    """Values of the archive's documentation: of nothing, and of one empty file."""
    assert checking.checksum({}, {}) == "481a2f77ab786a0f45aafd5db0971caa-0--0"
    store = MemoryStore({"foo/bar": b"", "foo/baz/x": b"abc", "foo/.git/x": b"not a part of it"}, "a.zarr")
    result = checking.check_dandi(store, Report(store.location, "chunks"))
    assert (result.count, result.nbytes, result.depth) == (2, 3, 3)
    assert result.checksum.endswith("-2--3")
    store = MemoryStore({}, "a.zarr")
    store.abilities = Abilities(listing=False)
    with pytest.raises(UsageError, match="cannot list"):
        checking.check_dandi(store, Report(store.location, "chunks"))


def test_the_depth(tmp_path):
    assert verify(written(tmp_path / "2.zarr"), dandi=True).is_sound
    assert verify(written(tmp_path / "v2.zarr", zarr_format=3, chunk_key_encoding="v2"), dandi=True).is_sound
    deep = written(tmp_path / "3.zarr", zarr_format=3)
    assert verify(deep).is_sound
    (problem,) = verify(deep, dandi=True).problems
    assert (problem.kind, problem.path) == ("dandi-depth", "/a/b/c/d/e/grid")
    assert "--chunk-key-encoding v2" in problem.remedy


def test_names_sizes_and_number(tmp_path, monkeypatch):
    path = trees.write_builder(tmp_path / "a.nwb", trees.root(trees.dataset("data", np.arange(100.0))))
    monkeypatch.setattr(checking, "LARGEST_VALUE", 100)
    monkeypatch.setattr(checking, "MANY_VALUES", 3)
    monkeypatch.setattr(checking, "_LONGEST_KEY", 10)
    (path / "data" / "tab\t").write_bytes(b"")
    (path / "data" / "back\\slash").write_bytes(b"")
    report = verify(path, "structure", dandi=True)
    assert {"dandi-name", "dandi-size"} <= set(report.counts)
    assert report.counts["dandi-name"] == 4
    assert [remark.kind for remark in report.remarks if remark.kind.startswith("dandi")] == ["dandi-count"]


def test_on_the_command_line(tmp_path, capsys):
    path = written(tmp_path / "a.zarr", zarr_format=3)
    assert main(["verify", str(path), "--dandi"]) == 1
    out = capsys.readouterr().out
    checksum = verify(path, "structure", dandi=True).dandi.checksum
    assert f"DANDI checksum {checksum} (" in out
    assert "--chunk-key-encoding v2" in out
    assert main(["verify", str(path), "--dandi", "--json"]) == 1
    (document,) = json.loads(capsys.readouterr().out)
    assert document["dandi"]["checksum"] == checksum
    assert main(["verify", str(path), "--dandi", "--conformance"]) == 2


def kinds(path: Path, level: str = "chunks") -> dict[str, str]:
    return {problem.path: problem.kind for problem in verify(path, level, dandi=True).problems}


def test_links_to_other_files_are_refused_and_an_export_copies_them(tmp_path, zarr_format):
    nwbfile, other = samples.plain_nwbfile(), samples.plain_nwbfile()
    other.add_acquisition(TimeSeries(name="shared", data=[1.0, 2.0], unit="V", timestamps=[0.0, 0.5]))
    samples.write_zarr(tmp_path / "a.nwb.zarr", other, zarr_format=zarr_format)
    nwbfile.subject = Subject(subject_id="m1", species="Mus musculus", sex="F", age="P90D")
    with NWBZarrIO(tmp_path / "a.nwb.zarr", "r") as source:
        series = source.read().acquisition["shared"]
        nwbfile.add_acquisition(series)
        nwbfile.add_stimulus(TimeSeries(name="linked", data=series.data, unit="V", timestamps=series.timestamps))
        samples.write_zarr(tmp_path / "b.nwb.zarr", nwbfile, manager=source.manager, zarr_format=zarr_format)
    linked = ("/acquisition/shared", "/stimulus/presentation/linked/data", "/stimulus/presentation/linked/timestamps")
    assert kinds(tmp_path / "b.nwb.zarr") == dict.fromkeys(linked, "link-external")
    assert verify(tmp_path / "b.nwb.zarr").is_sound
    for name, options in (("c", {"link_data": False}), ("d", {})):
        with NWBZarrIO(tmp_path / "b.nwb.zarr", "r") as source, NWBZarrIO(tmp_path / f"{name}.nwb.zarr", "w") as io:
            io.export(source, source.read(), write_args=options)
    assert verify(tmp_path / "d.nwb.zarr").is_sound  # a link leads to another one, and from there to the other file
    assert set(kinds(tmp_path / "d.nwb.zarr").values()) == {"link-external"}
    shutil.rmtree(tmp_path / "a.nwb.zarr")
    assert kinds(tmp_path / "c.nwb.zarr") == {}
    copied = samples.read_zarr(tmp_path / "c.nwb.zarr")
    for series in (copied.acquisition["shared"], copied.stimulus["linked"]):
        assert (series.data[:].tolist(), series.timestamps[:].tolist()) == ([1.0, 2.0], [0.0, 0.5])


def test_references_to_other_files_are_refused(tmp_path):
    trees.write_builder(tmp_path / "a.zarr", trees.root(trees.dataset("data", np.arange(3))))
    marks = {"mark": ZarrReference("../a.zarr", "/data"), "own": ZarrReference(".", "/there")}
    path = trees.write_builder(tmp_path / "b.zarr", trees.root(trees.group("there"), **marks))
    assert kinds(path) == {"/": "reference-external"}
    assert verify(path).is_sound


@pytest.mark.parametrize(("fields", "says"), [
    (None, "the file has no subject"),
    ({"sex": "F", "age": "P90D"}, "the subject has no subject_id and no species"),
    ({"subject_id": "m1", "species": "Mus musculus"}, "the subject has no sex and no age"),
], ids=["none", "id", "age"])  # fmt: skip
def test_a_subject_is_required(tmp_path, fields, says):
    nwbfile = samples.plain_nwbfile()
    nwbfile.subject = None if fields is None else Subject(**fields)
    samples.write_zarr(tmp_path / "a.nwb.zarr", nwbfile)
    (problem,) = verify(tmp_path / "a.nwb.zarr", "structure", dandi=True).problems
    assert (problem.kind, problem.path, problem.message) == ("dandi-subject", "/general/subject", says)
    assert verify(tmp_path / "a.nwb.zarr").is_sound
