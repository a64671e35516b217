"""What the DANDI archive demands of a Zarr file, and the checksum that it has there."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hdmf_zarr_backend import ZarrIO, verify
from hdmf_zarr_backend.check import verify as checking
from hdmf_zarr_backend.check.findings import Report
from hdmf_zarr_backend.cli.main import main
from hdmf_zarr_backend.errors import UsageError
from hdmf_zarr_backend.store.base import Abilities
from hdmf_zarr_backend.store.memory import MemoryStore
from tests import samples, trees
from tests.options import arguments


def written(path: Path, **options: Any) -> Path:
    """A file whose keys of chunks have two levels more in format 3 than in format 2, which is one too many."""
    inner = trees.group("d", trees.group("e", trees.dataset("grid", np.arange(24.0).reshape(4, 6))))
    with ZarrIO(path, "w", **arguments(**options)) as io:
        io.write_builder(trees.root(trees.group("a", trees.group("b", trees.group("c", inner)))))
    return path


@pytest.mark.filterwarnings("ignore:The NestedDirectoryStore is deprecated:FutureWarning")  # by zarr_checksum
def test_the_checksum_is_that_of_zarr_checksum(tmp_path, zarr_format):
    zarr_checksum = pytest.importorskip("zarr_checksum", reason="zarr_checksum is not installed")
    from zarr_checksum.generators import yield_files_local

    path = tmp_path / "a.zarr"
    samples.write_zarr(path, samples.rich_nwbfile(), zarr_format=zarr_format)
    (path / "specifications" / 'naïve "name"').mkdir()
    (path / "specifications" / 'naïve "name"' / "0").write_bytes(b"x" * (checking._PIECE + 1))
    (path / "a-b").mkdir()  # sorts between "a" and "a/b" as a path
    (path / "a-b" / "empty").write_bytes(b"")
    wanted = zarr_checksum.compute_zarr_checksum(yield_files_local(path))
    report = verify(path, "structure", dandi=True).dandi
    assert report is not None
    assert report.checksum == str(wanted)
    assert (report.count, report.nbytes) == (wanted.count, wanted.size)


def test_the_checksum_of_known_trees():
    """Values of the archive's documentation: of nothing, and of one empty file."""
    assert checking.checksum({}, {}) == "481a2f77ab786a0f45aafd5db0971caa-0--0"
    store = MemoryStore({"foo/bar": b"", "foo/baz/x": b"abc", "foo/.git/x": b"not a part of it"}, "a.zarr")
    result = checking.check_dandi(store, Report(store.location, "chunks"))
    assert (result.count, result.nbytes, result.depth) == (2, 3, 3)
    assert result.checksum.endswith("-2--3")


def test_the_depth(tmp_path):
    assert verify(written(tmp_path / "2.zarr"), dandi=True).is_sound
    assert verify(written(tmp_path / "v2.zarr", zarr_format=3, chunk_key_encoding="v2"), dandi=True).is_sound
    deep = written(tmp_path / "3.zarr", zarr_format=3)
    assert verify(deep).is_sound
    (problem,) = verify(deep, dandi=True).problems
    assert (problem.kind, problem.path) == ("dandi-depth", "/a/b/c/d/e/grid")
    assert "--chunk-key-encoding v2" in problem.remedy


def test_names_sizes_and_number(tmp_path, monkeypatch):
    path = tmp_path / "a.nwb"
    trees.write_builder(path, trees.root(trees.dataset("data", np.arange(100.0))))
    monkeypatch.setattr(checking, "LARGEST_VALUE", 100)
    monkeypatch.setattr(checking, "MANY_VALUES", 3)
    monkeypatch.setattr(checking, "_LONGEST_KEY", 10)
    (path / "data" / "tab\t").write_bytes(b"")
    (path / "data" / "back\\slash").write_bytes(b"")
    report = verify(path, "structure", dandi=True)
    assert {"dandi-name", "dandi-size"} <= set(report.counts)
    assert report.counts["dandi-name"] == 4
    assert [remark.kind for remark in report.remarks if remark.kind.startswith("dandi")] == ["dandi-count"]


def test_a_store_without_a_listing_is_refused():
    store = MemoryStore({}, "a.zarr")
    store.abilities = Abilities(listing=False)
    with pytest.raises(UsageError, match="cannot list"):
        checking.check_dandi(store, Report(store.location, "chunks"))


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
