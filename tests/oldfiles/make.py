"""Write one of the old files: ``python -m tests.oldfiles.make NAME PYTHON CLASS``.

``PYTHON`` is an interpreter that has the release, such as one of `tests.peers`, and ``CLASS`` the class of that release
that writes NWB, as ``hdmf_zarr.nwb:NWBZarrIO``. The store is packed into ``NAME.zip`` beside this script.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

FOLDER = Path(__file__).resolve().parent


def make(name: str, python: str, writer: str) -> None:
    """Write the content with another interpreter and pack the store."""
    with tempfile.TemporaryDirectory() as temporary:
        store = Path(temporary) / "old.nwb.zarr"
        subprocess.run([python, str(FOLDER / "content.py"), writer, str(store)], check=True)
        with zipfile.ZipFile(FOLDER / f"{name}.zip", "w", zipfile.ZIP_DEFLATED) as packed:
            for path in sorted(path for path in store.rglob("*") if path.is_file()):
                entry = zipfile.ZipInfo(path.relative_to(store).as_posix())
                packed.writestr(entry, path.read_bytes(), zipfile.ZIP_DEFLATED)


if __name__ == "__main__":
    make(*sys.argv[1:])
