"""`zarrio exec`: runs another Python command-line tool, for which ``hdmf_zarr`` is this package.

The command replaces this process, with its own arguments, output, exit code and signals. A module ``sitecustomize`` in
``PYTHONPATH`` installs the alias when Python starts, also in processes that the command starts.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from argparse import PARSER, ArgumentParser, Namespace
from pathlib import Path

from hdmf_zarr_backend.cli.command import Command, add
from hdmf_zarr_backend.errors import UsageError
from hdmf_zarr_backend.formats.chosen import VARIABLE

_STARTUP = str(Path(__file__).parents[1] / "alias" / "startup")


def _configure(parser: ArgumentParser) -> None:
    add(
        parser,
        "--zarr-format",
        "format of the Zarr files that the command creates, unless it names one (default: 2); both: the metadata of "
        "both formats over the same chunks",
    )
    parser.add_argument(
        "words",
        nargs=PARSER,  # everything from the first word on, options and "--" included
        metavar="COMMAND",
        help="a command of this environment or on PATH, or python, followed by its arguments",
    )


def _run(arguments: Namespace) -> int:
    """Replace this process by the command; return its exit code on Windows, which cannot replace a process."""
    command = [_program(arguments.words[0]), *arguments.words[1:]]
    path = [_STARTUP, *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path)}
    if arguments.zarr_format is not None:
        environment[VARIABLE] = str(arguments.zarr_format)
    if os.name != "nt":
        sys.stdout.flush()
        sys.stderr.flush()
        os.execve(command[0], command, environment)  # noqa: S606
    return subprocess.run(command, env=environment, check=False).returncode  # noqa: S603


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


COMMAND = Command(
    name="exec",
    usage="[--zarr-format FORMAT] COMMAND [ARGUMENT...]",
    summary="run a Python tool with this package as hdmf_zarr",
    description=(
        "Run a command-line tool that is written in Python, such as nwbinspector, pynwb-validate or a script. If it,\n"
        "or a Python process that it starts, imports hdmf_zarr, it gets this package, even if hdmf-zarr is installed.\n"
        "Arguments and exit code are passed on unchanged."
    ),
    examples="""\
  zarrio exec nwbinspector session.nwb.zarr
  zarrio exec pynwb-validate session.nwb.zarr
  zarrio exec python script.py
  zarrio exec python -m pytest
  zarrio exec --zarr-format 3 python pipeline.py
""",
    configure=_configure,
    run=_run,
)
