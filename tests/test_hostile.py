"""Files that want to do harm: nothing in them is run, no key leads out of the store, the error names the node.

What the data-only reader of pickles refuses is tested in ``storage/test_pickles.py``; here whole files are opened.
"""

import base64
import json
import os
import pickle
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numcodecs
import numpy as np
import pytest
from numcodecs.abc import Codec
from pynwb import NWBHDF5IO, NWBFile

from hdmf_zarr_backend import NWBZarrIO, ZarrIO
from hdmf_zarr_backend.errors import DamagedFileError, DamagedMetadataWarning, MetadataError, UnsafeDataError
from hdmf_zarr_backend.store.lock import lock_path
from tests import samples
from tests.documents import check_error as check
from tests.smallfiles import edited_json
from tests.trees import dataset, read_builder, root, write_builder
from tests.watching import listening

PICKLE = {"id": "pickle", "protocol": 5}


class Payload:
    """Touches a file when it is unpickled by anything that runs code."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.marker,)


_HEARD = ("pickle.find_class", "os.system", "subprocess.Popen", "os.exec", "os.posix_spawn", "socket.connect")


@pytest.fixture
def marker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The file that must not be created, even where numcodecs trusts every pickle."""
    monkeypatch.setenv("NUMCODECS_ALLOW_UNSAFE_PICKLE_DECODE", "1")
    path = tmp_path / "code-was-run"
    yield path
    assert not path.exists()


@pytest.fixture
def nothing_runs(marker: Path) -> Iterator[list[str]]:
    """Assert from audit events that no code is looked up or run; the value is the list of paths that are opened."""
    run: list[str] = []
    opened: list[str] = []

    def hear(event: str, args: tuple[Any, ...]) -> None:
        if event in _HEARD:
            run.append(f"{event} {args!r:.100}")
        elif event in ("open", "os.listdir", "os.scandir") and isinstance(args[0], (str, bytes)):
            opened.append(os.path.abspath(os.fsdecode(args[0])))

    with listening(hear):
        yield opened
    assert run == []


def _nwbfile() -> NWBFile:
    nwbfile = samples.plain_nwbfile()
    device = nwbfile.create_device(name="probe")
    shanks = [
        nwbfile.create_electrode_group(name=f"shank{i}", description="x", location="x", device=device) for i in range(2)
    ]
    nwbfile.add_electrode_column(name="label", description="a name")
    for i in range(4):
        nwbfile.add_electrode(group=shanks[i % 2], location="CA1", label=samples.TEXTS[i])
    for i in range(2):
        nwbfile.add_trial(start_time=i + 0.0, stop_time=i + 1.0, timeseries=[nwbfile.acquisition["trace"]])
    return nwbfile


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = samples.write_zarr(tmp_path_factory.mktemp("written") / "file.nwb.zarr", _nwbfile())
    with NWBZarrIO(path) as io:  # everything that is imported on first use is by now
        io.read().trials.to_dataframe()
    return path


@pytest.fixture
def store_with_specs(written: Path, tmp_path: Path) -> Path:
    """A copy that may be spoiled; its documents are read one by one."""
    path = tmp_path / "file.nwb.zarr"
    shutil.copytree(written, path)
    (path / ".zmetadata").unlink()
    return path


@pytest.fixture
def store(written: Path, tmp_path: Path) -> Path:
    """The same without the cached specifications, since a copy of those costs most of the time of a test."""
    path = tmp_path / "file.nwb.zarr"
    shutil.copytree(written, path, ignore=shutil.ignore_patterns("specifications", ".zmetadata"))
    return path


def opened(store: Path) -> NWBZarrIO:
    return NWBZarrIO(store, load_namespaces=False)


def change(node: Path, document: str = ".zarray", **changes: Any) -> None:
    (node / document).write_text(json.dumps({**json.loads((node / document).read_text()), **changes}))


def plant(node: Path, chunk: str, value: Any, **changes: Any) -> None:
    """Make an array of pickled objects of ``node`` and put ``value`` into it."""
    change(node, dtype="|O", filters=[PICKLE], compressor=None, **changes)
    (node / chunk).write_bytes(value if isinstance(value, bytes) else pickle.dumps(value, 5))


def objects(*values: Any) -> np.ndarray[Any, Any]:
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def rows(*values: Any) -> np.ndarray[Any, Any]:
    array = np.empty((len(values), 3), dtype=object)
    for position, value in enumerate(values):
        array[position] = value
    return array


# ---- pickles -------------------------------------------------------------------------------------------------------

