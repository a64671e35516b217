"""Type checkers see the signatures of this package from outside: what is right passes, each mistake is an error."""

import importlib.util
import inspect
import json
import subprocess
import sys
from pathlib import Path

import pytest

import hdmf_zarr_backend
from hdmf_zarr_backend import NWBZarrIO, ZarrIO, convert, read_nwb, upgrade, verify
from tests.zarrs import needs_zarr_3

RIGHT = """\
from pathlib import Path

import numpy as np
import zarr
import zarr.storage
from fsspec import filesystem
from fsspec.core import OpenFile
from numcodecs import Zstd
from pynwb import NWBHDF5IO, NWBFile
from upath import UPath
from zarr.codecs import ZstdCodec

from hdmf_zarr_backend import Limits, NWBZarrIO, ReadOptions, WriteOptions, ZarrDataIO, ZarrIO
from hdmf_zarr_backend import convert, read_nwb, verify
from hdmf_zarr_backend.store.opening import FileSource
from hdmf_zarr_backend.array.lazy import LazyArray

sources: list[FileSource] = [
    "a.nwb.zarr", Path("a.nwb.zarr"), {"zarr.json": b""}, UPath("s3://bucket/a"), OpenFile(filesystem("file"), "a"),
    zarr.open_group("a.nwb.zarr", mode="r"), zarr.storage.MemoryStore(),
    zarr.storage.StorePath(zarr.storage.MemoryStore()),
]
report = convert("a.nwb", "a.nwb.zarr", zarr_format=3, codec="zstd", shards="auto")
count: int = report.datasets
read_options = ReadOptions(external_links="within", limits=Limits())
with NWBZarrIO("a.nwb.zarr", "r", storage_options={"anon": True}, read_options=read_options) as reader:
    nwbfile: NWBFile = reader.read(check=True)
    version: tuple[str | None, object] = reader.nwb_version
    found: str = reader.source
with NWBZarrIO("b.nwb.zarr", mode="w", zarr_format="both", write_options=WriteOptions(executor=4)) as writer:
    writer.write(nwbfile, link_data=False)
with NWBHDF5IO(path="a.nwb", mode="r") as source, NWBZarrIO("c.nwb.zarr", "w") as target:
    target.export(source, write_args={"link_data": False})
with ZarrIO("d.zarr", "w", force_overwrite=True) as io:
    io.write(nwbfile, True, False)
data = ZarrDataIO(np.zeros((10, 2)), chunks=(5, 2), compressors=Zstd(level=1))
for codec in (Zstd(level=1), ZstdCodec(level=1), {"id": "zstd"}, True):
    convert("a.nwb", "a.nwb.zarr", codec=codec, write_options=WriteOptions(progress=True))
    ZarrDataIO(np.zeros(10), compressor=codec)
with NWBZarrIO("a.nwb.zarr", "r-") as io_of_nwb:
    typed_io: NWBZarrIO = io_of_nwb
    typed_file: NWBFile = io_of_nwb.read()
opened: NWBFile = read_nwb("https://example.org/a.nwb", lazy=True)
same = NWBZarrIO.read_nwb("a.nwb.zarr", lazy=False)
problems: int = len(verify("a.nwb.zarr").problems)


def shape_of(array: LazyArray) -> tuple[int, ...]:
    return array.shape
"""

WRONG = """\
from hdmf_zarr_backend import NWBZarrIO, ZarrDataIO, convert, read_nwb, verify

convert("a.nwb", "a.nwb.zarr", zarr_format=4)
convert("a.nwb", "a.nwb.zarr", overwrit=True)
NWBZarrIO("a.nwb.zarr", "r", zarr_formats=2)
NWBZarrIO("a.nwb.zarr", "r", external_links="within")
NWBZarrIO("a.nwb.zarr", "w").write(None, link_datas=False)
NWBZarrIO("a.nwb.zarr", "w").export(None, jobs=2)
ZarrDataIO([1], compresors=None)
NWBZarrIO("a.nwb.zarr", "rw")
NWBZarrIO(5)
read_nwb(["a.nwb.zarr"])
convert("a.nwb", "a.nwb.zarr", codec="zstandard")
ZarrDataIO([1], compressor="lz4")
verify("a.nwb.zarr", "chunk")
verify("a.nwb.zarr", progress="yes")
"""
"""Each line from the third on has one mistake."""

