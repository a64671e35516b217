"""What a file of both formats stores twice, references and rows: whether both copies have the same values.

A program that knows one format only may have replaced values. The documents, and the digests of them in the note of
`formats.both`, say nothing of that.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from hdmf_zarr_backend.arrays.codecs import chunk_codec
from hdmf_zarr_backend.arrays.shards import shard_named
from hdmf_zarr_backend.builders.both import plan_format_3
from hdmf_zarr_backend.checks.findings import Problem, Report
from hdmf_zarr_backend.errors import ZarrBackendError
from hdmf_zarr_backend.execution.tasks import encode_chunk, region_of, whole_chunk
from hdmf_zarr_backend.model.nodes import Dataset, Group, Hierarchy, absolute, join
from hdmf_zarr_backend.model.stored import DEFAULT_PREFIX, StoredArray
from hdmf_zarr_backend.stores.base import Store
from hdmf_zarr_backend.transfer.plan import PlannedArray

_SHOWN = 5


def compare_copies(keys: Store, hierarchy: Hierarchy, own: Hierarchy, report: Report) -> None:
    """Report arrays that have other values in format 3 than in format 2.

    Chunks that cannot be read are left to the check of each format.
    """
    for path, node in own.walk():
        if isinstance(node, Dataset):
            with suppress(ZarrBackendError, OSError):
                found = list(_differing(keys, path, node.stored, _planned(keys, hierarchy, path)))
                if found:
                    what = f"the values in Zarr format 3 are not those in format 2: {', '.join(found[:_SHOWN])}"
                    report.add(Problem(absolute(path), "formats-differ", what, is_repairable=True))


def _planned(keys: Store, hierarchy: Hierarchy, path: str) -> PlannedArray | None:
    """Return an array as it would be derived from format 2, None where that takes no chunks of its own."""
    node = hierarchy.get(path)
    if not isinstance(node, Dataset):
        return None
    part = Hierarchy(Group(hierarchy.root.attributes))
    names = path.split("/")
    for depth in range(1, len(names)):
        part.add("/".join(names[:depth]), Group())
    part.add(path, node)
    return plan_format_3(keys, part)[0].arrays.get(path)


def _differing(keys: Store, path: str, stored: StoredArray, planned: PlannedArray | None) -> Iterator[str]:
    """Yield the names of the stored chunks whose values are not those that are planned."""
    if planned is None or planned.source is None or planned.node.stored.shape != stored.shape:
        return
    codec = chunk_codec(stored)
    for key in keys.list_prefix(join(path, DEFAULT_PREFIX)):
        name = key[len(path) + 1 :]
        index = shard_named(stored, name)
        data = None if index is None else keys.get(key)
        if index is None or data is None:
            continue
        expected = encode_chunk(stored, codec, planned.source, index)[0]
        if data == expected:
            continue
        inside = tuple(slice(0, part.stop - part.start) for part in region_of(stored, index))
        values = codec.decode(data, stored.chunks)[inside]
        # equal bytes: another release has compressed the stored ones
        if codec.encode(whole_chunk(values, stored, codec.dtype)) != expected:
            yield name