FORMS: dict[str, Callable[[Payload], Any]] = {
    "an element": lambda payload: objects({"source": ".", "path": "/"}, payload, {"source": ".", "path": "/"}, payload),
    "inside an element": lambda payload: objects(*[{"source": ".", "path": payload}] * 4),
    "everything": lambda payload: payload,
    "old protocol": lambda payload: pickle.dumps(objects(*[payload] * 4), 0),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_malicious_pickle_in_an_array_of_references(store, marker, nothing_runs, form):
    plant(store / "general" / "extracellular_ephys" / "electrodes" / "group", "0", FORMS[form](Payload(marker)))
    with opened(store) as io:
        electrodes = io.read().electrodes
        for _ in range(2):
            with pytest.raises(UnsafeDataError, match="a pickle holds more than data") as caught:
                electrodes["group"][:]
            check(caught.value, store, "/general/extracellular_ephys/electrodes/group")
        assert electrodes["label"][0] == samples.TEXTS[0]
    assert not marker.exists()


def test_a_malicious_pickle_in_rows_with_references(store, marker, nothing_runs):
    node = store / "intervals" / "trials" / "timeseries"
    length = json.loads((node / ".zarray").read_text())["shape"][0]
    plant(node, "0.0", rows(*[(0, 1, {"source": ".", "path": "/"})] * (length - 1), (0, 1, Payload(marker))))
    with opened(store) as io:
        trials = io.read().trials
        with pytest.raises(UnsafeDataError) as caught:
            trials["timeseries"][0]
    check(caught.value, store, "/intervals/trials/timeseries")


def test_a_malicious_pickle_in_one_reference(tmp_path, marker, nothing_runs):
    path = tmp_path / "file.zarr"
    write_builder(path, samples.reference_tree())
    (path / ".zmetadata").unlink()
    plant(path / "inner" / "deep" / "reference", "0", objects(Payload(marker)))
    with ZarrIO(path) as io, pytest.raises(UnsafeDataError) as caught:
        io.read_builder()
    check(caught.value, path, "/inner/deep/reference")


@pytest.mark.parametrize("cached", [True, False], ids=["consolidated", "listed"])
def test_a_malicious_pickle_in_a_cached_specification(store_with_specs, marker, cached):
    """It would run when the file is opened, before anything is read."""
    store = store_with_specs
    (version,) = (folder for folder in (store / "specifications" / "core").iterdir() if folder.is_dir())
    version.parent.rename(store / "specifications" / "ndx-evil")
    version = store / "specifications" / "ndx-evil" / version.name
    plant(version / "namespace", "0", objects(Payload(marker)))
    if cached:
        documents = {str(p.relative_to(store)): json.loads(p.read_text()) for p in store.rglob(".z*")}
        (store / ".zmetadata").write_text(json.dumps({"metadata": documents, "zarr_consolidated_format": 1}))
    with pytest.raises(UnsafeDataError) as caught:
        NWBZarrIO(store)
    check(caught.value, store, f"/specifications/ndx-evil/{version.name}/namespace")
    with opened(store) as io:
        assert io.read().identifier == "plain"


@pytest.mark.parametrize("chunk", [True, False], ids=["chunk there", "chunk missing"])
@pytest.mark.parametrize("dtype", [[["a", "<i4"], ["to", "|O"]], "|O"], ids=["compound", "object"])
def test_a_malicious_fill_value(tmp_path, marker, nothing_runs, dtype, chunk):
    """zarr 2 decodes it as soon as the array is opened."""
    path = tmp_path / "file.zarr"
    write_builder(path, root(dataset("rows", np.arange(2), "int64")))
    (path / ".zmetadata").unlink()
    fill = base64.standard_b64encode(pickle.dumps(Payload(marker), 5)).decode()
    change(path / "rows", dtype=dtype, filters=[PICKLE], compressor=None, fill_value=fill)
    words = [{"name": "a", "dtype": "int32"}, {"name": "to", "dtype": "object"}]
    change(path / "rows", ".zattrs", zarr_dtype=words if isinstance(dtype, list) else "object")
    if chunk:
        target = {"source": ".", "path": "/rows"}
        value = np.array([(1, target), (2, target)], dtype=[("a", "<i4"), ("to", "O")])
        plain = value if isinstance(dtype, list) else objects(target, target)
        (path / "rows" / "0").write_bytes(pickle.dumps(plain, 5))
    else:
        (path / "rows" / "0").unlink()
    for mode in ("r", "r-", "r+"):
        with ZarrIO(path, mode) as io:
            builder = io.read_builder()["rows"]
            with suppress(DamagedFileError):  # a chunk that is missing has no references
                result = builder.data[0]
                assert (result["to"] if isinstance(dtype, list) else result) is (builder if chunk else None)
            assert not marker.exists()


def test_a_malicious_pickle_does_not_travel(store, tmp_path, marker):
    """Exporting reads all data; nothing is written of a file that cannot be read."""
    node = store / "general" / "extracellular_ephys" / "electrodes" / "group"
    plant(node, "0", FORMS["an element"](Payload(marker)))
    with opened(store) as source, NWBZarrIO(tmp_path / "copy.zarr", "w") as io, pytest.raises(UnsafeDataError):
        io.export(source)
    with opened(store) as source, NWBHDF5IO(tmp_path / "copy.nwb", "w") as io, pytest.raises(UnsafeDataError):
        io.export(source, write_args={"link_data": False})
    assert not (tmp_path / "copy.zarr").exists()
    assert not marker.exists()


# ---- codecs --------------------------------------------------------------------------------------------------------
class EvilCodec(Codec):  # type: ignore[misc]  # numcodecs has no type hints
    """A codec that somebody's package registered, and that no file here names."""

    codec_id = "evil"
    made = 0

    def __init__(self, **options: Any) -> None:
        type(self).made += 1

    def encode(self, buf: Any) -> Any:
        raise AssertionError

    decode = encode


@pytest.mark.parametrize("codec", [
    {"id": "evil", "code": "..."}, {"id": "os.system", "command": "true"}, {"id": "numcodecs.pickles.Pickle"},
    {"id": "hdmf_zarr_backend.encoding.pickles"}, {"id": "__reduce__"}, {"id": "unheard-of"}, {"id": ""},
], ids=lambda codec: codec["id"] or "empty")  # fmt: skip
@pytest.mark.parametrize("place", ["compressor", "filters"])
def test_codecs_that_are_not_known(store, nothing_runs, monkeypatch, codec, place):
    monkeypatch.setitem(numcodecs.registry.codec_registry, "not in any file", EvilCodec)
    EvilCodec.made = 0
    change(store / "acquisition" / "trace" / "data", **{place: codec if place == "compressor" else [codec]})
    with opened(store) as io, pytest.raises(MetadataError, match="is not one that this package decodes") as caught:
        io.read().acquisition["trace"].data[:]
    check(caught.value, store, "/acquisition/trace/data")
    assert repr(codec["id"]) in caught.value.problem
    assert EvilCodec.made == 0


@pytest.mark.parametrize("place", ["compressor", "filters"])
def test_pickle_where_numbers_should_be(store, marker, nothing_runs, place):
    node = store / "acquisition" / "trace" / "data"
    change(node, **({"compressor": PICKLE} if place == "compressor" else {"filters": [PICKLE], "compressor": None}))
    (node / "0.0").write_bytes(pickle.dumps(Payload(marker), 5))
    with pytest.raises(DamagedFileError, match=r"is not a compressor|more than data") as caught, opened(store) as io:
        io.read().acquisition["trace"].data[:]
    check(caught.value, store, "/acquisition/trace/data")


# ---- ways out of the store -----------------------------------------------------------------------------------------
OUTSIDE = ["../outside", "acquisition/../../outside", "acquisition/trace/../../../outside", "..", "./x/.."]


@pytest.mark.parametrize("name", [*OUTSIDE, "/outside", "{absolute}"])
@pytest.mark.parametrize("mode", ["r", "r+"])
def test_keys_do_not_lead_out_of_the_store(written, tmp_path, nothing_runs, name, mode):
    """Whatever the consolidated document lists, nothing outside is read."""
    outside, store = tmp_path / "outside", tmp_path / "file.zarr"
    shutil.copytree(written / "identifier", outside)
    shutil.copytree(written, store)
    with edited_json(store / ".zmetadata") as document:
        document.pop("hdmf_inline", None)
        location = name.format(absolute=outside)
        for key in (".zarray", ".zattrs"):
            document["metadata"][f"{location}/{key}"] = json.loads((outside / key).read_text())
    before = len(nothing_runs)
    if name in OUTSIDE:
        told = "is not a path inside the file .* Do not trust this file"
        with pytest.warns(DamagedMetadataWarning, match=told), NWBZarrIO(store, mode) as io:
            names = {*io.read_builder()}
        assert not names & {"..", ".", "outside"}
    else:  # leading slashes have no meaning: a node of that name inside the store
        with NWBZarrIO(store, mode) as io:
            assert io.read_builder().get(location.strip("/")).data == ""
    touched = [path for path in nothing_runs[before:] if path.startswith(f"{store.parent}{os.sep}")]
    inside = (lock_path(str(store)), str(store))  # the lock of a writer is beside the file
    assert [path for path in touched if path not in inside and not path.startswith(f"{store}{os.sep}")] == []
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["file.zarr", "outside"]


def test_a_leading_slash_of_a_listed_name_has_no_meaning_in_format_3_either(tmp_path):
    path = write_builder(tmp_path / "a.zarr", root(dataset("a", "text")), zarr_format=3)
    with edited_json(path / "zarr.json") as document:
        nodes = document["consolidated_metadata"]["metadata"]
        nodes["/b"] = nodes["a"]
    assert read_builder(path)["b"].data == ""
