"""In what two models differ, and whether one is like the other.

Source: issue "Open to every other tool", part 1.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

from hdmf_zarr_backend.zom.documents import attributes_of
from hdmf_zarr_backend.zom.jsonform import MEMBERS, node_json
from hdmf_zarr_backend.zom.models import ARRAYS, Model, flat

ONLY_A, ONLY_B, NODE_TYPE = "only in a", "only in b", "node type"
ATTRIBUTES = "attributes"

_NOTHING = object()


@dataclass(frozen=True, slots=True)
class ModelDifference:
    """One difference of two models.

    Attributes
    ----------
    path : str
        Absolute path of the node.
    name : str
        The property that differs: ``"shape"``, ``"chunks"``, ``"attributes.unit"``; or what is wrong with the node as
        a whole: ``"only in a"``, ``"only in b"``, ``"node type"``.
    a, b : object
        The values as JSON; None where there is none.
    """

    path: str
    name: str
    a: Any = None
    b: Any = None

    def __str__(self) -> str:
        if self.name in (ONLY_A, ONLY_B):
            return f"{self.path}: {self.name}"
        return f"{self.path}: {self.name}: {self.a!r} != {self.b!r}"


def diff(a: Model, b: Model) -> list[ModelDifference]:
    """Return everything in which two models differ, node by node in the order of their paths.

    What is below a node that only one of them has is not told apart. Models of different formats differ in nearly
    every property.

    Parameters
    ----------
    a, b : model
        The models.

    Returns
    -------
    list of ModelDifference
        Empty if they are equal.
    """
    return list(_differences(a, b))


def _differences(a: Model, b: Model) -> Iterator[ModelDifference]:
    left, right = flat(a), flat(b)
    gone: list[str] = []
    for path in sorted(left.keys() | right.keys()):
        if any(path.startswith(f"{above}/") for above in gone[-1:]):
            continue
        if path not in left or path not in right:
            gone.append(path)
            yield ModelDifference(path, ONLY_A if path in left else ONLY_B)
        elif isinstance(left[path], ARRAYS) != isinstance(right[path], ARRAYS):
            gone.append(path)
            kinds = ("array" if isinstance(node, ARRAYS) else "group" for node in (left[path], right[path]))
            yield ModelDifference(path, NODE_TYPE, *kinds)
        else:
            yield from _properties(path, left[path], right[path])


def _properties(path: str, a: Model, b: Model) -> Iterator[ModelDifference]:
    left, right = _described(a), _described(b)
    for name in sorted(left.keys() | right.keys()):
        ours, theirs = left.get(name, _NOTHING), right.get(name, _NOTHING)
        if not _same(ours, theirs):
            shown = (None if value is _NOTHING else value for value in (ours, theirs))
            yield ModelDifference(path, name, *shown)


def _described(node: Model) -> dict[str, Any]:
    found = {name: value for name, value in node_json(node).items() if name not in (ATTRIBUTES, MEMBERS)}
    return found | {f"{ATTRIBUTES}.{name}": value for name, value in attributes_of(node).items()}


def _same(a: Any, b: Any) -> bool:
    """Tell whether two JSON values are equal: NaN is equal to itself, and true is not 1."""
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(map(_same, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(_same(a[key], b[key]) for key in a)
    if isinstance(a, bool) != isinstance(b, bool):
        return False
    return bool(a == b) or (isinstance(a, float) and isinstance(b, float) and a != a and b != b)  # noqa: PLR0124 - NaN


def like(a: Model, b: Model, *, include: Collection[str] | None = None, exclude: Collection[str] = frozenset()) -> bool:
    """Tell whether two models are equal in some properties.

    Parameters
    ----------
    a, b : model
        The models.
    include : collection of str, optional
        Only these properties count: ``"shape"``, ``"attributes"``, ``"attributes.unit"``; None: all. Which nodes there
        are counts always, unless ``"members"`` is excluded.
    exclude : collection of str
        These do not.
    """
    for found in _differences(a, b):
        names = {found.name, found.name.partition(".")[0]}
        if found.name in (ONLY_A, ONLY_B, NODE_TYPE):
            if MEMBERS not in exclude:
                return False
        elif not names & set(exclude) and (include is None or names & set(include)):
            return False
    return True
