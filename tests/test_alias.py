"""This package under the name hdmf_zarr: what pynwb and code for hdmf-zarr find, and when the name is refused."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests import samples
from tests.pagerunner import PageRunner
from tests.peers import Peer
from tests.zarrs import IS_ZARR_2

pytestmark = pytest.mark.skipif(find_spec("hdmf_zarr") is not None, reason="hdmf-zarr itself is installed here")


@pytest.fixture(scope="module")
def runner() -> Iterator[PageRunner]:
    """A process with the alias, which is for good."""
    result = PageRunner({})
    yield result
    result.close()


@pytest.fixture
def run(runner: PageRunner, tmp_path: Path) -> Callable[[str], str]:
    def run(code: str) -> str:
        start = "import pytest\nimport hdmf_zarr_backend.alias\nhdmf_zarr_backend.alias.install_hdmf_zarr_alias()\n"
        answer = runner.run([start + code], tmp_path)
        assert answer.complaints == ""
        return answer.printed[0]

    return run


SCRIPTS = {
    "code that was written for hdmf-zarr 0.13": """
import numpy as np
from numcodecs import JSON, Blosc
from hdmf.common import DynamicTable, VectorData, get_manager
from hdmf_zarr import ZarrIO
from hdmf_zarr.utils import ZarrDataIO

data = ZarrDataIO(data=np.arange(20), chunks=(5,), fillvalue=-1, compressor=Blosc(cname="zstd"), filters=None)
table = DynamicTable(name="table", description="made here", columns=[VectorData(name="x", description="x", data=data)])
with ZarrIO("table.zarr", "w", get_manager(), False, JSON, None, True) as io:
    io.write(table, True, True, True, 2, None, None, True)
    assert io.get_written(io.manager.get_builder(table), check_on_disk=True)
    assert io.get_builder_disk_path(io.manager.get_builder(table["x"])).endswith("table.zarr/x")
with ZarrIO(path="table.zarr", manager=get_manager(), mode="r", storage_options=None) as io:
    read = io.read()
    assert read["x"].data[:].tolist() == list(range(20))
    assert read["x"].data.chunks == (5,)
    assert read["x"].data.compressor == Blosc(cname="zstd")
    assert io.object_codec_class is JSON
    assert not io.is_remote()
    assert io.synchronizer is None
    name, found = io.resolve_ref({"source": ".", "path": "/x"})
    assert name == "x" and found == read["x"].data
    assert io.resolve_ref({"source": ".", "path": None})[0] == "root"
""",
    "pynwb reads and validates by path": """
import os
import pynwb
from pynwb.testing.mock.file import mock_NWBFile
from pynwb.testing.mock.base import mock_TimeSeries
from hdmf_zarr.nwb import NWBZarrIO

nwbfile = mock_NWBFile()
nwbfile.add_acquisition(mock_TimeSeries(name="series"))
with NWBZarrIO("file.nwb.zarr", "w") as io:
    io.write(nwbfile)
read = pynwb.read_nwb("file.nwb.zarr")
assert isinstance(read.read_io, hdmf_zarr_backend.NWBZarrIO)
assert (read.acquisition["series"].data[:] == nwbfile.acquisition["series"].data).all()
assert pynwb.validate(path="file.nwb.zarr") == []
assert pynwb.validate(path="file.nwb.zarr", use_cached_namespaces=False) == []
os.mkdir("empty")
with pytest.raises(ValueError, match="not recognized"):
    pynwb.read_nwb("empty")
""",
    "the classes of both names are the same to isinstance": """
from hdmf_zarr import ZarrDataIO, ZarrIO
from hdmf_zarr_backend import ZarrDataIO as Ours, ZarrIO as OurIO

assert isinstance(Ours([1]), ZarrDataIO), "hdmf asks this before it wraps rows with references again"
assert isinstance(ZarrDataIO([1]), Ours)
assert not isinstance([1], ZarrDataIO)
assert isinstance(OurIO("new.zarr", "w"), ZarrIO)

class Special(ZarrIO):
    pass

assert not isinstance(OurIO("new.zarr", "w"), Special), "a subclass of a user is a class of its own"
assert isinstance(Special("new.zarr", "w"), ZarrIO)
""",
    "data of HDF5 keep their settings": """
