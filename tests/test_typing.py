"""Type checkers see the signatures of this package from outside: what is right passes, each mistake is an error."""

import importlib.util
import inspect
import json
import subprocess
import sys
from pathlib import Path

import pytest

import hdmf_zarr_backend
from hdmf_zarr_backend import NWBZarrIO, ZarrIO, convert, upgrade, verify

RIGHT = """\
import numpy as np
from numcodecs import Zstd
from pynwb import NWBHDF5IO, NWBFile

from hdmf_zarr_backend import Limits, NWBZarrIO, ReadOptions, WriteOptions, ZarrDataIO, ZarrIO, convert, verify
from hdmf_zarr_backend.array.lazy import LazyArray

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
same = NWBZarrIO.read_nwb("a.nwb.zarr", lazy=False)
problems: int = len(verify("a.nwb.zarr").problems)


def shape_of(array: LazyArray) -> tuple[int, ...]:
    return array.shape
"""

WRONG = """\
from hdmf_zarr_backend import NWBZarrIO, ZarrDataIO, convert

convert("a.nwb", "a.nwb.zarr", zarr_format=4)
convert("a.nwb", "a.nwb.zarr", overwrit=True)
NWBZarrIO("a.nwb.zarr", "r", zarr_formats=2)
NWBZarrIO("a.nwb.zarr", "r", external_links="within")
NWBZarrIO("a.nwb.zarr", "w").write(None, link_datas=False)
NWBZarrIO("a.nwb.zarr", "w").export(None, jobs=2)
ZarrDataIO([1], compresors=None)
"""
"""Each line from the third on has one mistake."""

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
        "[mypy-pynwb.*,hdmf.*,zarr.*,numcodecs.*,filelock.*]\nignore_missing_imports = True\n"
        "[mypy-hdmf_zarr_backend.*]\nfollow_imports = silent\n"
    )
    (folder / "pyrightconfig.json").write_text(
        json.dumps({"typeCheckingMode": "standard", "reportMissingTypeStubs": False, "extraPaths": [source]})
    )
    command = [sys.executable, "-m", *CHECKERS[checker], "program.py"]
    return subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)


@pytest.mark.parametrize("checker", CHECKERS)
def test_a_program_that_is_right_has_no_errors(programs, checker):
    answer = check(checker, programs, RIGHT)
    assert answer.returncode == 0, answer.stdout


@pytest.mark.parametrize("checker", CHECKERS)
def test_each_mistake_is_found(programs, checker):
    answer = check(checker, programs, WRONG)
    lines = {number for number in range(3, 10) if f"program.py:{number}:" in answer.stdout}
    assert lines == set(range(3, 10)), answer.stdout


#: Function -> how many arguments it may have, for one person to keep them in mind.
MOST = {
    convert: 14, upgrade: 14, verify: 8, ZarrIO: 12, NWBZarrIO: 14, ZarrIO.write: 8, ZarrIO.export: 8,
    ZarrIO.write_builder: 8, NWBZarrIO.write: 8, NWBZarrIO.export: 8, NWBZarrIO.read_nwb: 8,
}  # fmt: skip


@pytest.mark.parametrize("called", MOST, ids=lambda called: called.__qualname__)
def test_completion_shows_every_argument_and_there_are_few(called):
    parameters = [one for name, one in inspect.signature(called).parameters.items() if name != "self"]
    assert [one for one in parameters if one.kind in (one.VAR_POSITIONAL, one.VAR_KEYWORD)] == []
    assert len(parameters) <= MOST[called]
