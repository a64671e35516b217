"""Files for the tests of the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A Zarr file with a link, a reference and a compound, made without any of the libraries."""
    path = tmp_path / "a.zarr"
    links = [{"name": "link", "source": ".", "path": "/data"}]
    reference = {"zarr_dtype": "object", "value": {"source": ".", "path": "/data"}}
    array = {"chunks": [2], "compressor": None, "dtype": [["a", "<i4"], ["b", "<f8"]], "fill_value": None,
             "filters": None, "order": "C", "shape": [5], "zarr_format": 2}  # fmt: skip
    documents = {
        ".zgroup": {"zarr_format": 2},
        ".zattrs": {"zarr_link": links, "ref": reference},
        "data/.zarray": array,
        "data/.zattrs": {"zarr_dtype": [{"name": "a", "dtype": "int32"}, {"name": "b", "dtype": "float64"}]},
    }
    (path / "data").mkdir(parents=True)
    for key, document in documents.items():
        (path / key).write_text(json.dumps(document))
    (path / ".zmetadata").write_text(json.dumps({"zarr_consolidated_format": 1, "metadata": documents}))
    return path
