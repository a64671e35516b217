"""The peers: released versions of hdmf-zarr, lindi, and zarr alone, each in a virtual environment of its own.

They need other versions of zarr than this project, so they run in separate interpreters. The environments are made
once, below ``HDMF_ZARR_BACKEND_PEERS`` (default: ``.peers`` in the repository), by whichever test needs one first;
``python -m tests.peers`` makes them beforehand. ``HDMF_ZARR_BACKEND_PEER013``, ``..._PEER014``, ``..._LINDI``,
``..._ZARR315`` and ``..._ZARRS`` name ready interpreters to be used instead.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock

from tests.interpreters import find_python

_ROOT = Path(__file__).resolve().parents[1]
_MARK = "requirements-installed.txt"


class PeerError(RuntimeError):
    """A script failed in a peer's interpreter; the message holds its standard error."""


class PeerUnavailableError(RuntimeError):
    """A peer or a server has no interpreter, or its packages cannot be installed."""


@dataclass(frozen=True)
class Peer:
    """An interpreter that has a peer installed."""

    release: str
    python: Path

    def run(self, script: str, *args: str | Path, env: Mapping[str, str] | None = None, timeout: float = 600) -> Any:
        """Run Python code in the peer's interpreter and return the JSON that it prints as its last line."""
        with tempfile.TemporaryDirectory(prefix="peer-") as folder:
            # A real file and not "-c": tracebacks show lines, and worker processes can import the main module.
            path = Path(folder, "script.py")
            path.write_text(script, encoding="utf-8")
            # -I: neither PYTHONPATH nor the working directory may put this project before the peer's packages.
            command = [self.python, "-I", "-X", "utf8", path, *args]
            try:
                answer = subprocess.run(
                    command, capture_output=True, text=True, encoding="utf-8", timeout=timeout, check=False,
                    env=_clean_environment() | dict(env or {}),
                )  # fmt: skip
            except subprocess.TimeoutExpired as error:
                raise PeerError(f"{self.release} took longer than {timeout:g} s") from error
        if answer.returncode != 0:
            raise PeerError(f"{self.release} ended with status {answer.returncode}:\n{answer.stderr[-8000:]}")
        return json.loads(answer.stdout.strip().splitlines()[-1])


@dataclass(frozen=True)
class PeerRecipe:
    """What it takes to make one peer: everything that decides on its behaviour is pinned."""

    release: str
    variable: str
    pythons: tuple[str, ...]
    requirements: tuple[str, ...]


_SHARED_PINS = ("hdmf==6.2.0", "pynwb==4.2.0", "h5py==3.16.0", "pandas==3.1.1")

RECIPES = {
    "0.13": PeerRecipe(
        "hdmf-zarr 0.13.0", "HDMF_ZARR_BACKEND_PEER013", ("3.11", "3.12", "3.13"),
        ("hdmf-zarr==0.13.0", "zarr==2.18.7", "numcodecs==0.15.2", "numpy==2.4.6", *_SHARED_PINS),
    ),
    "0.14": PeerRecipe(
        "hdmf-zarr 0.14.0", "HDMF_ZARR_BACKEND_PEER014", ("3.12", "3.13"),
        ("hdmf-zarr==0.14.0", "zarr==3.4.2", "numcodecs==0.17.1", "numpy==2.5.5", *_SHARED_PINS),
    ),
    "lindi": PeerRecipe(
        "lindi 0.4.6", "HDMF_ZARR_BACKEND_LINDI", ("3.11", "3.12"),
        ("lindi==0.4.6", "zarr==2.18.7", "numcodecs==0.15.2", "numpy==2.4.6", "h5py==3.16.0"),
    ),
    "zarr 3.1.5": PeerRecipe(  # dandi's, and the last one without the data type of rows
        "zarr 3.1.5", "HDMF_ZARR_BACKEND_ZARR315", ("3.12", "3.13"),
        ("zarr==3.1.5", "numcodecs==0.16.5", "numpy==2.4.6"),
    ),
    "zarrs": PeerRecipe(  # the codecs of zarr-python in Rust
        "zarrs 0.2.3", "HDMF_ZARR_BACKEND_ZARRS", ("3.12", "3.13"),
        ("zarrs==0.2.3", "zarr==3.4.2", "numcodecs==0.17.1", "numpy==2.5.5"),
    ),
}  # fmt: skip


