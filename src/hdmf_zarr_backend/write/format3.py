"""A plan in our words, which are those of format 2, -> one whose arrays have a form in format 3.

Text and references in rows are of fixed length there, so the longest of each field is looked for before anything is
written, a block of rows at a time.

Source: `mapping.format3`; hdmf-zarr 0.14, storage specification.
"""

from __future__ import annotations

from typing import Any

from hdmf_zarr_backend.arrays.text_objects import cell_width
from hdmf_zarr_backend.errors import ZarrBackendError
from hdmf_zarr_backend.mapping import chunking, codecs3, format3
from hdmf_zarr_backend.mapping.chunking import SHARD_BYTES
from hdmf_zarr_backend.mapping.reserved import notes_of
from hdmf_zarr_backend.model.nodes import ArrayNode, Attributes, absolute
from hdmf_zarr_backend.write.plan import PlannedArray, WritePlan
from hdmf_zarr_backend.write.sharding import give_shards, refuse_shards
from hdmf_zarr_backend.write.sources import Array, ArraySource, Region

_BLOCK_CELLS = 65536


class ValuesOnly:
    """The values of a source whose chunks are of no use, since they are encoded in another way.

    Parameters
    ----------
    source : ArraySource
        The source.
    """

    def __init__(self, source: ArraySource) -> None:
        self.shape = source.shape
        self._source = source

    def read(self, region: Region) -> Array:
        """Return the values of ``region``."""
        return self._source.read(region)


def adapt_plan(plan: WritePlan, *, location: str, shard_bytes: int = SHARD_BYTES) -> None:
    """Give the new arrays of a plan for format 3 their form; nothing is done for format 2, nor done twice.

    Parameters
    ----------
    plan : WritePlan
        Changed.
    location : str
        Of the file, for messages.
    shard_bytes : int
        Bytes of values of a shard that is chosen, at most.

    Raises
    ------
    ZarrBackendError
        A value cannot be stored; array and element are named.
    UsageError
        Shards do not fit the array, its chunks or its format.
    """
    is_3 = plan.hierarchy.zarr_format == 3
    for path, planned in plan.arrays.items():
        if not planned.node.prefix:
            try:
                _adapt(planned, shard_bytes) if is_3 else refuse_shards(planned)
            except ZarrBackendError as error:
                raise error.located(store=location, path=absolute(path)) from error.__cause__


def _adapt(planned: PlannedArray, shard_bytes: int) -> None:
    node = planned.node
    before = _encoding(node)
    if node.data_type != "|O" and not codecs3.is_expressible(node.filters, node.compressor):
        node.filters, node.compressor = None, dict(chunking.DEFAULT_COMPRESSOR)
    widths = _widths(planned) if notes_of(node.attributes).get("rows") is True else {}
    format3.adapt(node, widths)
    itemsize = format3.row_bytes(node)
    if itemsize is not None and node.chunks[0] == chunking.default_chunks(node.shape, chunking.OBJECT_BYTES)[0]:
        node.chunks = (chunking.default_chunks(node.shape[:1], itemsize)[0], *node.chunks[1:])
    give_shards(planned, shard_bytes)
    if planned.source is not None and hasattr(planned.source, "encoded") and _encoding(node) != before:
        planned.source = ValuesOnly(planned.source)
    if not hasattr(planned.source, "encoded"):  # chunks that are taken as they are have the frame that they have
        node.compressor = codecs3.in_core_words(node.compressor)


def _encoding(node: ArrayNode[Attributes]) -> tuple[Any, ...]:
    """Return what the bytes of a chunk depend on."""
    return node.data_type, node.filters, node.compressor, node.order, node.chunks


def _widths(planned: PlannedArray) -> dict[str, int]:
    """Return the characters of the longest text of each field of rows that is no number."""
    if planned.source is None:
        return {}
    length, count = planned.node.shape[0], planned.node.shape[-1]
    fields = [
        (position, name, kind)
        for position, (name, _, kind) in enumerate(format3.row_fields(planned.node, {}))
        if kind != "number"
    ]
    widths = {name: 0 for _, name, _ in fields}
    rows = max(1, _BLOCK_CELLS // max(1, count))
    for start in range(0, length, rows):
        block = planned.source.read((slice(start, min(start + rows, length)), slice(0, count)))
        for position, name, kind in fields:
            widths[name] = max(widths[name], cell_width(block[:, position].tolist(), kind))
    return widths
