"""The nodes of the Zarr Object Model: arrays and groups of both formats, with the properties of their documents.

`ArrayV2`, `GroupV2`, `ArrayV3` and `GroupV3` have the properties of the documents of their format, and ``attributes``,
whose type is a parameter, so that a static type checker can check a convention. Groups also have ``members``, whose
type is the other parameter.

Source: ZEP 6 (draft), "Specification of the base Zarr Object Model", "Validating Zarr Object Models".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeAlias, TypeVar

AttributesT = TypeVar("AttributesT")
MemberT = TypeVar("MemberT")


@dataclass(slots=True, kw_only=True)
class ArrayV2(Generic[AttributesT]):
    """An array of Zarr format 2.

    Attributes
    ----------
    attributes : object
        The user attributes: a mapping, or an object of another type, such as a TypedDict or a dataclass.
    shape, chunks : sequence of int
        Length of each axis, of the array and of its chunks.
    dtype : str or list
        ``"<f4"``, ``"|O"``, or a list of fields.
    compressor : dict or None
        Configuration of the codec.
    fill_value : object
        As JSON; None if undefined.
    order : {"C", "F"}
        Layout inside a chunk.
    filters : list of dict or None
        Codecs before the compressor.
    dimension_separator : {".", "/"}
        Separator between the indices in the key of a chunk; ``"."`` if the document has none.
    zarr_format : int
        Always 2.
    extra : dict
        Keys of the document that the format does not define.
    stated : set of str
        Properties that the document has although they have the default value (``dimension_separator``, ``attributes``).
        Ignored when models are compared.
    """

    attributes: AttributesT
    shape: Sequence[int]
    chunks: Sequence[int]
    dtype: str | Sequence[Any]
    compressor: Mapping[str, Any] | None
    fill_value: Any = None
    order: Literal["C", "F"] = "C"
    filters: Sequence[Mapping[str, Any]] | None = None
    dimension_separator: Literal[".", "/"] = "."
    zarr_format: Literal[2] = 2
    extra: Mapping[str, Any] = field(default_factory=dict)
    stated: frozenset[str] = field(default=frozenset(), compare=False, repr=False)


@dataclass(slots=True, kw_only=True)
class GroupV2(Generic[AttributesT, MemberT]):
    """A group of Zarr format 2.

    Attributes
    ----------
    attributes : object
        As for `ArrayV2`.
    members : mapping
        Arrays and groups by name.
    zarr_format : int
        Always 2.
    extra, stated
        As for `ArrayV2`.
    """

    attributes: AttributesT
    members: Mapping[str, MemberT]
    zarr_format: Literal[2] = 2
    extra: Mapping[str, Any] = field(default_factory=dict)
    stated: frozenset[str] = field(default=frozenset(), compare=False, repr=False)


@dataclass(slots=True, kw_only=True)
class ArrayV3(Generic[AttributesT]):
    """An array of Zarr format 3.

    Attributes
    ----------
    attributes : object
        As for `ArrayV2`.
    shape : sequence of int
        Length of each axis.
    data_type : str or dict
        Name of the type, or name and configuration.
    chunk_grid, chunk_key_encoding : dict or str
        Name and configuration.
    fill_value : object
        As JSON.
    codecs : sequence of dict or str
        Codecs in the order of encoding.
    storage_transformers : sequence of dict or None
        None if there are none.
    dimension_names : sequence of str or None, or None
        Name of each axis; None if no axis has a name.
    zarr_format, node_type
        3 and ``"array"``.
    extra, stated
        As for `ArrayV2`; also for ``storage_transformers`` and ``dimension_names``.
    """

    attributes: AttributesT
    shape: Sequence[int]
    data_type: str | Mapping[str, Any]
    chunk_grid: Mapping[str, Any]
    chunk_key_encoding: Mapping[str, Any] | str
    fill_value: Any
    codecs: Sequence[Mapping[str, Any] | str]
    storage_transformers: Sequence[Mapping[str, Any] | str] | None = None
    dimension_names: Sequence[str | None] | None = None
    zarr_format: Literal[3] = 3
    node_type: Literal["array"] = "array"
    extra: Mapping[str, Any] = field(default_factory=dict)
    stated: frozenset[str] = field(default=frozenset(), compare=False, repr=False)


@dataclass(slots=True, kw_only=True)
class GroupV3(Generic[AttributesT, MemberT]):
    """A group of Zarr format 3.

    Attributes
    ----------
    attributes, members
        As for `GroupV2`.
    zarr_format, node_type
        3 and ``"group"``.
    extra, stated
        As for `ArrayV2`.
    """

    attributes: AttributesT
    members: Mapping[str, MemberT]
    zarr_format: Literal[3] = 3
    node_type: Literal["group"] = "group"
    extra: Mapping[str, Any] = field(default_factory=dict)
    stated: frozenset[str] = field(default=frozenset(), compare=False, repr=False)


ArrayModel: TypeAlias = ArrayV2[Any] | ArrayV3[Any]
GroupModel: TypeAlias = GroupV2[Any, Any] | GroupV3[Any, Any]
Model: TypeAlias = ArrayModel | GroupModel

ARRAYS = (ArrayV2, ArrayV3)
"""The classes of arrays."""

GROUPS = (GroupV2, GroupV3)
"""The classes of groups."""


def walk(model: Model) -> Iterator[tuple[str, Model]]:
    """Yield ``(path, node)`` of each node of ``model``, parents first, members sorted by name; the root is ``/``."""
    stack: list[tuple[str, Model]] = [("/", model)]
    while stack:  # not recursive: a file may be nested deeper than the recursion limit
        path, node = stack.pop()
        yield path, node
        if isinstance(node, GROUPS):
            stack.extend(
                (f"{path.rstrip('/')}/{name}", node.members[name]) for name in sorted(node.members, reverse=True)
            )


def flat(model: Model) -> dict[str, Model]:
    """Return ``{path: node}`` of all nodes of ``model``, in the order of `walk`."""
    return dict(walk(model))
