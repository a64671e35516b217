"""`zarrio exec`: another tool runs with the alias; its arguments, output and exit code are its own."""

import json
import os
import shutil
import subprocess
import sys
import venv
from importlib.util import find_spec
from pathlib import Path

import pytest
import zarr
from hdmf.build import DatasetBuilder, GroupBuilder
from packaging.version import Version

import hdmf_zarr_backend
from tests import samples

VERSION = f"0.13.0+hdmf.zarr.backend.{hdmf_zarr_backend.__version__}"
SOURCES = Path(hdmf_zarr_backend.__file__).parents[1]
ZARRIO = ["-m", "hdmf_zarr_backend.cli.main", "exec"]


def run(folder: Path, *command: str | Path, start: list[str] = ZARRIO, **environment: str):
    return subprocess.run(
        [sys.executable, *start, *map(str, command)], cwd=folder,
        env={**os.environ, "PYTHONWARNINGS": "ignore", **environment}, capture_output=True, text=True, check=False,
    )  # fmt: skip


SCRIPT = """
import subprocess, sys
from importlib.metadata import version
import hdmf_zarr
print(sys.argv[1:], hdmf_zarr.__version__, version("hdmf-zarr"), flush=True)
if sys.argv[1:] != ["child"]:
    sys.exit(subprocess.run([sys.executable, __file__, "child"]).returncode)
sys.exit(7)
"""


def test_arguments_and_the_exit_code_are_passed_on_and_children_have_the_alias_too(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    arguments = ["-h", "--", "--version", "a b", "", "*"]
    answer = run(tmp_path, "python", "script.py", *arguments)
    printed = f"{arguments} {VERSION} {VERSION}\n['child'] {VERSION} {VERSION}\n"
    assert (answer.stdout, answer.returncode) == (printed, 7), answer.stderr


def test_it_takes_the_place_of_an_installed_hdmf_zarr_and_loads_nothing_before_it_is_needed(tmp_path):
    (tmp_path / "hdmf_zarr.py").write_text("__version__ = 'real'\n")
    code = "import hdmf_zarr; print(hdmf_zarr.__version__)"
    with_path = {"PYTHONPATH": os.pathsep.join([str(tmp_path), str(SOURCES)])}
    assert run(tmp_path, "python", "-c", code, **with_path).stdout == f"{VERSION}\n"
    assert run(tmp_path, "-c", code, start=[], **with_path).stdout == "real\n"
    code = "import sys; print(sorted({'hdmf', 'zarr', 'numpy'} & set(sys.modules)))"
    assert run(tmp_path, "python", "-c", code).stdout == "[]\n"


WRITES = """
import subprocess, sys
import hdmf_zarr
from hdmf.build import DatasetBuilder, GroupBuilder
def write(path, **options):
    with hdmf_zarr.ZarrIO(path, mode="w", **options) as io:
        io.write_builder(GroupBuilder("root", datasets={"data": DatasetBuilder("data", [1, 2])}))
        print(path, io.zarr_format, flush=True)
write(sys.argv[1])
write("named.zarr", zarr_format=2)
if sys.argv[2:]:
    subprocess.run([sys.executable, __file__, "child.zarr"], check=True)
"""


@pytest.mark.parametrize("number", ["2", "3", "both"])
def test_the_format_of_the_files_that_a_tool_writes(tmp_path, number):
    """2 if none is named; its processes write the same."""
    (tmp_path / "script.py").write_text(WRITES)
    chosen, starts_another = ([], []) if number == "2" else (["--zarr-format", number], ["another"])
    answer = run(tmp_path, *chosen, "python", "script.py", "a.zarr", *starts_another)
    expected = [f"a.zarr {number}", "named.zarr 2", *[f"child.zarr {number}", "named.zarr 2"] * len(starts_another)]
    assert answer.stdout.splitlines() == expected, answer.stderr


BESIDE = """
import hdmf_zarr, json
from importlib.metadata import version
with hdmf_zarr.ZarrIO("file.zarr", mode="r") as io:
    data = io.read_builder()["data"].data
    print(json.dumps([hdmf_zarr.__version__, version("hdmf_zarr"), type(data).__module__, data[:].tolist()]))
"""


@pytest.mark.peer
@pytest.mark.skipif(Version(zarr.__version__) < Version("3.4"), reason="hdmf-zarr 0.14 needs zarr 3.4")
def test_beside_hdmf_zarr_014(peer014, tmp_path):
    """The same script reads a file of format 3 with hdmf-zarr 0.14, and with this package when it is started so."""
    with hdmf_zarr_backend.ZarrIO(tmp_path / "file.zarr", "w", zarr_format=3) as io:
        io.write_builder(GroupBuilder("root", datasets={"data": DatasetBuilder("data", list(range(5)))}))
    folder = Path(peer014.run("import hdmf_zarr, json; print(json.dumps(hdmf_zarr.__path__[0]))")).parent
    for name in ("hdmf_zarr", "hdmf_zarr-0.14.0.dist-info"):
        shutil.copytree(folder / name, tmp_path / "real" / name)
    shutil.copy(folder / "threadpoolctl.py", tmp_path / "real")  # which hdmf-zarr imports
    (tmp_path / "script.py").write_text(BESIDE)
    path = os.pathsep.join([str(tmp_path / "real"), str(SOURCES)])
    printed = [
        json.loads(run(tmp_path, *command, start=start, PYTHONPATH=path).stdout)
        for command, start in ((["script.py"], []), (["python", "script.py"], ZARRIO))
    ]
    assert printed[0] == ["0.14.0", "0.14.0", "hdmf_zarr.utils", list(range(5))]
    assert printed[1] == [VERSION, VERSION, "hdmf_zarr_backend.array.lazy", list(range(5))]


def test_options_of_python_modules_and_the_sitecustomize_of_the_user(tmp_path):
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "sitecustomize.py").write_text("import builtins; builtins.own = 'own'\n")
    code = "import hdmf_zarr, sitecustomize, sys; print(sys.flags.optimize, own, sitecustomize.__file__)"
    (tmp_path / "module.py").write_text(code)
    path = os.pathsep.join([str(tmp_path / "own"), str(SOURCES)])
    printed = run(tmp_path, "python", "-O", "-m", "module", PYTHONPATH=path).stdout
    assert printed == f"1 own {tmp_path / 'own' / 'sitecustomize.py'}\n"


