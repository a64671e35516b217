"""`ZarrIO`: hdmf's I/O interface on Zarr files. It conducts the rooms and decides nothing that a room could decide.

Source: ``hdmf.backends.io.HDMFIO`` for the interface; ``hdmf.backends.hdf5.HDF5IO`` for what users expect of it.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property, partial
from typing import Any

from hdmf.backends.io import HDMFIO
from hdmf.spec import NamespaceCatalog

from hdmf_zarr_backend.changes.edits import Edits
from hdmf_zarr_backend.changes.journal import journal_of
from hdmf_zarr_backend.errors import StoreExistsError
from hdmf_zarr_backend.model.nesting import limited_nesting
from hdmf_zarr_backend.model.sameplace import full_location, is_same_place
from hdmf_zarr_backend.modes import NEW_FILE_MODES, UnsupportedModeError, WrongArgumentError
from hdmf_zarr_backend.progress import SILENT, Progress
from hdmf_zarr_backend.read.parser import ParsedFile
from hdmf_zarr_backend.read.session import ReadSession
from hdmf_zarr_backend.reader import ZarrReader
from hdmf_zarr_backend.write.dropping import drop_changes
from hdmf_zarr_backend.write.fieldvalues import KnownFields, check_origin
from hdmf_zarr_backend.write.planner import PlanOptions
from hdmf_zarr_backend.write.schemawords import documentation, largest_shape
from hdmf_zarr_backend.write.session import WriteRequest, flush_edits, write_difference, write_new
from hdmf_zarr_backend.write.specs import namespace_texts
from hdmf_zarr_backend.write.targets import Targets, object_id
from hdmf_zarr_backend.write.writer import MEMORY_BUDGET

EXPANDABLE = ("VectorData", "ElementIdentifiers")


class ZarrIO(ZarrReader):
    """Reads and writes HDMF containers in Zarr files.

    Parameters
    ----------
    path : str, Path, mapping, zarr.abc.store.Store, zarr.storage.StorePath or zarr.Group
        The file: a local directory or zip file, a file of references, a URL, or what holds the file.
    mode : {"r", "r-", "r+", "a", "w", "w-", "x"}
        ``r`` reads; ``r-`` too, without the consolidated document; ``r+`` reads and changes; ``a`` does that, or makes
        the file where there is none; ``w`` makes a file anew, and replaces an HDMF Zarr file that exists, as HDF5IO
        does; ``w-`` and ``x`` make a file only where there is none. A symbolic link is followed and stays.
    manager : BuildManager or TypeMap, optional
        Builds and constructs containers; None: one that knows no types.
    object_codec_class : type, optional
        Codec of references and rows: ``numcodecs.JSON`` (default), ``numcodecs.MsgPack``, or ``numcodecs.Pickle``,
        which other programs cannot read safely.
    force_overwrite : bool
        With mode ``w``, replace whatever is there. Without it only an HDMF Zarr file is replaced.
    herd_path : str, optional
        The archive (a zip file) of the external resources (HERD): read with the file, and written with it.
    storage_options : dict, optional
        For URLs, in the words of fsspec or obstore.
    strict_json : bool
        Write no NaN or Infinity tokens into documents (hdmf-zarr 0.13 cannot read what stands for them).
    use_inlined : bool
        Take scalars and cached specifications from the consolidated document where it holds them; False: from their
        chunks.
    limits : Limits, optional
        How much a file may ask for when it is read: sizes of documents, chunks and selections, links in a row. HDF5
        data that are exported or written are held to those of the new file.
    missing_chunks : {"fill", "error"}, optional
        What a chunk that is not stored reads as: the fill value, as Zarr has it, or a `ChunkError`. Default: the fill
        value; but where the file is exported, an error if it says of itself that all its chunks were stored.
    external_links : {"follow", "within", "never"}, optional
        Which other files links and references lead to: any; those in the folder of the file and below; none. Default:
        any for a local file, those in its folder for a remote one. A remote file never leads to a local one.
    synchronizer : object, optional
        Taken for compatibility; zarr 3 has none, and one writer per file is the rule here.
    zarr_format : {2, 3}, optional
        Of a new file; None: 2, or the one format that the store can hold (Icechunk: 3). A file that is there keeps its
        own, and is read without being told. With ``r`` and ``r-``, the format whose metadata are asked for first: a far
        file opens with one request instead of two. Where there are metadata of both formats, they are those that are
        read; without it, those of format 3.
    break_lock : bool
        Write though another writer's lock is on the file, if that writer is gone, or is on another machine where it
        cannot be asked. A process of this machine that is alive keeps its lock.
    **unknown
        Any other argument is refused, with the name of the one that may be meant.

    Raises
    ------
    UsageError
        An argument that does not exist, or one that means nothing here; nothing is touched.
    StoreNotFoundError, NotZarrError, MetadataError
        On opening for reading.
    StoreExistsError
        On opening for writing, before anything is touched.
    StoreLockedError
        On opening for writing: another writer has the file open, until it is closed there. Readers never wait.
    """

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        try:
            if error is not None and self._may_flush and self._edits is not None:
                drop_changes(self._edits, self.path, error)
        finally:
            super().__exit__(kind, error, trace)

    @property
    def _may_flush(self) -> bool:
        """Whether this process may write what was changed: in a fork the lock is not held, and it may not."""
        return bool(self._is_open and self._lock is not None and self._lock.is_held)

    def close(self) -> None:
        """Close the file and write what was changed in place. Arrays that were handed out still read."""
        try:
            if self._may_flush:
                self._flush()
        finally:
            super().close()

    def _flush(self) -> None:
        if self._edits is not None and self._keys is not None and self._parsed is not None:
            if self._edits.pending and self._lock is not None:
                self._lock.check()
            flush_edits(
                self._edits,
                self._keys,
                self._parsed.hierarchy,
                self._parsed.inlined,
                encode=partial(self._targets().encode_stored, is_written=self.get_written),
                consolidate=self._parsed.consolidated,
                strict_json=self._strict_json,
            )

    def _targets(self) -> Targets:
        """Return what names the objects of this file that are on disk."""
        known = None if self._parsed is None else self._parsed.hierarchy.root.attributes.get("object_id")
        return Targets(self.path, None, self.manager, known if isinstance(known, str) else None, self._file_ids())

    def _file_ids(self) -> dict[str, str | None]:
        """Return the object ids of the roots of the files that this io and the source of an export have read."""
        return {**self._source_ids, **(self._reading.root_ids if self._reading is not None else {})}

    def _create_ref(self, builder: Any) -> dict[str, Any] | None:
        """Return the stored form of a reference to ``builder``; hdmf's users append it to a dataset of rows."""
        return self._targets().encode_stored(builder, is_written=self.get_written)

    def read(self, **kwargs: Any) -> Any:
        """Return the root container; ``kwargs`` are what hdmf's ``read`` takes.

        Raises
        ------
        UnsupportedModeError, NoValuesError, ContainerError, StoreError, NestingError
            The file is closed, or open for writing a new one; it holds nothing; it does not fit the namespaces that are
            loaded; ``herd_path`` is no archive of external resources; groups are nested deeper than calls may be.
        """
        container = super().read(**kwargs)
        if self._edits is not None:
            self._fields.note(container)
        return container

    @cached_property
    def _fields(self) -> KnownFields:
        return KnownFields()

    # ---- writing ----------------------------------------------------------------------------------------------------

    def write(self, container: Any, herd: Any = None, *, cache_spec: bool = True, **options: Any) -> None:
        """Write a container and all that is in it.

        Parameters
        ----------
        container : Container
            The root.
        herd : HERD, optional
            Written to ``herd_path``.
        cache_spec : bool
            Cache the namespaces in the file.
        **options
            As of `write_builder`.

        Raises
        ------
        UnsupportedModeError
            The file is open for reading.
        UsageError
            The container, or one in it, belongs to another file; nothing was written. `export` is for that.
        WriteError
            Something cannot be stored, or says something else than the file; nothing was written.
        NestingError
            Groups are nested deeper than Python's calls may be; nothing was written.
        """
        if self._mode in ("r", "r-"):
            raise UnsupportedModeError(
                f"Cannot write to file in mode {self._mode!r}",
                store=self.source,
                remedy="Use 'r+', 'w', 'w-', 'x' or 'a'.",
            )
        check_origin(container, self.manager, self.path)
        self._fields.check(self.manager, self.path, is_written=self.get_written)
        super().write(container=container, herd=herd, cache_spec=cache_spec, **options)
        if self._edits is not None:
            self._fields.note(container, anew=True)

    def write_builder(
        self,
        builder: Any,
        *,
        link_data: bool = True,
        exhaust_dci: bool = True,
        export_source: str | None = None,
        consolidate_metadata: bool = True,
        cache_spec: bool = False,
        spec_catalogs: Collection[NamespaceCatalog] | None = None,
        expandable: Collection[str] = EXPANDABLE,
        doc: bool = False,
        progress: Progress = SILENT,
        executor: Any = None,
        memory_budget: int = MEMORY_BUDGET,
        number_of_jobs: int = 1,
        max_threads_per_process: int | None = None,
        multiprocessing_context: str | None = None,
        nczarr: bool = False,
        durable: bool = False,
    ) -> None:
        """Write a builder and all that is below it.

        Parameters
        ----------
        builder : GroupBuilder
            The root.
        link_data : bool
            Link to stored arrays of other files that are given as data; False: copy them.
        exhaust_dci : bool
            Exhaust data chunk iterators one after the other; False: a block of each in turn.
        export_source : str, optional
            The file that is being exported.
        consolidate_metadata : bool
            Write the consolidated document.
        cache_spec : bool
            Cache namespaces in the file.
        spec_catalogs : collection of NamespaceCatalog, optional
            Whose namespaces; None: the manager's.
        expandable : collection of str
            Data types whose datasets may grow as far as the schema allows.
        doc : bool
            Write the schema's documentation of each group and dataset as its attribute ``doc``, as the storage
            specification's tables say; hidden on reading. What has no type has one where it comes from a container.
        progress : Progress
            Is told of the bytes written.
        executor : None, "threads", "processes", int, concurrent.futures.Executor or dask.distributed.Client
            Who encodes and writes the chunks of large arrays; None: this thread. Arrays in memory and iterators are
            given to threads, not to other processes. The file is the same whoever does it.
        memory_budget : int
            Bytes of values that may be in flight beyond the caller's own arrays; a single chunk may be larger.
        number_of_jobs : int
            Number of threads, where ``executor`` is not given (hdmf-zarr's word for it).
        max_threads_per_process, multiprocessing_context
            Taken for compatibility; threads need neither.
        nczarr : bool
            Let netcdf-c open the file: groups, dimensions, and the arrays of numbers. A file that has this keeps it.
        durable : bool
            Return when a local file is on the disk itself, and would survive a power cut. Without it, it survives the
            end of this process, however that comes.

        Raises
        ------
        UsageError
            ``nczarr`` for format 3, which netcdf-c reads without, or not at all.
        """
        if isinstance(expandable, (bool, str)):
            raise WrongArgumentError(
                f"expandable={expandable!r} is no collection of names",
                remedy="Name the data types, such as ['VectorData'].",
            )
        if nczarr and self.zarr_format != 2:
            raise WrongArgumentError("NCZarr has no attributes in format 3", store=self.source, remedy="Use format 2.")
        options = PlanOptions(
            location=str(self.source),
            link_data=link_data,
            export_location=export_source,
            object_codec=self._object_codec,
            max_shape=lambda child: largest_shape(self.manager, child, expandable),
            strict_json=self._strict_json,
            doc=partial(documentation, self.manager) if doc else lambda child: None,
            zarr_format=self.zarr_format,
            limits=self._place.read_rules.limits,
        )
        catalogs = [self.manager.namespace_catalog] if spec_catalogs is None else spec_catalogs
        request = WriteRequest(
            builder,
            options,
            Targets(self.path, export_source, self.manager, object_id(builder), self._file_ids()),
            namespace_texts(catalogs) if cache_spec else {},
            consolidate=consolidate_metadata and self._place.abilities.consolidates,
            exhaust_in_turn=exhaust_dci,
            progress=progress,
            executor=number_of_jobs if executor is None and number_of_jobs > 1 else executor,
            memory_budget=memory_budget,
            exclusive=self._mode != "w",
            nczarr=nczarr,
            durable=durable,
            schema=next(iter(catalogs), None) if export_source is not None else None,
        )
        with limited_nesting(builder, store=self.source, doing="written"):
            self._carry_out(request)
        self._mark_written(builder)
        for wrapper, path in request.unfilled:
            wrapper.dataset = self._session().own.array_at(path)

    def _carry_out(self, request: WriteRequest) -> None:
        if self._lock is not None:
            self._lock.check()
        if self._parsed is None:
            hierarchy, inlined = write_new(request, self._place)
            self._parsed = ParsedFile(hierarchy, consolidated=request.consolidate, inlined=inlined)
            if self._keys is not None:  # a change of an inlined chunk is a change of the consolidated document too
                self._keys = self._parsed.keys(self._keys)
                self._edits = Edits(self._keys, self._parsed, journal_of(self._keys, self.zarr_format))
        else:
            self._write_difference(request, self._parsed)

    def _write_difference(self, request: WriteRequest, parsed: ParsedFile) -> None:
        session = self._session()
        assert self._edits is not None  # made where the file was opened or written
        write_difference(
            request,
            session.own.keys,
            parsed.hierarchy,
            parsed.inlined,
            self._edits,
            is_written=self.get_written,
            original=self._original,
            is_consolidated=parsed.consolidated,
        )
        parsed.consolidated = request.consolidate
        if "" in session.own.builders:  # else what is on disk, which may be more, is made when it is asked for
            session.own.adopt(request.builder)

    def _original(self, path: str) -> Any:
        """Return the builder that is on disk at ``path``; where the file was not read, one that nobody else sees."""
        session = self._session()
        if "" not in session.own.builders and self._parsed is not None:
            session = ReadSession(session.own.keys, self._parsed, self.path, self.manager)
        return session.own.builder_at(path)

    def export(
        self,
        src_io: HDMFIO,
        container: Any = None,
        write_args: dict[str, Any] | None = None,
        clear_cache: bool = False,  # noqa: FBT001, FBT002 - hdmf's signature
        cache_spec: bool = True,  # noqa: FBT001, FBT002 - hdmf's signature
        **options: Any,
    ) -> None:
        """Write what ``src_io`` has read, from any backend, to this file.

        Parameters
        ----------
        src_io : HDMFIO
            The source; stays as it is.
        container : Container, optional
            The root that ``src_io`` has read, changed perhaps; None: everything that is in the source.
        write_args : dict, optional
            Arguments of `write_builder`; ``{"link_data": False}`` copies what would be linked.
        clear_cache : bool
            Build all containers anew.
        cache_spec : bool
            Cache the namespaces of the source.
        **options
            Arguments of `write_builder` as well.

        Raises
        ------
        UnsupportedModeError
            The mode is not ``w``, ``w-`` or ``x``.
        StoreExistsError
            This file is the source.
        """
        if self._mode not in NEW_FILE_MODES:
            raise UnsupportedModeError(
                f"Cannot export to file in mode {self._mode!r}", store=self.source, remedy="Use mode 'w'."
            )
        source = None if src_io.source is None else full_location(str(src_io.source))
        if source is not None and is_same_place(source, self.source):
            raise StoreExistsError(
                "a file cannot be exported onto itself", store=self.source, remedy="Export to another path."
            )
        copied: AbstractContextManager[None] = nullcontext()
        if isinstance(src_io, ZarrIO):
            src_io.read_builder()
            self._source_ids = src_io._file_ids()
            copied = src_io._session().copied()
        arguments = {**(write_args or {}), **options, "export_source": source, "cache_spec": cache_spec}
        if cache_spec and src_io.manager is not None:
            arguments["spec_catalogs"] = [src_io.manager.namespace_catalog, self.manager.namespace_catalog]
        with copied:
            super().export(src_io=src_io, container=container, write_args=arguments, clear_cache=clear_cache)

    @classmethod
    def export_io(cls, path: str | os.PathLike[str], src_io: HDMFIO, **kwargs: Any) -> None:
        """Export ``src_io`` to a new file at ``path``; ``kwargs`` as of `export`."""
        with cls(path, mode="w") as io:
            io.export(src_io=src_io, **kwargs)
