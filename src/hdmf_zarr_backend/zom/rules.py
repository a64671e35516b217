"""Rules that depend on values, which no static checker and no JSON Schema can hold a model to.

Source: ZEP 6 (draft), "Validating Zarr Object Models": the length of ``_ARRAY_DIMENSIONS`` is the length of ``shape``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from hdmf_zarr_backend.errors import MetadataError
from hdmf_zarr_backend.mapping.reserved import DIMENSIONS
from hdmf_zarr_backend.zom.documents import attributes_of
from hdmf_zarr_backend.zom.models import ARRAYS, GROUPS, ArrayV2, ArrayV3, Model, walk

Rule: TypeAlias = Callable[[Model], Iterable[tuple[str, str]]]
"""Yields ``(kind, message)`` for what is wrong with one node."""


@dataclass(frozen=True, slots=True)
class ModelProblem:
    """Something that is wrong with a node of a model.

    Attributes
    ----------
    path : str
        Absolute path of the node.
    kind : str
        One word for the rule.
    message : str
        What is wrong.
    """

    path: str
    kind: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message} [{self.kind}]"


def find_problems(model: Model, *, rules: Iterable[Rule] | None = None) -> list[ModelProblem]:
    """Return what is wrong with a model.

    Parameters
    ----------
    model : model
        The model.
    rules : iterable of callable, optional
        What is asked of each node; None: `RULES`.
    """
    asked = tuple(RULES if rules is None else rules)
    return [
        ModelProblem(path, kind, message)
        for path, node in walk(model)
        for rule in asked
        for kind, message in rule(node)
    ]


def check(model: Model, *, rules: Iterable[Rule] | None = None) -> None:
    """Raise an error for the first thing that is wrong with a model.

    Parameters
    ----------
    model, rules
        As of `find_problems`.

    Raises
    ------
    MetadataError
        Naming the node, the rule, and how many problems there are.
    """
    found = find_problems(model, rules=rules)
    if found:
        more = f" ({len(found) - 1} more problems)" if len(found) > 1 else ""
        raise MetadataError(
            f"{found[0].message}{more}", path=found[0].path, remedy="See find_problems for all of them."
        )


# ---- the rules ------------------------------------------------------------------------------------------------------


def lengths_are_possible(node: Model) -> Iterator[tuple[str, str]]:
    """Shape and chunks have the same number of axes; no length is negative, no chunk empty."""
    if not isinstance(node, ARRAYS):
        return
    chunks = _chunks(node)
    if any(not _is_length(n) for n in node.shape):
        yield "shape", f"shape {list(node.shape)} has an impossible length"
    if chunks is None:
        return
    if len(chunks) != len(node.shape):
        yield "rank", f"shape has {len(node.shape)} axes and chunks have {len(chunks)}"
    if any(not _is_length(n) or n < 1 for n in chunks):
        yield "chunks", f"chunks {list(chunks)} have an impossible length"


def dimensions_fit_the_shape(node: Model) -> Iterator[tuple[str, str]]:
    """There is a name for each axis, and no two axes have the same."""
    if not isinstance(node, ARRAYS):
        return
    for key, names in _names(node).items():
        if not isinstance(names, (list, tuple)) or not all(name is None or isinstance(name, str) for name in names):
            yield "dimensions", f"{key} {names!r} is no list of names"
        elif len(names) != len(node.shape):
            yield "dimensions", f"{key} has {len(names)} names for {len(node.shape)} axes"
        elif len({name for name in names if name is not None}) != sum(name is not None for name in names):
            yield "dimensions", f"{key} {names!r} names two axes alike"


def dimensions_have_one_length(node: Model) -> Iterator[tuple[str, str]]:
    """In a group, a name stands for one length; xarray and netCDF ask that."""
    if not isinstance(node, GROUPS):
        return
    lengths: dict[str, tuple[int, str]] = {}
    for member, array in sorted(node.members.items()):
        if not isinstance(array, ARRAYS):
            continue
        for names in _names(array).values():
            if not isinstance(names, (list, tuple)) or len(names) != len(array.shape):
                continue
            for name, length in zip(names, array.shape, strict=True):
                known, first = lengths.setdefault(str(name), (length, member))
                if name is not None and known != length:
                    yield "dimensions", f"{name!r} is {known} long in {first!r} and {length} in {member!r}"


def _names(node: ArrayV2[Any] | ArrayV3[Any]) -> Mapping[str, Any]:
    found: dict[str, Any] = {}
    attributes = attributes_of(node)
    if DIMENSIONS in attributes:
        found[DIMENSIONS] = attributes[DIMENSIONS]
    if isinstance(node, ArrayV3) and node.dimension_names is not None:
        found["dimension_names"] = node.dimension_names
    return found


def _chunks(node: ArrayV2[Any] | ArrayV3[Any]) -> list[Any] | None:
    if isinstance(node, ArrayV2):
        return list(node.chunks)
    configuration = node.chunk_grid.get("configuration")
    found = configuration.get("chunk_shape") if isinstance(configuration, Mapping) else None
    return list(found) if isinstance(found, (list, tuple)) else None


def _is_length(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


RULES: tuple[Rule, ...] = (lengths_are_possible, dimensions_fit_the_shape, dimensions_have_one_length)
"""What every model of a file that xarray and netCDF can read follows."""
