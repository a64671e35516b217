"""Nothing that exists is replaced unless requested; a target may be a link, a folder or missing."""

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest
import zarr
from hdmf.build import GroupBuilder
from pynwb import NWBHDF5IO

from hdmf_zarr_backend import NWBZarrIO, ZarrIO, compare, convert
from hdmf_zarr_backend.cli.main import main
from hdmf_zarr_backend.errors import StoreExistsError, StoreLockedError
from hdmf_zarr_backend.options import WriteOptions
from hdmf_zarr_backend.progress import Progress
from hdmf_zarr_backend.zom import from_zom, to_zom
from tests.places import stored_files
from tests.samples import edit_zarr, plain_nwbfile, read_zarr
from tests.smallfiles import hdf5_file
from tests.trees import dataset, read_builder, root, write_builder
from tests.watching import Interrupted


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with an NWB file, which is small without its specifications."""
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    with NWBHDF5IO("session.nwb", "w") as io:
        io.write(plain_nwbfile(), cache_spec=False)
    return tmp_path / "work"


def add_trial(path: Path) -> None:
    with edit_zarr(path, load_namespaces=False) as nwbfile:
        nwbfile.add_trial(0.0, 1.0)


def builder(value: int) -> GroupBuilder:
    return root(dataset("x", np.array([value])))


def value_in(path: Path) -> int:
    return int(zarr.open_group(path, mode="r", use_consolidated=False)["x"][0])


# ---- what exists ----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("kind", ["text", "hdf5", "zarr", "folder", "made"])
@pytest.mark.parametrize(("source", "target", "options"), [
    ("session.nwb", "t.zarr", {}), ("session.nwb", "t.zarr", {"zarr_format": 3}), ("session.nwb", "t.zip", {}),
    ("session.nwb", "t.zarr", {"resume": True}), ("session.nwb", "t.json", {"to": "virtual"}),
    ("source.zarr", "t.zarr", {"to": "zarr", "zarr_format": 3}), ("source.zarr", "t.nwb", {}),
])  # fmt: skip
def test_whatever_exists_is_refused_and_replaced_on_request(work, kind, source, target, options):
    convert("session.nwb", "source.zarr")
    options = {"to": "hdf5" if target == "t.nwb" else "zarr", **options}
    if kind == "text":
        Path(target).write_text("mine")
    elif kind == "hdf5":
        shutil.copy("session.nwb", target)
    elif kind == "zarr":
        write_builder("there", builder(1))
        Path("there").rename(target)
    elif kind == "made":
        convert(source, target, **options)
    else:
        Path(target).mkdir()
        Path(target, "mine.txt").write_text("mine")
    before = stored_files(work)
    is_folder = target == "t.json" and kind in ("zarr", "folder")  # references are one file, which replaces no folder
    refused = "a directory exists there" if is_folder else r"(?s)exists already.*overwrite=True"
    with pytest.raises(StoreExistsError, match=refused) as caught:
        convert(source, target, **options)
    assert caught.value.store == str(work / target)
    assert stored_files(work) == before
    if not is_folder:
        convert(source, target, overwrite=True, **options)
        assert compare("session.nwb", target, ignore={"chunks", "filters"}) == []
        assert sorted(os.listdir()) == sorted(["session.nwb", "source.zarr", target])


def test_an_empty_folder_or_a_link_to_one_may_be_the_target(work: Path) -> None:
    Path("disk").mkdir()
    os.symlink("disk", "link.zarr")
    for name, options in (("a.zarr", {}), ("b.zarr", {"zarr_format": 3}), ("link.zarr", {})):
        Path(name).mkdir(exist_ok=True)
        convert("session.nwb", name, **options)  # type: ignore[arg-type]
        assert read_zarr(name, load_namespaces=False).identifier
    assert sorted(os.listdir()) == ["a.zarr", "b.zarr", "disk", "link.zarr", "session.nwb"]
    assert Path("link.zarr").is_symlink()
    assert Path("disk/.zgroup").exists()


def test_what_appears_during_the_conversion_stays(work: Path) -> None:
    class Meanwhile(Progress):
        def __init__(self, target: str) -> None:
            self.target = Path(target)

        def advance(self, path: str, done: int) -> None:
            if not self.target.exists():
                self.target.write_text("mine")

    convert("session.nwb", "source.zarr")
    for source, target in (("session.nwb", "a.zarr"), ("session.nwb", "a.zip"), ("source.zarr", "a.nwb")):
        with pytest.raises(StoreExistsError):
            convert(source, target, write_options=WriteOptions(progress=Meanwhile(target)))
        assert Path(target).read_text() == "mine"
    assert sorted(os.listdir()) == ["a.nwb", "a.zarr", "a.zip", "session.nwb", "source.zarr"]


def test_a_second_conversion_keeps_what_was_appended(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["convert", "session.nwb", "session.nwb.zarr"]
    assert main(command) == 0
    add_trial(work / "session.nwb.zarr")
    before = stored_files(work)
    assert re.match(
        r"session.nwb -> .*session\.nwb\.zarr: \d+ groups, \d+ datasets, 0 links, ", capsys.readouterr().out
    )
    assert main(command) == 2
    assert "use --overwrite to replace it, or --skip-existing to leave it" in capsys.readouterr().err
    assert main([*command, "--resume"]) == 2
    assert stored_files(work) == before
    assert main([*command, "--skip-existing"]) == 0
    assert stored_files(work) == before
    assert main([*command, "--overwrite"]) == 0
    assert read_zarr("session.nwb.zarr", load_namespaces=False).trials is None
    add_trial(work / "session.nwb.zarr")
    for _ in range(2):  # as in hdmf-zarr and HDF5IO, an io of mode w replaces a file of its kind, by an export too
        with NWBHDF5IO("session.nwb", "r", load_namespaces=False) as source, NWBZarrIO("session.nwb.zarr", "w") as io:
            io.export(source)
    assert read_zarr("session.nwb.zarr", load_namespaces=False).trials is None


def test_a_page_and_a_model_refuse_an_existing_target(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    convert("session.nwb", "a.zarr")
    Path("page.html").write_text("mine")
    os.symlink("nowhere.html", "link.html")
    for name in ("page.html", "link.html"):
        assert main(["report", "a.zarr", "-o", name]) == 2
        assert "--overwrite" in capsys.readouterr().err
    assert Path("page.html").read_text() == "mine"
    assert not Path("nowhere.html").exists()
    convert("a.zarr", "a.zip", zarr_format=3)
    before = Path("a.zip").read_bytes()
    assert main(["report", "a.zip", "-o", "a.zip", "--overwrite"]) == 2
    assert Path("a.zip").read_bytes() == before
    assert main(["report", "a.zarr", "-o", "page.html", "--overwrite"]) == 0
    model = to_zom("a.zarr")
    before_model = stored_files(work / "a.zarr")
    with pytest.raises(StoreExistsError, match="overwrite=True"):
        from_zom(model, "a.zarr")
    assert stored_files(work / "a.zarr") == before_model
    from_zom(model, "a.zarr", overwrite=True)


# ---- symbolic links -------------------------------------------------------------------------------------------------
def write_w(target: Path, value: int) -> None:
    write_builder(target, builder(value))


@pytest.mark.parametrize("suffix", [".zarr", ".zip"])
@pytest.mark.parametrize("is_converted", [True, False])
def test_a_link_is_followed_and_stays(tmp_path: Path, is_converted: bool, suffix: str) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "names").mkdir()
    real, link = tmp_path / "disk" / f"real{suffix}", tmp_path / "names" / f"link{suffix}"
    write_w(real, 1)
    link.symlink_to(os.path.join("..", "disk", real.name))
    if is_converted:
        hdf5_file(tmp_path / "source.h5", x=[2])
        convert(tmp_path / "source.h5", link, to="zarr", overwrite=True)
    else:
        write_w(link, 2)
    assert link.is_symlink()
    assert os.listdir(tmp_path / "disk") == [real.name]
    assert os.listdir(tmp_path / "names") == [link.name]
    for path in (real, link):
        assert read_builder(path)["x"].data[0] == 2


def test_a_link_to_an_hdf5_file_or_to_references_is_followed_and_stays(work: Path) -> None:
    convert("session.nwb", "source.zarr")
    Path("disk").mkdir()
    for name, source, options in (("real.nwb", "source.zarr", {}), ("real.json", "session.nwb", {"to": "virtual"})):
        real, link = Path("disk", name), Path(f"link{Path(name).suffix}")
        real.write_text("old")
        link.symlink_to(real)
        convert(source, link, overwrite=True, **options)  # type: ignore[arg-type]
        assert link.is_symlink()
        assert real.read_bytes() != b"old"
    assert sorted(os.listdir("disk")) == ["real.json", "real.nwb"]


@pytest.mark.parametrize("mode", ["w", "a", "x"])
@pytest.mark.parametrize("leads", ["nowhere.zarr", "link.zarr"])
def test_a_link_that_leads_nowhere_is_refused(work: Path, mode: str, leads: str) -> None:
    os.symlink(leads, "link.zarr")
    with pytest.raises(StoreExistsError, match="symbolic link"):
        ZarrIO("link.zarr", mode).open()
    with pytest.raises(StoreExistsError, match="symbolic link"):
        convert("session.nwb", "link.zarr", overwrite=mode == "w")
    assert sorted(os.listdir()) == ["link.zarr", "session.nwb"]


def test_writers_by_two_names_exclude_each_other(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    write_w(tmp_path / "disk" / "a.zarr", 1)
    (tmp_path / "link.zarr").symlink_to(tmp_path / "disk" / "a.zarr")
    for one, other in (("disk/a.zarr", "link.zarr"), ("link.zarr", "disk/a.zarr")):
        for first, second in (("r+", "r+"), ("w", "r+"), ("r+", "w")):
            with ZarrIO(tmp_path / one, first):
                assert not (tmp_path / ".link.zarr.lock").exists()
                with pytest.raises(StoreLockedError):
                    ZarrIO(tmp_path / other, second).open()


def test_a_conversion_to_a_link_is_resumed_by_either_name(tmp_path: Path) -> None:
    hdf5_file(tmp_path / "a.h5", x=np.array([7]))
    (tmp_path / "disk").mkdir()
    real, link = tmp_path / "disk" / "a.zarr", tmp_path / "link.zarr"
    write_w(real, 1)
    link.symlink_to(real)
    with pytest.raises(KeyboardInterrupt):
        convert(tmp_path / "a.h5", link, overwrite=True, write_options=WriteOptions(progress=Interrupted()))
    assert value_in(real) == 1
    assert [name for name in os.listdir(tmp_path) if name.startswith(".")] == []
    assert len(os.listdir(real.parent)) == 2
    convert(tmp_path / "a.h5", real, overwrite=True, resume=True)
    assert value_in(link) == 7
    assert os.listdir(real.parent) == ["a.zarr"]


def test_links_to_other_files_are_relative_to_the_name_that_is_given(tmp_path: Path) -> None:
    for name in ("disk", "names"):
        (tmp_path / name).mkdir()
    write_w(tmp_path / "names" / "b.zarr", 5)
    write_w(tmp_path / "disk" / "a.zarr", 1)
    link = tmp_path / "names" / "a.zarr"
    link.symlink_to(tmp_path / "disk" / "a.zarr")
    write_builder(link, root(dataset("y", read_builder(tmp_path / "names" / "b.zarr")["x"].data)))
    assert read_builder(link)["y"].builder.data[0] == 5


# ---- folders and no target ------------------------------------------------------------------------------------------
def zarr_at(path: str) -> bool:
    return Path(path, ".zgroup").exists()


@pytest.mark.parametrize(("arguments", "made", "is_there"), [
    (["session.nwb"], "session.nwb.zarr", zarr_at), (["session.nwb", "folder"], "folder/session.nwb.zarr", zarr_at),
    (["session.nwb", "folder/"], "folder/session.nwb.zarr", zarr_at),
    (["session.nwb", "new/sub/"], "new/sub/session.nwb.zarr", zarr_at),
    (["session.nwb", "folder", "--to", "zarr"], "folder/session.nwb.zarr", zarr_at),
    (["session.nwb", "full"], "full/session.nwb.zarr", zarr_at),
    (["session.nwb", "folder", "--to", "virtual"], "folder/session.nwb.zarr.json", os.path.isfile),
    (["session.nwb", "session.zip"], "session.zip", os.path.isfile),
    (["session.nwb", "session.nwb.zip"], "session.nwb.zip", os.path.isfile),
    (["session.nwb", "empty.zarr"], "empty.zarr", zarr_at), (["session.nwb", "new.zarr/"], "new.zarr", zarr_at),
    (["source.zarr"], "source.nwb", h5py.is_hdf5), (["source.zarr/", "folder"], "folder/source.nwb", h5py.is_hdf5),
    (["there.zip"], "there.nwb", h5py.is_hdf5), (["sub/source.nwb.zarr"], "sub/source.nwb", h5py.is_hdf5),
])  # fmt: skip
def test_where_the_new_file_is(work: Path, arguments: list[str], made: str, is_there: Callable[[str], bool]) -> None:
    for name in ("folder", "full", "empty.zarr", "sub"):
        Path(name).mkdir()
    Path("full/notes.txt").write_text("mine")
    convert("session.nwb", "source.zarr")
    convert("session.nwb", "sub/source.nwb.zarr")
    convert("session.nwb", "there.zip", to="zarr")
    before = {name for name in stored_files(work) if not name.startswith(f"{made}")}
    assert main(["convert", *arguments]) == 0
    assert is_there(made)
    assert {name for name in stored_files(work) if not name.startswith(made)} == before


def test_a_zarr_file_is_not_a_folder_for_new_files_nor_replaced(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Whether it is given, or beside the source, where it would be made without a target."""
    for name in ("there", "there.zarr", "session.nwb.zarr"):
        convert("session.nwb", name, to="zarr")
    before = stored_files(work)
    for target in ([], ["there"], ["there/"], ["there.zarr"], ["there.zarr/"]):
        assert main(["convert", "session.nwb", *target]) == 2
        assert re.search("exists already.*--overwrite", capsys.readouterr().err, re.DOTALL)
    assert main(["convert", "session.nwb.zarr"]) == 2
    assert main(["convert", "https://host/session.nwb"]) == 2
    assert stored_files(work) == before
