"""Run the checks of all clients, or of those that are named: ``python -m tests.clients [--write] [name ...]``.

Each client gets an environment of its own, into which pip installs it together with the wheel of this package, in one
command and without overrides. ``--write`` makes the page of the documentation from the results. The exit code is 1 if a
check fails that `KNOWN` does not list, or one passes that it lists.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.interpreters import find_python

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "reference" / "clients.md"


@dataclass(frozen=True)
class Client:
    """A client, how it is installed, and the module that checks it.

    Attributes
    ----------
    python : str
        Version of Python.
    requirements : tuple of str
        What pip installs besides the wheel.
    module : str
        Name of the module of checks, without ``check_``.
    arguments : tuple of str
        Its arguments.
    """

    python: str
    requirements: tuple[str, ...]
    module: str
    arguments: tuple[str, ...] = ()


CLIENTS = {
    "neuroconv": Client("3.11", ("neuroconv",), "neuroconv"),
    "neuroconv-alias": Client("3.11", ("neuroconv",), "neuroconv", ("alias",)),
    "spikeinterface": Client("3.11", ("spikeinterface[extractors]",), "spikeinterface"),
    "dandi": Client("3.13", ("dandi", "nwbinspector"), "dandi"),
    "pynwb": Client("3.12", ("hdmf-zarr",), "pynwb"),
    "extensions": Client("3.13", ("ndx-pose", "ndx-events", "ndx-hed", "pynapple"), "extensions"),
}

_NO_TEXT = "TensorStore, with which it checks arrays, has no text of variable length in Zarr format 3"
_ZARR_2 = "zarr-python 2, which these releases need, does not open Zarr format 3"

KNOWN: dict[tuple[str, str], str] = {
    ("spikeinterface", "format 3"): _ZARR_2,
    ("neuroconv, with its own hdmf-zarr", "format 3"): "hdmf-zarr 0.13 does not read Zarr format 3",
    ("dandi", "format 3"): _NO_TEXT,
    ("dandi", "both formats"): _NO_TEXT,
}
"""Client and file -> why what fails there fails: a reason that is not ours."""


def run(client: Client, wheel: Path, folder: Path) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """Install a client beside the wheel and return its results and the releases of what matters.

    Raises
    ------
    subprocess.CalledProcessError
        pip finds no set of releases, or the environment contradicts itself.
    """
    interpreter = find_python(client.python)
    if interpreter is None:
        raise SystemExit(f"there is no Python {client.python} on this machine")
    subprocess.run([interpreter, "-m", "venv", folder], check=True)
    python = folder / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "--quiet", wheel, *client.requirements], check=True)
    subprocess.run([python, "-m", "pip", "check"], check=True)
    listed = subprocess.run([python, "-m", "pip", "list", "--format=json"], check=True, capture_output=True, text=True)
    releases = {item["name"].lower().replace("_", "-"): item["version"] for item in json.loads(listed.stdout)}
    done = subprocess.run(
        [python, "-m", f"tests.clients.check_{client.module}", *client.arguments],
        cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    results = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode or not results:
        results.append({"client": client.module, "task": "run", "file": "", "problem": f"exit {done.returncode}"})
    return results, releases


def unexpected(results: list[dict[str, Any]]) -> list[str]:
    """Return what failed without a known reason, and reasons that explain no failure."""
    failed = [result for result in results if result["problem"]]
    wrong = [
        f"{result['client']}, {result['task']}, {result['file']}: {result['problem']}"
        for result in failed
        if (result["client"], result["file"]) not in KNOWN
    ]
    explained = {(result["client"], result["file"]) for result in failed}
    ran = {result["client"] for result in results}
    return wrong + [
        f"{client}, {file}: nothing fails"
        for client, file in KNOWN
        if client in ran and (client, file) not in explained
    ]


def page(results: list[dict[str, Any]], releases: dict[str, dict[str, str]]) -> str:
    """Return the page of the documentation."""
    lines = [
        "# Programs that work with these files",
        "",
        "`nox -s clients` installs each program beside this package with pip, in one command, and does what its",
        "users do; what is read is compared with the same work on an HDF5 file. This page is made from such a run.",
        "",
        "| program | task | file | result |",
        "| --- | --- | --- | --- |",
    ]
    for result in results:
        reason = KNOWN.get((result["client"], result["file"]), result["problem"])
        ended = f"fails: {reason}" if result["problem"] else "works"
        lines.append(f"| {result['client']} | {result['task']} | {result['file']} | {ended} |")
    shown = (
        *("neuroconv", "spikeinterface", "dandi", "nwbinspector", "hdmf-zarr", "pynapple", "ndx-pose", "ndx-events"),
        *("ndx-hed", "pynwb", "hdmf", "zarr", "numcodecs", "numpy"),
    )
    lines += ["", "## Releases", "", "| environment | Python | releases that pip chose |", "| --- | --- | --- |"]
    for name, found in releases.items():
        chosen = ", ".join(f"{package} {found[package]}" for package in shown if package in found)
        lines.append(f"| {name} | {CLIENTS[name].python} | {chosen} |")
    return "\n".join([*lines, ""])


def main() -> int:
    """Run what is named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.relative_to(ROOT)}")
    parser.add_argument("names", nargs="*", metavar="name", help=f"of {', '.join(CLIENTS)}")
    arguments = parser.parse_args()
    results: list[dict[str, Any]] = []
    releases: dict[str, dict[str, str]] = {}
    with TemporaryDirectory() as name:
        folder = Path(name)
        command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, ROOT]
        subprocess.run(command, check=True)
        (wheel,) = folder.glob("*.whl")
        for client in arguments.names or CLIENTS:
            found, releases[client] = run(CLIENTS[client], wheel, folder / client)
            results += found
    if arguments.write:
        PAGE.write_text(page(results, releases), encoding="utf-8")
    for result in results:
        ended = f"FAILS  {result['problem']}" if result["problem"] else "works"
        print(f"{result['client']}: {result['task']}, {result['file']}: {ended}")
    wrong = unexpected(results)
    print("\n".join(["", *wrong]) if wrong else f"\n{len(results)} checks, as expected")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
