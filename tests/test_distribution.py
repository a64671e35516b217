"""The wheel and the source distribution build, install, and do the main job; what they hold is what they should."""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

from tests.interpreters import find_python

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
STEM = f"{PROJECT['name'].replace('-', '_')}-{PROJECT['version']}"
PACKAGE = "hdmf_zarr_backend"

pytestmark = pytest.mark.slow

SMOKE = """
import sys
from datetime import UTC, datetime
from pathlib import Path

import hdmf_zarr_backend
from hdmf_zarr_backend import NWBZarrIO, convert, verify
from pynwb import NWBFile, TimeSeries

assert Path(hdmf_zarr_backend.__file__).is_relative_to(sys.argv[1]), hdmf_zarr_backend.__file__
nwbfile = NWBFile(session_description="s", identifier="s", session_start_time=datetime(2026, 3, 14, tzinfo=UTC))
nwbfile.add_acquisition(TimeSeries(name="raw", data=[1.0, 2.0, 3.0], unit="V", rate=1.0))
with NWBZarrIO("a.nwb.zarr", "w") as io:
    io.write(nwbfile)
convert("a.nwb.zarr", "a.nwb")
convert("a.nwb", "b.nwb.zarr")
with NWBZarrIO("b.nwb.zarr", "r") as io:
    assert io.read().acquisition["raw"].data[:].tolist() == [1.0, 2.0, 3.0]
assert verify("b.nwb.zarr").is_sound
"""


def run(*command: str | Path, folder: Path, **environment: str) -> str:
    answer = subprocess.run(
        [sys.executable, *map(str, command)], cwd=folder, env=os.environ | environment, capture_output=True, text=True,
        encoding="utf-8", check=False,
    )  # fmt: skip
    assert answer.returncode == 0, answer.stdout + answer.stderr
    return answer.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the source distribution, and the wheel that was built from it."""
    folder = tmp_path_factory.mktemp("dist")
    run("-m", "build", "--outdir", folder, ROOT, folder=folder)
    return folder


def test_the_wheel_has_every_module_and_says_that_it_is_typed(built):
    source = ROOT / "src"
    modules = {path.relative_to(source).as_posix() for path in (source / PACKAGE).rglob("*.py")}
    with zipfile.ZipFile(built / f"{STEM}-py3-none-any.whl") as wheel:
        names = set(wheel.namelist())
    assert modules | {f"{PACKAGE}/py.typed"} <= names
    assert {name.partition("/")[0] for name in names} == {PACKAGE, f"{STEM}.dist-info"}


def test_the_source_distribution_has_what_its_users_need(built):
    with tarfile.open(built / f"{STEM}.tar.gz") as archive:
        names = {name.removeprefix(f"{STEM}/") for name in archive.getnames()}
    wanted = {"README.md", "LICENSE", "CHANGELOG.md", "CITATION.cff", "CONTRIBUTING.md", "noxfile.py", "pyproject.toml"}
    assert wanted <= names
    assert {"docs/index.md", "gallery/plot_first_file.py", "tests/test_io.py", "benchmarks/README.md"} <= names
    result = ("docs/_build", "docs/auto_gallery", "docs/reference/api/")
    assert [name for name in names if name.startswith(result) or name.endswith(".pyc")] == []


@pytest.mark.parametrize("kind", ["wheel", "sdist"])
def test_what_was_built_installs_and_works(kind, built, tmp_path):
    archive = built / (f"{STEM}-py3-none-any.whl" if kind == "wheel" else f"{STEM}.tar.gz")
    location, work = tmp_path / "place", tmp_path / "work"
    work.mkdir()
    run("-m", "pip", "install", "--no-deps", "--target", location, archive, folder=work)
    run("-c", SMOKE, location, folder=work, PYTHONPATH=str(location))
    said = run("-m", f"{PACKAGE}.cli.main", "inspect", "b.nwb.zarr", folder=work, PYTHONPATH=str(location))
    assert "acquisition" in said
    assert f"zarrio {PROJECT['version']}" in run(
        "-m", f"{PACKAGE}.cli.main", "--version", folder=work, PYTHONPATH=str(location)
    )


README = (ROOT / "README.md").read_text(encoding="utf-8").split("\n## Compatibility\n")[0]
_BLOCK = re.compile(r"^```(console|python)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def first_screen() -> str:
    """Return what somebody types who follows the README from its top, but for the command that runs the tests."""
    typed = []
    for language, text in _BLOCK.findall(README):
        commands = [line.removeprefix("$ ") for line in text.splitlines() if line.startswith("$ ")]
        if language == "python":
            typed.append(f"python - <<'END'\n{text}END")
        elif "nox" not in text:
            typed.append("\n".join(commands) or text)
    return "\n".join(["set -e", *typed])


@pytest.mark.parametrize("version", ["3.11", "3.13"])
def test_the_first_screen_works_as_printed_in_a_fresh_environment(version, built, tmp_path):
    """In what the source distribution holds; pip gets what is missing from the package index, as it does to build."""
    python = find_python(version)
    if shutil.which("bash") is None or python is None:
        pytest.skip(f"the README needs a shell, and this test Python {version}")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python3").symlink_to(python)
    with tarfile.open(built / f"{STEM}.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    foreign = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")
    known = {name: value for name, value in os.environ.items() if name not in foreign}
    answer = subprocess.run(
        ["bash", "-c", first_screen()], cwd=tmp_path / STEM,
        env=known | {"PATH": f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"}, capture_output=True, text=True,
        encoding="utf-8", check=False,
    )  # fmt: skip
    assert answer.returncode == 0, answer.stdout[-4000:] + answer.stderr[-4000:]
    assert "containers are equal, field by field" in answer.stdout
    assert "\nmouse.nwb -> copy.nwb.zarr: " in answer.stdout
    assert answer.stdout.endswith("\nthe same\n")
    assert (tmp_path / STEM / "first" / "again.nwb").is_file()
    assert f"version = {version}." in (tmp_path / STEM / ".venv" / "pyvenv.cfg").read_text(encoding="utf-8")
