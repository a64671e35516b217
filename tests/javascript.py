"""JavaScript: node, and zarrita, which npm installs once, beside the peers and below the same folder.

``HDMF_ZARR_BACKEND_ZARRITA`` names a folder in which ``npm install zarrita`` was run, to be used instead. Node is no
package that can be installed by pip, so what needs it is skipped where it is absent, and so is what npm has no registry
for.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

from tests.peers import cache_folder

RELEASE = "0.7.5"
_MARK = "installed.txt"
_SECONDS = 300


def run_node(script: str, folder: Path, *arguments: str | Path, told: Any, modules: Path | None = None) -> Any:
    """Run a module of JavaScript, and return the JSON that it prints.

    Parameters
    ----------
    script : str
        The source; it finds `arguments` in ``process.argv.slice(2)``, and `told` as JSON on standard input.
    folder : pathlib.Path
        For the script; it may be there already.
    *arguments : str or pathlib.Path
        Arguments.
    told : object
        JSON.
    modules : pathlib.Path, optional
        A folder with ``node_modules``.
    """
    node = shutil.which("node")
    if node is None:
        pytest.skip("there is no node on the path")
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "script.mjs"
    path.write_text(script, encoding="utf-8")
    if modules is not None and not (folder / "node_modules").exists():
        (folder / "node_modules").symlink_to(modules / "node_modules")
    answer = subprocess.run(
        [node, path, *arguments],
        input=json.dumps(told),
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=_SECONDS,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr[-2000:]
    return json.loads(answer.stdout)


def zarrita_folder() -> Path:
    """Return a folder whose ``node_modules`` has zarrita; skip where it cannot be had, with the reason."""
    found = _zarrita()
    if isinstance(found, str):
        pytest.skip(found)
    return found


@lru_cache(maxsize=1)
def _zarrita() -> Path | str:
    """Return the folder, or the reason why it cannot be had; npm runs once per session."""
    named = os.environ.get("HDMF_ZARR_BACKEND_ZARRITA")
    if named:
        return Path(named).expanduser().absolute()
    npm = shutil.which("npm")
    if npm is None:
        return "there is no npm on the path, and HDMF_ZARR_BACKEND_ZARRITA names no folder with zarrita"
    folder = cache_folder() / f"zarrita-{RELEASE}"
    with FileLock(f"{folder}.lock"):
        return folder if (folder / _MARK).is_file() else _install(npm, folder)


def _install(npm: str, folder: Path) -> Path | str:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "package.json").write_text("{}")
    options = ["--no-audit", "--no-fund", "--ignore-scripts", "--fetch-retries=1", "--fetch-timeout=60000"]
    try:
        answer = subprocess.run(
            [npm, "install", *options, f"zarrita@{RELEASE}"],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return "npm cannot install zarrita: it does not end"
    if answer.returncode != 0:
        return f"npm cannot install zarrita: {answer.stderr.strip()[-500:]}"
    (folder / _MARK).write_text(RELEASE)  # written last: a folder without it is incomplete and is replaced
    return folder