import h5py, hdf5plugin, numpy as np
from hdmf.build import DatasetBuilder, GroupBuilder
from hdmf_zarr import ZarrDataIO, ZarrIO

with h5py.File("a.h5", "w") as file:
    plain = file.create_dataset("plain", data=np.arange(100.0).reshape(10, 10), chunks=(5, 10), compression="gzip",
                                compression_opts=3, shuffle=True, fillvalue=-2.0)
    odd = file.create_dataset("odd", data=np.arange(100), chunks=(50,), scaleoffset=0)
    assert ZarrDataIO.is_h5py_dataset(plain) and not ZarrDataIO.is_h5py_dataset(np.arange(3))
    assert [codec.codec_id for codec in ZarrDataIO.hdf5_to_zarr_filters(plain)] == ["shuffle", "zlib"]
    wrapped = ZarrDataIO.from_h5py_dataset(plain)
    with pytest.warns(UserWarning, match=r"/odd: Zarr has no codecs for the HDF5 filters \\[6"):
        assert ZarrDataIO.hdf5_to_zarr_filters(odd) == []
    with ZarrIO("a.zarr", "w") as io:
        io.write_builder(GroupBuilder("root", datasets={"plain": DatasetBuilder("plain", wrapped)}))
with ZarrIO("a.zarr", "r") as io:
    data = io.read_builder()["plain"].data
    assert data.chunks == (5, 10) and data.fill_value == -2.0
    assert data.compressor.get_config() == {"id": "zlib", "level": 3}
    assert [codec.codec_id for codec in data.filters] == ["shuffle"]
    assert data[...].tolist() == np.arange(100.0).reshape(10, 10).tolist()
""",
    "arguments of HDF5 are refused": """
from hdmf_zarr import NWBZarrIO
for option in ({"driver": "ros3"}, {"aws_region": "us-east-1"}):
    with pytest.raises(ValueError, match="has no meaning for Zarr"):
        NWBZarrIO("file.zarr", "r", **option)
""",
    "the alias takes the format of new files": """
from hdmf_zarr_backend.errors import UsageError
hdmf_zarr_backend.alias.install_hdmf_zarr_alias(replace=True, zarr_format=3)
import hdmf_zarr
from hdmf.build import DatasetBuilder, GroupBuilder
def write(name, **options):
    with hdmf_zarr.ZarrIO(name, mode="w", **options) as io:
        io.write_builder(GroupBuilder("root", datasets={"data": DatasetBuilder("data", [1, 2])}))
        return io.zarr_format
assert [write("a.zarr"), write("b.zarr", zarr_format=2)] == [3, 2]
hdmf_zarr_backend.alias.install_hdmf_zarr_alias(zarr_format="both")
assert write("c.zarr") == "both"
hdmf_zarr_backend.alias.install_hdmf_zarr_alias()
assert write("d.zarr") == "both"
with pytest.raises(UsageError, match="there is no Zarr format 4. Use 2, 3 or 'both'."):
    hdmf_zarr_backend.alias.install_hdmf_zarr_alias(zarr_format=4)
hdmf_zarr_backend.alias.install_hdmf_zarr_alias(zarr_format=2)  # for the others that run in this process
""",
    "private names and stores that neuroconv and others reach for": """
import os
import numpy as np
import zarr
from hdmf.build import DatasetBuilder, GroupBuilder
from hdmf.utils import docval
from hdmf_zarr import ZarrIO
from hdmf_zarr.backend import SUPPORTED_ZARR_STORES
from hdmf_zarr.utils import HDMFZarrArray, get_store_path

@docval({"name": "path", "type": (str, *SUPPORTED_ZARR_STORES), "doc": "any"}, is_method=False)
def place_of(**arguments):
    return arguments["path"]

store, in_memory = SUPPORTED_ZARR_STORES[0]("a.zarr"), zarr.storage.MemoryStore()
assert place_of(path=store) is store and place_of(path="a.zarr") == "a.zarr"
assert get_store_path(store) == (os.path.realpath("a.zarr") if hasattr(store, "root") else str(store))
assert get_store_path(in_memory) == str(in_memory)
with ZarrIO(store, "w") as io:
    assert io._ZarrIO__mode == "w"
    io.write_builder(GroupBuilder("root", datasets={"a": DatasetBuilder("a", np.arange(3))}))
