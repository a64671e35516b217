"""Large HDF5 datasets as sources that need no HDF5 library: no thread waits for its lock, any process reads them.

Source: issue "Fast, lean, and as wide as the machine or the cluster", part 4.
"""

from __future__ import annotations

from typing import Any

from hdmf_zarr_backend.hdf5.contiguous import plan_contiguous
from hdmf_zarr_backend.hdf5.describe import Description
from hdmf_zarr_backend.hdf5.rawcopy import plan_raw
from hdmf_zarr_backend.mapping.chunking import WHOLE_BYTES
from hdmf_zarr_backend.write.plan import PlannedArray
from hdmf_zarr_backend.write.sources import StoredSource


def take_chunks(dataset: Any, found: Description, planned: PlannedArray, *, keep: bool) -> None:
    """Take the chunks of a large dataset as they are, or at least read its values without the HDF5 library.

    Small datasets are one chunk in Zarr, and very small chunks are joined: there the chunks are not the same.

    Parameters
    ----------
    dataset : h5py.Dataset
        The dataset.
    found : Description
        What it is.
    planned : PlannedArray
        The copy that is planned; its source is replaced, and its codecs if chunks are kept.
    keep : bool
        Keep chunks as they are where that is possible; False: they are decoded, for the codecs that are planned.
    """
    node, old = planned.node, planned.source
    if node.size * found.dtype.itemsize <= WHOLE_BYTES or not isinstance(old, StoredSource) or old.dtype != found.dtype:
        return
    raw = plan_raw(dataset, found)
    if raw is None:
        contiguous = plan_contiguous(dataset, found)
        if contiguous is not None and contiguous.shape == node.shape:
            planned.source = contiguous
    elif raw.source.shape != node.shape:
        return
    elif keep and raw.source.chunks == node.chunks:
        node.filters, node.compressor = raw.filters, raw.compressor
        planned.source = raw.source
    elif keep or raw.source.raw.is_plain_file:
        planned.source = raw.source.decoded()
