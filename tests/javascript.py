"""JavaScript: node, and zarrita, which npm installs once, beside the peers and below the same folder.

``HDMF_ZARR_BACKEND_ZARRITA`` names a folder in which ``npm install zarrita`` was run, to be used instead. Node is no
package that can be installed by pip, so what needs it is skipped where it is absent.
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

from tests.peers import PeerUnavailableError, installed, npm_install

RELEASE = "0.7.5"


def run_node(script: str, folder: Path, *arguments: str | Path, told: Any, modules: Path | None = None) -> Any:
    """Run a module of JavaScript in a folder, and return the JSON that it prints.

    It finds `arguments` in ``process.argv.slice(2)``, `told` as JSON on standard input, and the packages of the folder
    ``modules``.
    """
    node = shutil.which("node")
    if node is None:
        pytest.skip("there is no node on the path")
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "script.mjs"
    path.write_text(script, encoding="utf-8")
    if modules is not None and not (folder / "node_modules").exists():
        (folder / "node_modules").symlink_to(modules / "node_modules")
    options: dict[str, Any] = {"text": True, "encoding": "utf-8", "timeout": 300}
    answer = subprocess.run(
        [node, path, *arguments], input=json.dumps(told), capture_output=True, check=False, **options
    )
    assert answer.returncode == 0, answer.stderr[-2000:]
    return json.loads(answer.stdout)


def zarrita_folder() -> Path:
    """Return a folder whose ``node_modules`` has zarrita; skip where it cannot be had, with the reason."""
    result = _zarrita()
    if isinstance(result, str):
        pytest.skip(result)
    return result


@lru_cache(maxsize=1)
def _zarrita() -> Path | str:
    """Return the folder, or the reason why it cannot be had; npm runs once per session."""
    named = os.environ.get("HDMF_ZARR_BACKEND_ZARRITA")
    if named:
        return Path(named).expanduser().absolute()
    npm = shutil.which("npm")
    if npm is None:
        return "there is no npm on the path, and HDMF_ZARR_BACKEND_ZARRITA names no folder with zarrita"
    try:
        return installed(f"zarrita-{RELEASE}", lambda folder: npm_install([npm], f"zarrita@{RELEASE}", folder))
    except PeerUnavailableError as error:
        return str(error)