for cls in (ZarrIO, hdmf_zarr_backend.ZarrIO):
    with cls("a.zarr", mode="r") as io:
        assert isinstance(io, ZarrIO) and io._ZarrIO__mode == "r"
        assert isinstance(io._ZarrIO__file, zarr.Group) and io._ZarrIO__file["a"][:].tolist() == [0, 1, 2]
        assert isinstance(io.read_builder()["a"].data, HDMFZarrArray)
""",
    "plain Zarr opens pickled files": """
import json, os
import numcodecs
import numpy as np
import zarr

rows = np.empty(2, dtype=object)
rows[:] = [{"source": ".", "path": "/a"}, {"source": ".", "path": "/b"}]
os.mkdir("references")
with open("references/.zarray", "w") as file:
    json.dump({"zarr_format": 2, "shape": [2], "chunks": [2], "dtype": "|O", "fill_value": 0, "order": "C",
               "compressor": None, "filters": [{"id": "pickle", "protocol": 5}]}, file)
with open("references/0", "wb") as file:
    file.write(numcodecs.Pickle().encode(rows))
assert [row["path"] for row in zarr.open_array("references", mode="r")[:]] == ["/a", "/b"]
""",
    "a file in a bucket is read without credentials": """
from unittest.mock import patch
from hdmf_zarr import NWBZarrIO
with patch.object(NWBZarrIO, "__init__", return_value=None) as made, patch.object(NWBZarrIO, "read"):
    NWBZarrIO.read_nwb("s3://bucket/file.nwb.zarr")
    NWBZarrIO.read_nwb("s3://bucket/file.nwb.zarr", storage_options={"key": "k"})
    NWBZarrIO.read_nwb("file.nwb.zarr")
    assert [call.kwargs["storage_options"] for call in made.call_args_list] == [{"anon": True}, {"key": "k"}, None]
""",
    "arguments by position": """
from pynwb import NWBHDF5IO, get_type_map
from pynwb.testing.mock.file import mock_NWBFile
from hdmf.spec import NamespaceCatalog
from hdmf_zarr import NWBZarrIO

with NWBHDF5IO("a.nwb", "w") as io:
    io.write(mock_NWBFile(identifier="made here"))
with NWBHDF5IO("a.nwb", "r") as source:
    nwbfile = source.read()
    with NWBZarrIO("a.nwb.zarr", "w") as io:
        io.export(source, nwbfile, {"number_of_jobs": 2})
with NWBZarrIO("a.nwb.zarr", "r", None, None, None, None, False, False, get_type_map()) as io:
    assert io.read().identifier == "made here"
catalog = NamespaceCatalog()
assert list(NWBZarrIO.load_namespaces(catalog, "a.nwb.zarr", None, None, ["hdmf-common"])) == ["hdmf-common"]
assert catalog.namespaces == ("hdmf-common",)
""",
    "code that was written for hdmf-zarr 0.14": """
import os, warnings
import numpy as np
import zarr.codecs
from hdmf.common import DynamicTable, VectorData, get_manager
from hdmf_zarr import ZarrDataIO, ZarrIO, ZarrV2IO, is_zarr_v2_file

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # zarr's own, that its wrappers are in no specification
    from zarr.codecs.numcodecs import Delta, Shuffle, Zlib
    wrapped = {
        "native": ZarrDataIO(np.arange(20), chunks=(5,), compressors=zarr.codecs.BloscCodec(cname="zstd", clevel=3)),
        "listed": ZarrDataIO(np.arange(20), compressors=[Shuffle(elementsize=8), Zlib(level=4)]),
        "filtered": ZarrDataIO(np.arange(20), filters=[Delta(dtype="<i8")], serializer=zarr.codecs.BytesCodec(),
                               compressors=[zarr.codecs.GzipCodec(level=2)]),
        "none": ZarrDataIO(np.arange(20), compressors=False),
        "default": ZarrDataIO(np.arange(20), compressors=True),
        "sharded": ZarrDataIO(np.arange(20), chunks=(5,), shards=(20,), compressors=zarr.codecs.ZstdCodec(level=1)),
    }
