"""HTML for notebooks: the tree of a file, and the table of a dataset.

`io` imports this module when a notebook shows a view.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hdmf.utils import generate_array_html_repr, get_basic_array_info

from hdmf_zarr_backend.arrays.lazy import LazyArray
from hdmf_zarr_backend.errors import StoreError
from hdmf_zarr_backend.files.html_tree import outline_html
from hdmf_zarr_backend.files.outline import Outline
from hdmf_zarr_backend.files.parser import ParsedFile
from hdmf_zarr_backend.model.render import escape

_KIND = "Zarr Array"


def dataset_html(dataset: Any) -> str:
    """Return an HTML table of the data type, shape, chunks, codecs and stored size of ``dataset``."""
    lazy = getattr(dataset, "dataset", dataset)
    kind = _KIND
    if isinstance(lazy, LazyArray):
        dataset, stored = lazy, lazy.node.stored
        how = _stored_as(lazy, _codec_name(stored.compressor), map(_codec_name, stored.filters or ()))
    elif hasattr(dataset, "nbytes_stored"):  # an array that zarr itself has opened
        compressors = dataset.compressors if hasattr(dataset, "compressors") else filter(None, [dataset.compressor])
        how = _stored_as(dataset, ", ".join(map(str, compressors)), map(str, dataset.filters or ()))
    else:
        kind, how = "NumPy array" if type(dataset).__module__ == "numpy" else type(dataset).__name__, {}
    return str(generate_array_html_repr(get_basic_array_info(dataset) | how, dataset, kind))


def io_html(location: str, mode: str, parsed: ParsedFile | None) -> str:
    """Return the tree of an open file as HTML, or a line about a file that is closed or was not read."""
    if parsed is None:
        return f"<p>{escape(location)}: mode {escape(mode)}, nothing is open to be read</p>"
    return outline_html(Outline(location, parsed.hierarchy, parsed.consolidated))


def _stored_as(array: Any, compressor: str, filters: Iterable[str]) -> dict[str, Any]:
    try:
        stored = array.stored_bytes() if isinstance(array, LazyArray) else array.nbytes_stored
        stored = stored() if callable(stored) else stored  # a method in zarr-python 3, a number in 2
    except StoreError:  # a web server cannot list its keys
        stored = None
    return {
        "Chunk shape": array.chunks,
        "Chunks": array.nchunks,
        "Compressor": escape(compressor or "none"),
        "Filters": escape(", ".join(filters) or "none"),
        "Stored size (bytes)": "unknown" if stored is None else stored,
        "Compression ratio": f"{array.nbytes / stored:.2f}" if stored and not array.dtype.hasobject else "undefined",
    }


def _codec_name(config: Any) -> str:
    if not config:
        return "none"
    options = ", ".join(f"{key}={value}" for key, value in config.items() if key != "id")
    return f"{config['id']}({options})" if options else str(config["id"])
