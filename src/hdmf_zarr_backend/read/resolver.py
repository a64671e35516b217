"""References in datasets -> builders and containers, each distinct target once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hdmf_zarr_backend.arrays.lazy import LazyArray
from hdmf_zarr_backend.changes.edits import DeferredReference
from hdmf_zarr_backend.mapping import dtypes
from hdmf_zarr_backend.mapping.references import decode_reference
from hdmf_zarr_backend.mapping.regions import RegionReference
from hdmf_zarr_backend.read.assembler import Assembler


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
        self._builders: dict[tuple[Any, Any, bool], Any] = {}
        self._containers: dict[tuple[Any, Any, bool], Any] = {}

    def builder(self, reference: Any) -> Any:
        """Return the builder that the stored ``reference`` points to; None for None.

        Raises
        ------
        ReferenceTargetError
            Nothing is there.
        """
        return self.builders([reference])[0]

    def container(self, reference: Any) -> Any:
        """Return the container of the builder that ``reference`` points to."""
        return self.containers([reference])[0]

    def builders(self, references: Sequence[Any]) -> list[Any]:
        """Return the builders of many references; each distinct target is looked up once."""
        return self._resolve(references, self._builders, self._find_builder)

    def containers(self, references: Sequence[Any]) -> list[Any]:
        """Return the containers of many references; each distinct target is looked up once."""
        return self._resolve(references, self._containers, self._find_container)

    def _resolve(
        self, references: Sequence[Any], known: dict[tuple[Any, Any, bool], Any], find: Callable[[Any], Any]
    ) -> list[Any]:
        found = []
        for reference in references:
            try:
                found.append(known[reference["source"], reference["path"], reference.get("region") is None])
            except (KeyError, TypeError, AttributeError):
                found.append(find(reference))
        return found

    def _find_builder(self, reference: Any) -> Any:
        if reference is None:
            return None
        if isinstance(reference, DeferredReference):
            return self._manager.get_builder(reference.target)
        decoded = decode_reference(reference)
        builder = self._assembler().resolve(decoded)
        if decoded.region is not None:
            return RegionReference(builder, decoded.region)
        self._builders[reference.get("source"), reference["path"], True] = builder
        return builder

    def _find_container(self, reference: Any) -> Any:
        if isinstance(reference, DeferredReference):
            return reference.target
        builder = self._find_builder(reference)
        if builder is None or isinstance(builder, RegionReference):
            return builder
        container = self._manager.construct(builder)
        self._containers[reference.get("source"), reference["path"], True] = container
        return container

    def append_reference(self, dataset: LazyArray, target: Any) -> None:
        """Add a reference at the end of ``dataset``; the path of ``target`` is looked up when the file is written.

        Raises
        ------
        ModeError
            The file is open for reading.
        """
        dataset.append(_block([DeferredReference(target)], 1))

    def append_row(self, dataset: LazyArray, row: Sequence[Any], words: Sequence[str]) -> None:
        """Add a row at the end of ``dataset``."""
        cells = [_cell(value, word) for value, word in zip(row, words, strict=True)]
        if dataset.dtype.names is not None:
            block = np.empty(1, dataset.dtype)
            block[0] = tuple(cells)
            dataset.append(block)
        else:
            dataset.append(_block([cells], 2))


def _cell(value: Any, word: str) -> Any:
    kind = dtypes.kind_of(word)
    if kind in ("object", "region"):
        return DeferredReference(value)
    dtype = dtypes.numpy_of(word) if kind == "number" else None
    if dtype is not None and dtype.kind in "mM":
        return dtypes.date_number(value, dtype)
    return value.item() if isinstance(value, np.generic) else value


def _block(rows: list[Any], ndim: int) -> Any:
    block = np.empty((1,) if ndim == 1 else (1, len(rows[0])), object)
    flat = block.reshape(-1)
    for position, item in enumerate(rows if ndim == 1 else rows[0]):
        flat[position] = item
    return block
