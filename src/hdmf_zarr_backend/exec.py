"""`run_with_alias`: runs a Python command-line tool in which ``hdmf_zarr`` is this package.

``python -m hdmf_zarr_backend.exec COMMAND ...`` is the same as ``zarrio exec COMMAND ...``.

The command replaces this process, with its own arguments, output, exit code and signals. A module ``sitecustomize`` in
``PYTHONPATH`` installs the alias when Python starts, also in processes that the command starts.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path

from hdmf_zarr_backend.errors import UsageError, ZarrBackendError
from hdmf_zarr_backend.formats.chosen import VARIABLE

_STARTUP = str(Path(__file__).parent / "alias" / "startup")


def run_with_alias(command: Sequence[str], zarr_format: str | None = None) -> int:
    """Run a command with the alias. On POSIX systems it replaces this process, so the function does not return."""
    program = _program(command[0])
    path = [_STARTUP, *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path)}
    if zarr_format is not None:
        environment[VARIABLE] = zarr_format
    if os.name != "nt":  # Windows cannot replace a process
        sys.stdout.flush()
        sys.stderr.flush()
        os.execve(program, [program, *command[1:]], environment)  # noqa: S606
    return subprocess.run([program, *command[1:]], env=environment, check=False).returncode  # noqa: S603


def _program(name: str) -> str:
    """Return the path of a command: the running Python, a script of its environment, or a program in ``PATH``."""
    major, minor = sys.version_info[:2]
    if name in ("python", f"python{major}", f"python{major}.{minor}"):
        return sys.executable
    scripts = sysconfig.get_path("scripts")
    found = shutil.which(name, path=scripts) or shutil.which(name)
    if found is None:
        raise UsageError(
            f"there is no command {name!r} in {scripts} or in PATH",
            remedy=f"Run a script with: zarrio exec python {name}"
            if name.endswith(".py")
            else "Install the package that has it, or run a module of it with 'python -m'.",
        )
    return found


def main() -> int:
    """Run the command in the arguments of the process; return 2 without a command."""
    if len(sys.argv) < 2:
        print("usage: python -m hdmf_zarr_backend.exec COMMAND ...", file=sys.stderr)  # noqa: T201
        return 2
    try:
        return run_with_alias(sys.argv[1:])
    except (ZarrBackendError, OSError) as error:
        print(f"zarrio exec: {error}", file=sys.stderr)  # noqa: T201
        return 2


if __name__ == "__main__":
    sys.exit(main())
