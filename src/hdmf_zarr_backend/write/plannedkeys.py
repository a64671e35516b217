"""A file that is planned, to be read before it is written: chunks are encoded when somebody asks for them.

Whether a file can be read is known so before its large arrays are copied, and without writing anything.
"""

from __future__ import annotations

from collections.abc import Iterable

from hdmf_zarr_backend.arrays.codecs import chunk_codec
from hdmf_zarr_backend.arrays.shards import shard_named
from hdmf_zarr_backend.errors import ModeError, ZarrBackendError
from hdmf_zarr_backend.execution.shardtasks import encode_shard
from hdmf_zarr_backend.execution.tasks import encode_chunk
from hdmf_zarr_backend.model.nodes import absolute
from hdmf_zarr_backend.stores.base import KeyStore
from hdmf_zarr_backend.write.plan import WritePlan


class PlannedKeys(KeyStore):
    """The chunks of a plan; its documents are no keys, since whoever has the plan has the hierarchy.

    Parameters
    ----------
    plan : WritePlan
        Its sources must be open.
    location : str
        Where the file will be; its links are followed from there.
    """

    def __init__(self, plan: WritePlan, location: str) -> None:
        self.location = location
        self._plan = plan

    def get(self, key: str) -> bytes | None:
        """Return the chunk of ``key``, or None.

        Raises
        ------
        ZarrBackendError
            The source does not give its values.
        """
        path, _, name = key.rpartition("/")
        while path and path not in self._plan.arrays:
            path, _, last = path.rpartition("/")
            name = f"{last}/{name}"
        planned = self._plan.arrays.get(path)
        if planned is None or planned.source is None:
            return None
        node = planned.node
        index = shard_named(node, name)
        if index is None:
            return None
        try:
            if node.shards is not None:
                pieces: list[bytes] = []
                encode_shard(node, planned.source, index, pieces.append)
                return b"".join(pieces)
            return encode_chunk(node, chunk_codec(node), planned.source, index)[0]
        except ZarrBackendError as error:
            raise error.located(store=self.location, path=absolute(path)) from error.__cause__

    def set(self, key: str, value: bytes) -> None:
        """Refuse: this is a plan."""
        raise self._refused()

    def delete(self, keys: Iterable[str]) -> None:
        """Refuse: this is a plan."""
        raise self._refused()

    def _refused(self) -> ModeError:
        return ModeError("a file that is planned is only read", store=self.location, remedy="Write the plan.")

    def sizes(self, prefix: str) -> dict[str, int]:
        """Return nothing: what a chunk will be is known when it is encoded, and the hierarchy is at hand."""
        return {}

    def exists(self) -> bool:
        """Tell whether there is something to read."""
        return True
