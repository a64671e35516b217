"""The DANDI client and NWB Inspector on files of this package."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from functools import cache, partial
from pathlib import Path

from tests.clients.work import HDF5, report, same, written

BIN = Path(sys.executable).parent


def run(*command: str | Path) -> str:
    """Return what a command of the environment prints; an error of it is raised with its last lines."""
    done = subprocess.run([BIN / command[0], *command[1:]], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(" ".join((done.stdout + done.stderr).split()[-60:]))
    return done.stdout


def validate(path: Path) -> None:
    found = run("dandi", "-l", "ERROR", "validate", "--ignore", r"DANDI\.NO_DANDISET|NWBI\.", path)
    if "No errors found" not in found:
        raise AssertionError(found)


def digest(path: Path) -> None:
    from zarr_checksum import compute_zarr_checksum
    from zarr_checksum.generators import yield_files_local

    found = run("dandi", "-l", "ERROR", "digest", "-d", "zarr-checksum", path)
    same(found.split()[-1], str(compute_zarr_checksum(yield_files_local(path))))


def listing(path: Path) -> None:
    same(len(json.loads(run("dandi", "-l", "ERROR", "ls", "-f", "json", path))), 1)


def organize(path: Path) -> None:
    """Compare the name that `dandi organize` gives with the one for the HDF5 file."""
    from dandi.metadata.nwb import get_metadata
    from dandi.organize import create_unique_filenames_from_metadata

    names = []
    for file in (path, path.parents[1] / "sub-mouse1_ses-1.nwb"):
        (organized,) = create_unique_filenames_from_metadata([{**get_metadata(file), "path": str(file)}])
        names.append(organized["dandi_filename"])
    same(*names)


@cache
def messages(path: Path) -> list[str]:
    found = run("python", "-m", "hdmf_zarr_backend.cli.main", "exec", "nwbinspector", path)
    return sorted(re.findall(r"(check_\w+ - .*)", found))


def inspect(path: Path, original: Path) -> None:
    same(messages(path), messages(original))


def main() -> None:
    with written() as files:
        for what, path in files.items():
            if what == HDF5:
                continue
            for work in (validate, digest, listing, organize):
                report("dandi", f"dandi {work.__name__}", what, partial(work, path))
            report("nwbinspector", "the messages of the HDF5 file", what, partial(inspect, path, files[HDF5]))


if __name__ == "__main__":
    main()
