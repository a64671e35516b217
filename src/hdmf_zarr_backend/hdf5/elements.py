"""What an array of a Zarr file is as an HDF5 dataset: how its values are stored, its type and its shape."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hdmf_zarr_backend.formats.elements import Form, describe
from hdmf_zarr_backend.hdf5.types import UTF8, TypeJSON, type_of_dtype, type_of_element
from hdmf_zarr_backend.model.nodes import ArrayNode, Attributes


@dataclass(slots=True)
class Elements:
    """What the elements of an array are.

    Attributes
    ----------
    form : {"plain", "objects", "rows"}
        As of `formats.elements.Described`.
    type : str or dict
        The HDF5 type, as JSON: the recorded one, or what the array leads to.
    shape : tuple of int
        Shape of the dataset, ``()`` of a scalar.
    """

    form: Form
    type: TypeJSON
    shape: tuple[int, ...]


def elements_of(node: ArrayNode[Attributes], *, is_spec: bool = False) -> Elements:
    """Return what the elements of an array are.

    Parameters
    ----------
    node : ArrayNode
        The array.
    is_spec : bool
        It holds a cached specification.
    """
    found = describe(node, is_spec=is_spec)
    recorded = found.note["type"] if found.note is not None and found.noted is not None else None
    shape = found.shape
    return Elements(found.form, recorded or type_of_element(found.stored), found.axes if shape is None else shape)


def default_type(node: ArrayNode[Attributes], notes: dict[str, Any]) -> TypeJSON:
    """Return the JSON of the HDF5 type that an array leads to where its note names none."""
    return type_of_element(describe(node, notes).stored)


def default_attribute_type(value: Any) -> TypeJSON:
    """Return the JSON of the HDF5 type in which a value of an attribute is stored where the note names none.

    Parameters
    ----------
    value : object
        As `formats.attributes.decode_attributes` returns it.
    """
    array = value if isinstance(value, np.ndarray) else np.asarray(value)
    if array.dtype.kind != "O":
        return UTF8 if array.dtype.kind in "UT" else type_of_dtype(array.dtype)
    texts = array.reshape(-1).tolist()
    if texts and all(isinstance(item, bytes) for item in texts):
        return {"text": "ascii", "size": max(1, *map(len, texts)), "pad": "nullpad"}
    return UTF8
