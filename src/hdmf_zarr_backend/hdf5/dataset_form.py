"""`DatasetForm`: the HDF5 type and shape of the dataset that an array of a Zarr file becomes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hdmf_zarr_backend.formats.elements import Form, describe
from hdmf_zarr_backend.hdf5.types import UTF8, TypeJSON, type_of_dtype, type_of_element
from hdmf_zarr_backend.model.nodes import ArrayNode, Attributes


@dataclass(slots=True)
class DatasetForm:
    """The HDF5 dataset that an array becomes.

    Attributes
    ----------
    stored_as : {"plain", "objects", "rows"}
        How the array stores its elements, see `formats.elements.Described`.
    type : str or dict
        The HDF5 type, as JSON: the one recorded in the note of the array, else the one derived from the array.
    shape : tuple of int
        Shape of the dataset, ``()`` for a scalar.
    """

    stored_as: Form
    type: TypeJSON
    shape: tuple[int, ...]


def dataset_form(node: ArrayNode[Attributes], *, is_spec: bool = False) -> DatasetForm:
    """Return the type and shape of the dataset that an array becomes.

    Parameters
    ----------
    node : ArrayNode
        The array.
    is_spec : bool
        Whether the array holds a cached specification.
    """
    found = describe(node, is_spec=is_spec)
    recorded = found.note["type"] if found.note is not None and found.noted is not None else None
    shape = found.shape
    return DatasetForm(found.form, recorded or type_of_element(found.stored), found.axes if shape is None else shape)


def default_type(node: ArrayNode[Attributes], notes: dict[str, Any]) -> TypeJSON:
    """Return the JSON of the HDF5 type that is derived from an array whose note has no type."""
    return type_of_element(describe(node, notes).stored)


def default_attribute_type(value: Any) -> TypeJSON:
    """Return the JSON of the HDF5 type for an attribute whose note has no type.

    Parameters
    ----------
    value : object
        The value, as `formats.attributes.decode_attributes` returns it.
    """
    array = value if isinstance(value, np.ndarray) else np.asarray(value)
    if array.dtype.kind != "O":
        return UTF8 if array.dtype.kind in "UT" else type_of_dtype(array.dtype)
    texts = array.reshape(-1).tolist()
    if texts and all(isinstance(item, bytes) for item in texts):
        return {"text": "ascii", "size": max(1, *map(len, texts)), "pad": "nullpad"}
    return UTF8
