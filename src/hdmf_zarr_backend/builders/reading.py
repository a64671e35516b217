"""`ReadSession`: reads one Zarr file, and the files that it links to, to builders."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

from hdmf_zarr_backend.arrays.lazy import LazyArray
from hdmf_zarr_backend.builders.assembler import Assembler
from hdmf_zarr_backend.builders.datasets import FileResolver
from hdmf_zarr_backend.builders.schema import may_need_types, restore_types
from hdmf_zarr_backend.changes.edits import Edits
from hdmf_zarr_backend.files.parser import ParsedFile, parse
from hdmf_zarr_backend.formats.references import Reference
from hdmf_zarr_backend.formats.reserved import NCZARR_ATTR
from hdmf_zarr_backend.stores.base import Store
from hdmf_zarr_backend.stores.gc_pause import gc_paused
from hdmf_zarr_backend.stores.opening import open_neighbour


class ReadSession:
    """Reads one file, and the files that it links to.

    Parameters
    ----------
    keys : Store
        The store of the file.
    parsed : ParsedFile
        Its metadata.
    source : str
        The ``source`` of its builders.
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
        resolver = FileResolver(partial(self._resolve, location), self._manager)
        assembler = Assembler(keys, parsed.hierarchy, location, resolver, self._open_other, edits=edits)
        assembler.levels = self._levels
        self._assemblers[location] = assembler
        return assembler

    def _resolve(self, location: str, reference: Reference) -> Any:
        return self._assemblers[location].resolve(reference)

    def _open_other(self, location: str) -> Assembler:
        """Return the assembler of a linked file; read-only, and opened once."""
        if location not in self._assemblers:
            count = len(self._assemblers)
            self.own.keys.read_rules.limits.check("max_files", count, f"links lead to {count} other files")
            keys = open_neighbour(self.own.keys, location)
            # format 2 is not guessed: where a file has metadata of both formats, those of format 3 count
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
            Its path has none.
        """
        location = stored.location if isinstance(stored, LazyArray) else self.own.source
        assembler = self._assemblers.get(location, self.own)
        if assembler is self.own:
            assembler.root()
        return assembler.builder_at(stored.path)

    @contextmanager
    def copied(self) -> Iterator[None]:
        """While the block runs, refuse a missing chunk of a file that states that it stores all of them.

        Where the rules of the file say what a missing chunk reads as, they apply.
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
