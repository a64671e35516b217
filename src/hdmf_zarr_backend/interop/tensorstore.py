"""`tensorstore_spec`: a dataset as a spec for TensorStore, which opens it by itself: in C++ or Python, asynchronously.

TensorStore does not have to be installed. It reads numbers, bool, and single fields of structured arrays, but not text,
references, dates, or filters of format 2.

The package imports this module when one of its names is first used.

Source: TensorStore, "zarr Driver", "zarr3 Driver", and its key-value store drivers.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from hdmf_zarr_backend.arrays.lazy import LazyArray
from hdmf_zarr_backend.errors import UsageError, at, known_arguments
from hdmf_zarr_backend.formats.dtypes import numpy_dtype
from hdmf_zarr_backend.formats.reserved import DIMENSIONS
from hdmf_zarr_backend.formats.tensorstore import COMPRESSORS, Obstacle, find_obstacle, is_number, no_such_elements
from hdmf_zarr_backend.model.link_sources import is_url
from hdmf_zarr_backend.model.nodes import Attributes, Dataset
from hdmf_zarr_backend.model.stored import StoredArray
from hdmf_zarr_backend.stores.base import Store
from hdmf_zarr_backend.stores.obstore import object_settings


@known_arguments
def tensorstore_spec(dataset: Any, field: str | None = None) -> dict[str, Any]:
    """Return the spec with which TensorStore opens a dataset.

    Parameters
    ----------
    dataset : LazyArray
        A dataset of a container that was read, such as ``nwbfile.acquisition["raw"].data``; what wraps one is taken
        too. What was changed in an open file is seen after it was written.
    field : str, optional
        The field of a structured dataset.

    Returns
    -------
    dict
        For ``tensorstore.open``: driver, key-value store, and the names of the dimensions as labels. A scalar has one
        axis of length 1 in format 2. Keys and secrets of S3 are not in it; TensorStore finds them as the AWS tools do.

    Raises
    ------
    UsageError
        TensorStore cannot read the elements or codecs, or cannot access the store (such as one in memory).

    Examples
    --------
    ::

        store = tensorstore.open(tensorstore_spec(series.data), open=True, read=True).result()
    """
    array = lazy_array(dataset)
    node = array.node
    dtype = _check(array, field)
    driver = "zarr3" if node.stored.zarr_format == 3 else "zarr"
    spec: dict[str, Any] = {"driver": driver, "kvstore": key_value_store(array.keys, array.path)}
    if field is not None:
        spec["field"] = field
    inner = 0 if dtype.subdtype is None else len(dtype.subdtype[1])
    labels = _labels(node)
    if labels:
        spec["transform"] = {"input_labels": [*labels, *[""] * inner]}
    return spec


def lazy_array(dataset: Any) -> LazyArray:
    """Return the lazy array that a dataset is or contains.

    Raises
    ------
    UsageError
        The dataset does not contain one.
    """
    found = dataset
    while not isinstance(found, LazyArray):
        inner = getattr(found, "dataset", None)
        inner = getattr(found, "data", None) if inner is None else inner
        if inner is None or inner is found or isinstance(found, np.ndarray):
            raise UsageError(
                f"a {type(dataset).__name__} is not a dataset of a Zarr file",
                remedy="Give the data of a container that was read with ZarrIO or NWBZarrIO.",
            )
        found = inner
    return found


def _labels(node: Dataset[Attributes]) -> list[str]:
    """Return the names of the axes; [] unless each axis has one, and all are different."""
    names = node.attributes.get(DIMENSIONS)
    count = len(node.stored.stored_shape)
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        return []
    return names if len(names) == len(set(names)) == count else []


# ---- arrays that TensorStore can read -------------------------------------------------------------------------------


def _check(array: LazyArray, field: str | None) -> np.dtype[Any]:
    """Return the type to read, with its own axes; refuse types that TensorStore cannot read."""
    with at(array, array.name):
        return _readable_type(array.node, field)


def _readable_type(node: Dataset[Attributes], field: str | None) -> np.dtype[Any]:
    data_type = node.stored.data_type
    shape: list[Any] = []
    if isinstance(data_type, list):
        names = [str(item[0]) for item in data_type]
        if field not in names:
            raise UsageError(
                f"this is a dataset of rows, and {field!r} is not one of its fields",
                remedy=f"TensorStore opens one field at a time: {', '.join(map(repr, names))}.",
            )
        _, data_type, *shape = data_type[names.index(str(field))]
    elif field is not None:
        raise UsageError(f"this dataset has no fields, and so not the field {field!r}", remedy="Leave field out.")
    _refuse(find_obstacle(node))
    if not is_number(data_type):
        _refuse(no_such_elements(data_type))
    return np.dtype((numpy_dtype(data_type), tuple(shape[0]))) if shape else numpy_dtype(data_type)


def _refuse(obstacle: Obstacle | None) -> None:
    if obstacle is not None:
        raise UsageError(obstacle.problem, remedy=obstacle.remedy)


# ---- access to the store --------------------------------------------------------------------------------------------


def key_value_store(keys: Store, path: str) -> dict[str, Any]:
    """Return TensorStore's key-value store of a node: file, http, s3, gcs, or a zip file in one of the first two.

    Raises
    ------
    UsageError
        TensorStore cannot access the store.
    """
    below = f"{path}/" if path else ""
    if keys.folder is not None:
        return {"driver": "file", "path": f"{os.path.abspath(keys.folder)}/{below}"}
    if keys.zip_file is not None:
        return {"driver": "zip", "base": {"driver": "file", "path": keys.zip_file}, "path": below}
    location = keys.location
    if keys.opens_by_url and is_url(location) and "::" not in location:
        found = _of_url(location, below, keys.options)
        if found is not None:
            return found
    raise UsageError(
        "TensorStore cannot access this store",
        store=location,
        remedy="It reads directories, zip files, http, s3 and gcs. Export the file to one of these.",
    )


def _of_url(location: str, below: str, options: Mapping[str, Any]) -> dict[str, Any] | None:
    scheme, _, rest = location.partition("://")
    if scheme in ("http", "https"):
        return {"driver": "http", "base_url": location, "path": below}
    bucket, _, prefix = rest.partition("/")
    inside = f"{prefix.rstrip('/')}/{below}" if prefix else below
    if scheme in ("gs", "gcs"):
        return {"driver": "gcs", "bucket": bucket, "path": inside}
    if scheme not in ("s3", "s3a"):
        return None
    settings = object_settings(location, options) or {}
    found: dict[str, Any] = {"driver": "s3", "bucket": bucket, "path": inside}
    if settings.get("endpoint"):
        found["endpoint"] = str(settings["endpoint"])
        found["aws_region"] = str(settings.get("region") or "us-east-1")
    elif settings.get("region"):
        found["aws_region"] = str(settings["region"])
    if settings.get("skip_signature"):
        found["aws_credentials"] = {"type": "anonymous"}
    return found


# ---- the schema -----------------------------------------------------------------------------------------------------


def tensorstore_schema(node: Dataset[Attributes], field: str | None = None) -> dict[str, Any]:
    """Return the schema that TensorStore would have for an array of format 2, without opening it.

    Parameters
    ----------
    node : Dataset
        The metadata of the array; ``dataset.node`` of a lazy dataset.
    field : str, optional
        The field of a structured array.

    Returns
    -------
    dict
        Rank, type, domain (axes of the array may grow, those of an element are fixed), chunks, inner order, codec, and
        the fill value, as JSON.

    Raises
    ------
    UsageError
        TensorStore cannot read the array, or it has format 3.

    Source: TensorStore, "zarr Driver", "Mapping to TensorStore Schema".
    """
    stored = node.stored
    if stored.zarr_format == 3:
        raise UsageError("this is an array of format 3", remedy="Get the schema from the open TensorStore.")
    dtype = _readable_type(node, field)
    inner = () if dtype.subdtype is None else dtype.subdtype[1]
    rank = len(stored.shape) + len(inner)
    schema: dict[str, Any] = {
        "rank": rank,
        "dtype": dtype.base.name,
        "codec": {"driver": "zarr", "compressor": _compressor(stored), "filters": None},
        "domain": {"rank": 0},
    }
    if rank:
        chunk = [*stored.chunks, *inner]
        schema["domain"] = {"inclusive_min": [0] * rank, "exclusive_max": [*([n] for n in stored.shape), *inner]}
        labels = _labels(node)
        if labels:
            schema["domain"]["labels"] = [*labels, *[""] * len(inner)]
        schema["chunk_layout"] = {
            "grid_origin": [0] * rank,
            "inner_order": _inner_order(stored, len(inner)),
            "read_chunk": {"shape": chunk},
            "write_chunk": {"shape": chunk},
        }
    if stored.fill_value is not None:
        schema["fill_value"] = _fill_value(stored, field)
    return schema


def _inner_order(stored: StoredArray, inner: int) -> list[int]:
    axes = list(range(len(stored.shape)))
    if stored.order == "F":
        axes.reverse()
    return [*axes, *range(len(axes), len(axes) + inner)]


def _compressor(stored: StoredArray) -> dict[str, Any] | None:
    compressor = stored.compressor
    return None if compressor is None else {**COMPRESSORS[str(compressor["id"])], **compressor}


def _fill_value(stored: StoredArray, field: str | None) -> Any:
    if field is None:
        return stored.fill_value
    dtype = numpy_dtype(stored.data_type)
    values = np.frombuffer(base64.b64decode(stored.fill_value), dtype)[0][field]
    return values.tolist()
