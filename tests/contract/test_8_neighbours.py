"""The contract: what pynwb, hdmf and nwbinspector do with an open file."""

import os
import subprocess
import sys
import zipfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hdmf.common import HERD
from pynwb import NWBHDF5IO, get_manager, validate
from pynwb.file import Subject

from hdmf_zarr_backend import Limits, NWBZarrIO, ReadOptions, ZarrIO
from hdmf_zarr_backend.errors import LimitError, StoreError
from tests import samples
from tests.descriptors import few_open_files
from tests.documents import document
from tests.places import ZipFolder, contents
from tests.test_io import read


@pytest.fixture
def local(tmp_path: Path) -> Path:
    return samples.write_zarr(tmp_path / "plain.nwb.zarr", samples.plain_nwbfile())


def test_the_errors_of_an_invalid_file_are_those_of_hdf5(folder, tmp_path):
    """A series without its unit, a rate that is text, and an attribute too much."""
    results = []
    for backend, place in ((NWBHDF5IO, tmp_path / "file.nwb"), (NWBZarrIO, folder / "file.nwb.zarr")):
        path = str(place)
        with backend(path, "w") as io:
            builder = io.manager.build(samples.plain_nwbfile(), source=path, root=True)
            trace = builder["acquisition/trace"]
            del trace["data"].attributes["unit"]
            trace["starting_time"].attributes["rate"] = "often"
            io.write_builder(builder)
        with backend(path, "r", load_namespaces=False) as io:
            results.append(sorted(str(error) for error in validate(io=io, use_cached_namespaces=False)))
    assert results[0] == results[1]
    assert len(results[1]) == 2


def test_nwbinspector_says_the_same_as_of_hdf5(rich, tmp_path, folder):
    from nwbinspector import inspect_nwbfile_object

    path = samples.write_hdf5(tmp_path / "rich.nwb")
    results = []
    for io in (NWBHDF5IO(str(path), "r"), NWBZarrIO(rich)):
        with io:
            messages = inspect_nwbfile_object(io.read())
            # where an object is, nwbinspector tells of Zarr only if there is a module hdmf_zarr
            results.append(sorted((m.check_function_name, m.object_name, m.importance.name) for m in messages))
    if isinstance(folder, ZipFolder):
        results[1].remove(("check_file_extension", "root", "BEST_PRACTICE_SUGGESTION"))  # which knows no .zip
    assert results[0] == results[1]


def _with_herd(path: Path, herd_path: str) -> None:
    nwbfile = samples.plain_nwbfile()
    nwbfile.subject = Subject(subject_id="m1", age="P1D", description="a mouse")
    herd = HERD()
    herd.add_ref(container=nwbfile.subject, key="mouse", entity_id="NCBI:10090", entity_uri="https://example.org/10090")
    with NWBZarrIO(path, "w", herd_path=herd_path) as io:
        io.write(nwbfile, herd=herd)


@pytest.mark.parametrize("form", ["{0}/herd.zip", "sub/herd.zip", "../{1}/sub/herd.zip"])
@pytest.mark.parametrize("io_class", [ZarrIO, NWBZarrIO])
def test_herd_path_is_found_wherever_it_is(tmp_path, monkeypatch, form, io_class):
    """The tables lie in the archive under the path that it was written to; hdmf finds none of them again."""
    folder = tmp_path / "sub"
    folder.mkdir()
    monkeypatch.chdir(tmp_path)
    given = form.format(folder, tmp_path.name)
    _with_herd(tmp_path / "file.zarr", given)
    (folder / "keys.tsv").write_text("somebody else's")
    for herd_path in (given, str(folder / "herd.zip")):
        with io_class(tmp_path / "file.zarr", "r", manager=get_manager(), herd_path=herd_path) as io:
            nwbfile = io.read()
            assert io.herd_path == herd_path
            assert io.herd.entities["entity_id"][0] == "NCBI:10090"
            assert nwbfile.external_resources is io.herd
    assert (folder / "keys.tsv").read_text() == "somebody else's"
    assert sorted(os.listdir(folder)) == ["herd.zip", "keys.tsv"]


