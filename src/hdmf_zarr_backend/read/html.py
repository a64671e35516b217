"""A dataset in a notebook: what hdmf shows of any array, and how this one is stored."""

from __future__ import annotations

from html import escape
from typing import Any

from hdmf.utils import generate_array_html_repr, get_basic_array_info

from hdmf_zarr_backend.storage.arrays import LazyArray


def dataset_html(dataset: Any) -> str:
    """Return an HTML table of the data type, shape, chunks, codecs and stored size of ``dataset``.

    Parameters
    ----------
    dataset : array
        A lazy array, a dataset of references or rows, or any array; of the latter only what NumPy knows.
    """
    lazy = getattr(dataset, "dataset", dataset)
    if not isinstance(lazy, LazyArray):
        kind = "NumPy array" if type(dataset).__module__ == "numpy" else type(dataset).__name__
        return str(generate_array_html_repr(get_basic_array_info(dataset), dataset, kind))
    info = get_basic_array_info(lazy)
    stored = lazy.nbytes_stored()
    info.update(
        {
            "Chunk shape": lazy.chunks,
            "Chunks": lazy.nchunks,
            "Compressor": escape(_codec_name(lazy.compressor)),
            "Filters": escape(", ".join(_codec_name(codec) for codec in lazy.filters) or "none"),
            "Stored size (bytes)": stored,
            "Compression ratio": f"{lazy.nbytes / stored:.2f}" if stored and not lazy.dtype.hasobject else "undefined",
        }
    )
    return str(generate_array_html_repr(info, lazy, "Zarr array"))


def _codec_name(config: Any) -> str:
    if not config:
        return "none"
    options = ", ".join(f"{key}={value}" for key, value in config.items() if key != "id")
    return f"{config['id']}({options})" if options else str(config["id"])
