"""Values that an HDF5 dataset states and has no bytes for: how many of them a copy may be asked to make.

HDF5 gives a dataset room when it is written to, so that a file of some kilobytes can state terabytes of fill values.
A copy says of itself that all its chunks are there, and so it has them all.

Source: issue "Nothing lost, nobody let in", part 5; HDF5 reference manual, `H5Pset_alloc_time`.
"""

from __future__ import annotations

import math
from typing import Any

from hdmf_zarr_backend.errors import ZarrBackendError
from hdmf_zarr_backend.stores.limits import Limits


def check_allocated(dataset: Any, limits: Limits) -> None:
    """Make sure that the values that a dataset lacks are few enough to be made.

    What is stored is looked at only where the dataset states more than the limit in all.

    Parameters
    ----------
    dataset : h5py.Dataset
        Any; one that is virtual, or in other files, is never refused, since those files say what they have.
    limits : Limits
        What holds.

    Raises
    ------
    LimitError
        They are more than ``max_unwritten_bytes``; file and dataset are named.
    """
    element = dataset.id.get_type().get_size()
    if not dataset.shape or dataset.is_virtual or dataset.id.get_create_plist().get_external_count():
        return
    if dataset.chunks is None:
        absent = 0 if dataset.id.get_storage_size() else dataset.size * element
        what = f"no byte of the {absent:,} of its values was ever written"
    else:
        chunk = math.prod(dataset.chunks) * element
        stated = math.prod(-(-n // c) for n, c in zip(dataset.shape, dataset.chunks, strict=True))
        if stated * chunk <= limits.max_unwritten_bytes:
            return
        count = stated - dataset.id.get_num_chunks()
        absent = count * chunk
        what = f"{count:,} of its {stated:,} chunks were never written, and would be {absent:,} bytes of fill values"
    try:
        limits.check("max_unwritten_bytes", absent, what)
    except ZarrBackendError as error:
        raise error.located(store=dataset.file.filename, path=dataset.name) from None
