"""References in datasets -> builders and containers, each distinct target once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from hdmf_zarr_backend.arrays.lazy import LazyArray
from hdmf_zarr_backend.builders.assembler import Assembler
from hdmf_zarr_backend.builders.spec_types import may_need_types, restore_types
from hdmf_zarr_backend.changes.edits import DeferredReference, Edits
from hdmf_zarr_backend.files.parser import ParsedFile, parse
from hdmf_zarr_backend.formats import dtypes
from hdmf_zarr_backend.formats.references import RegionReference, decode_reference
from hdmf_zarr_backend.formats.reserved import NCZARR_ATTR
from hdmf_zarr_backend.model.elements import Element
from hdmf_zarr_backend.stores.base import Store
from hdmf_zarr_backend.stores.gc_pause import gc_paused
from hdmf_zarr_backend.stores.opening import open_neighbour


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

    def append_row(self, dataset: LazyArray, row: Sequence[Any], fields: Sequence[Element]) -> None:
        """Add a row at the end of ``dataset``."""
        cells = [_cell(value, field) for value, field in zip(row, fields, strict=True)]
        if dataset.dtype.names is not None:
            block = np.empty(1, dataset.dtype)
            block[0] = tuple(cells)
            dataset.append(block)
        else:
            dataset.append(_block([cells], 2))


def _cell(value: Any, field: Element) -> Any:
    if field.kind in ("reference", "region"):
        return DeferredReference(value)
    if field.kind == "datetime":
        return dtypes.date_number(value, dtypes.dtype_of(field))
    return value.item() if isinstance(value, np.generic) else value


def _block(rows: list[Any], ndim: int) -> Any:
    block = np.empty((1,) if ndim == 1 else (1, len(rows[0])), object)
    flat = block.reshape(-1)
    for position, item in enumerate(rows if ndim == 1 else rows[0]):
        flat[position] = item
    return block


class ReadSession:
    """Reads one file, and the files that it links to.

    Parameters
    ----------
    keys : Store
        The store of the file.
    parsed : ParsedFile
        Its metadata.
    source : str
        What its builders say they come from.
    manager : BuildManager
        Makes containers, and knows the namespaces.
    edits : Edits, optional
        Takes changes to the arrays of the file.
    """

    def __init__(
        self, keys: Store, parsed: ParsedFile, source: str, manager: Any, *, edits: Edits | None = None
    ) -> None:
        self._manager = manager
        self._assemblers: dict[str, Assembler] = {}
        self._levels = [0]
        self.own = self._add(source, keys, parsed, edits=edits)

    def _add(self, location: str, keys: Store, parsed: ParsedFile, *, edits: Edits | None = None) -> Assembler:
        resolver = FileResolver(lambda: self._assemblers[location], self._manager)
        assembler = Assembler(keys, parsed.hierarchy, location, resolver, self._open_other, edits=edits)
        assembler.levels = self._levels
        self._assemblers[location] = assembler
        return assembler

    def _open_other(self, location: str) -> Assembler:
        """Return the assembler of a linked file; read-only, and opened once."""
        if location not in self._assemblers:
            count = len(self._assemblers)
            self.own.keys.read_rules.limits.check("max_files", count, f"links lead to {count} other files")
            keys = open_neighbour(self.own.keys, location)
            # to guess 2 could be wrong: where there are metadata of both, those of format 3 count
            parsed = parse(keys, hint=3 if self.own.hierarchy.zarr_format == 3 else None)
            self._add(location, parsed.keys(keys), parsed)
        return self._assemblers[location]

    @gc_paused()
    def root(self) -> Any:
        """Return the builder of the root, always the same object."""
        if "" not in self.own.builders:
            self.own.root()
            self._restore_types()
        return self.own.root()

    def _restore_types(self) -> None:
        """Ask the schema for the attributes that files of other writers, linked ones too, have no types for."""
        catalog = self._manager.namespace_catalog
        for assembler in self._assemblers.values():
            for path, builder in assembler.builders.items():
                if not may_need_types(builder):
                    continue
                node = assembler.hierarchy.get(path)
                if node is not None and NCZARR_ATTR not in node.attributes:
                    restore_types(builder, catalog)

    def builder_of(self, stored: Any) -> Any:
        """Return the builder of a group or array of the file, or of one that it links to.

        Raises
        ------
        ReferenceTargetError
            There is none at its path.
        """
        location = stored.location if isinstance(stored, LazyArray) else self.own.source
        assembler = self._assemblers.get(location, self.own)
        if assembler is self.own:
            assembler.root()
        return assembler.builder_at(stored.path)

    @contextmanager
    def copied(self) -> Iterator[None]:
        """While the block runs, a chunk that is gone from a file that says that it has all of them is an error.

        Unless the rules of the file say what it reads as.
        """
        self._set_copied(is_copied=True)
        try:
            yield
        finally:
            self._set_copied(is_copied=False)

    def _set_copied(self, *, is_copied: bool) -> None:
        for assembler in self._assemblers.values():
            assembler.keys.read_rules = replace(assembler.keys.read_rules, is_copied=is_copied)

    @property
    def root_ids(self) -> dict[str, str | None]:
        """Object id of the root of each file that was read, by location."""
        return {location: assembler.root_id for location, assembler in self._assemblers.items()}
