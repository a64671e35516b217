"""Codecs of other packages, as large recordings are stored with them: everything that is done with a file works."""

import json
import re
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numcodecs
import numpy as np
import pytest
from hdmf.build import ReferenceBuilder
from numcodecs.abc import Codec
from pynwb import NWBFile, TimeSeries

from hdmf_zarr_backend import Limits, NWBZarrIO, ReadOptions, WriteOptions, ZarrDataIO, convert, errors, upgrade, verify
from hdmf_zarr_backend.cli.main import main
from hdmf_zarr_backend.errors import ChunkError, MetadataError, UnsupportedFileError, UsageError, ValueRefusedError
from tests import samples, trees
from tests.peers import Peer
from tests.samples import plain_nwbfile, write_zarr
from tests.zarrs import needs_zarr_3

RECORDING = np.arange(4000, dtype="i2").reshape(1000, 4) ** 2

both_formats = pytest.mark.parametrize("zarr_format", [2, 3, "both"])


class DecodeFailed(Exception):
    """An error of another package, which is not one of Python's."""


class Signal(Codec):  # type: ignore[misc]
    """Compresses 16-bit signals of several channels; it takes nothing else, as codecs for audio do."""

    codec_id = "test_signal"

    def __init__(self, level: int = 3, *, wrong_length: bool = False) -> None:
        self.level = level
        self.wrong_length = wrong_length

    def encode(self, buf: Any) -> bytes:
        assert buf.dtype == np.int16 and buf.ndim == 2, (buf.dtype, buf.shape)
        return b"signal" + zlib.compress(np.ascontiguousarray(buf).tobytes(), self.level)

    def decode(self, buf: Any, out: Any = None) -> Any:
        data = bytes(buf)
        if not data.startswith(b"signal"):
            raise DecodeFailed("this is no signal")
        values = np.frombuffer(zlib.decompress(data[6:]), "i2").reshape(-1, 1)
        return values[1:] if self.wrong_length else values

    def get_config(self) -> dict[str, Any]:
        return {"id": self.codec_id, "level": self.level}


class Wrapper(Codec):  # type: ignore[misc]
    """A codec that makes another one from its configuration."""

    codec_id = "test_wrapper"

    def __init__(self, inner: dict[str, Any]) -> None:
        self.inner = numcodecs.get_codec(inner)

    def encode(self, buf: Any) -> Any:
        return self.inner.encode(buf)

    def decode(self, buf: Any, out: Any = None) -> Any:
        return self.inner.decode(buf)


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
    """numcodecs knows the codecs; pickle too, by another name and as somebody's subclass."""
    derived = type("Derived", (numcodecs.Pickle,), {"__module__": "other"})
    for name, codec in {"signal": Signal, "wrapper": Wrapper, "pickle": numcodecs.Pickle, "derived": derived}.items():
        monkeypatch.setitem(numcodecs.registry.codec_registry, f"test_{name}", codec)


def nwbfile(**wrapping: Any) -> NWBFile:
    made = plain_nwbfile()
    data = ZarrDataIO(RECORDING, chunks=(300, 4), **wrapping)
    made.add_acquisition(TimeSeries(name="recording", data=data, unit="V", rate=1.0))
    made.add_acquisition(TimeSeries(name="other", data=[1.0, 2.0], unit="V", rate=1.0))
    return made


