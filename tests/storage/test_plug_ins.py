"""Codecs of other packages, as large recordings are stored with them: everything that is done with a file works."""

from __future__ import annotations

import json
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import numcodecs
import numpy as np
import pytest
from numcodecs.abc import Codec
from pynwb import NWBFile, TimeSeries

from hdmf_zarr_backend import Limits, NWBZarrIO, ZarrDataIO, convert, upgrade, verify
from hdmf_zarr_backend.errors import ChunkError, LimitError, MetadataError, UnsafeDataError, ValueRefusedError
from hdmf_zarr_backend.options import ReadOptions, WriteOptions
from tests.peers import Peer
from tests.samples import plain_nwbfile

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
def registered() -> Iterator[None]:
    """numcodecs knows the codecs."""
    for codec in (Signal, Wrapper):
        numcodecs.register_codec(codec)
    yield
    for codec in (Signal, Wrapper):
        numcodecs.registry.codec_registry.pop(codec.codec_id, None)


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
    path = tmp_path / "file.nwb.zarr"
    with NWBZarrIO(path, "w", zarr_format=zarr_format) as io:
        io.write(nwbfile(compressor=Signal(5)))
    return path


def recording(path: Path, **options: Any) -> np.ndarray[Any, Any]:
    with NWBZarrIO(path, "r", **options) as io:
        return io.read().acquisition["recording"].data[:]


def change_codec(path: Path, **changes: Any) -> None:
    """Change the configuration of the codec in the documents of a file of format 2."""
    for name in (".zmetadata", "acquisition/recording/data/.zarray"):
        document = json.loads((path / name).read_text())
        array = document["metadata"]["acquisition/recording/data/.zarray"] if "metadata" in document else document
        array["compressor"] |= changes
        (path / name).write_text(json.dumps(document))


# ---- what is done with a file ---------------------------------------------------------------------------------------


@both_formats
def test_it_is_written_and_read(place, zarr_format):
    with NWBZarrIO(place, "r") as io:
        data = io.read().acquisition["recording"].data
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


@both_formats
def test_it_is_a_filter_before_another_codec(tmp_path, zarr_format):
    path = tmp_path / "file.nwb.zarr"
    with NWBZarrIO(path, "w", zarr_format=zarr_format) as io:
        io.write(nwbfile(filters=[Signal(1)], compressor=numcodecs.Zstd(1)))
    np.testing.assert_array_equal(recording(path), RECORDING)


def test_it_is_in_shards(tmp_path):
    path = tmp_path / "file.nwb.zarr"
    with NWBZarrIO(path, "w", zarr_format=3) as io:
        io.write(nwbfile(compressor=Signal(), shards=(600, 4)))
    np.testing.assert_array_equal(recording(path), RECORDING)


@pytest.mark.parametrize("executor", ["threads", "processes"])
def test_workers_write_and_decode_it(tmp_path, executor):
    path = tmp_path / "file.nwb.zarr"
    with NWBZarrIO(path, "w", write_options=WriteOptions(executor=executor)) as io:
        io.write(nwbfile(compressor=Signal()))
    assert verify(path, executor=executor).problems == []
    convert(path, tmp_path / "file.nwb", write_options=WriteOptions(executor=executor))
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
        with NWBZarrIO(tmp_path / name, "r") as io:
            data = io.read().acquisition["recording"].data
            assert data.compressor == Signal(5)
            np.testing.assert_array_equal(data[:], RECORDING)


@both_formats
def test_it_is_decoded_in_hdf5(place, tmp_path, zarr_format):
    convert(place, tmp_path / "file.nwb")
    with h5py.File(tmp_path / "file.nwb") as file:
        np.testing.assert_array_equal(file["acquisition/recording/data"][:], RECORDING)


def test_a_file_is_upgraded_with_its_chunks(place):
    stored = {path.name: path.read_bytes() for path in (place / "acquisition/recording/data").glob("[0-9]*")}
    upgrade(place, keep=True)
    upgrade(place, drop=2)
    np.testing.assert_array_equal(recording(place), RECORDING)
    assert {path.name: path.read_bytes() for path in (place / "acquisition/recording/data").glob("[0-9]*")} == stored


@pytest.mark.parametrize("codecs", [["numcodecs"], ["numcodecs", "bytes"], ["bytes", "numcodecs"]], ids="-".join)
def test_another_program_may_have_put_it_at_any_step_of_format_3(tmp_path, codecs):
    path = tmp_path / "file.nwb.zarr"
    with NWBZarrIO(path, "w", zarr_format=3) as io:
        io.write(nwbfile(compressor=Signal(5)))
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
    zarray = json.loads((place / "acquisition/recording/data/.zarray").read_text()) | {"order": order}
    document = json.loads((place / ".zmetadata").read_text())
    document["metadata"]["acquisition/recording/data/.zarray"] = zarray
    (place / ".zmetadata").write_text(json.dumps(document))
    (place / "acquisition/recording/data/.zarray").write_text(json.dumps(zarray))
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
    with NWBZarrIO(tmp_path / "ours.zarr", "w") as io:
        io.write(nwbfile(compressor=Signal(5)))
    assert peer013.run(_PEER, str(tmp_path / "ours.zarr"), "read") == RECORDING.tolist()


