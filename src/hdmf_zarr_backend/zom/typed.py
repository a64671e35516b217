"""Models <-> the typed objects of pydantic-zarr, which is optional (``pip install 'hdmf-zarr-backend[zom]'``).

Source: ``pydantic_zarr.v2`` and ``pydantic_zarr.v3``.
"""

from __future__ import annotations

from typing import Any

from hdmf_zarr_backend.zom.jsonform import from_json, to_json
from hdmf_zarr_backend.zom.models import Model

_ARRAY_KEYS = {
    2: ("zarr_format", "attributes", "shape", "chunks", "dtype", "fill_value", "order", "filters",
        "dimension_separator", "compressor"),
    3: ("zarr_format", "node_type", "attributes", "shape", "data_type", "chunk_grid", "chunk_key_encoding",
        "fill_value", "codecs", "storage_transformers", "dimension_names"),
}  # fmt: skip
_GROUP_KEYS = ("zarr_format", "node_type", "attributes")


def to_pydantic(model: Model) -> Any:
    """Return a model as a ``GroupSpec`` or ``ArraySpec`` of pydantic-zarr.

    It equals what ``GroupSpec.from_zarr`` makes of the same file. In format 2 the separator of chunk keys is always
    given, since pydantic-zarr takes ``"/"`` where the specification means ``"."``. Keys that the specifications do not
    know are left out; its classes have no place for them.

    Parameters
    ----------
    model : model
        An array or a group with all that is in it.

    Raises
    ------
    ModuleNotFoundError
        pydantic-zarr is not installed.
    """
    array_class, group_class = _classes(model.zarr_format)
    document = _strict(to_json(model), model.zarr_format)
    return (group_class if "members" in document else array_class).model_validate(document)


def from_pydantic(spec: Any) -> Model:
    """Return the model of ``spec``, a ``GroupSpec`` or ``ArraySpec`` of pydantic-zarr."""
    return from_json(_without_tuples(spec.model_dump(mode="python")))


def _classes(zarr_format: int) -> tuple[Any, Any]:
    if zarr_format == 2:
        from pydantic_zarr.v2 import ArraySpec, GroupSpec

        return ArraySpec, GroupSpec
    from pydantic_zarr.v3 import ArraySpec as ArraySpec3
    from pydantic_zarr.v3 import GroupSpec as GroupSpec3

    return ArraySpec3, GroupSpec3


def _strict(document: dict[str, Any], zarr_format: int) -> dict[str, Any]:
    if "members" not in document:
        return {key: document[key] for key in _ARRAY_KEYS[zarr_format] if key in document}
    kept = {key: document[key] for key in _GROUP_KEYS if key in document}
    kept["members"] = {name: _strict(child, zarr_format) for name, child in document["members"].items()}
    return kept


def _without_tuples(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_tuples(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without_tuples(item) for item in value]
    return value