for problem in ({"compressors": False, "compressor": True}, {"serializer": zarr.codecs.BytesCodec(endian="big")},
                {"filters": [zarr.codecs.TransposeCodec(order=(0,))]}):
    with pytest.raises(ValueError, match=r"(?i)use|give|leave"):
        ZarrDataIO([1], **problem)
columns = [VectorData(name=name, description="x", data=data) for name, data in wrapped.items()]
table = DynamicTable(name="table", description="made here", columns=columns)
with ZarrIO(path="new.zarr", manager=get_manager(), mode="w", zarr_format=3) as io:
    io.write(table)
settings = wrapped["filtered"].io_settings
assert {"compressors", "filters", "serializer"} == set(settings), settings
assert settings["compressors"][0].to_dict() == zarr.codecs.GzipCodec(level=2).to_dict()
assert wrapped["none"].io_settings == {"compressors": None} and wrapped["default"].io_settings == {}
del wrapped["sharded"]
columns = [VectorData(name=name, description="x", data=data) for name, data in wrapped.items()]
with ZarrIO(path="old.zarr", manager=get_manager(), mode="w") as io:
    io.write(DynamicTable(name="table", description="made here", columns=columns))
assert not is_zarr_v2_file("new.zarr") and is_zarr_v2_file("old.zarr") and not is_zarr_v2_file("gone.zarr")
for name in ("old.zarr", "new.zarr"):
    with ZarrIO(name, manager=get_manager(), mode="r") as io:
        read = io.read()
        for column in read.columns:
            assert column.data[:].tolist() == list(range(20)), column.name
        ids = {column.name: column.data.compressor and column.data.compressor.get_config() for column in read.columns}
        assert ids["none"] is None and ids["default"]["id"] == "blosc"
        assert (ids["native"]["cname"], ids["native"]["clevel"], ids["native"]["shuffle"]) == ("zstd", 3, 1)
        assert ids["listed"]["id"] == ("zlib" if name == "old.zarr" else "gzip")
        assert ids["filtered"] == {"id": "gzip", "level": 2}
        stored = zarr.open_group(name, mode="r")
        assert read["listed"].data.filters == stored["listed"].filters
        assert read["filtered"].data.filters == stored["filtered"].filters != ()

with ZarrV2IO("old.zarr", "r", get_manager(), None, False, True) as io:
    assert isinstance(io, ZarrIO) and isinstance(io, hdmf_zarr_backend.ZarrIO)
    assert io.read()["native"].data[:].tolist() == list(range(20))
with pytest.raises(ValueError, match="ZarrV2IO only reads, and the mode is 'w'"):
    ZarrV2IO("old.zarr", mode="w")
""",
    "files of format 2 are read as with hdmf-zarr 0.14": """
from pynwb.testing.mock.file import mock_NWBFile
from pynwb.testing.mock.base import mock_TimeSeries
from hdmf_zarr import NWBZarrIO, NWBZarrV2IO

nwbfile = mock_NWBFile()
nwbfile.add_acquisition(mock_TimeSeries(name="series", data=list(range(10))))
with NWBZarrIO("old.nwb.zarr", "w") as io:
    io.write(nwbfile)
assert list(NWBZarrV2IO.read_nwb("old.nwb.zarr", True).acquisition) == ["series"]
with NWBZarrV2IO("old.nwb.zarr", "r", None, None, False, True) as io:
    assert list(io.read().acquisition) == ["series"]
""",
}
"""What users of hdmf-zarr do, by what it shows."""


@pytest.mark.parametrize("script", SCRIPTS)
def test_what_users_of_hdmf_zarr_do(run, script):
    if script.endswith("for hdmf-zarr 0.14") and IS_ZARR_2:
        pytest.skip("its codecs are those of zarr 3")
    run(SCRIPTS[script])


MODULES = """
import importlib, json
import hdmf_zarr

hdmf_zarr_backend.alias.install_hdmf_zarr_alias()
assert importlib.import_module("hdmf_zarr") is hdmf_zarr, "a second call changes nothing"
print(json.dumps({name: importlib.import_module(name).__all__ for name in (
    "hdmf_zarr", "hdmf_zarr.backend", "hdmf_zarr.nwb", "hdmf_zarr.utils", "hdmf_zarr.zarr_utils")}))
