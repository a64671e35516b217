"""What an open io knows of the files it has read: one assembler per file, its own and those that it links to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from hdmf_zarr_backend.arrays.lazy import LazyArray
from hdmf_zarr_backend.changes.edits import Edits
from hdmf_zarr_backend.mapping.reserved import NCZARR_ATTR
from hdmf_zarr_backend.read.assembler import Assembler
from hdmf_zarr_backend.read.parser import ParsedFile, parse
from hdmf_zarr_backend.read.resolver import FileResolver
from hdmf_zarr_backend.read.spectypes import may_need_types, restore_types
from hdmf_zarr_backend.stores.base import KeyStore
from hdmf_zarr_backend.stores.garbage import uncollected
from hdmf_zarr_backend.stores.opening import open_neighbour


class ReadSession:
    """Reads one file, and the files that it links to.

    Parameters
    ----------
    keys : KeyStore
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
        self, keys: KeyStore, parsed: ParsedFile, source: str, manager: Any, *, edits: Edits | None = None
    ) -> None:
        self._manager = manager
        self._assemblers: dict[str, Assembler] = {}
        self._levels = [0]
        self.own = self._add(source, keys, parsed, edits=edits)

    def _add(self, location: str, keys: KeyStore, parsed: ParsedFile, *, edits: Edits | None = None) -> Assembler:
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

    @uncollected()
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