@pytest.mark.peer
@both_formats
def test_flac(tmp_path, zarr_format):
    flac = pytest.importorskip("flac_numcodecs")
    path = tmp_path / "file.nwb.zarr"
    with NWBZarrIO(path, "w", zarr_format=zarr_format) as io:
        io.write(nwbfile(compressor=flac.Flac(level=8)))
    np.testing.assert_array_equal(recording(path), RECORDING)
    convert(path, tmp_path / "file.nwb")
    with h5py.File(tmp_path / "file.nwb") as file:
        np.testing.assert_array_equal(file["acquisition/recording/data"][:], RECORDING)


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
        (tmp_path / "site" / "test_installed-1.dist-info").mkdir(parents=True)
        (tmp_path / "site" / "test_installed_codec.py").write_text(source)
        (tmp_path / "site" / "test_installed-1.dist-info" / "METADATA").write_text(
            "Metadata-Version: 2.1\nName: test-installed\nVersion: 1\n"
        )
        (tmp_path / "site" / "test_installed-1.dist-info" / "entry_points.txt").write_text(
            "[numcodecs.codecs]\ntest_installed = test_installed_codec:Installed\n"
        )
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
    change_codec(place, id="test_installed")
    for name in (".zmetadata", "acquisition/recording/data/.zarray"):
        (place / name).write_text((place / name).read_text().replace(', "level": 5', ""))
    with NWBZarrIO(place, "r", read_options=ReadOptions(limits=Limits(plug_in_codecs=False))) as io:
        assert io.read().acquisition["other"].data[:].tolist() == [1.0, 2.0]
    assert "test_installed_codec" not in sys.modules
    np.testing.assert_array_equal(recording(place), RECORDING)


def test_a_package_that_cannot_be_imported_is_named(place, install):
    install("raise RuntimeError('no such library')")
    change_codec(place, id="test_installed")
    with pytest.raises(MetadataError, match=r"test_installed_codec.*no such library.*recording/data"):
        recording(place)


# ---- refusals -------------------------------------------------------------------------------------------------------


@both_formats
def test_limits_forbid_them(place, tmp_path, zarr_format):
    limits = Limits(plug_in_codecs=False)
    with NWBZarrIO(place, "r", read_options=ReadOptions(limits=limits)) as io:
        read = io.read()
        assert read.acquisition["other"].data[:].tolist() == [1.0, 2.0]
        with pytest.raises(LimitError, match=r"test_signal.*recording/data.*plug_in_codecs=True"):
            read.acquisition["recording"].data[0]
    assert {problem.kind for problem in verify(place, read_options=ReadOptions(limits=limits)).problems} == {"limit"}
    with pytest.raises(LimitError, match=r"test_signal"):
        convert(place, tmp_path / "file.nwb", read_options=ReadOptions(limits=limits))
    assert not (tmp_path / "file.nwb").exists()


def test_what_it_raises_is_a_chunk_error(place):
    (place / "acquisition/recording/data/1.0").write_bytes(b"something else")
    with pytest.raises(ChunkError, match=r"test_signal.*DecodeFailed: this is no signal") as caught:
        recording(place)
    assert caught.value.store == str(place)
    assert caught.value.path == "/acquisition/recording/data"
    raised = caught.value.__cause__
    assert raised is not None
    assert isinstance(raised.__cause__, DecodeFailed)
    assert {problem.kind for problem in verify(place).problems} == {"chunk-damaged"}


def test_another_size_than_that_of_the_chunk_is_refused(place):
    change_codec(place, wrong_length=True)
    with pytest.raises(ChunkError, match=r"2398 bytes instead of 2400.*test_signal.*recording/data"):
        recording(place)


def test_a_configuration_that_it_does_not_take(place):
    change_codec(place, unknown_option=1)
    with pytest.raises(MetadataError, match=r"test_signal.*unknown_option.*recording/data"):
        recording(place)


@both_formats
def test_one_that_is_not_registered_is_refused_before_anything_is_written(tmp_path, zarr_format):
    del numcodecs.registry.codec_registry["test_signal"]
    path = tmp_path / "file.nwb.zarr"
    with (
        pytest.raises(MetadataError, match=r"test_signal.*register_codec"),
        NWBZarrIO(path, "w", zarr_format=zarr_format) as io,
    ):
        io.write(nwbfile(compressor=Signal()))
    assert not path.exists()


@both_formats
def test_values_that_it_does_not_take_are_refused(tmp_path, zarr_format):
    path = tmp_path / "file.nwb.zarr"
    made = plain_nwbfile()
    made.add_acquisition(TimeSeries(name="floats", data=ZarrDataIO([1.5], compressor=Signal()), unit="V", rate=1.0))
    with (
        pytest.raises(ValueRefusedError, match=r"test_signal.*AssertionError"),
        NWBZarrIO(path, "w", zarr_format=zarr_format) as io,
    ):
        io.write(made)
    assert not path.exists()


@pytest.mark.parametrize("inner", [{"id": "pickle"}, {"codecs": [{"name": "numcodecs.pickle"}]}], ids=["id", "name"])
def test_a_codec_inside_of_it_never_unpickles(place, inner):
    change_codec(place, id="test_wrapper", inner=inner)
    with pytest.raises(UnsafeDataError, match="pickle"):
        recording(place)


@pytest.mark.parametrize("codec", [numcodecs.Pickle, type("Derived", (numcodecs.Pickle,), {"__module__": "other"})])
def test_pickle_is_no_plug_in_under_any_name(place, codec, monkeypatch):
    monkeypatch.setitem(numcodecs.registry.codec_registry, "test_other", codec)
    change_codec(place, id="test_other")
    with pytest.raises(MetadataError, match=r"test_other"):
        recording(place)