def test_an_unusable_herd_path_is_reported(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    _with_herd(tmp_path / "file.zarr", "herd.zip")
    Path("text.zip").write_text("no archive")
    with zipfile.ZipFile("herd.zip") as whole, zipfile.ZipFile("nested.zip", "w") as nested:  # as `zip -r` does
        nested.mkdir("herd")
        for name in whole.namelist():
            nested.writestr(f"herd/{Path(name).name}", whole.read(name))
    with NWBZarrIO("file.zarr", herd_path="nested.zip") as io:
        io.read()
        assert io.herd.entities["entity_id"][0] == "NCBI:10090"
    with (
        zipfile.ZipFile("herd.zip") as whole,
        zipfile.ZipFile("part.zip", "w") as part,
        zipfile.ZipFile("altered.zip", "w") as altered,
        zipfile.ZipFile("large.zip", "w", zipfile.ZIP_DEFLATED) as large,
    ):
        for name in whole.namelist():
            text, is_table = whole.read(name).decode(), "entity_keys" in name
            altered.writestr(name, text.replace("\n0", "\n7") if is_table else text)
            large.writestr(name, "\0" * 2**23 if is_table else text)
            if not is_table:
                part.writestr(name, text)
    encrypted = Path("herd.zip").read_bytes()  # by the flags of its entries, in both headers
    for header, position in ((b"PK\3\4", 6), (b"PK\1\2", 8)):
        pieces = encrypted.split(header)
        at = position - len(header)
        pieces[1:] = [piece[:at] + bytes([piece[at] | 1]) + piece[at + 1 :] for piece in pieces[1:]]
        encrypted = header.join(pieces)
    Path("encrypted.zip").write_bytes(encrypted)
    for name, problem in (
        ("text.zip", "not an archive of external resources"),
        ("file.zarr", "not an archive of external resources"),
        ("part.zip", "not an archive of external resources .*entity_keys"),
        ("encrypted.zip", "not an archive of external resources .* is encrypted"),
    ):
        with NWBZarrIO("file.zarr", herd_path=name) as io, pytest.raises(StoreError, match=problem) as caught:
            io.read()
        assert caught.value.store == name
    limits = ReadOptions(limits=Limits(max_document_bytes=2**22))
    with (
        NWBZarrIO("file.zarr", herd_path="large.zip", read_options=limits) as io,
        pytest.raises(LimitError, match=r"^large\.zip: .*entity_keys.tsv' has 8,388,608 bytes"),
    ):
        io.read()
    missing = r"File not found at nowhere\.zip\. HERD not added"
    with NWBZarrIO("file.zarr", herd_path="nowhere.zip") as io, pytest.warns(UserWarning, match=missing):
        assert io.read().subject.subject_id == "m1"
        assert io.herd is None
    changed = "Check HERD separately for alterations"
    with NWBZarrIO("file.zarr", herd_path="altered.zip") as io, pytest.warns(UserWarning, match=changed):
        io.read()


def test_tables_are_the_same_data_frames_as_in_memory(rich):
    expected = samples.rich_nwbfile()
    nwbfile = read(rich)
    for name in ("electrodes", "units", "trials"):
        wanted, found = getattr(expected, name).to_dataframe(), getattr(nwbfile, name).to_dataframe()
        assert list(found.columns) == list(wanted.columns)
        plain = [c for c in wanted.columns if c not in ("group", "electrode_group", "electrodes", "timeseries")]
        pd.testing.assert_frame_equal(found[plain].map(_listed), wanted[plain].map(_listed), check_dtype=False)
    frame = nwbfile.units.to_dataframe(index=True)
    assert isinstance(frame, pd.DataFrame)
    assert frame["electrode_group"].iloc[1] is nwbfile.electrode_groups["shank1"]
    table = nwbfile.analysis["columns"]
    assert table.to_dataframe().dtypes["column_u8"] == np.uint64
    assert table[1:3].shape == (2, len(table.colnames))
    assert table[2, "column_f8"] == 2.0


def _listed(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        value = value.tolist()
    return [_listed(item) for item in value] if isinstance(value, (list, tuple)) else value


def test_pictures_for_notebooks(rich):
    with NWBZarrIO(rich) as io:
        nwbfile = io.read()
        html = nwbfile._repr_html_()
        assert "closed" not in html
        data = nwbfile.acquisition["raw"].data
        assert repr(data) == f"<LazyArray {rich}/acquisition/raw/data shape=(300, 3) dtype=int16>"
        assert "raw" in repr(nwbfile)
        shown = ZarrIO.generate_dataset_html(data)
    assert "(300, 3)" in html
    for part in ("(300, 3)", "int16", str(data.chunks), "blosc", "stored", "ratio"):
        assert part.lower() in shown.lower(), part
    chunks = [key for key in contents(rich) if key.startswith("acquisition/raw/data/") and key[-1].isdigit()]
    stored = sum(len(contents(rich)[key]) for key in chunks)
    assert data.stored_bytes() == stored > 0


def test_export_with_new_ids(plain, folder):
    with NWBZarrIO(plain) as source, NWBZarrIO(folder / "new.zarr", "w") as io:
        nwbfile = source.read()
        nwbfile.generate_new_id()
        io.export(source, nwbfile)
    assert document(folder / "new.zarr", ".zattrs")["object_id"] != document(plain, ".zattrs")["object_id"]
    assert read(folder / "new.zarr").acquisition["trace"].data[1].tolist() == [3, 4, 5]


@pytest.mark.parametrize("mode", ["r", "r+"])
def test_reading_after_a_change_of_directory(local, tmp_path, monkeypatch, mode):
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    with NWBZarrIO("plain.nwb.zarr", mode) as io:
        nwbfile = io.read()
        os.chdir(tmp_path / "elsewhere")
        assert nwbfile.acquisition["trace"].data[1].tolist() == [3, 4, 5]
        if mode == "r+":
            nwbfile.add_trial(start_time=0.0, stop_time=1.0)
            io.write(nwbfile)
    assert list((tmp_path / "elsewhere").iterdir()) == []
    assert (read(local).trials is None) is (mode == "r")


@pytest.mark.parametrize("spell", [
    str, Path, lambda path: f"{path}/", lambda path: f"{path.parent}/./{path.name}", lambda path: path.as_uri(),
], ids=["str", "Path", "with a slash", "with a dot", "URI"])  # fmt: skip
def test_spellings_of_a_path(local, spell):
    with NWBZarrIO(spell(local)) as io:
        assert io.source == io.path == io.abspath == str(local)
        nwbfile = io.read()
    assert nwbfile.identifier == "plain"
    assert nwbfile.container_source == nwbfile.acquisition["trace"].container_source == str(local)


def test_more_files_are_open_than_a_process_may_have(local):
    with few_open_files(40), ExitStack() as stack:
        files = [stack.enter_context(NWBZarrIO(local)).read() for _ in range(100)]
        assert [file.acquisition["trace"].data[1].tolist() for file in files] == [[3, 4, 5]] * 100


def test_nothing_has_the_name_of_hdmf_zarr_by_default():
    code = "import hdmf_zarr_backend.nwb, sys; print('hdmf_zarr' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False"]
