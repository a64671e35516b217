"""Find Python interpreters of a given version on this machine; used by noxfile.py and by tests/peers.py."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path


def find_python(*versions: str) -> Path | None:
    """Return an interpreter of the first of `versions`, such as ``"3.13"``, that this machine has, or None.

    Looked for are the running interpreter, ``pythonX.Y`` on PATH (on Windows ``python`` too) and what pyenv installed.
    A pyenv shim on PATH exists for versions that are not active, too, and then fails: hence each candidate is started.
    """
    for version in versions:
        for candidate in _candidates(version):
            if _version_of(candidate) == version:
                return candidate
    return None


def _candidates(version: str) -> Iterator[Path]:
    if version == f"{sys.version_info.major}.{sys.version_info.minor}":
        yield Path(sys.executable)
    name = f"python{version}"
    names = (f"{name}.exe", "python.exe") if os.name == "nt" else (name,)
    for folder in os.get_exec_path():
        yield from (Path(folder, each) for each in names)
    for root in (os.environ.get("PYENV_ROOT"), Path.home() / ".pyenv"):
        if root:
            yield from (release / "bin" / name for release in Path(root, "versions").glob(f"{version}.*"))


def _version_of(interpreter: Path) -> str | None:
    if not interpreter.is_file():
        return None
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    try:
        answer = subprocess.run(
            [interpreter, "-I", "-c", code], capture_output=True, text=True, timeout=300, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return answer.stdout.strip() if answer.returncode == 0 else None
