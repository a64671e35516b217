"""`verify` of HDF5 files, local and at a URL: what cannot be read, and what leads to nothing."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from hdmf_zarr_backend import Limits, ReadOptions, compare, convert, validate, verify
from hdmf_zarr_backend.cli.main import main
from hdmf_zarr_backend.errors import StoreLockedError
from tests import samples
from tests.checks.test_verify import found
from tests.servers import WebServer
from tests.smallfiles import hdf5_file


@pytest.fixture
def broken(tmp_path: Path) -> Path:
    """A file with links and references to nothing, and a damaged chunk."""
    hdf5_file(tmp_path / "other.h5", there=1)
    path = tmp_path / "broken.h5"
    with h5py.File(path, "w") as file:
        file["a"], file["gone"], file["null"] = np.arange(10), 5, h5py.Empty("i4")
        file["soft"], file["lost"] = h5py.SoftLink("/a"), h5py.SoftLink("/nothing")
        file["outside"] = h5py.ExternalLink("other.h5", "/there")
        file["outside_lost"] = h5py.ExternalLink("other.h5", "/nothing")
        file.attrs["reference"] = file["gone"].ref
        references = [file["a"].ref, file["gone"].ref, h5py.Reference()]
        file.create_dataset("references", data=references, dtype=h5py.ref_dtype)
        rows = np.dtype([("n", "i4"), ("to", h5py.ref_dtype)])
        file.create_dataset("rows", data=np.array([(1, file["gone"].ref), (2, file["a"].ref)], rows))
        ragged = file.create_dataset("ragged", (2,), dtype=h5py.vlen_dtype("i4"))  # Zarr has nothing of this kind
        ragged[0], ragged[1] = [1, 2, 3], [4]
        data = file.create_dataset("data", data=np.arange(10**5), chunks=(10**4,), compression="gzip")
        file.create_dataset("never", (2**40,), "i1", chunks=(2**20,), compression="gzip")
        offset = data.id.get_chunk_info(3).byte_offset
        del file["gone"]
    content = bytearray(path.read_bytes())
    content[offset + 20 : offset + 60] = bytes(40)
    path.write_bytes(content)
    return path


LINKS = {("/lost", "link-dangling"), ("/outside_lost", "link-dangling")}
REFERENCES = {(path, "reference-dangling") for path in ("/", "/references", "/rows")}
CHUNKS = {("/data", "chunk-damaged"), ("/never", "limit")}


@pytest.mark.parametrize(("level", "expected"), [
    ("structure", set()), ("links", LINKS | REFERENCES), ("chunks", LINKS | REFERENCES | CHUNKS),
])  # fmt: skip
def test_a_level_finds_what_it_checks(broken, level, expected, capsys):
    report = verify(broken, level)
    assert found(report) == expected
    assert (report.groups, report.arrays) == (1, 7)
    assert all(problem.remedy and "repair" not in problem.remedy for problem in report.problems)
    if level == "chunks":
        assert main(["verify", str(broken)]) == 1
        assert "/data: chunk-damaged: " in capsys.readouterr().out
        assert report.looked_at == "1 group, 7 arrays, 4 links, 6 references, 4 chunks"
        assert report.remarks[0].message.startswith("4 of 4 chunks have no checksum")


def test_links_follow_the_policy_and_damage_is_found_with_what_applies_to_zarr_only(broken: Path) -> None:
    report = verify(broken, "links", read_options=ReadOptions(external_links="never"))
    refused = {("/outside", "link-refused"), ("/outside_lost", "link-refused")}
    assert {(each.path, each.kind) for each in report.remarks} == refused
    with pytest.warns(UserWarning, match="dandi applies to Zarr files only"):
        assert found(verify(broken, dandi=True)) == found(verify(broken))


@pytest.mark.filterwarnings("error:.*is kept")
@pytest.mark.filterwarnings("ignore::hdmf.backends.warnings.BrokenLinkWarning")
@pytest.mark.parametrize("policy", ["never", "follow"])
def test_a_check_keeps_no_link_and_advises_nothing_about_zarr(tmp_path: Path, policy: Any) -> None:
    path = samples.write_hdf5(tmp_path / "a.nwb", samples.plain_nwbfile())
    with h5py.File(path, "r+") as file:
        file["scratch/far"] = h5py.ExternalLink("nowhere.h5", "/there")
    options = ReadOptions(external_links=policy)
    remarks = [*verify(path, "schema", read_options=options).remarks, *validate(path, read_options=options).remarks]
    kinds = {remark.kind: remark.remedy for remark in remarks}
    assert "HDF5" not in kinds.get("link-refused", "")
    assert ("link-refused" in kinds) == (policy == "never")


def test_a_file_whose_objects_cannot_be_listed_is_one_problem(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_group("a/b")
    content = (tmp_path / "a.h5").read_bytes().replace(b"TREE", b"XXXX").replace(b"SNOD", b"XXXX")
    (tmp_path / "a.h5").write_bytes(content)
    report = verify(tmp_path / "a.h5")
    assert [problem.kind for problem in report.problems] == ["object-damaged"]
    assert report.problems[0].remedy == "Restore it from a copy."


@pytest.mark.parametrize("level", ["structure", "chunks", "schema"])
def test_a_file_that_is_cut_short_is_damaged(tmp_path: Path, level: Any) -> None:
    path = samples.write_hdf5(tmp_path / "a.nwb", samples.plain_nwbfile())
    path.write_bytes(path.read_bytes()[:-1000])
    (problem,) = verify(path, level).problems
    assert (problem.path, problem.kind) == ("/", "object-damaged")
    assert "truncated file" in problem.message
    assert problem.remedy.startswith("It may be cut short: compare its size with the original")


def test_of_values_that_were_never_written_one_block_is_read(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("one piece", (10**8,), "S3", fillvalue=b"abc")
        file.create_dataset("chunks", (10**8,), h5py.string_dtype(), chunks=(10**4,))
        file.create_dataset("written", data=np.arange(10), chunks=(5,))
        file.create_dataset("partly", (10,), "i8", chunks=(5,))[0] = 1
    report = verify(tmp_path / "a.h5", read_options=ReadOptions(limits=Limits(max_unwritten_bytes=2**40)))
    assert (report.problems, report.arrays) == ([], 4)
    assert 160 < report.nbytes < 2**24


@pytest.mark.parametrize("libver", ["earliest", "latest"])
@pytest.mark.parametrize(("name", "first", "options", "tool"), [
    ("a%d.h5", "a0.h5", {"driver": "family", "memb_size": 4096}, "h5repart"),
    ("a", "a-m.h5", {"driver": "split"}, "h5repack"),
])  # fmt: skip
def test_a_part_of_a_file_names_the_tool_that_joins_it(tmp_path, name, first, options, tool, libver) -> None:
    with h5py.File(tmp_path / name, "w", libver=libver, **options) as file:
        file["data"] = np.arange(2000)
    (problem,) = verify(tmp_path / first).problems
    assert "this is one part of a" in problem.message
    assert tool in problem.remedy


def test_a_file_that_is_open_for_writing_elsewhere_is_not_damaged(tmp_path: Path) -> None:
    path = samples.write_hdf5(tmp_path / "a.nwb", samples.plain_nwbfile())
    program = "import h5py, sys; file = h5py.File(sys.argv[1], 'a'); print('open', flush=True); input()"
    command = [sys.executable, "-c", program, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as writer:
        assert writer.stdin is not None
        assert writer.stdout is not None
        writer.stdout.readline()
        with pytest.raises(StoreLockedError, match=r"unable to lock.*close it there"):
            verify(path)
        writer.stdin.close()


def test_a_whole_nwb_file_is_sound_here_and_at_a_url(web: WebServer) -> None:
    path = samples.write_hdf5(web.folder / "a.nwb")
    report = verify(path)
    assert report.is_sound
    remote = verify(f"{web.url}/a.nwb")
    assert (remote.is_sound, remote.looked_at) == (True, report.looked_at)
    assert compare(path, f"{web.url}/a.nwb") == []


def test_the_schema_is_that_of_validate(tmp_path: Path) -> None:
    path = samples.write_hdf5(tmp_path / "a.nwb", samples.plain_nwbfile())
    assert verify(path, "schema").is_sound
    with h5py.File(path, "a") as file:
        del file["identifier"]
    assert found(verify(path, "schema")) == {("/", "schema")}
    assert [(each.path, each.kind) for each in validate(path).findings] == [("/", "missing")]


def test_chunks_that_are_refused_are_damage_of_a_virtual_file(tmp_path):
    """All that it has is in the HDF5 file; a link to another file is only a remark."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "here").mkdir()
    hdf5_file(tmp_path / "elsewhere" / "a.h5", x=np.random.default_rng(0).random(1_000_000))
    target = tmp_path / "here" / "a.zarr.json"
    convert(tmp_path / "elsewhere" / "a.h5", target, to="virtual", check=False)
    assert not verify(target).problems
    problems = verify(target, read_options=ReadOptions(external_links="within")).problems
    assert {problem.kind for problem in problems} == {"chunk-damaged"}
