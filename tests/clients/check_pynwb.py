"""pynwb itself: `read_nwb`, `validate`, and its command, on files of this package."""

from __future__ import annotations

import subprocess
import sys
from functools import partial
from pathlib import Path

import pynwb

from hdmf_zarr_backend import NWBZarrIO
from tests.clients.work import HDF5, report, same, session, written


def read(path: Path) -> None:
    found = pynwb.read_nwb(path)
    same(found.acquisition["ElectricalSeries"].data[:], session().acquisition["ElectricalSeries"].data)


def validate(path: Path) -> None:
    with NWBZarrIO(path, "r") as io:
        same(pynwb.validate(io=io), [])


def command(path: Path) -> None:
    zarrio = Path(sys.executable).parent / "zarrio"
    done = subprocess.run([zarrio, "exec", "pynwb-validate", path], capture_output=True, text=True, check=False)
    if done.returncode or "no errors" not in done.stdout:
        raise RuntimeError(" ".join((done.stdout + done.stderr).split()[-40:]))


def main() -> None:
    from hdmf_zarr_backend.alias import install_hdmf_zarr_alias

    install_hdmf_zarr_alias(replace=True)
    with written() as files:
        for what, path in files.items():
            if what == HDF5:
                continue
            report("pynwb", "read_nwb, with the alias", what, partial(read, path))
            report("pynwb", "validate(io=...)", what, partial(validate, path))
            report("pynwb", "zarrio exec pynwb-validate", what, partial(command, path))


if __name__ == "__main__":
    main()
