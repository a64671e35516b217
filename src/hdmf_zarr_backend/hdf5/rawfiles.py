"""Raw files that hold the values of HDF5 datasets ("external storage"), and what is said where one is not there."""

from __future__ import annotations

import os
from typing import Any

from hdmf_zarr_backend.errors import DamagedFileError


def without_raw_file(created: Any, location: str, path: str) -> DamagedFileError | None:
    """Return the error of a dataset whose values are in raw files of their own, one of which is not there; else None.

    Parameters
    ----------
    created : h5py.h5p.PropDCID
        What the dataset was created with.
    location, path : str
        The file and the dataset.
    """
    names = [os.fsdecode(created.get_external(number)[0]) for number in range(created.get_external_count())]
    prefix = os.environ.get("HDF5_EXTFILE_PREFIX", "").replace("${ORIGIN}", os.path.dirname(location))
    missing = [name for name in names if not os.path.exists(os.path.join(prefix, name))]
    if not missing:
        return None
    return DamagedFileError(
        f"its values are in the external file {missing[0]!r}, which is not there",
        store=location,
        path=path,
        remedy="Put that file back. HDF5 looks for a relative name in the working directory, or in the folder that "
        "the variable HDF5_EXTFILE_PREFIX names.",
    )
