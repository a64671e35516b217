"""Attributes of files that keep no attribute types (hdmf-zarr 0.13 and 0.14, LINDI, Zindi), given back by the schema.

JSON says ``3``; a schema that says ``uint8`` refuses a signed integer, and some classes cannot be constructed from
one. JSON has no NaN; some programs write the text ``"NaN"``, which no class takes for a number. Where the file itself
kept no type, the schema is the best witness there is, and the only one: ``"NaN"`` is a text as good as any other.
Only unsigned integers, NaN and the infinities need it: for all other types hdmf takes the wider type that JSON gives.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np
from hdmf.build import DatasetBuilder

from hdmf_zarr_backend.errors import ValueRefusedError
from hdmf_zarr_backend.mapping import dtypes

_SPELLED = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}
_NUMBERS = (int, float)


def may_need_types(builder: Any) -> bool:
    """Tell whether `restore_types` may change ``builder`` or its datasets; most have only text and floats."""
    return _may_need_types(builder.attributes) or any(
        _may_need_types(dataset.attributes) for _, dataset in _held(builder)
    )


def _held(builder: Any) -> Iterator[tuple[str, Any]]:
    """Yield the datasets of a group, and those that it links to: what they are its own specification says."""
    yield from getattr(builder, "datasets", {}).items()
    for name, link in getattr(builder, "links", {}).items():
        if isinstance(link.builder, DatasetBuilder):
            yield name, link.builder


def _may_need_types(attributes: dict[str, Any]) -> bool:
    for value in attributes.values():
        kind = type(value)
        if kind is str:
            if value in _SPELLED:
                return True
        elif kind is int or kind is np.ndarray or kind is list:
            return True
    return False


def restore_types(builder: Any, catalog: Any) -> None:
    """Cast the attributes of ``builder`` and of its untyped datasets that JSON could not say, as the schema says.

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
    for name, dataset in _held(builder):
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
        name, word = attribute.name, attribute.dtype
        if not isinstance(word, str) or name not in builder.attributes:
            continue
        kind = _kind_of(word)
        if kind == "u":
            builder.attributes[name] = _unsigned(builder.attributes[name], dtypes.numpy_of(word))
        elif kind == "f":
            builder.attributes[name] = _floats(builder.attributes[name])


@lru_cache(maxsize=256)
def _kind_of(word: str) -> str | None:
    """Return NumPy's letter for the numbers that a word of a schema means, ``f`` for ``numeric`` too; else None."""
    if word == "numeric":
        return "f"
    try:
        return dtypes.numpy_of(word).kind if dtypes.kind_of(word) == "number" else None
    except ValueRefusedError:
        return None


def _unsigned(value: Any, dtype: np.dtype[Any]) -> Any:
    if type(value) is int and 0 <= value <= np.iinfo(dtype).max:
        return dtype.type(value)
    if isinstance(value, np.ndarray) and value.dtype == np.int64 and value.size and value.min() >= 0:
        return value.astype(dtype)
    return value


def _floats(value: Any) -> Any:
    """Return text that spells a number, and lists in which some is, as numbers; everything else as it is."""
    if type(value) is str:
        return _SPELLED.get(value, value)
    if not isinstance(value, list) and not (isinstance(value, np.ndarray) and value.dtype == object):
        return value
    items = value.tolist() if isinstance(value, np.ndarray) else value
    leaves = list(_leaves(items))
    if not any(map(_is_spelled, leaves)) or not all(_is_spelled(leaf) or type(leaf) in _NUMBERS for leaf in leaves):
        return value
    try:
        return np.array(_numbers(items), dtype=np.float64)
    except (ValueError, OverflowError):
        return value  # rows differ in length


def _is_spelled(leaf: Any) -> bool:
    return type(leaf) is str and leaf in _SPELLED


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, list):
        for item in value:
            yield from _leaves(item)
    else:
        yield value


def _numbers(value: Any) -> Any:
    if isinstance(value, list):
        return [_numbers(item) for item in value]
    return _SPELLED[value] if isinstance(value, str) else value