@pytest.fixture
def place(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A file of the format that the test has, with a recording that is compressed with `Signal`."""
    zarr_format = request.node.callspec.params.get("zarr_format", 2) if hasattr(request.node, "callspec") else 2
    return write_zarr(tmp_path / "file.nwb.zarr", nwbfile(compressor=Signal(5)), zarr_format=zarr_format)


def recording(path: Path, **options: Any) -> np.ndarray[Any, Any]:
    return samples.read_zarr(path, **options).acquisition["recording"].data[:]


def assert_in_hdf5(path: Path) -> None:
    convert(path, path.with_name("file.nwb"))
    with h5py.File(path.with_name("file.nwb")) as file:
        np.testing.assert_array_equal(file["acquisition/recording/data"][:], RECORDING)


def change_array(path: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """Change the documents of the array, in a file of format 2."""
    for name in (".zmetadata", "acquisition/recording/data/.zarray"):
        document = json.loads((path / name).read_text())
        change(document["metadata"]["acquisition/recording/data/.zarray"] if "metadata" in document else document)
        (path / name).write_text(json.dumps(document))


def change_codec(path: Path, **changes: Any) -> None:
    change_array(path, lambda array: array["compressor"].update(changes))


# ---- what is done with a file ---------------------------------------------------------------------------------------
@both_formats
def test_it_is_written_and_read(place, zarr_format):
    data = samples.read_zarr(place).acquisition["recording"].data
    assert data.compressor == Signal(5)
    np.testing.assert_array_equal(data[295:305, 1], RECORDING[295:305, 1])
    np.testing.assert_array_equal(data[:], RECORDING)
    if zarr_format != 2:
        document = json.loads((place / "acquisition/recording/data/zarr.json").read_text())
        assert {"name": "numcodecs.test_signal", "configuration": {"level": 5}} in document["codecs"]
    if zarr_format != 3:
        document = json.loads((place / "acquisition/recording/data/.zarray").read_text())
        assert document["compressor"] == {"id": "test_signal", "level": 5}
    assert verify(place).problems == []


@pytest.mark.parametrize(
    ("zarr_format", "wrapping"),
    [*((zarr_format, {"filters": [Signal(1)], "compressor": numcodecs.Zstd(1)}) for zarr_format in (2, 3, "both")),
     (3, {"compressor": Signal(), "shards": (600, 4)})],
)  # fmt: skip
def test_it_is_a_filter_before_another_codec_and_in_shards(tmp_path, zarr_format, wrapping):
    path = write_zarr(tmp_path / "file.nwb.zarr", nwbfile(**wrapping), zarr_format=zarr_format)
    np.testing.assert_array_equal(recording(path), RECORDING)


@needs_zarr_3
def test_what_zarr_itself_shows_of_an_array_needs_the_codec_in_its_registry(tmp_path):
    wrapper = {"id": "test_wrapper", "inner": {"id": "zlib"}}
    codecs = ZarrDataIO(RECORDING[:, 0], filters=[numcodecs.Delta("i2")], compressor=wrapper)
    trees.write_builder(tmp_path / "a.zarr", trees.root(trees.dataset("a", codecs)), zarr_format=3)
    data = trees.read_builder(tmp_path / "a.zarr")["a"].data
    with pytest.raises(errors.NotZarrError, match=r"numcodecs.test_wrapper.*\(/a\)\. Index.* in its own registry"):
        _ = data.filters
    np.testing.assert_array_equal(data[:], RECORDING[:, 0])


def test_workers_write_and_decode_it(tmp_path):
    path, options = tmp_path / "file.nwb.zarr", WriteOptions(executor="threads")
    write_zarr(path, nwbfile(compressor=Signal()), write_options=options)
    assert verify(path, executor="threads").problems == []
    convert(path, tmp_path / "file.nwb", write_options=options)
    np.testing.assert_array_equal(recording(path), RECORDING)


@both_formats
def test_it_is_changed_and_appended_to(place, zarr_format):
    with NWBZarrIO(place, "r+") as io:
        data = io.read().acquisition["recording"].data
        data[5] = 7
        data.append(RECORDING[:1])
    expected = np.concatenate([RECORDING, RECORDING[:1]])
    expected[5] = 7
    np.testing.assert_array_equal(recording(place), expected)
    assert verify(place).problems == []


@both_formats
@pytest.mark.parametrize("target_format", [2, 3])
def test_it_is_exported_and_converted(place, tmp_path, zarr_format, target_format):
    with NWBZarrIO(place, "r") as source, NWBZarrIO(tmp_path / "export.zarr", "w", zarr_format=target_format) as io:
        io.export(source)
    convert(place, tmp_path / "converted.zarr", zarr_format=target_format)
    for name in ("export.zarr", "converted.zarr"):
        data = samples.read_zarr(tmp_path / name).acquisition["recording"].data
        assert data.compressor == Signal(5)
        np.testing.assert_array_equal(data[:], RECORDING)
    assert_in_hdf5(place)


def test_a_file_is_upgraded_with_its_chunks(place):
    stored = {path.name: path.read_bytes() for path in (place / "acquisition/recording/data").glob("[0-9]*")}
    upgrade(place, keep=True)
    upgrade(place, drop=2)
    np.testing.assert_array_equal(recording(place), RECORDING)
    assert {path.name: path.read_bytes() for path in (place / "acquisition/recording/data").glob("[0-9]*")} == stored


@pytest.mark.parametrize("codecs", [["numcodecs"], ["numcodecs", "bytes"], ["bytes", "numcodecs"]], ids="-".join)
def test_another_program_may_have_put_it_at_any_step_of_format_3(tmp_path, codecs):
    path = tmp_path / "file.nwb.zarr"
    write_zarr(path, nwbfile(compressor=Signal(5)), zarr_format=3)
    known = {
        "numcodecs": {"name": "numcodecs.test_signal", "configuration": {"level": 5}},
        "bytes": {"name": "bytes", "configuration": {"endian": "little"}},
    }
    document = json.loads((path / "zarr.json").read_text())
    array = document["consolidated_metadata"]["metadata"]["acquisition/recording/data"]
    array["codecs"] = [known[name] for name in codecs]
    (path / "zarr.json").write_text(json.dumps(document))
    np.testing.assert_array_equal(recording(path), RECORDING)
    (path / "acquisition/recording/data/zarr.json").write_text(json.dumps(array))
    with NWBZarrIO(path, "r+") as io:
        io.read().acquisition["recording"].data.append(RECORDING[:1])
    assert json.loads((path / "acquisition/recording/data/zarr.json").read_text())["codecs"] == array["codecs"]
    np.testing.assert_array_equal(recording(path)[:1000], RECORDING)


@pytest.mark.parametrize("order", ["C", "F"])
def test_chunks_of_either_order_are_changed(place, order):
    change_array(place, lambda array: array.update(order=order))
    with NWBZarrIO(place, "r+") as io:
        io.read().acquisition["recording"].data[:] = RECORDING
    np.testing.assert_array_equal(recording(place), RECORDING)


_PEER = """
import json, sys, types, zlib
from datetime import datetime, timezone
import numcodecs, numpy as np
from numcodecs.abc import Codec
from hdmf_zarr import NWBZarrIO, ZarrDataIO
from pynwb import NWBFile, TimeSeries

class Signal(Codec):
    codec_id = "test_signal"
    def __init__(self, level=3): self.level = level
    def encode(self, buf): return b"signal" + zlib.compress(np.ascontiguousarray(buf).tobytes(), self.level)
    def decode(self, buf, out=None): return numcodecs.compat.ndarray_copy(zlib.decompress(bytes(buf)[6:]), out)

numcodecs.register_codec(Signal)
path, task = sys.argv[1:]
if task == "write":
    nwbfile = NWBFile("s", "i", datetime(2026, 1, 1, tzinfo=timezone.utc))
    data = ZarrDataIO(np.arange(4000, dtype="i2").reshape(1000, 4) ** 2, compressor=Signal(5), chunks=(300, 4))
    nwbfile.add_acquisition(TimeSeries(name="recording", data=data, unit="V", rate=1.0))
    with NWBZarrIO(path, "w") as io:
        io.write(nwbfile)
with NWBZarrIO(path, "r") as io:
    print(json.dumps(io.read().acquisition["recording"].data[:].tolist()))
"""


def test_files_of_hdmf_zarr_013(peer013: Peer, tmp_path):
    assert peer013.run(_PEER, str(tmp_path / "theirs.zarr"), "write") == RECORDING.tolist()
    np.testing.assert_array_equal(recording(tmp_path / "theirs.zarr"), RECORDING)
    write_zarr(tmp_path / "ours.zarr", nwbfile(compressor=Signal(5)))
    assert peer013.run(_PEER, str(tmp_path / "ours.zarr"), "read") == RECORDING.tolist()


@pytest.mark.peer
@both_formats
def test_flac(tmp_path, zarr_format):
    flac = pytest.importorskip("flac_numcodecs")
    path = write_zarr(tmp_path / "file.nwb.zarr", nwbfile(compressor=flac.Flac(level=8)), zarr_format=zarr_format)
    np.testing.assert_array_equal(recording(path), RECORDING)
    assert_in_hdf5(path)


# ---- an installed package -------------------------------------------------------------------------------------------
_INSTALLED = """
import zlib
import numpy as np
from numcodecs.abc import Codec

class Installed(Codec):
    codec_id = "test_installed"
    def encode(self, buf): return zlib.compress(np.ascontiguousarray(buf).tobytes())
    def decode(self, buf, out=None): return zlib.decompress(buf)
"""


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Return a function that installs a package with a codec, given its source."""

    def make(source: str) -> None:
        about = tmp_path / "site" / "test_installed-1.dist-info"
        about.mkdir(parents=True)
        (about.parent / "test_installed_codec.py").write_text(source)
        (about / "METADATA").write_text("Metadata-Version: 2.1\nName: test-installed\nVersion: 1\n")
        (about / "entry_points.txt").write_text("[numcodecs.codecs]\ntest_installed = test_installed_codec:Installed\n")
        monkeypatch.syspath_prepend(tmp_path / "site")
        numcodecs.registry.run_entrypoints()

    yield make
    monkeypatch.undo()
    sys.modules.pop("test_installed_codec", None)
    numcodecs.registry.codec_registry.pop("test_installed", None)
    numcodecs.registry.run_entrypoints()


def test_the_entry_point_of_an_installed_package_is_used(place, install):
    install(_INSTALLED)
    for path in (place / "acquisition/recording/data").glob("[0-9]*"):
        path.write_bytes(path.read_bytes()[len(b"signal") :])
    change_array(place, lambda array: array.update(compressor={"id": "test_installed"}))
    with NWBZarrIO(place, "r", read_options=ReadOptions(limits=Limits(plug_in_codecs=False))) as io:
        assert io.read().acquisition["other"].data[:].tolist() == [1.0, 2.0]
    assert "test_installed_codec" not in sys.modules
    np.testing.assert_array_equal(recording(place), RECORDING)


def test_a_package_that_cannot_be_imported_is_named(place, install):
    install("raise RuntimeError('no such library')")
    change_codec(place, id="test_installed")
    with pytest.raises(UnsupportedFileError, match=r"test_installed_codec.*no such library.*recording/data"):
        recording(place)
    assert [problem.kind for problem in verify(place).problems] == ["library-missing"]


# ---- refusals -------------------------------------------------------------------------------------------------------
@both_formats
def test_limits_forbid_them(place, tmp_path, zarr_format):
    limits = Limits(plug_in_codecs=False)
    with NWBZarrIO(place, "r", read_options=ReadOptions(limits=limits)) as io:
        read = io.read()
        assert read.acquisition["other"].data[:].tolist() == [1.0, 2.0]
        with pytest.raises(errors.LimitError, match=r"test_signal.*recording/data") as caught:
            read.acquisition["recording"].data[0]
        assert "allow it: read_options=ReadOptions(limits=Limits(plug_in_codecs=True))." in str(caught.value)
    assert {problem.kind for problem in verify(place, read_options=ReadOptions(limits=limits)).problems} == {"limit"}
    with pytest.raises(errors.LimitError, match=r"test_signal"):
        convert(place, tmp_path / "file.nwb", read_options=ReadOptions(limits=limits))
    assert not (tmp_path / "file.nwb").exists()


@pytest.mark.parametrize(("command", "more"), [
    ("verify", []), ("convert", ["{}/a.h5"]), ("compare", ["{}/file.nwb.zarr"]),
    ("report", ["--level", "chunks", "-o", "{}/a.html"]),
])  # fmt: skip
def test_the_command_line_forbids_them(place, tmp_path, command, more, capsys):
    call = [command, str(place), *(word.format(tmp_path) for word in more), "--no-plug-in-codecs"]
    assert main(call) == {"verify": 1, "convert": 2, "compare": 2, "report": 0}[command]
    shown = (tmp_path / "a.html").read_text() if command == "report" else "".join(capsys.readouterr())
    assert "is of another package, and plug_in_codecs is False" in shown
    assert "leave --no-plug-in-codecs out" in shown
    (tmp_path / "a.html").unlink(missing_ok=True)
    assert main(call[:-1]) == 0


@both_formats
def test_a_file_is_not_damaged_where_its_codec_is_not_registered(place, monkeypatch, zarr_format):
    monkeypatch.delitem(numcodecs.registry.codec_registry, "test_signal")
    with pytest.raises(UnsupportedFileError, match="test_signal") as caught:
        recording(place)
    assert "register it with numcodecs.register_codec" in caught.value.remedy
    (problem,) = verify(place).problems
    assert (problem.path, problem.kind) == ("/acquisition/recording/data", "library-missing")
    assert problem.remedy == f"{caught.value.remedy} These values were not checked."
    assert problem.as_json()["remedy"] == problem.remedy


_SCRIPT = """
import sys
import h5py, numcodecs, numpy as np
from numcodecs.abc import Codec
from hdmf_zarr_backend import convert, verify
from hdmf_zarr_backend.options import WriteOptions

class Mine(Codec):
    codec_id = "test_mine"
    def encode(self, buf): return np.ascontiguousarray(buf).tobytes()
    def decode(self, buf, out=None): return bytes(buf)

if {condition}:
    numcodecs.register_codec(Mine)
if __name__ == "__main__":
    with h5py.File("a.h5", "w") as file:
        file.create_dataset("x", data=np.arange(1_000_000.0), chunks=(1000,))
    options = {{"codec": {{"id": "test_mine"}}, "overwrite": True}}
    convert("a.h5", "a.zarr", **options)
    for problem in verify("a.zarr", executor="processes").problems:
        print(problem.path, problem.kind, problem.remedy)
    convert("a.h5", "a.zarr", **options, write_options=WriteOptions(executor="processes"))
"""


@pytest.mark.parametrize("condition", ["True", "__name__ == '__main__'"])
def test_processes_have_a_codec_that_is_registered_at_the_top_of_a_script(tmp_path, condition):
    (tmp_path / "a.py").write_text(_SCRIPT.format(condition=condition))
    call = [sys.executable, "a.py"]
    done = subprocess.run(call, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=100)
    if condition == "True":
        assert (done.returncode, done.stdout) == (0, ""), done.stderr
        return
    assert done.stdout.startswith("/x library-missing Install its package")
    for said in (done.stdout, done.stderr.splitlines()[-1]):
        assert "at the top of a module that the workers import (not below `if __name__`)" in said
    assert re.search(r"MissingCodecError: .*a\.zarr: .*\(/x\)", done.stderr)


def test_references_with_a_codec_that_is_not_registered_are_one_finding(tmp_path, monkeypatch):
    target = trees.dataset("target", [1.0])
    references = ZarrDataIO([ReferenceBuilder(target)], compressor={"id": "test_wrapper", "inner": {"id": "zlib"}})
    tree = trees.root(target, trees.dataset("references", references, "object"))
    trees.write_builder(tmp_path / "a.zarr", tree)
    monkeypatch.delitem(numcodecs.registry.codec_registry, "test_wrapper")
    (problem,) = verify(tmp_path / "a.zarr").problems
    assert (problem.path, problem.kind) == ("/references", "library-missing")


@pytest.mark.parametrize("codec_id", ["zfpy", "bz2"])
def test_a_file_is_not_damaged_where_numcodecs_lacks_its_codec(place, monkeypatch, codec_id):
    monkeypatch.delitem(numcodecs.registry.codec_registry, codec_id, raising=False)
    # of a level that no other test reads, since codecs are kept
    change_array(place, lambda array: array.update(compressor={"id": codec_id, "level": 7}))
    with pytest.raises(UnsupportedFileError, match=f"'{codec_id}' is not available here.*recording/data.*Install"):
        recording(place)
    assert [problem.kind for problem in verify(place).problems] == ["library-missing"]


def test_what_it_raises_is_a_chunk_error(place):
    (place / "acquisition/recording/data/1.0").write_bytes(b"something else")
    with pytest.raises(ChunkError, match=r"test_signal.*DecodeFailed: this is no signal") as caught:
        recording(place)
    assert caught.value.store == str(place)
    assert caught.value.path == "/acquisition/recording/data"
    assert isinstance(caught.value.__cause__.__cause__, DecodeFailed)
    assert {problem.kind for problem in verify(place).problems} == {"chunk-damaged"}


@pytest.mark.parametrize(("changes", "error", "match"), [
    ({"wrong_length": True}, ChunkError, r"2398 bytes instead of 2400.*test_signal.*recording/data"),
    ({"unknown_option": 1}, MetadataError, r"test_signal.*unknown_option.*recording/data"),
    *(({"id": "test_wrapper", "inner": inner}, errors.UnsafeDataError, "pickle")
      for inner in ({"id": "pickle"}, {"codecs": [{"name": "numcodecs.pickle"}]})),
    *(({"id": name}, MetadataError, name) for name in ("test_pickle", "test_derived")),
])  # fmt: skip
def test_a_configuration_that_is_refused(place, changes, error, match):
    change_codec(place, **changes)
    with pytest.raises(error, match=match):
        recording(place)


@both_formats
@pytest.mark.parametrize("is_registered", [False, True])
def test_what_cannot_be_written_with_it_is_refused_before_anything_is_written(tmp_path, zarr_format, is_registered):
    path, made = tmp_path / "file.nwb.zarr", nwbfile(compressor=Signal())
    error, match = UnsupportedFileError, r"test_signal.*register_codec"
    if is_registered:
        error, match, made = ValueRefusedError, r"test_signal.*AssertionError", plain_nwbfile()
        made.add_acquisition(TimeSeries(name="x", data=ZarrDataIO([1.5], compressor=Signal()), unit="V", rate=1.0))
    else:
        del numcodecs.registry.codec_registry["test_signal"]
    with pytest.raises(error, match=match), NWBZarrIO(path, "w", zarr_format=zarr_format) as io:
        io.write(made)
    assert not path.exists()


@both_formats
@pytest.mark.parametrize(("compressor", "error"), [
    ({"id": "zlib", "lvel": 3}, UsageError),
    ({"id": "crc32c", "location": "middle"}, UsageError),
    ({"id": "test_signal", "lvel": 3}, UsageError),
    ({"id": "zlib", "level": 300}, ValueRefusedError),
    ({"id": "lzma", "preset": 77}, ValueRefusedError),
    ({"id": "blosc", "cname": "lz4", "clevel": 99}, ValueRefusedError),
    ({"id": "blosc", "cname": "lz9"}, ValueRefusedError),
    ({"id": "blosc", "shuffle": []}, ValueRefusedError),
], ids=str)  # fmt: skip
def test_an_option_that_a_codec_does_not_have_is_to_be_corrected(tmp_path, zarr_format, compressor, error):
    tree = trees.root(trees.dataset("data", ZarrDataIO(RECORDING, compressor=compressor)))
    with pytest.raises(error) as caught:
        trees.write_builder(tmp_path / "a.zarr", tree, zarr_format=zarr_format)
    assert caught.value.path == "/data"
    assert caught.value.remedy.startswith("Correct the ")
    assert not (tmp_path / "a.zarr").exists()


@both_formats
@pytest.mark.parametrize("dtype", ["<i4", ">f4"])
def test_numbers_that_a_filter_does_not_take(tmp_path, zarr_format, dtype):
    wrapped = ZarrDataIO(np.arange(4, dtype=dtype), filters=[{"id": "bitround", "keepbits": 5}])
    with pytest.raises(ValueRefusedError, match=r"cannot be stored .*/data\). Correct the options of the codecs"):
        trees.write_builder(tmp_path / "a.zarr", trees.root(trees.dataset("data", wrapped)), zarr_format=zarr_format)
    assert not (tmp_path / "a.zarr").exists()


def test_an_option_that_the_codec_of_a_conversion_does_not_have_is_to_be_corrected(tmp_path):
    h5py.File(tmp_path / "a.h5", "w").close()
    with pytest.raises(UsageError, match=r"lvel.*Correct the codec or its options\."):
        convert(tmp_path / "a.h5", tmp_path / "a.zarr", codec={"id": "zlib", "lvel": 3})
