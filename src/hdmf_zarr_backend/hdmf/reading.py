"""`ReadSession`: reads a Zarr file, and those that it links to, to builders; `attach_herd`: external resources."""

from __future__ import annotations

import os
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any

from hdmf.container import HERDManager

from hdmf_zarr_backend.array.edits import Edits
from hdmf_zarr_backend.array.lazy import EditableArray, LazyArray
from hdmf_zarr_backend.encoding.parser import ParsedFile, resolver_of
from hdmf_zarr_backend.encoding.references import LinkedFile, ZarrReference
from hdmf_zarr_backend.errors import StoreError, at, warn
from hdmf_zarr_backend.hdmf.assembler import Assembler
from hdmf_zarr_backend.hdmf.datasets import FileResolver
from hdmf_zarr_backend.hdmf.lazy import LazyAssembler, LazyContainers
from hdmf_zarr_backend.hdmf.schema import restore_types
from hdmf_zarr_backend.model.nodes import gc_paused
from hdmf_zarr_backend.options import Limits
from hdmf_zarr_backend.store.base import Store


class ReadSession:
    """Reads one file, and the files that it links to."""

    def __init__(
        self,
        store: Store,
        parsed: ParsedFile,
        source: str,
        manager: Any,
        *,
        edits: Edits | None = None,
        is_lazy: bool = False,
        on_made: Callable[[Any], None] = lambda builder: None,
    ) -> None:
        self._manager = manager
        self._resolver = resolver_of(store, parsed.hierarchy, source)
        self._left_out = parsed.left_out
        # A file that several links lead to is parsed once: hdmf-zarr parsed it for each reference (hdmf-zarr#289).
        self._assemblers: dict[str, Assembler] = {}
        self._restored: dict[str, int] = {}
        self._levels = [0]
        self._is_complete = False
        self._notify = on_made
        self.containers: LazyContainers | None = None
        # A file that is open for changes is read as a whole: an append compares all containers with what was read.
        if is_lazy:
            file = self._make(LazyAssembler, self._resolver.main)
            containers = LazyContainers(file, manager, self._on_made)
            if containers.are_lazy():
                self.own: Assembler = file
                self.containers = containers
                return
        self.own = self._make(Assembler, self._resolver.main, edits=edits)

    def _make(self, cls: type[Assembler], file: LinkedFile, *, edits: Edits | None = None) -> Any:
        references = FileResolver(partial(self._resolve, file.location), self._construct, self._manager)

        # one for each file; linked files are read only
        def assembler_of(linked: LinkedFile) -> Assembler:
            assembler: Assembler = self._assemblers.get(linked.location) or self._make(Assembler, linked)
            return assembler

        assembler = cls(file, self._resolver, assembler_of, references, edits, self._levels)
        if file is self._resolver.main:
            assembler.left_out.update(self._left_out)
        self._assemblers[file.location] = assembler
        return assembler

    def _construct(self, builder: Any) -> Any:
        return self._manager.construct(builder) if self.containers is None else self.containers.container(builder)

    def _resolve(self, location: str, reference: ZarrReference) -> Any:
        return self._assemblers[location].resolve(reference)

    # a file is many new objects that live long, and each collection of garbage would look at all of them
    @gc_paused()
    def root(self) -> Any:
        """Return the builder of the root, always the same object."""
        # hdmf knows builders by their id: another object would be another file to it, and be written again
        if not self._is_complete:
            self.own.root()
            self._is_complete = True
            if self.containers is None:
                self._restore_types(self._assemblers.values())
            self._notify_of(self.own.builders)
        return self.own.root()

    def _on_made(self, paths: list[str]) -> None:
        self._restore_types(assembler for assembler in self._assemblers.values() if assembler is not self.own)
        self._notify_of(paths)

    def _notify_of(self, paths: Iterable[str]) -> None:
        """Call ``on_made`` with each builder, and with those of its links."""
        for path in paths:
            builder = self.own.builders[path]
            for each in (builder, *getattr(builder, "links", {}).values()):
                self._notify(each)

    def _restore_types(self, assemblers: Iterable[Assembler]) -> None:
        """Ask the schema for the attributes that files of other writers, linked ones too, have no types for."""
        for assembler in assemblers:
            # builders are only added, so that the first ones are those of the last call
            known = self._restored.get(assembler.source, 0)
            new = list(islice(assembler.builders, known, None)) if known < len(assembler.builders) else []
            self._restored[assembler.source] = len(assembler.builders)
            for path in new:
                builder, node = assembler.builders[path], assembler.hierarchy.get(path)
                restore_types(builder, node, self._manager.namespace_catalog)

    def builder_of(self, stored: Any) -> Any:
        """Return the builder of a group or array of the file, or of one that it links to."""
        location = stored.location if isinstance(stored, LazyArray) else self.own.source
        assembler = self._assemblers.get(location, self.own)
        if assembler is self.own and self.containers is None:
            assembler.root()
        return assembler.builder_at(stored.path)

    def outdate(self, problem: str, is_gone: Callable[[str], bool]) -> None:
        """Refuse changes of all arrays that were read; and reading those that are gone from their paths."""
        for path, builder in self.own.builders.items():
            data = getattr(builder, "data", None)
            array = getattr(data, "dataset", data)
            if isinstance(array, EditableArray):
                array.outdate(problem, is_gone=is_gone(path))

    @contextmanager
    def copied(self) -> Iterator[None]:
        """While the block runs, refuse a missing chunk of a file that states that it stores all of them.

        Where the rules of the file say what a missing chunk reads as, they apply.
        """
        for assembler in self._assemblers.values():
            assembler.check_whole()
        self._set_copied(is_copied=True)
        try:
            yield
        finally:
            self._set_copied(is_copied=False)

    def _set_copied(self, *, is_copied: bool) -> None:
        for assembler in self._assemblers.values():
            assembler.store.read_rules = replace(assembler.store.read_rules, is_copied=is_copied)

    @property
    def root_ids(self) -> dict[str, str | None]:
        """Object id of the root of each file that was read, by location."""
        return {location: assembler.file.root_id for location, assembler in self._assemblers.items()}


