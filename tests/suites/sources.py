"""The source distributions that hold the suites: fetched once with pip into a cache, never copied into the project.

The cache is ``HDMF_ZARR_BACKEND_SUITES``, by default ``.suites`` in the repository.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

from filelock import FileLock

_ROOT = Path(__file__).resolve().parents[2]
_MARK = "complete"


class SuiteUnavailableError(RuntimeError):
    """The source distribution cannot be fetched; the message says why."""


def obtain_sources(distribution: str, release: str) -> Path:
    """Return the unpacked source distribution of a release.

    Any number of processes may call this at once: one fetches it, the others wait.

    Parameters
    ----------
    distribution, release : str
        As pip names them, such as ``"pynwb"`` and ``"4.2.0"``.

    Raises
    ------
    SuiteUnavailableError
        pip cannot fetch it.
    """
    cache = Path(os.environ.get("HDMF_ZARR_BACKEND_SUITES") or _ROOT / ".suites").expanduser().absolute()
    cache.mkdir(parents=True, exist_ok=True)
    folder = cache / f"{distribution.replace('-', '_')}-{release}"
    with FileLock(f"{folder}.lock"):
        if not (folder / _MARK).is_file():
            _fetch(distribution, release, folder)
    return folder


def _fetch(distribution: str, release: str, folder: Path) -> None:
    if folder.exists():
        shutil.rmtree(folder)
    fetched = folder.with_name(f"{folder.name}.fetched")
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    command += ["--no-binary", distribution, "--dest", str(fetched), f"{distribution}=={release}"]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    archives = sorted(fetched.glob("*.tar.gz")) if fetched.is_dir() else []
    if answer.returncode != 0 or len(archives) != 1:
        raise SuiteUnavailableError(f"cannot fetch the sources of {distribution} {release}:\n{answer.stderr[-2000:]}")
    with tarfile.open(archives[0]) as archive:
        archive.extractall(folder.parent, filter="data")
    shutil.rmtree(fetched)
    if not folder.is_dir():
        raise SuiteUnavailableError(f"the sources of {distribution} {release} do not unpack to {folder.name}")
    (folder / _MARK).touch()  # written last: a folder without it was interrupted and is fetched again