print(importlib.util.find_spec("hdmf_zarr").name, hdmf_zarr.__version__)
"""


def test_modules_and_names(run):
    names, version = run(MODULES).splitlines()
    document = json.loads(names)
    assert " ".join(document["hdmf_zarr"]) == (
        "IncompleteConversionError NWBZarrIO NWBZarrV2IO ZarrDataIO ZarrIO ZarrV2IO is_zarr_v2_file"
    )
    assert " ".join(document["hdmf_zarr.backend"]) == (
        "DEFAULT_SPEC_LOC_DIR ROOT_NAME SPEC_LOC_ATTR SUPPORTED_ZARR_STORES ZarrIO"
    )
    assert document["hdmf_zarr.utils"] == ["HDMFZarrArray", "ZarrDataIO", "ZarrReference", "get_store_path"]
    assert "ContainerZarrReferenceDataset" in names
    assert version.startswith("hdmf_zarr 0.13.0+")


def write_real_hdmf_zarr(folder: Path) -> None:
    """Write an installed distribution hdmf-zarr that holds nothing but a mark."""
    (folder / "hdmf_zarr").mkdir()
    (folder / "hdmf_zarr" / "__init__.py").write_text("real = True\n")
    (folder / "hdmf_zarr" / "utils.py").write_text("real = True\n")
    information = folder / "hdmf_zarr-0.13.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: hdmf-zarr\nVersion: 0.13.0\n")


def run_beside(folder: Path, code: str) -> list[str]:
    """Run code that finds hdmf-zarr in ``folder``, and return the lines that it prints."""
    start = "import sys\nsys.path.insert(0, sys.argv[1])\nimport hdmf_zarr_backend.alias\n"
    command = [sys.executable, "-c", start + code, str(folder)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


REFUSED = """
for replace in (False, True):
    try:
        hdmf_zarr_backend.alias.install_hdmf_zarr_alias(replace=replace)
    except ImportError as error:
        print(error)
    import hdmf_zarr
    assert hdmf_zarr.real
"""


def test_hdmf_zarr_that_is_installed_or_imported_is_not_replaced_unasked(tmp_path):
    write_real_hdmf_zarr(tmp_path)
    installed, imported = run_beside(tmp_path, REFUSED)
    assert f"hdmf_zarr is installed, at {tmp_path / 'hdmf_zarr' / '__init__.py'}" in installed
    assert "install_hdmf_zarr_alias(replace=True)" in installed
    assert f"hdmf_zarr was already imported, from {tmp_path / 'hdmf_zarr' / '__init__.py'}" in imported
    assert "before the first import of hdmf_zarr" in imported


REPLACED = """
from importlib.metadata import distributions, version
from collections.abc import Callable, Iterator
from importlib.util import find_spec
assert version("hdmf-zarr") == "0.13.0"
hdmf_zarr_backend.alias.install_hdmf_zarr_alias(replace=True)
hdmf_zarr_backend.alias.install_hdmf_zarr_alias()
assert find_spec("hdmf_zarr").name == "hdmf_zarr"
import hdmf_zarr.utils
assert not hasattr(hdmf_zarr, "real") and not hasattr(hdmf_zarr.utils, "real")
assert hdmf_zarr.utils.ZarrDataIO is hdmf_zarr.ZarrDataIO
assert hdmf_zarr.__version__ == version("hdmf_zarr") == version("hdmf-zarr") == version("HDMF.Zarr")
found = next(each for each in distributions() if each.metadata["Name"] == "hdmf_zarr")
assert found.version == version("hdmf_zarr") and not found.requires
from packaging.version import Version
assert Version("0.13") <= Version(version("hdmf_zarr")) < Version("0.14")
assert Version(version("hdmf")) >= Version("6")
try:
    import hdmf_zarr.queue
except ModuleNotFoundError as error:
    print(error)
"""


def test_the_alias_takes_the_place_of_an_installed_hdmf_zarr(tmp_path):
    write_real_hdmf_zarr(tmp_path)
    assert run_beside(tmp_path, REPLACED) == ["No module named 'hdmf_zarr.queue'"]


@pytest.mark.peer
def test_the_names_are_those_of_the_peer(peer013: Peer, run):
    """Each name that the alias has is one of 0.13, but for those of 0.14, and takes its arguments in that order."""
    names, _ = run(MODULES).splitlines()
    methods = ("__init__", "write", "write_builder", "export", "load_namespaces", "load_namespaces_io", "read_nwb")
    script = f"""