OF_PYNWB = """\
from hdmf_zarr_backend import NWBZarrIO, read_nwb

with NWBZarrIO("a.nwb.zarr", "r") as io:
    io.reed()
    nwbfile = io.read()
    number: int = nwbfile
    other: int = read_nwb("a.nwb")
    print(io.nwb_version, nwbfile.add_trial)
"""

CHECKERS = {
    "mypy": ("mypy", "--strict", "--no-error-summary", "--config-file=mypy.ini"),
    "basedpyright": ("basedpyright", "--level", "error"),
}


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One for all programs, so that mypy finds what it knows of the libraries."""
    return tmp_path_factory.mktemp("programs")


def check(checker: str, folder: Path, program: str) -> subprocess.CompletedProcess[str]:
    """Run a type checker on a program outside of this project."""
    if importlib.util.find_spec(checker) is None:
        pytest.skip(f"{checker} is not installed")
    source = str(Path(hdmf_zarr_backend.__file__).parents[1])
    (folder / "program.py").write_text(program)
    (folder / "mypy.ini").write_text(
        f"[mypy]\n{'' if source.endswith('site-packages') else f'mypy_path = {source}'}\n"
        "[mypy-pynwb.*,hdmf.*,zarr.*,numcodecs.*,filelock.*,fsspec.*,upath.*]\nignore_missing_imports = True\n"
        "[mypy-hdmf_zarr_backend.*]\nfollow_imports = silent\n"
    )
    (folder / "pyrightconfig.json").write_text(
        json.dumps({"typeCheckingMode": "standard", "reportMissingTypeStubs": False, "extraPaths": [source]})
    )
    command = [sys.executable, "-m", *CHECKERS[checker], "program.py"]
    return subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)


@needs_zarr_3  # whose classes it names
@pytest.mark.parametrize("checker", CHECKERS)
def test_a_program_that_is_right_has_no_errors(programs, checker):
    answer = check(checker, programs, RIGHT)
    assert answer.returncode == 0, answer.stdout


@pytest.mark.parametrize("checker", CHECKERS)
def test_each_mistake_is_found(programs, checker):
    answer = check(checker, programs, WRONG)
    expected = set(range(3, WRONG.count("\n") + 1))
    lines = {number for number in expected if f"program.py:{number}:" in answer.stdout}
    assert lines == expected, answer.stdout


def test_a_checker_that_reads_pynwb_knows_what_an_io_reads(programs):
    """Mypy does not: pynwb has no marker that it is typed."""
    answer = check("basedpyright", programs, OF_PYNWB)
    assert [number for number in range(1, 9) if f"program.py:{number}:" in answer.stdout] == [4, 6, 7], answer.stdout


#: Function -> how many arguments it may have, for one person to keep them in mind.
MOST = {
    convert: 15, upgrade: 14, verify: 8, ZarrIO: 12, NWBZarrIO: 14, ZarrIO.write: 8, ZarrIO.export: 8,
    ZarrIO.write_builder: 8, NWBZarrIO.write: 8, NWBZarrIO.export: 8, NWBZarrIO.read_nwb: 8,
    read_nwb: 6,
}  # fmt: skip


@pytest.mark.parametrize("called", MOST, ids=lambda called: called.__qualname__)
def test_completion_shows_every_argument_and_there_are_few(called):
    parameters = [one for name, one in inspect.signature(called).parameters.items() if name != "self"]
    assert [one for one in parameters if one.kind in (one.VAR_POSITIONAL, one.VAR_KEYWORD)] == []
    assert len(parameters) <= MOST[called]
