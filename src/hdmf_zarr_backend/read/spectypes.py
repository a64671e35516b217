"""Unsigned attributes of files that keep no attribute types (hdmf-zarr 0.13 and 0.14), given back by the schema.

JSON says ``3``; a schema that says ``uint8`` refuses a signed integer, and some classes cannot be constructed from
one. Where the file itself kept no type, the schema is the best witness there is. Only unsigned integers need it: for
all other types hdmf takes the wider type that JSON gives.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hdmf_zarr_backend.mapping import dtypes


def has_integers(builder: Any) -> bool:
    """Tell whether `restore_unsigned` may change ``builder`` or its datasets; most have nothing but text and floats."""
    return _holds_integers(builder) or any(map(_holds_integers, getattr(builder, "datasets", {}).values()))


def _holds_integers(builder: Any) -> bool:
    return any(type(value) is int or type(value) is np.ndarray for value in builder.attributes.values())


def restore_unsigned(builder: Any, catalog: Any) -> None:
    """Cast the plain integers of ``builder`` and of its untyped datasets where the schema says that they are unsigned.

    Parameters
    ----------
    builder : GroupBuilder or DatasetBuilder
        As it was read; its attributes are changed.
    catalog : NamespaceCatalog
        Knows the namespaces of the file.
    """
    namespace, data_type = builder.attributes.get("namespace"), _data_type(builder)
    if not isinstance(namespace, str) or data_type is None or namespace not in catalog.namespaces:
        return
    if data_type not in catalog.get_namespace(namespace).get_registered_types():
        return
    spec = catalog.get_spec(namespace, data_type)
    _cast(builder, spec)
    for name, dataset in getattr(builder, "datasets", {}).items():
        if _data_type(dataset) is None:
            subspec = spec.get_dataset(name)
            if subspec is not None:
                _cast(dataset, subspec)


def unsigned_attributes(root: Any) -> dict[str, dict[str, Any]]:
    """Return the unsigned attributes by path; where a file keeps no types, the reader takes those from the schema."""
    found: dict[str, dict[str, Any]] = {}
    stack = [("", root)]
    while stack:
        path, builder = stack.pop()
        values = {name: value for name, value in builder.attributes.items() if np.asarray(value).dtype.kind == "u"}
        if values:
            found[path] = values
        children = {**getattr(builder, "groups", {}), **getattr(builder, "datasets", {})}
        stack.extend((f"{path}/{name}".strip("/"), child) for name, child in children.items() if child is not None)
    return found


def _data_type(builder: Any) -> str | None:
    for key in ("neurodata_type", "data_type"):
        value = builder.attributes.get(key)
        if isinstance(value, str):
            return value
    return None


def _cast(builder: Any, spec: Any) -> None:
    for attribute in spec.attributes:
        word = attribute.dtype
        if not isinstance(word, str) or not word.startswith("uint") or attribute.name not in builder.attributes:
            continue
        value = builder.attributes[attribute.name]
        dtype = dtypes.numpy_of(word)
        if type(value) is int and 0 <= value <= np.iinfo(dtype).max:
            builder.attributes[attribute.name] = dtype.type(value)
        elif isinstance(value, np.ndarray) and value.dtype == np.int64 and value.size and value.min() >= 0:
            builder.attributes[attribute.name] = value.astype(dtype)