import importlib, json
from hdmf.utils import get_docval
missing = [f"{{module}}.{{name}}" for module, names in {names}.items() for name in names
           if not hasattr(importlib.import_module(module), name)]
from hdmf_zarr import NWBZarrIO, ZarrDataIO, ZarrIO
order = {{}}
for cls in (ZarrIO, NWBZarrIO, ZarrDataIO):
    for name in {methods!r}:
        if hasattr(cls, name):
            arguments = get_docval(getattr(cls, name))
            order[f"{{cls.__name__}}.{{name}}"] = [argument["name"] for argument in arguments]
print(json.dumps([missing, order]))
"""
    missing, order = peer013.run(script)
    of_014 = ("IncompleteConversionError", "NWBZarrV2IO", "ZarrV2IO", "is_zarr_v2_file")
    utils_of_014 = ("HDMFZarrArray", "get_store_path")
    assert missing == [f"hdmf_zarr.{name}" for name in of_014] + [f"hdmf_zarr.utils.{name}" for name in utils_of_014]
    code = f"""
import inspect
import hdmf_zarr
for name, arguments in {order!r}.items():
    cls, _, method = name.partition(".")
    ours = [each for each in inspect.signature(getattr(getattr(hdmf_zarr, cls), method)).parameters if each != "self"]
    assert ours[: len(arguments)] == arguments, (name, ours)
"""
    run(code)


NWBINSPECTOR = """
import json, warnings
from nwbinspector import inspect_nwbfile
warnings.simplefilter("ignore")
found = inspect_nwbfile(nwbfile_path="file.nwb.zarr")
print(json.dumps([[m.check_function_name, m.importance.name, m.location] for m in found]))
"""


@pytest.mark.peer
def test_nwbinspector_by_path(tmp_path, run):
    """It validates the file by its path, reads it with pynwb, and names the place of each object."""
    samples.write_zarr(tmp_path / "file.nwb.zarr")
    document = json.loads(run(NWBINSPECTOR).splitlines()[-1])
    assert [entry for entry in document if entry[1] in ("ERROR", "PYNWB_VALIDATION")] == []
    assert len(document) > 3
    assert any(location and location != "/" for _, _, location in document)


@pytest.mark.peer
def test_the_names_are_those_of_014(peer014: Peer, run):
    """What the alias has of 0.14 is there, and takes at least the same arguments by name."""
    script = """
import importlib, json
from hdmf.utils import get_docval
import hdmf_zarr
taken = {name: [argument["name"] for argument in get_docval(getattr(hdmf_zarr, name).__init__)]
         for name in ("ZarrIO", "ZarrDataIO", "NWBZarrIO", "ZarrV2IO", "NWBZarrV2IO")}
modules = ["backend_zarrv2.ZarrV2IO", "backend_zarrv2.UnsafePickleCodecError", "nwb_zarrv2.NWBZarrV2IO"]
for name in modules:
    module, _, member = name.partition(".")
    getattr(importlib.import_module(f"hdmf_zarr.{module}"), member)
print(json.dumps([hdmf_zarr.__all__, taken, modules]))
"""
    names, taken, modules = peer014.run(script)
    code = f"""
import importlib, inspect
import hdmf_zarr
missing = set({names!r}) - set(hdmf_zarr.__all__)
assert not missing, missing
for name in {modules!r}:
    module, _, member = name.partition(".")
    assert hasattr(importlib.import_module("hdmf_zarr." + module), member), name
for name, arguments in {taken!r}.items():
    cls, _, method = name.partition(".")
    ours = getattr(getattr(hdmf_zarr, cls), method or "__init__")
    parameters = inspect.signature(ours).parameters
    if not any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        assert set(arguments) <= set(parameters), (name, arguments)
    elif cls.endswith("V2IO"):
        assert list(parameters)[1:7] == arguments[:6], name
    else:
        assert set(arguments) - set(parameters) <= {{"shards"}}, (name, arguments)
"""
    run(code)
