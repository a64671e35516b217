"""The model of a file in one format of Zarr -> the model of the same file in the other, without any values.

The mapping is the one by which files are converted and upgraded. What it cannot know without values is planned as if
there were none, and told; so is what the other format has no place for.

Source: issue "Open to every other tool", part 1; docs/format for both formats.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from hdmf_zarr_backend.errors import UsageError
from hdmf_zarr_backend.mapping import format3
from hdmf_zarr_backend.mapping.nczarr import is_nczarr
from hdmf_zarr_backend.mapping.reserved import DTYPE, notes_of
from hdmf_zarr_backend.model import v3
from hdmf_zarr_backend.model.nodes import ArrayNode, Attributes, Hierarchy, Node, absolute
from hdmf_zarr_backend.stores.memory import MappingKeys
from hdmf_zarr_backend.write.format3 import adapt_plan
from hdmf_zarr_backend.write.from_zarr import ZarrPlanner
from hdmf_zarr_backend.write.inplace import Fate, has_stored_chunks, keep_chunks
from hdmf_zarr_backend.zom.documents import from_hierarchy, to_hierarchy
from hdmf_zarr_backend.zom.models import ARRAYS, GROUPS, GroupModel, walk
from hdmf_zarr_backend.zom.rules import ModelProblem

_NOWHERE = "a model"
_KNOWN_EXTRAS = frozenset({"dimension_separator", "dimension_names", "storage_transformers", v3.CONSOLIDATED})


@dataclass(frozen=True, slots=True)
class FormatMapping:
    """A model in the other format, and what becomes of the chunks that the file has.

    Attributes
    ----------
    model : GroupV2 or GroupV3
        The model.
    chunks : dict
        ``{path: fate}`` of each array, paths absolute. ``"kept"``: the chunks that are there are its chunks;
        ``"moved"``: their bytes are, under other keys or out of shards; ``"encoded"``: they are other bytes.
    problems : list of ModelProblem
        What the other format cannot say, or what depends on values.
    """

    model: GroupModel
    chunks: dict[str, Fate]
    problems: list[ModelProblem]


def to_format(model: GroupModel, zarr_format: Literal[2, 3]) -> FormatMapping:
    """Return the model of the same file in a format of Zarr.

    Data types, codecs, fill values, names of dimensions, the keys of chunks, and the attributes for links, references
    and types become those of the other format. Arrays whose chunks are the same in both keep their chunk keys.

    Parameters
    ----------
    model : GroupV2 or GroupV3
        The model.
    zarr_format : {2, 3}
        The format that is wanted. Where the model has it already, it is returned as it is.

    Raises
    ------
    UsageError
        There is no such format.
    MetadataError
        A property has a value that no document may have, or an array has a type or codec that this package does not
        know; the node is named.
    """
    if zarr_format not in (2, 3):
        raise UsageError(f"there is no Zarr format {zarr_format!r}", remedy="Use 2 or 3.")
    if model.zarr_format == zarr_format:
        return FormatMapping(model, {path: "kept" for path, node in walk(model) if isinstance(node, ARRAYS)}, [])
    hierarchy = to_hierarchy(model)
    if hierarchy.zarr_format == 3:
        hierarchy = format3.canonical_hierarchy(hierarchy)
    planner = ZarrPlanner(
        MappingKeys({}, _NOWHERE), hierarchy, None, zarr_format=zarr_format, is_in_place=True, reads_values=False
    )
    plan = planner.plan_file()
    encoded = [path for path, planned in plan.arrays.items() if not has_stored_chunks(planned)]
    for path in encoded:
        plan.arrays[path].source = None  # or its values would be looked at
    adapt_plan(plan, location=_NOWHERE)
    fates = keep_chunks(plan, hierarchy, encoded=encoded)
    problems = [*_of_file(hierarchy), *_problems(hierarchy, plan.hierarchy)]
    made = from_hierarchy(plan.hierarchy)
    assert isinstance(made, GROUPS)
    return FormatMapping(made, {absolute(path): fate for path, fate in sorted(fates.items())}, problems)


def _of_file(hierarchy: Hierarchy) -> Iterator[ModelProblem]:
    if hierarchy.zarr_format == 2 and is_nczarr(hierarchy):
        yield ModelProblem("/", "nczarr", "the attributes for netcdf-c have no form in format 3, and are left out")


def _problems(before: Hierarchy, after: Hierarchy) -> Iterator[ModelProblem]:
    for path, node in before.walk():
        made = after.get(path)
        found = [*_extras(node)]
        if isinstance(node, ArrayNode) and isinstance(made, ArrayNode):
            found += [*(_to_3(node, made) if after.zarr_format == 3 else _to_2(node))]
        for kind, message in found:
            yield ModelProblem(absolute(path), kind, message)


def _extras(node: Node) -> Iterator[tuple[str, str]]:
    document = node.document if isinstance(node, ArrayNode) and node.document is not None else node
    transformers = document.extra.get("storage_transformers")
    unknown = sorted(document.extra.keys() - _KNOWN_EXTRAS) + (["storage_transformers"] if transformers else [])
    if unknown:
        yield "unknown-key", f"{', '.join(unknown)}: keys that neither format defines are left out"


def _to_3(node: ArrayNode[Attributes], made: ArrayNode[Attributes]) -> Iterator[tuple[str, str]]:
    word = node.attributes.get(DTYPE)
    if notes_of(made.attributes).get("rows") is True:
        yield "values", "text and references in rows get a fixed length, that of the longest; the least is taken here"
    elif node.data_type == "|O" and word in ("object", "region"):
        yield "object-ids", "references are paths; the object ids that stand beside them are left out"
    elif node.data_type == "|O" and _first(node) == "vlen-bytes" and _first(made) == "vlen-utf8":
        yield "values", "bytes are taken for text, which they are if all of them are UTF-8"
    elif node.data_type != "|O" and _codecs(node) != _codecs(made):
        yield "codecs", "format 3 has no place for these filters in this order; the default codec is taken"


def _to_2(node: ArrayNode[Attributes]) -> Iterator[tuple[str, str]]:
    if node.shards is not None:
        yield "shards", f"format 2 has no shards: each of the chunks in shards {node.shards.shape} is an object"


def _first(node: ArrayNode[Attributes]) -> Any:
    return (node.filters or [{}])[0].get("id")


def _codecs(node: ArrayNode[Attributes]) -> tuple[Any, ...]:
    filters = [config for config in node.filters or () if config["id"] != "byteorder"]
    return filters, node.compressor