# The tables of a HERD, as the files in its archive.
_TABLES = ("files", "keys", "entities", "objects", "object_keys", "entity_keys")


def attach_herd(container: Any, path: str, limits: Limits) -> Any:
    """Attach the HERD in the archive at ``path`` to a container, and return it; None, with a warning, on failure.

    ``HERD.from_zip`` of hdmf 6.2 unpacks an archive beside itself and expects the tables at its top level, but
    ``HERD.to_zip`` stores them under the path of the archive, so they are found only if the archive is in the working
    directory. Here the tables are unpacked by name, in a temporary folder.
    """
    from hdmf.common import HERD

    no_archive = {"store": path, "remedy": "Give the file that HERD.to_zip has written, or no herd_path."}
    with tempfile.TemporaryDirectory() as folder:
        archive = os.path.join(folder, "herd.zip")
        try:
            with zipfile.ZipFile(path) as source, zipfile.ZipFile(archive, "w") as flat:
                members = {os.path.basename(name): name for name in source.namelist()}
                missing = [table for table in _TABLES if f"{table}.tsv" not in members]
                if missing:
                    raise StoreError(f"the archive of external resources has no {missing[0]}.tsv", **no_archive)
                for table in _TABLES:
                    entry = source.getinfo(members[f"{table}.tsv"])
                    size = entry.file_size  # zipfile unpacks no more than this
                    with at(path):
                        limits.check("max_document_bytes", size, f"{entry.filename!r} has {size:,} bytes")
                    flat.writestr(f"{table}.tsv", source.read(entry))
            herd = HERD.from_zip(path=archive)
            if isinstance(container, HERDManager):
                container.external_resources = herd
            return herd
        # RuntimeError: the archive is encrypted, or has an unknown compression
        except (zipfile.BadZipFile, IsADirectoryError, RuntimeError, zlib.error) as error:
            raise StoreError(f"herd_path is not an archive of external resources ({error})", **no_archive) from error
        except FileNotFoundError:  # as hdmf does for HDF5: a file is readable without its external resources
            warn(f"File not found at {path}. HERD not added.", UserWarning, stacklevel=4)
        except ValueError:
            message = f"Check HERD separately for alterations ({path}). HERD not added."
            warn(message, UserWarning, stacklevel=4)
    return None
