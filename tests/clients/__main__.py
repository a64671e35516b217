"""Run the checks of all clients, or of those that are named: ``python -m tests.clients [--write] [name ...]``.

Each set of requirements gets an environment of its own, into which pip installs it together with the wheel of this
package, in one command and without overrides. ``--write`` makes the page of the documentation from the results. The
exit code is 1 if a check fails that `KNOWN` does not list, or one passes that it lists.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.interpreters import find_python

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "reference" / "clients.md"


@dataclass(frozen=True)
class Client:
    """A version of Python, what pip installs beside the wheel, and the module of checks with its arguments."""

    python: str
    requirements: tuple[str, ...]
    module: str
    arguments: tuple[str, ...] = ()


_SPIKEINTERFACE = ("spikeinterface[extractors]", "aiohttp", "s3fs", "moto[server]")
_EXTENSIONS = ("ndx-pose", "ndx-events", "ndx-hed", "ndx-miniscope", "ndx-ophys-devices")

CLIENTS = {
    "neuroconv": Client("3.11", ("neuroconv",), "neuroconv"),
    "neuroconv-alias": Client("3.11", ("neuroconv",), "neuroconv", ("alias",)),
    "spikeinterface": Client("3.11", _SPIKEINTERFACE, "spikeinterface"),
    "spikeinterface-alias": Client("3.11", _SPIKEINTERFACE, "spikeinterface", ("alias",)),
    "dandi": Client("3.13", ("dandi", "nwbinspector"), "dandi"),
    "pynwb": Client("3.12", ("hdmf-zarr",), "pynwb"),
    "extensions": Client("3.13", (*_EXTENSIONS, "pynapple"), "extensions"),
}

_NO_TEXT = "TensorStore, with which it checks arrays, has no text of variable length in Zarr format 3"
_ZARR_2 = "zarr-python 2, which these releases need, does not open Zarr format 3"

_OLD = "hdmf-zarr 0.13 opens neither zarr's stores of web servers nor those of S3"


@dataclass(frozen=True)
class Known:
    """What fails, by client, part of the name of the task and files, and a reason that is not ours."""

    client: str
    task: str
    files: tuple[str, ...]
    reason: str

    def covers(self, result: dict[str, Any]) -> bool:
        return result["client"] == self.client and self.task in result["task"] and result["file"] in self.files


_ALL = ("format 2", "format 3", "both formats")
_OWN = "spikeinterface, with its own hdmf-zarr"

KNOWN = (
    Known(_OWN, "", ("format 3",), _ZARR_2),
    Known("spikeinterface, with the alias", "", ("format 3",), _ZARR_2),
    Known(_OWN, "http, use_pynwb=True", ("format 2", "both formats"), _OLD),
    Known(_OWN, "S3, use_pynwb=True", ("format 2", "both formats"), _OLD),
    Known("neuroconv, with its own hdmf-zarr", "repack", ("format 3",), "hdmf-zarr 0.13 does not read Zarr format 3"),
    Known("dandi", "validate", ("format 3", "both formats"), _NO_TEXT),
    Known("dandi", "organize", _ALL, "dandi takes metadata from HDF5 files only"),
)


def reason_of(result: dict[str, Any]) -> str:
    return next((known.reason for known in KNOWN if known.covers(result)), "")


def install(client: Client, wheel: Path, folder: Path) -> dict[str, str]:
    """Install a client beside the wheel in a new environment and return the releases that pip chose; pip may refuse."""
    interpreter = find_python(client.python)
    if interpreter is None:
        raise SystemExit(f"there is no Python {client.python} on this machine")
    subprocess.run([interpreter, "-m", "venv", folder], check=True)
    python = folder / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "--quiet", wheel, *client.requirements], check=True)
    subprocess.run([python, "-m", "pip", "check"], check=True)
    listed = subprocess.run([python, "-m", "pip", "list", "--format=json"], check=True, capture_output=True, text=True)
    return {item["name"].lower().replace("_", "-"): item["version"] for item in json.loads(listed.stdout)}


def run(client: Client, folder: Path) -> list[dict[str, Any]]:
    done = subprocess.run(
        [folder / "bin" / "python", "-m", f"tests.clients.check_{client.module}", *client.arguments],
        cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    results = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode or not results:
        results.append({"client": client.module, "task": "run", "file": "", "problem": f"exit {done.returncode}"})
    return results


def unexpected(results: list[dict[str, Any]]) -> list[str]:
    """Return what failed without a known reason, and what works in spite of one."""
    wrong = []
    for result in results:
        reason = reason_of(result)
        named = f"{result['client']}, {result['task']}, {result['file']}"
        if result["problem"] and not reason:
            wrong.append(f"{named}: {result['problem']}")
        elif reason and not result["problem"]:
            wrong.append(f"{named}: works, although KNOWN lists it: {reason}")
    return wrong


def page(results: list[dict[str, Any]], releases: dict[str, dict[str, str]]) -> str:
    lines = [
        "# Programs that work with these files",
        "",
        "`nox -s clients` installs each program next to this package with pip, in one command, does what its users",
        "do, and compares what it reads with the same work on an HDF5 file. This page is the result of such a run.",
        "",
        "| program | task | file | result |",
        "| --- | --- | --- | --- |",
    ]
    for result in results:
        reason = reason_of(result) or result["problem"]
        ended = f"fails: {reason}" if result["problem"] else "works"
        lines.append(f"| {result['client']} | {result['task']} | {result['file']} | {ended} |")
    shown = (
        *("neuroconv", "spikeinterface", "dandi", "nwbinspector", "hdmf-zarr", "pynapple"),
        *_EXTENSIONS,
        *("pynwb", "hdmf", "zarr", "numcodecs", "numpy"),
    )
    lines += ["", "## Releases", "", "| environment | Python | releases that pip chose |", "| --- | --- | --- |"]
    for name, found in releases.items():
        chosen = ", ".join(f"{package} {found[package]}" for package in shown if package in found)
        lines.append(f"| {name} | {CLIENTS[name].python} | {chosen} |")
    return "\n".join([*lines, ""])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.relative_to(ROOT)}")
    parser.add_argument("names", nargs="*", metavar="name", help=f"of {', '.join(CLIENTS)}")
    arguments = parser.parse_args()
    results: list[dict[str, Any]] = []
    releases: dict[str, dict[str, str]] = {}
    with TemporaryDirectory() as temporary:
        folder = Path(temporary)
        command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, ROOT]
        subprocess.run(command, check=True)
        (wheel,) = folder.glob("*.whl")
        names = arguments.names or list(CLIENTS)
        different = {CLIENTS[name].requirements: CLIENTS[name] for name in names}  # two may share an environment
        places = {requirements: folder / str(number) for number, requirements in enumerate(different)}
        with ThreadPoolExecutor(3) as pool:
            chosen = pool.map(lambda client: install(client, wheel, places[client.requirements]), different.values())
            made = dict(zip(different, chosen, strict=True))
        for name in names:
            client = CLIENTS[name]
            releases[name] = made[client.requirements]
            results += run(client, places[client.requirements])
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
