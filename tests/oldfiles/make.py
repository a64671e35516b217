"""Write the old files: ``python -m tests.oldfiles.make [NAME ...]``, all of them without a name.

Each release of `WRITERS` writes the files of `content.py` in an environment with libraries of its time, which
`tests.peers` makes. Of each minor release of hdmf-zarr, it is the newest patch. All from 0.8 on install with Python
3.11, 0.14 with 3.12. This package writes the same files in each format, under the version of the format.

``NAME.tar.xz`` beside this script has what a writer wrote. Zip files would be ten times as large: most of their bytes
are the names of the many small files.
"""

import lzma
import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from hdmf_zarr_backend.encoding.reserved import FORMAT_VERSION
from tests.peers import RECIPES, PeerRecipe, obtain_peer

FOLDER = Path(__file__).resolve().parent


_RELEASES = {
    "0.1.0": "hdmf==3.5.4 pynwb==2.3.3 zarr==2.16.1 numcodecs==0.12.1 numpy==1.23.5 setuptools==69.5.1",
    "0.3.0": "hdmf==3.5.4 pynwb==2.3.3 zarr==2.16.1 numcodecs==0.12.1 numpy==1.23.5 setuptools==69.5.1",
    "0.8.0": "hdmf==3.14.1 pynwb==2.7.0 zarr==2.18.2 numcodecs==0.12.1 numpy==1.26.4",
    "0.9.0": "hdmf==3.14.4 pynwb==2.8.2 zarr==2.18.3 numcodecs==0.13.0 numpy==1.26.4",
    "0.10.0": "hdmf==3.14.6 pynwb==2.8.3 zarr==2.18.4 numcodecs==0.15.0 numpy==2.2.2",
    "0.11.3": "hdmf==4.0.0 pynwb==3.0.0 zarr==2.18.7 numcodecs==0.15.1 numpy==2.2.5",
    "0.12.0": "hdmf==4.1.2 pynwb==3.1.2 zarr==2.18.7 numcodecs==0.15.1 numpy==2.3.4",
}
_LINDI = RECIPES["lindi"]

WRITERS = {
    **{
        f"hdmf-zarr-{number}": PeerRecipe(
            f"hdmf-zarr {number}", "", ("3.11",), (f"hdmf-zarr=={number}", "h5py==3.16.0", *libraries.split())
        )
        for number, libraries in _RELEASES.items()
    },
    "hdmf-zarr-0.13.0": RECIPES["0.13"],
    "hdmf-zarr-0.14.0": RECIPES["0.14"],
    "lindi-0.4.6": PeerRecipe(
        "lindi 0.4.6-pynwb", "", _LINDI.pythons, (*_LINDI.requirements, "hdmf==6.2.0", "pynwb==4.2.0")
    ),
}
"""Other writers."""

OURS = f"version-{FORMAT_VERSION}"


def make(name: str) -> None:
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        if name == OURS:
            for zarr_format in ("2", "3", "both"):
                (folder / zarr_format).mkdir()
                _write(Path(sys.executable), "hdmf_zarr_backend", folder / zarr_format, zarr_format)
        else:
            writer = "lindi" if name.startswith("lindi") else "hdmf_zarr"
            options = ("alone",) if name == "hdmf-zarr-0.1.0" else ()
            _write(obtain_peer(WRITERS[name]).python, writer, folder, *options)
        with (
            lzma.open(FOLDER / f"{name}.tar.xz", "wb", preset=9 | lzma.PRESET_EXTREME) as compressed,
            tarfile.open(fileobj=compressed, mode="w") as archive,
        ):
            archive.add(folder, arcname="", filter=_without_owner)


def _write(python: Path, writer: str, folder: Path, *options: str) -> None:
    # The last releases of numcodecs 0.15 read the pickled references of hdmf-zarr 0.13 with this variable only.
    environment = os.environ | {"NUMCODECS_ALLOW_UNSAFE_PICKLE_DECODE": "1"}
    command = [python, FOLDER / "content.py", writer, folder, *options]
    subprocess.run(command, check=True, cwd=folder, env=environment)  # hdmf-zarr 0.10 looks for its links below there


def _without_owner(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = entry.mtime = 0
    entry.uname = entry.gname = ""
    return entry


if __name__ == "__main__":
    for each in sys.argv[1:] or (*WRITERS, OURS):
        make(each)
