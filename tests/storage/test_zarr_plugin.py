"""Plain zarr on files of format 2: ours as they are, those of hdmf-zarr 0.13 after one call.

Stores are written by hand, documents and chunks, so that nothing under test takes part in making them. What depends on
entry points runs in an interpreter of its own: once with those of ``pyproject.toml``, once without any of ours.
"""

import base64
import functools
import importlib.metadata
import itertools
import json
import operator
import os
import pickle
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import Mock

import numcodecs
import numpy as np
import pytest
import zarr
from numcodecs.registry import codec_registry
from zarr.dtype import data_type_registry

import hdmf_zarr_backend.array.zarr_legacy as older
import hdmf_zarr_backend.array.zarr_plugin as plugin
from hdmf_zarr_backend.errors import ChunkError, UnsafeDataError
from tests.places import store_files

_ROOT = Path(__file__).resolve().parents[2]
_SOURCE = Path(plugin.__file__).resolve().parents[2]
_ZARR = tuple(int(part) for part in zarr.__version__.split(".")[:2])


# --- making stores --------------------------------------------------------------------------------------------------
def _object(values: Any, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    array = np.empty(shape, dtype=object)
    for index in np.ndindex(shape):
        array[index] = functools.reduce(operator.getitem, index, values)
    return array


class _Store:
    """A format-2 store below a folder; `finish` writes it, with ``.zmetadata``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.files: dict[str, Any] = {".zgroup": {"zarr_format": 2}, ".zattrs": {}}

    def group(self, path: str, **attributes: Any) -> None:
        self.files |= {f"{path}/.zgroup": {"zarr_format": 2}, f"{path}/.zattrs": attributes}

    def array(
        self, path: str, values: np.ndarray[Any, Any], *, chunks: tuple[int, ...] | None = None, codec: Any = None,
        fill_value: Any = None, dims: list[str] | None = None, write_chunks: bool = True, **attributes: Any,
    ) -> None:  # fmt: skip
        chunks = chunks or tuple(max(1, length) for length in values.shape)
        dtype: Any = json.loads(json.dumps(values.dtype.descr)) if values.dtype.names else values.dtype.str
        filters = None if codec is None else [json.loads(json.dumps(codec.get_config()))]
        self.files[f"{path}/.zarray"] = {
            "zarr_format": 2, "shape": list(values.shape), "chunks": list(chunks), "dtype": dtype, "compressor": None,
            "fill_value": fill_value, "order": "C", "filters": filters}  # fmt: skip
        self.files[f"{path}/.zattrs"] = attributes | ({"_ARRAY_DIMENSIONS": dims} if dims is not None else {})
        counts = [range(-(-length // chunk)) for length, chunk in zip(values.shape, chunks, strict=True)]
        for index in itertools.product(*counts) if write_chunks else ():
            part = values[tuple(slice(i * c, (i + 1) * c) for i, c in zip(index, chunks, strict=True))]
            chunk = np.empty(chunks, dtype=values.dtype)
            chunk[tuple(slice(0, length) for length in part.shape)] = part
            encoded = chunk.tobytes() if codec is None else bytes(codec.encode(chunk))
            self.files[f"{path}/{'.'.join(map(str, index))}"] = encoded

    def finish(self) -> Path:
        documents = {key: value for key, value in self.files.items() if not isinstance(value, bytes)}
        consolidated = {"zarr_consolidated_format": 1, "metadata": documents}
        return store_files(self.folder, {**self.files, ".zmetadata": consolidated})


def _reference(path: str) -> dict[str, Any]:
    return {"source": ".", "path": path, "object_id": "7e3b", "source_object_id": "f00d"}


OURS: dict[str, Any] = {
    "numbers": [0, 1, 2],
    "table/refs": [_reference("/a"), None, _reference("/c")],
    "table/rows": [[0, 2, _reference("/a")], [1, 3, _reference("/b")], [0, 0, None]],
    "table/text": ["a", "0", "ü"],
    "table/text_null": ["", "0", "ü"],
    "table/raw": [b"\xff\x00", b"", b"0"],
    "table/none": [],
    "spec": ['{"namespaces": []}'],
}


@pytest.fixture
def ours(tmp_path: Path) -> Path:
    """The forms of arrays that this package writes in format 2 (docs: what is stored as what)."""
    store = _Store(tmp_path / "ours.zarr")
    store.group("table", colnames=["refs", "rows"])
    json2, text, raw = numcodecs.JSON(), numcodecs.VLenUTF8(), numcodecs.VLenBytes()
    store.array("numbers", np.arange(3, dtype="<i8"), dims=["n"], zarr_dtype="int64")
    refs = _object(OURS["table/refs"], (3,))
    store.array("table/refs", refs, chunks=(2,), codec=json2, dims=["n"], zarr_dtype="object")
    rows = _object(OURS["table/rows"], (3, 3))
    store.array("table/rows", rows, chunks=(2, 3), codec=json2, dims=["n", "fields"])
    store.array("table/text", _object(OURS["table/text"], (3,)), codec=text, fill_value="", dims=["n"])
    store.array("table/text_null", _object(OURS["table/text_null"], (3,)), codec=text, dims=["n"])
    store.array("table/raw", _object(OURS["table/raw"], (3,)), chunks=(2,), codec=raw, dims=["n"], zarr_dtype="bytes")
    store.array("table/none", np.empty((0, 3), object), codec=json2, dims=["no_rows", "fields"])
    store.array("spec", _object(OURS["spec"], (1,)), codec=json2, dims=["scalar"], zarr_dtype="scalar")
    return store.finish()


# --- other interpreters ---------------------------------------------------------------------------------------------
_HIDE_ENTRY_POINTS = """
import importlib.metadata as _metadata
_others = _metadata.EntryPoints(
    e for d in _metadata.distributions() for e in d.entry_points if not e.value.startswith("hdmf_zarr_backend."))
_metadata.entry_points = lambda **kw: _others.select(**kw)
"""

_PLAIN = """
import json, sys
import zarr

def plain(value):
    if isinstance(value, bytes):
        return {"bytes": value.decode("latin1")}
    if isinstance(value, dict):
        return {str(key): plain(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(part) for part in value]
    return plain(value.item()) if hasattr(value, "item") else value
"""

_DUMP = f"""{_PLAIN}
def dump(group):
    return {{k: plain(a[...].tolist()) for k, a in group.members(max_depth=None) if isinstance(a, zarr.Array)}}
"""


_TABLES = tomllib.loads((_ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["entry-points"]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that says to Python what an installation of this project would say."""
    folder = tmp_path_factory.mktemp("installed")
    about = folder / "hdmf_zarr_backend_as_declared-0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: hdmf-zarr-backend-as-declared\nVersion: 0\n")
    lines = [[f"[{group}]", *(f"{k} = {v}" for k, v in entries.items())] for group, entries in _TABLES.items()]
    (about / "entry_points.txt").write_text("\n".join(itertools.chain.from_iterable(lines)) + "\n")
    return folder


def _python(code: str, *args: Path | str, installed: Path | None, **environment: str) -> Any:
    """Run code and return the JSON of its last line; anything else that it says is an error."""
    env = os.environ | {"PYTHONPATH": os.pathsep.join(str(p) for p in (installed, _SOURCE) if p)} | environment
    script = ("" if installed else _HIDE_ENTRY_POINTS) + code
    answer = subprocess.run(
        [sys.executable, "-W", "error", "-c", script, *args],
        capture_output=True, text=True, env=env, timeout=300, check=False,
    )  # fmt: skip
    assert answer.returncode == 0, answer.stderr
    assert answer.stderr == ""
    (line,) = answer.stdout.splitlines()
    return json.loads(line)


def _plain(value: Any) -> Any:
    namespace: dict[str, Any] = {}
    exec(_PLAIN, namespace)  # noqa: S102  # the text above, which also runs in other interpreters
    return namespace["plain"](value)


# --- layer one: our own files ---------------------------------------------------------------------------------------
def test_the_project_declares_what_zarr_looks_for() -> None:
    for group, name, kind in (
        ("zarr.data_type", "hdmf_zarr_backend.json2", plugin.JSON2ObjectDType),
        ("zarr.buffer", "hdmf_zarr_backend", plugin.PluginBuffer),
    ):
        point = importlib.metadata.EntryPoint(name=name, value=_TABLES[group][name], group=group)
        assert point.load() is kind


def test_without_the_entry_points_zarr_does_not(ours: Path) -> None:
    code = f"""{_DUMP}
try:
    dump(zarr.open_group(sys.argv[1], mode="r"))
except ValueError as error:
    print(json.dumps(str(error)), flush=True)
import os; os._exit(0)  # zarr leaves tasks of the failed listing behind, which complain at exit
"""
    assert "No Zarr data type found" in _python(code, ours, installed=None)


_BY_ITSELF = pytest.mark.skipif(_ZARR < (3, 4), reason="zarr 3.1 never loads the entry points of data types")


@pytest.mark.parametrize(
    "first",
    ["zarr.open_group(sys.argv[1], mode='r')", "import importlib; importlib.import_module(sys.argv[2])",
     pytest.param("", marks=_BY_ITSELF)],
    ids=["a group", "the plugin", "nothing"],
)  # fmt: skip
def test_zarr_opens_one_array_once_the_plugin_is_loaded(ours: Path, installed: Path, first: str) -> None:
    code = f"{_DUMP}\n{first}\n"
    code += "print(json.dumps(plain(zarr.open_array(sys.argv[1] + '/table/refs', mode='r')[...].tolist())))"
    assert _python(code, ours, plugin.__name__, installed=installed) == OURS["table/refs"]


def test_importing_zarr_loads_nothing_of_ours_and_opening_a_file_changes_next_to_nothing(ours, installed):
    code = """
import json, sys, zarr, numcodecs.registry
from zarr.dtype import data_type_registry
ours = lambda: sorted(m for m in sys.modules if m.startswith(("hdmf", "pynwb", "h5py", "dask")))
names = lambda: {k: f"{v.__module__}.{v.__name__}" for r in (data_type_registry.contents,
    numcodecs.registry.codec_registry) for k, v in r.items()}
loaded, before = ours(), names()
zarr.open_group(sys.argv[1], mode="r")["table/refs"][:]
after = names()
added = {k: v for k, v in after.items() if before.get(k) != v}
print(json.dumps([loaded, ours(), added, sorted(before.keys() - after.keys())]))
"""
    before, after, added, gone = _python(code, ours, installed=installed)
    assert before == gone == []
    package = "hdmf_zarr_backend"
    assert set(after) == {package, f"{package}.array", f"{package}.extras", plugin.__name__}
    assert added == {"hdmf_zarr_backend.json2": f"{plugin.__name__}.JSON2ObjectDType"}


def test_a_missing_chunk_reads_as_the_fill_value(tmp_path: Path) -> None:
    store = _Store(tmp_path)
    fills = {"null": None, "zero": 0, "text": "", "reference": _reference("/a")}
    for name, fill in fills.items():
        store.array(name, _object(["x"] * 3, (3,)), codec=numcodecs.JSON(), fill_value=fill, write_chunks=False)
    group = zarr.open_group(store.finish(), mode="r")
    for name, fill in fills.items():
        assert group[name].fill_value == fill
        assert group[name][:].tolist() == [fill] * 3


def test_zarr_writes_into_it(ours: Path) -> None:
    group = zarr.open_group(ours, mode="r+", use_consolidated=False)
    group["table/refs"][1:2] = _object([_reference("/new")], (1,))
    group["table/rows"].append(_object([[7, 8, _reference("/d")]], (1, 3)))
    decoded = numcodecs.JSON().decode((ours / "table/rows/1.0").read_bytes())
    assert decoded.tolist() == [[0, 0, None], [7, 8, _reference("/d")]]
    assert numcodecs.JSON().decode((ours / "table/refs/0").read_bytes()).tolist()[1] == _reference("/new")


def test_zarr_rewrites_the_documents_as_they_were(ours: Path) -> None:
    before = {path: json.loads((ours / path / ".zarray").read_text()) for path in OURS}
    for _, array in zarr.open_group(ours, mode="r+", use_consolidated=False).members(max_depth=None):
        if isinstance(array, zarr.Array):
            array.attrs["note"] = "writes .zarray too"
    after = {path: json.loads((ours / path / ".zarray").read_text()) for path in OURS}
    for path in OURS:
        assert {key: after[path][key] for key in before[path]} == before[path]
    assert json.loads((ours / "spec/.zattrs").read_text())["note"]


def test_zarr_creates_such_an_array_when_told_the_type(tmp_path: Path) -> None:
    group = zarr.open_group(tmp_path, mode="w", zarr_format=2)
    how = {"dtype": plugin.JSON2ObjectDType(), "filters": [numcodecs.JSON()], "compressors": None}
    array = group.create_array("refs", shape=(2,), chunks=(2,), **how)
    array[:] = _object([_reference("/a"), None], (2,))
    assert zarr.open_group(tmp_path, mode="r")["refs"][:].tolist() == [_reference("/a"), None]
    assert json.loads((tmp_path / "refs/.zarray").read_text())["dtype"] == "|O"


def test_the_type_is_of_format_2_only() -> None:
    with pytest.raises(ValueError, match="format 2 only"):
        plugin.JSON2ObjectDType().to_json(zarr_format=3)
    with pytest.raises(ValueError, match="format 2 only"):
        plugin.JSON2ObjectDType.from_json("hdmf_zarr_backend.json2", zarr_format=3)
    with pytest.raises(TypeError, match="not a JSON value"):
        plugin.JSON2ObjectDType().cast_scalar(object())


# --- layer two: older files, in this process ------------------------------------------------------------------------
@pytest.fixture
def legacy() -> Iterator[None]:
    older.enable_legacy_files()
    yield
    older.disable_legacy_files()


class _Reference(dict[str, Any]):
    """Stands for the class of references that hdmf-zarr pickled; only its name gets into the file."""


_Reference.__module__, _Reference.__qualname__ = "hdmf_zarr.utils", "ZarrReference"


class _OldPickle(numcodecs.Pickle):  # type: ignore[misc]  # numcodecs has no type hints
    """Pickles a chunk as hdmf-zarr did, without hdmf-zarr."""

    def encode(self, buf: Any) -> bytes:
        fake = ModuleType("hdmf_zarr.utils")
        vars(fake)["ZarrReference"] = _Reference
        with pytest.MonkeyPatch.context() as patch:
            patch.setitem(sys.modules, "hdmf_zarr", ModuleType("hdmf_zarr"))
            patch.setitem(sys.modules, "hdmf_zarr.utils", fake)
            return pickle.dumps(buf, protocol=5)


COMPOUND = np.dtype([("idx_start", "<i4"), ("count", "<i4"), ("timeseries", "O")])


@pytest.fixture
def old_store(tmp_path: Path) -> Path:
    store = _Store(tmp_path / "old.zarr")
    pickled = _OldPickle()
    zero = base64.b64encode(pickle.dumps(0, protocol=5)).decode()
    refs = _object([_Reference(_reference("/a")), _Reference(_reference("/b"))], (2,))
    rows = np.array([(0, 4, _Reference(_reference("/a"))), (6, 4, _Reference(_reference("/b")))], dtype=COMPOUND)
    store.array("refs", refs, codec=pickled, fill_value=0, dims=["n"])
    store.array("rows", rows, codec=pickled, fill_value=zero, dims=["n"])
    store.array("pairs", _object([(1, "x"), (2, "yy")], (2,)), codec=pickled, fill_value=0, dims=["n"])
    store.array("raw", _object([b"\xff", b"0"], (2,)), codec=numcodecs.VLenBytes(), fill_value=0, dims=["n"])
    store.array("text", _object(["0", ""], (2,)), codec=numcodecs.VLenUTF8(), fill_value=0, dims=["n"])
    store.array("spec", _object(["{}", "0"], (2,)), codec=numcodecs.JSON(), fill_value=0, dims=["n"])
    return store.finish()


LEGACY: dict[str, Any] = {
    "refs": [_reference("/a"), _reference("/b")], "rows": [(0, 4, _reference("/a")), (6, 4, _reference("/b"))],
    "pairs": [(1, "x"), (2, "yy")], "raw": [b"\xff", b"0"], "text": ["0", ""], "spec": ["{}", "0"],
}  # fmt: skip


@pytest.mark.parametrize("use_consolidated", [True, False], ids=["consolidated", "listed"])
def test_legacy_files_open(old_store: Path, legacy: None, use_consolidated: bool) -> None:
    group = zarr.open_group(old_store, mode="r", use_consolidated=use_consolidated)
    assert _plain({name: array[:].tolist() for name, array in group.arrays()}) == _plain(LEGACY)
    assert group["rows"].dtype == COMPOUND
    assert group["rows"][:]["timeseries"][1] == _reference("/b")


def test_xarray_opens_legacy_files_and_masks_no_object(old_store: Path, legacy: None) -> None:
    data = pytest.importorskip("xarray").open_zarr(old_store, chunks=None, consolidated=True)
    assert _plain({name: data[name].values.tolist() for name in LEGACY}) == _plain(LEGACY)


def test_a_missing_chunk_of_a_legacy_file_is_the_default_of_its_type(tmp_path: Path, legacy: None) -> None:
    store = _Store(tmp_path)
    raw = _object([b"x"], (1,))
    store.array("raw", raw, codec=numcodecs.VLenBytes(), fill_value=0, write_chunks=False)
    store.array("bytes", raw, codec=numcodecs.VLenBytes(), fill_value="YWJj", write_chunks=False)
    store.array("text", _object(["x"], (1,)), codec=numcodecs.VLenUTF8(), fill_value=0, write_chunks=False)
    rows = np.zeros(1, COMPOUND)
    store.array("rows", rows, codec=numcodecs.Pickle(), fill_value="gAVLAC4=", write_chunks=False)
    group = zarr.open_group(store.finish(), mode="r")
    assert [group[name][:].tolist() for name in ("raw", "bytes", "text", "rows")] == [
        [b""], [b"abc"], [""], [(0, 0, 0)]]  # fmt: skip


@pytest.mark.parametrize("name", ["json2", "msgpack2"])
def test_rows_of_other_object_codecs_open(tmp_path: Path, legacy: None, name: str) -> None:
    if name == "msgpack2":
        pytest.importorskip("msgpack")
    # the stock class: what is registered under its id now is ours
    codec = {"json2": numcodecs.JSON, "msgpack2": getattr(numcodecs, "MsgPack", None)}[name]()
    store = _Store(tmp_path)
    rows = np.array([(1, 2, _reference("/a")), (3, 4, _reference("/b"))], dtype=COMPOUND)
    fill = base64.b64encode(codec.encode(0)).decode() if name == "json2" else None  # as zarr 2 writes and refuses it
    store.array("rows", rows, codec=codec, fill_value=fill)
    store.array("square", rows[[[0, 1], [1, 0]]], chunks=(1, 2), codec=codec)
    store.array("refs", _object([_reference("/a"), "|V1"], (2,)), codec=codec, fill_value=0)
    group = zarr.open_group(store.finish(), mode="r")
    assert group["rows"][:].tolist() == rows.tolist()
    assert group["square"][:].tolist() == rows[[[0, 1], [1, 0]]].tolist()
    assert group["refs"][:].tolist() == [_reference("/a"), "|V1"]


def test_zarr_appends_to_legacy_arrays(old_store: Path, legacy: None) -> None:
    group = zarr.open_group(old_store, mode="r+", use_consolidated=False)
    group["rows"].append(np.array([(9, 9, _reference("/c"))], dtype=COMPOUND))
    group["raw"].append(_object([b"c"], (1,)))
    again = zarr.open_group(old_store, mode="r", use_consolidated=False)
    assert _plain(again["rows"][:].tolist()) == _plain([*LEGACY["rows"], (9, 9, _reference("/c"))])
    assert again["raw"][:].tolist() == [*LEGACY["raw"], b"c"]
    document = json.loads((old_store / "rows/.zarray").read_text())
    assert (document["dtype"], document["fill_value"]) == (json.loads(json.dumps(COMPOUND.descr)), None)
    assert document["filters"] == [{"id": "pickle", "protocol": 5}]


def test_an_open_array_travels_to_a_worker_that_never_heard_of_it(old_store: Path, legacy: None) -> None:
    arrays = dict(zarr.open_group(old_store, mode="r").arrays())
    packed = base64.b85encode(pickle.dumps(arrays)).decode()
    code = f"""{_DUMP}
import base64, pickle
print(json.dumps({{k: plain(a[...].tolist()) for k, a in pickle.loads(base64.b85decode(sys.argv[1])).items()}}))
"""
    assert _python(code, packed, installed=None) == _plain(LEGACY)


def _registered() -> dict[str, Any]:
    registries = (("type", data_type_registry.contents), ("codec", codec_registry))
    return {f"{kind}/{name}": entry for kind, entries in registries for name, entry in entries.items()}


def test_the_switch_is_exact(old_store: Path) -> None:
    before = _registered()
    order = list(data_type_registry.contents)
    older.disable_legacy_files()
    assert _registered() == before
    assert older.enable_legacy_files() is None
    during = _registered()
    assert {name for name in during if during[name] is not before.get(name)} - {"codec/msgpack2"} == {
        "type/variable_length_bytes", "type/string", "type/hdmf_zarr_backend.pickle",
        "type/hdmf_zarr_backend.msgpack2", "type/hdmf_zarr_backend.compound", "codec/pickle", "codec/json2",
    }  # fmt: skip
    assert older.enable_legacy_files() is None
    assert _registered() == during
    opened = zarr.open_group(old_store, mode="r")["rows"]
    assert older.disable_legacy_files() is None
    assert _registered() == before
    assert list(data_type_registry.contents) == order
    assert opened[:]["count"].tolist() == [4, 4]
    with pytest.raises(ValueError, match="No Zarr data type found"):
        zarr.open_group(old_store, mode="r", use_consolidated=True)


def test_the_switch_leaves_what_others_replaced_since(legacy: None, monkeypatch: pytest.MonkeyPatch) -> None:
    class Other(numcodecs.Pickle):  # type: ignore[misc]
        pass

    monkeypatch.setitem(codec_registry, "pickle", Other)
    older.disable_legacy_files()
    assert codec_registry["pickle"] is Other
    assert codec_registry["json2"] is numcodecs.JSON
    monkeypatch.undo()
    codec_registry["pickle"] = numcodecs.Pickle


# --- nothing ever runs what a file names ----------------------------------------------------------------------------
class _Attack:
    """A pickle of this touches a file when it is unpickled the usual way."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.marker,)


def _encoded(data: bytes) -> Any:
    """Return a codec that makes these bytes of whatever it gets, and says that it pickles."""
    return Mock(encode=Mock(return_value=data), get_config=Mock(return_value={"id": "pickle", "protocol": 5}))


@pytest.fixture
def trusting(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every switch set that would let zarr and numcodecs unpickle."""
    monkeypatch.setattr(numcodecs.pickles, "ALLOW_UNSAFE_PICKLE_DECODE", True)
    with zarr.config.set({"array.allow_unsafe_pickle_decode": True}):
        yield


@pytest.fixture
def attack(tmp_path: Path) -> Iterator[bytes]:
    marker = tmp_path / "marker"
    data = pickle.dumps(_Attack(marker))
    pickle.loads(data)
    assert marker.exists()
    marker.unlink()
    yield data
    assert not marker.exists()


def test_pickled_code_in_a_chunk_is_refused(tmp_path: Path, attack: bytes, legacy: None, trusting: None) -> None:
    store = _Store(tmp_path / "bad.zarr")
    store.array("refs", np.empty(1, object), codec=_encoded(attack), fill_value=0)
    store.array("rows", np.zeros(1, COMPOUND), codec=_encoded(attack))
    store.array("fine", np.arange(2))
    half = _OldPickle().encode(_object([_Reference(_reference("/a"))], (1,)))[:50]
    store.array("damaged", np.empty(1, object), codec=_encoded(half), fill_value=0)
    fill, rows = base64.b64encode(attack).decode(), np.array([(1, 2, None)], dtype=COMPOUND)
    store.array("filled", rows, codec=numcodecs.Pickle(), fill_value=fill)
    store.array("gone", rows, codec=numcodecs.Pickle(), fill_value=fill, write_chunks=False)
    group = zarr.open_group(store.finish(), mode="r")
    assert group["fine"][:].tolist() == [0, 1]
    for name in ("refs", "rows"):
        with pytest.raises(UnsafeDataError, match="more than data"):
            group[name][:]
    with pytest.raises(ChunkError, match="cannot be decoded"):
        group["damaged"][:]
    assert group["filled"][:].tolist() == [(1, 2, None)]  # the fill value is not even looked at
    assert group["gone"][:].tolist() == [(0, 0, 0)]
    assert group["filled"].fill_value is None
    with pytest.raises(UnsafeDataError, match="more than data"):
        numcodecs.get_codec({"id": "pickle"}).decode(attack)


def test_no_pickle_is_written_that_would_not_be_read_again(tmp_path: Path, legacy: None) -> None:
    codec = numcodecs.get_codec({"id": "pickle", "protocol": 5})
    assert codec.decode(codec.encode(_object([_reference("/a")], (1,)))).tolist() == [_reference("/a")]
    with pytest.raises(UnsafeDataError, match="more than data"):
        codec.encode(_object([_Attack(tmp_path / "marker")], (1,)))
    assert not (tmp_path / "marker").exists()


def test_bytes_that_pose_as_records_do_not_become_pointers(tmp_path: Path) -> None:
    """A chunk of raw bytes under a type with object fields: numpy would follow them as addresses if it viewed them."""
    size = COMPOUND.itemsize
    posing = pickle.dumps(np.frombuffer(b"\x41" * size, f"V{size}"), protocol=5)
    store = _Store(tmp_path)
    store.array("rows", np.zeros(1, COMPOUND), codec=_encoded(posing))
    code = f"""{_DUMP}
from {older.__name__} import enable_legacy_files
from hdmf_zarr_backend.errors import ChunkError, UnsafeDataError
enable_legacy_files()
try:
    zarr.open_group(sys.argv[1], mode="r")["rows"][:]
except (ValueError, TypeError, ChunkError, UnsafeDataError) as error:
    print(json.dumps("refused"))
"""
    assert _python(code, store.finish(), installed=None) == "refused"
