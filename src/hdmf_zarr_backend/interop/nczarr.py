"""`add_nczarr`: adds the attributes that netcdf-c needs to read a file. Chunks do not change.

A new file has them with ``WriteOptions(nczarr=True)``.

Source: NCZarr 2.0, as netcdf-c 4.10 writes it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hdmf_zarr_backend.encoding import nczarr, zarr2, zarr3
from hdmf_zarr_backend.encoding.both import renewed
from hdmf_zarr_backend.encoding.registry import FORMATS
from hdmf_zarr_backend.errors import ReadOnlyStoreError, UsageError, known_arguments
from hdmf_zarr_backend.files.parser import parse
from hdmf_zarr_backend.model.json_text import check_strict, dump
from hdmf_zarr_backend.model.nodes import Hierarchy
from hdmf_zarr_backend.options import WriteOptions
from hdmf_zarr_backend.stores.base import Store
from hdmf_zarr_backend.stores.opening import open_store
from hdmf_zarr_backend.stores.transaction import Writer, open_for_writing


@known_arguments
def add_nczarr(
    source: Any, *, storage_options: Mapping[str, Any] | None = None, write_options: WriteOptions | None = None
) -> list[str]:
    """Add the attributes that netcdf-c needs to open a file in its mode ``nczarr``.

    Parameters
    ----------
    source : str, Path, mapping, zarr.abc.store.Store or zarr.Group
        A file of format 2.
    storage_options : mapping, optional
        For URLs, as for `ZarrIO`.
    write_options : WriteOptions, optional
        As for `ZarrIO`: ``strict_json``.

    Returns
    -------
    list of str
        Absolute paths of the arrays that netcdf-c can read: numbers in C order without filters, in groups with
        attributes that it can parse.

    Raises
    ------
    UsageError
        The file has format 3.
    ReadOnlyStoreError
        A store of this kind cannot be changed.
    StoreLockedError
        Another writer has the file open.

    Warns
    -----
    JournalWarning
        A change of the file was interrupted; it is undone or completed first.

    Notes
    -----
    The file may be read at the same time. Readers see the old or the new attributes, which are equivalent for them.
    """
    options = write_options or WriteOptions()
    options.check_used("NCZarr", "strict_json")
    store = open_store(source, storage_options)
    abilities = store.abilities
    if not abilities.change:
        raise ReadOnlyStoreError(
            f"{abilities.why}: its attributes cannot be changed",
            store=store.location,
            remedy="Write the file again with WriteOptions(nczarr=True).",
            remedy_cli="Convert the file again with `zarrio convert --nczarr`.",
        )
    with open_for_writing(store) as writer:
        return nczarr.listed(_overlaid(store, writer, strict=options.strict_json))


def _overlaid(store: Store, writer: Writer, *, strict: bool) -> Hierarchy:
    parsed = parse(store)
    hierarchy = parsed.hierarchy
    if hierarchy.zarr_format != 2:
        raise UsageError(
            "NCZarr has no attributes in format 3", store=store.location, remedy="Export the file to format 2."
        )
    if strict:
        check_strict(hierarchy, store.location)
    nodes = {zarr2.key_of(path, zarr2.ATTRIBUTES): hierarchy.get(path) for path in sorted(nczarr.overlay(hierarchy))}
    kept = {key: node for key, node in nodes.items() if node and (node.attributes or node.keeps_attributes)}
    texts = {key: dump(node.attributes, strict=strict) for key, node in kept.items()}
    gone = [key for key in nodes if key not in kept]
    documents: dict[str, bytes] = {}
    if parsed.consolidated:
        last = FORMATS[2].last(hierarchy, parsed.inlined, consolidate=True)
        documents = {key: dump(document, strict=strict) for key, document in last.items()}
    if parsed.state == "alike":  # format 3 has no NCZarr attributes and does not change
        root = store.get_many([zarr3.DOCUMENT])[zarr3.DOCUMENT]
        documents[zarr3.DOCUMENT] = renewed(root, documents[zarr2.CONSOLIDATED])
    with writer.change(root=parsed.root_keys) as change:
        change.delete(gone)
        change.commit(texts, documents)
    return hierarchy