@pytest.mark.skipif(os.name == "nt", reason="links to an interpreter need rights there")
def test_the_python_of_another_environment_is_named(tmp_path):
    venv.create(tmp_path / "other", symlinks=True)
    python = tmp_path / "other" / "bin" / "python"
    answer = run(SOURCES, python, "-c", "print('ran')", PYTHONPATH="")
    assert (answer.stdout, answer.returncode) == ("ran\n", 0)
    assert answer.stderr == f"zarrio exec: hdmf-zarr-backend is not installed for {python}\n"


@pytest.mark.peer
@pytest.mark.skipif(find_spec("nwbinspector") is None, reason="nwbinspector is not installed")
def test_tools_for_nwb(tmp_path):
    samples.write_zarr(tmp_path / "file.nwb.zarr")
    inspected = run(tmp_path, "nwbinspector", "file.nwb.zarr")
    assert "Found" in inspected.stdout and "issues across 1 file(s)" in inspected.stdout, inspected.stderr
    validated = run(tmp_path, "pynwb-validate", "file.nwb.zarr")
    assert validated.returncode == 0, validated.stderr
    assert "no errors found" in validated.stdout
    assert run(tmp_path, "pynwb-validate", "gone.nwb.zarr").returncode != 0


def test_commands_that_there_are_not(zarrio):
    assert "zarrio: there is no command 'no-such-command'" in zarrio("exec", "no-such-command", "--option", code=2).err
    assert "the following arguments are required: COMMAND" in zarrio("exec", code=2).err
    assert "--option" in zarrio("exec", "--option", "python", code=2).err
    assert zarrio("exec", "--zarr-format", "4", "python", "-c", "print('started')", code=2).out == ""