def obtain_peer(recipe: PeerRecipe) -> Peer:
    """Return the peer of a recipe; one process makes its environment, where it is not there yet, others wait."""
    named = os.environ.get(recipe.variable)
    if named:
        python = Path(named).expanduser().absolute()
        if not python.is_file():
            raise PeerUnavailableError(f"{recipe.variable} names {named}, which is not a file")
        return Peer(recipe.release, python)
    folder = cache_folder() / recipe.release.replace(" ", "-")
    with FileLock(f"{folder}.lock"):
        if not _is_complete(folder, recipe):
            _make_environment(folder, recipe)
    return Peer(recipe.release, _python_in(folder))


def installed(name: str, make: Callable[[Path], None]) -> Path:
    """Return a folder below `cache_folder`, which ``make`` fills where it is not there yet."""
    folder = cache_folder() / name
    with FileLock(f"{folder}.lock"):
        mark = folder / "installed.txt"
        if not mark.is_file():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            make(folder)
            mark.write_text(name)  # written last: a folder without it is incomplete and is replaced
    return folder


def npm_install(npm: Sequence[str | Path], package: str, folder: Path, *options: str) -> None:
    (folder / "package.json").write_text("{}")
    options = ("--no-audit", "--no-fund", "--ignore-scripts", "--fetch-retries=1", "--fetch-timeout=60000", *options)
    run_installer([*npm, "install", *options, package], folder)


def run_installer(command: Sequence[str | Path], folder: Path) -> None:
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PeerUnavailableError(f"{command[0]}: {error}") from error
    if done.returncode != 0:
        raise PeerUnavailableError(f"{command[0]}: {done.stderr.strip()[-500:]}")


def cache_folder() -> Path:
    """Return the folder below which tests install packages, creating it if needed."""
    cache = Path(os.environ.get("HDMF_ZARR_BACKEND_PEERS") or _ROOT / ".peers").expanduser().absolute()
    cache.mkdir(parents=True, exist_ok=True)
    return cache


def _is_complete(folder: Path, recipe: PeerRecipe) -> bool:
    mark = folder / _MARK
    return mark.is_file() and mark.read_text().splitlines() == list(recipe.requirements) and _python_in(folder).exists()


def _make_environment(folder: Path, recipe: PeerRecipe) -> None:
    base = find_python(*recipe.pythons)
    if base is None:
        raise PeerUnavailableError(f"{recipe.release} needs Python {' or '.join(recipe.pythons)}: none found")
    if folder.exists():
        shutil.rmtree(folder)
    install = ["-I", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *recipe.requirements]
    for command in ([str(base), "-m", "venv", str(folder)], [str(_python_in(folder)), *install]):
        answer = subprocess.run(command, capture_output=True, text=True, env=_clean_environment(), check=False)
        if answer.returncode != 0:
            raise PeerUnavailableError(f"cannot install {recipe.release}:\n{answer.stderr[-4000:]}")
    # Written last: an environment without it is incomplete and is replaced.
    (folder / _MARK).write_text("\n".join(recipe.requirements))


def _python_in(folder: Path) -> Path:
    return folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def _clean_environment() -> dict[str, str]:
    foreign = ("PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "PYTHONWARNINGS", "NUMCODECS_ALLOW_UNSAFE_PICKLE_DECODE")
    return {name: value for name, value in os.environ.items() if name not in foreign}


def main() -> int:
    """Make all peers and print their interpreters; status 1 where one cannot be made."""
    status = 0
    for recipe in RECIPES.values():
        try:
            print(f"{recipe.release}: {obtain_peer(recipe).python}")  # noqa: T201
        except PeerUnavailableError as error:
            print(error, file=sys.stderr)  # noqa: T201
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
