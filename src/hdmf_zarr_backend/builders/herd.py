"""`attach_herd`: reads the external resources (HERD) of a file from their archive.

``HERD.from_zip`` of hdmf 6.2 unpacks an archive beside itself and expects the tables at its top level, but
``HERD.to_zip`` stores them under the path of the archive, so they are found only if the archive is in the working
directory. Here the tables are unpacked by name, in a temporary folder.

`io` imports this module on use, because most files have no external resources.
"""

from __future__ import annotations

import os
import tempfile
import zipfile
from typing import Any

from hdmf.container import HERDManager

from hdmf_zarr_backend.errors import StoreError, warn

_TABLES = ("files", "keys", "entities", "objects", "object_keys", "entity_keys")


def attach_herd(container: Any, path: str) -> Any:
    """Attach the HERD in the archive at ``path`` to a container, and return it; None, with a warning, on failure."""
    from hdmf.common import HERD

    with tempfile.TemporaryDirectory() as folder:
        archive = os.path.join(folder, "herd.zip")
        try:
            _flatten(path, archive)
            herd = HERD.from_zip(path=archive)
            if isinstance(container, HERDManager):
                container.external_resources = herd
            return herd
        except FileNotFoundError:
            warn(f"File not found at {path}. HERD not added.", UserWarning, stacklevel=4)
        except ValueError:
            message = f"Check HERD separately for alterations ({path}). HERD not added."
            warn(message, UserWarning, stacklevel=4)
    return None


def _flatten(path: str, archive: str) -> None:
    """Copy the tables in the archive ``path`` to the top level of ``archive``."""
    try:
        with zipfile.ZipFile(path) as source, zipfile.ZipFile(archive, "w") as target:
            members = {os.path.basename(name): name for name in source.namelist()}
            missing = [table for table in _TABLES if f"{table}.tsv" not in members]
            if missing:
                problem = f"the archive of external resources has no {missing[0]}.tsv"
                raise StoreError(problem, store=path, remedy="Give the file that HERD.to_zip has written as herd_path.")
            for table in _TABLES:
                target.writestr(f"{table}.tsv", source.read(members[f"{table}.tsv"]))
    except (zipfile.BadZipFile, IsADirectoryError) as error:
        remedy = "Give the file that HERD.to_zip has written, or no herd_path."
        raise StoreError(
            f"herd_path is not an archive of external resources ({error})", store=path, remedy=remedy
        ) from error
