"""References in datasets -> builders and containers, each distinct target once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hdmf_zarr_backend.mapping.references import decode_reference
from hdmf_zarr_backend.read.assembler import Assembler
from hdmf_zarr_backend.storage.arrays import LazyArray


class FileResolver:
    """Resolves the references of one file.

    Parameters
    ----------
    assembler : callable
        Returns the assembler of the file.
    manager : BuildManager
        Makes containers of builders.
    """

    def __init__(self, assembler: Callable[[], Assembler], manager: Any) -> None:
        self._assembler = assembler
        self._manager = manager
        self._builders: dict[tuple[str, str], Any] = {}

    def builder(self, reference: Any) -> Any:
        """Return the builder that the stored ``reference`` points to; None for None.

        Raises
        ------
        ReferenceTargetError
            Nothing is there.
        """
        if reference is None:
            return None
        decoded = decode_reference(reference)
        key = (decoded.source, decoded.path)
        found = self._builders.get(key)
        if found is None:
            found = self._builders[key] = self._assembler().resolve(decoded)
        return found

    def container(self, reference: Any) -> Any:
        """Return the container of the builder that ``reference`` points to."""
        builder = self.builder(reference)
        return None if builder is None else self._manager.construct(builder)

    def append_reference(self, dataset: LazyArray, target: Any) -> None:
        """Add a reference at the end of ``dataset``."""
        raise NotImplementedError

    def append_row(self, dataset: LazyArray, row: Sequence[Any], words: Sequence[str]) -> None:
        """Add a row at the end of ``dataset``."""
        raise NotImplementedError
