"""`convert_to_hdf5`: Zarr -> HDF5; the new file is written beside the target and moved there when it is complete.

`convert` imports this module only if the target is an HDF5 file.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hdmf_zarr_backend.arrays.codecs import value_bytes
from hdmf_zarr_backend.changes.journal import warn_of_pending
from hdmf_zarr_backend.conversion.readability import check_zarr
from hdmf_zarr_backend.conversion.report import ConversionReport, is_content
from hdmf_zarr_backend.files.links import resolver_of
from hdmf_zarr_backend.files.parser import check_outside, parse
from hdmf_zarr_backend.formats.links import LinkedFile
from hdmf_zarr_backend.hdf5.placement import Placement
from hdmf_zarr_backend.hdf5.writer import Hdf5Writer, named
from hdmf_zarr_backend.model.link_sources import is_url
from hdmf_zarr_backend.model.nodes import Dataset
from hdmf_zarr_backend.stores.base import Store
from hdmf_zarr_backend.stores.local import LocalStore
from hdmf_zarr_backend.stores.opening import check_free, open_store
from hdmf_zarr_backend.transfer.staging import staged_file

if TYPE_CHECKING:
    from hdmf_zarr_backend.conversion.convert import Request


def convert_to_hdf5(source: str | Store, target: str, request: Request) -> ConversionReport:
    """Convert a Zarr file to HDF5; raises the errors of `conversion.convert`."""
    progress = request.options.progress
    store = LocalStore(target)
    check_free(store, overwrite=request.overwrite, empty_folder=False)
    main = open_source(source, request)
    check_outside(store, is_new=True)
    typed = check_zarr(main)[0] if request.check else {}
    resolver = resolver_of(main.store, main.hierarchy, main.location)
    placement = Placement(resolver, target, copies_links=request.copies_links)
    nbytes = 0
    for placed in placement.nodes:
        if isinstance(placed.node, Dataset):
            with named(placed):
                nbytes += value_bytes(placed.node.stored)
    progress.start(nbytes)
    with staged_file(store, exclusive=not request.overwrite, options=request.options) as path:
        Hdf5Writer(
            path,
            placement,
            typed=typed,
            allows_null=not (request.check and main.hierarchy.root.attributes.get("neurodata_type") == "NWBFile"),
            options=request.options,
        ).write()
    progress.finish()
    is_counted = is_content(main.hierarchy)
    counted = [placed.node for placed in placement.nodes if is_counted(placed.path)]
    datasets = sum(isinstance(node, Dataset) for node in counted)
    return ConversionReport(
        main.location,
        target,
        "hdf5",
        groups=len(counted) - datasets,
        datasets=datasets,
        links=len(placement.links),
        nbytes=nbytes,
    )


def open_source(location: str | Store, request: Request) -> LinkedFile:
    """Open a Zarr file to be copied."""
    storage = request.storage if isinstance(location, str) and is_url(location) else None
    store = open_store(location, storage, request.reading)
    store.read_rules = replace(store.read_rules, is_copied=True)
    warn_of_pending(store)
    return LinkedFile(store, parse(store).hierarchy, location if isinstance(location, str) else store.location)
