"""`ZarrIO`: hdmf's I/O interface on Zarr files.

Source: ``hdmf.backends.io.HDMFIO`` for the interface; ``hdmf.backends.hdf5.HDF5IO`` for what users expect of it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias, get_args

from hdmf.backends.errors import UnsupportedOperation
from hdmf.backends.io import HDMFIO
from hdmf.backends.utils import WriteStatusTracker
from hdmf.build import BuildManager, TypeMap
from hdmf.container import AbstractContainer
from hdmf.spec import NamespaceCatalog

from hdmf_zarr_backend import errors
from hdmf_zarr_backend.array.edits import Edits
from hdmf_zarr_backend.array.lazy import LazyArray
from hdmf_zarr_backend.encoding import parser, registry, zarr3
from hdmf_zarr_backend.encoding.nczarr import check_format as check_nczarr
from hdmf_zarr_backend.encoding.registry import BOTH, State, ZarrFormat
from hdmf_zarr_backend.encoding.zarr3 import check_key_encoding
from hdmf_zarr_backend.errors import known_arguments, warn
from hdmf_zarr_backend.hdmf import files, schema
from hdmf_zarr_backend.hdmf.assembler import check_link_paths
from hdmf_zarr_backend.hdmf.containers import KnownFields, build_again, check_origin
from hdmf_zarr_backend.hdmf.datasets import array_html, dataset_html, let_indices_grow
from hdmf_zarr_backend.hdmf.from_zarr import make_alike
from hdmf_zarr_backend.hdmf.internals import set_source
from hdmf_zarr_backend.hdmf.lazy import construction_errors
from hdmf_zarr_backend.hdmf.namespaces import newest_versions
from hdmf_zarr_backend.hdmf.planner import AppendPlanner, WriteRequest
from hdmf_zarr_backend.hdmf.targets import Targets, builder_path, builders_below, object_id
from hdmf_zarr_backend.model.links import full_location, is_same_place
from hdmf_zarr_backend.model.nodes import gc_paused, limited_nesting, relative, split
from hdmf_zarr_backend.model.render import escape, few
from hdmf_zarr_backend.options import ReadOptions, WriteOptions
from hdmf_zarr_backend.store.base import Store
from hdmf_zarr_backend.store.journal import warn_of_pending
from hdmf_zarr_backend.store.opening import FileSource, check_abilities, open_store
from hdmf_zarr_backend.store.transaction import Writer
from hdmf_zarr_backend.store.zarr_python import open_zarr_group, opens

if TYPE_CHECKING:
    from hdmf_zarr_backend.hdmf.editing import Edit

# r- is of hdmf-zarr (hdmf-zarr#183): the consolidated document may be out of date after another program wrote.
Mode: TypeAlias = Literal["r", "r-", "r+", "a", "w", "w-", "x"]
MODES: tuple[Mode, ...] = get_args(Mode)
READING_MODES = ("r", "r-")
"""Modes that write nothing and wait for no writer."""

NEW_FILE_MODES = ("w", "w-", "x")
"""Modes that create a new file."""

# Each of these errors is hdmf's UnsupportedOperation too: code for HDF5IO, and hdmf's own tests, catch that.


class UnsupportedModeError(errors.ModeError, UnsupportedOperation):  # type: ignore[misc]
    """The operation is not possible in this mode; hdmf's own error for it as well."""


class NoValuesError(errors.NotZarrError, UnsupportedOperation):  # type: ignore[misc]
    """There is a Zarr hierarchy with nothing in it; hdmf's own error for it as well."""


class TargetExistsError(errors.StoreExistsError, UnsupportedOperation):  # type: ignore[misc]
    """Modes ``w-`` and ``x`` make new files only; hdmf's own error for it as well."""


class TargetMissingError(errors.StoreNotFoundError, UnsupportedOperation):  # type: ignore[misc]
    """There is nothing to read; hdmf's own error for it as well."""


def parse_target(store: Store, mode: str, *, likely: ZarrFormat | None, writer: Writer | None) -> parser.ParsedFile:
    """Return the metadata of a file; before a change, finish or undo an interrupted one, and make formats alike."""
    is_read = mode in READING_MODES
    if writer is not None:
        writer.clean_up()
    elif store.folder is not None:  # elsewhere it takes a request
        warn_of_pending(store, only_dead=True)
    try:
        hint = likely if is_read and likely != BOTH else None
        # a document that cannot be read hides one object from a reader; a change of the others could make that final
        parsed = parser.parse(store, use_consolidated=mode != "r-", hint=hint, leave_out=is_read)
    except errors.StoreNotFoundError as error:
        raise _missing(error, store, mode) from error
    if parsed.is_foreign and not is_read:
        problem = "a LINDI file can only be read"
        remedy = "Export it to a new file, and change that."
        raise errors.ReadOnlyStoreError(problem, store=store.location, remedy=remedy)
    if writer is not None:
        parser.check_not_lost(store, parsed.hierarchy, parsed.state)
        if parsed.state == "2 is newer" and parsed.consolidated:
            make_alike(writer, parsed)
    return parsed


def _missing(error: errors.StoreNotFoundError, store: Store, mode: str) -> TargetMissingError:
    """Return the error as one of hdmf's too, with the advice to create the file, unless a writer has left one."""
    remedy, local = error.remedy, store.folder or store.zip_file
    if store.abilities.write and (local is None or parser.unfinished_write(local) is None):
        remedy += " Use mode 'w' to create a new file."
    return TargetMissingError(
        f"Unable to open file in {mode!r} mode: {error.problem}", store=store.location, remedy=remedy
    )


def _view(name: str) -> Callable[..., Any]:
    """Return the function that makes HTML or an array of another library of a `LazyArray`."""
    # array is below interop, so a LazyArray cannot import these itself
    from hdmf_zarr_backend import interop  # on use: few programs need it

    view: Callable[..., Any] = array_html if name == "html" else getattr(interop, name)
    return view


def check_target(store: Store, mode: str, *, force: bool) -> None:
    """Refuse to replace what a new file must not replace; ``force``: mode ``w`` replaces anything."""
    # hdmf-zarr 0.13 emptied any folder that mode w was given, with whatever else was in it
    parser.check_outside(store, is_new=True)
    if not store.exists() or (mode == "w" and store.is_empty_folder()):
        return
    if mode != "w":
        problem = f"Unable to open file in {mode!r} mode. File already exists"
        remedy = "Use mode 'w' to replace it, or 'a' to add to it."
        raise TargetExistsError(problem, store=store.location, remedy=remedy)
    if not force and not parser.is_hdmf_zarr(store) and not parser.is_empty_group(store):
        problem = "the target exists and is not an HDMF Zarr file; it is not replaced"
        remedy = "Choose another path, or pass force_overwrite=True if it may be deleted."
        raise errors.StoreExistsError(problem, store=store.location, remedy=remedy)


def check_format(store: Store, mode: str, parsed: parser.ParsedFile | None, zarr_format: ZarrFormat | None) -> None:
    """Refuse to change a file in another format than its own, or to create one that the store cannot hold."""
    if zarr_format is None:
        return
    abilities = store.abilities
    if parsed is None and not {*((2, 3) if zarr_format == BOTH else (zarr_format,))} <= {*abilities.formats}:
        remedy = "Leave out zarr_format, or write to another location."
        raise errors.ReadOnlyStoreError(abilities.why, store=store.location, remedy=remedy)
    if parsed is not None and mode in ("r+", "a") and zarr_format != format_of(parsed):
        problem = f"the file has Zarr format {format_of(parsed)}, not zarr_format={zarr_format!r}"
        remedy = "Leave out zarr_format, or export to a new file; `zarrio upgrade --keep` adds format 3 to a file of "
        raise errors.UsageError(problem, store=store.location, remedy=f"{remedy}format 2.")


def format_of(parsed: parser.ParsedFile) -> int | str:
    """Return the format of a file: 2, 3 or "both"."""
    return parsed.zarr_format if parsed.state is None else BOTH


# the default of hdmf's HDF5IO: the rows of a DynamicTable can be appended to
EXPANDABLE = ("VectorData", "ElementIdentifiers")

LAZY = True
"""Whether containers are created on access, unless the user chooses."""


def _store_of(path: Any, file: Any, storage_options: Mapping[str, Any] | None) -> Store:
    """Return the store of a file, which is given by its path or as an open ``zarr.Group``."""
    if path is None and file is None:
        raise errors.UsageError("no file is given", remedy="Pass path= or file=.")
    return open_store(file) if path is None else open_store(path, storage_options)


class ZarrIO(HDMFIO):  # type: ignore[misc]
    """Reads and writes HDMF containers in Zarr files.

    Parameters
    ----------
    path : str, Path, UPath, OpenFile, mapping, zarr.abc.store.Store, StorePath, zarr.Group or icechunk.Session
        The file: a local directory or zip file, a file of references, a URL, or a store or group that holds the file.
    mode : {"r", "r-", "r+", "a", "w", "w-", "x"}
        ``r``: read. ``r-``: read without the consolidated document. ``r+``: read and change. ``a``: the same, but
        create the file if it does not exist. ``w``: create a new file, and replace an existing HDMF Zarr file, as
        HDF5IO does. ``w-`` and ``x``: create a new file, and refuse to replace one. Symbolic links are followed.
    manager : BuildManager or TypeMap, optional
        Builds and constructs containers. None: a manager without types.
    storage_options : dict, optional
        Options for URLs, with the names of fsspec or obstore.
    force_overwrite : bool
        With mode ``w``, replace any existing file or folder. False: replace an HDMF Zarr file only.
    herd_path : str, optional
        The archive (a zip file) of the external resources (HERD), which is read and written with the file.
    zarr_format : {2, 3, "both"}, optional
        Format of a new file; "both": the metadata of both formats over the same chunks, for programs that read only one
        of them. None: 3 if any array has shards; else the format in the environment variable
        ``HDMF_ZARR_BACKEND_FORMAT``; else 2, or the only format that the store can hold (Icechunk: 3). An existing file
        keeps its format, which need not be given. With ``r`` and ``r-``: the format whose metadata are requested first,
        so that a remote file opens with one request instead of two. A file with the metadata of both formats is read in
        this format, by default in format 2 if it was written as "both", else in format 3.
    break_lock : bool
        Write despite the lock of another writer that has stopped or runs on another machine. A running process on this
        machine keeps its lock of a local file. The lock of a dead writer in an object store stays until it is broken.
    lazy : bool, optional
        In modes ``r`` and ``r-``: create a container when it is first accessed, so that opening takes the time of what
        you use, not of what is in the file. An error in an object is raised when it is accessed; ``read(check=True)``
        creates all. None: True. Only groups whose members are collections or optional fields are created without them,
        such as an ``NWBFile`` and a ``ProcessingModule``. Everything is created at once in the other modes, with a
        manager of a class other than hdmf's ``BuildManager``, and for a root of another type.
    read_options : ReadOptions, optional
        How the file is read: limits, chunks that are not stored, links to other files.
    write_options : WriteOptions, optional
        How the file is written: executor, memory, progress, durability, form of the metadata. Mode ``r`` ignores it.

    Raises
    ------
    UsageError
        An argument does not exist, or has no effect here. Nothing is changed.
    StoreNotFoundError, NotZarrError, MetadataError
        The file cannot be read.
    StoreExistsError
        A new file would replace an existing one. Nothing is changed.
    StoreLockedError
        Another writer has the file open. Readers never wait.
    """

    herd_path: str | None

    @known_arguments
    def __init__(
        self,
        path: FileSource,
        mode: Mode = "r",
        manager: BuildManager | TypeMap | None = None,
        *,
        storage_options: Mapping[str, Any] | None = None,
        force_overwrite: bool = False,
        herd_path: str | None = None,
        zarr_format: ZarrFormat | None = None,
        break_lock: bool = False,
        lazy: bool | None = None,
        read_options: ReadOptions | None = None,
        write_options: WriteOptions | None = None,
    ) -> None:
        if mode not in MODES:
            raise errors.UsageError(f"the mode {mode!r} is unknown", remedy=f"Use one of {', '.join(MODES)}.")
        if zarr_format not in (None, 2, 3, BOTH):
            raise errors.UsageError(f"there is no Zarr format {zarr_format!r}", remedy="Use 2, 3 or 'both'.")
        if manager is None or isinstance(manager, TypeMap):
            manager = BuildManager(manager or TypeMap(NamespaceCatalog()))
        self._is_lazy = mode in READING_MODES and (LAZY if lazy is None else lazy)
        self._mode = mode
        self._raw_store = open_store(path, storage_options, read_options)  # _store has inlined chunks too
        self._force_overwrite = force_overwrite
        self._break_lock = break_lock
        self._writer: Writer | None = None
        self._options = write_options or WriteOptions()
        self._commit_message = self._options.commit_message
        if self._commit_message is not None and (mode in READING_MODES or not self._raw_store.abilities.commits):
            problem = "commit_message= does not apply here: it is for writing to Icechunk"
            remedy = "Leave commit_message= out, or give a writable session of Icechunk."
            raise errors.UsageError(problem, store=self._raw_store.location, remedy=remedy)
        if self._raw_store.abilities.strict_json:
            self._options = replace(self._options, strict_json=True)
        self._zarr_format = zarr_format
        self._store: Store | None = None
        self._parsed: parser.ParsedFile | None = None
        self._reading: files.ReadSession | None = None
        # of an export: object ids of the files of the source, its manager, and builders that are replaced by others
        self._source_ids: dict[str, str | None] = {}
        self._source_manager: Any = None
        self._replaced: list[tuple[Any, Any]] = []
        self._written_builders = WriteStatusTracker()
        self._outdated: list[WriteStatusTracker] = []  # of builders from before something was removed or renamed
        self._is_open = False
        self._zarr_group: Any = None
        self._edited: files.EditedFile | None = None
        self._unchecked: tuple[Any, Any] | None = None
        self._location = self._raw_store.location
        self._fields = KnownFields(manager, self._location, self._written_builders.get_written)
        super().__init__(manager, source=self._location, herd_path=herd_path)  # this calls open()
        set_source(self, self._location)  # hdmf takes URLs other than http, https and s3 for relative paths
        LazyArray.view = _view

    @property
    def source(self) -> str:
        """Absolute path or URL of the file."""
        return self._location

    # ---- state ------------------------------------------------------------------------------------------------------

    @property
    def mode(self) -> str:
        """The mode in which the file was opened."""
        return self._mode

    path = abspath = source

    @property
    def _file(self) -> Any:
        """The file as a ``zarr.Group``, or its store where zarr-python 2 cannot open format 3."""
        if self._store is None:
            return None
        if self._zarr_group is None:
            number = None if self._parsed is None else self._number
            self._zarr_group = open_zarr_group(self._store, number) if opens(number) else self._store
        return self._zarr_group

    # private names of hdmf-zarr's class that hdmf, neuroconv and others read

    _ZarrIO__file = property(lambda self: self._file)
    _ZarrIO__mode = property(lambda self: self._mode)

    def open(self) -> None:
        """Open the file: for reading, parse its metadata; for writing, take the lock and check that it may be written.

        Called by the constructor; a closed file can be opened again. What was read before is outdated then if the file
        is open for changes, or has changed.
        """
        if self._is_open:
            return
        store: Store = self._raw_store
        check_abilities(store, self._mode)  # before anything is requested
        known, edited, self._parsed, self._edited = self._parsed, self._edited, None, None
        if self._mode not in READING_MODES:
            local = store.folder or store.zip_file
            if self._mode == "r+" and local is not None and not os.path.lexists(os.path.dirname(local)):
                # the lock would create the folder
                raise _missing(parser.not_found(local, self.source), store, self._mode)
            is_new = self._mode == "a" and local is not None and not os.path.lexists(local)
            replaces = is_new or self._mode not in ("r+", "a")
            self._writer = Writer(store, break_lock=self._break_lock, replaces=replaces, durable=self._options.durable)
        try:
            if self._mode in NEW_FILE_MODES:
                check_target(store, self._mode, force=self._force_overwrite)
            elif self._mode != "a" or store.exists():
                self._parsed = parse_target(store, self._mode, likely=self._zarr_format, writer=self._writer)
                store = self._parsed.store(store)
            else:
                parser.check_outside(store, is_new=True)
            check_format(store, self._mode, self._parsed, self._zarr_format)
            check_key_encoding(self._options.chunk_key_encoding, self._number)
            if self._mode in ("r+", "a") and self._parsed is not None and self._writer is not None:
                edits = Edits(store, self._parsed, self._writer)
                self._edited = files.EditedFile(store, self._parsed, edits, self._options)
        # also after Ctrl-C: nobody else could write until this process ends
        except BaseException:
            if self._writer is not None:
                self._writer.release()
            raise
        is_again, self._store = self._store is not None, store
        can_be_same = self._mode in READING_MODES  # else what was read before cannot be written any more
        is_same = can_be_same and known and self._parsed and known.documents == self._parsed.documents
        self._is_open = True
        if is_again and not is_same:
            problem = "this was read before the file was opened again"
            self._outdate(None if edited is None else edited.edits, problem, lambda path: False)

    def _outdate(self, edits: Edits | None, problem: str, is_gone: Callable[[str], bool]) -> None:
        """Refuse to write what was read before, so that the file is read again."""
        if self._mode not in NEW_FILE_MODES:
            self._outdated.append(self._written_builders)
        self._written_builders = WriteStatusTracker()
        self._fields = KnownFields(self.manager, self.path, self._written_builders.get_written)
        self._reading = self._zarr_group = None
        if edits is not None:
            edits.outdate(problem, is_gone)

    @property
    def zarr_format(self) -> int | str:
        """The Zarr format of the file, 2, 3 or ``"both"``; of a new one, the format that it will have."""
        zarr_format = self._zarr_format if self._parsed is None else format_of(self._parsed)
        return zarr_format or registry.default_format(self._raw_store.abilities.formats)

    @property
    def _number(self) -> int:
        """The format that is read, and in which changes are made: of a file of both formats usually 2."""
        if self._parsed is not None:
            return self._parsed.zarr_format
        return 2 if self.zarr_format == BOTH else int(self.zarr_format)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        # A row that a table refused may be in some of its columns. Therefore what was changed in place is dropped, with
        # a warning, and a session of Icechunk is not committed.
        if error is not None:
            self._commit_message = None
        try:
            if error is not None and self._may_flush and self._edited is not None:
                with self._edited.edits.gate:
                    files.drop_changes(self._edited.edits, self.path, error)
        finally:
            super().__exit__(kind, error, trace)

    @property
    def _may_flush(self) -> bool:
        """Whether this process may write what was changed; a fork of it does not hold the lock, and may not."""
        return bool(self._is_open and self._writer is not None and self._writer.lock.is_held)

    def close(self) -> None:
        """Write the changes that were made in place, and close the file. Its arrays can still be read.

        After a write that failed, or an error that ended the ``with`` block, nothing more is written.
        """
        file = self._edited
        try:
            if self._may_flush and self._writer is not None:
                # after a failed write nothing is written, and an error that ended the block has dropped the changes
                if file is not None and not (file.edits.has_failed or file.edits.is_closed):
                    self._fields.check_lengths()
                    files.flush_edits(file, self._targets().encode_stored)
                if self._commit_message is not None:
                    self._writer.commit_session(self._commit_message)
        except BaseException as error:  # a refused change may have chunks that were written early
            if file is not None:
                file.edits.undo(error)
            raise
        finally:
            self._is_open = False
            if file is not None:
                file.edits.is_closed = True
            if self._writer is not None:
                self._writer.release()

    def is_open(self) -> bool:
        """Tell whether the file is open."""
        return self._is_open

    @staticmethod
    def can_read(path: Any) -> bool:
        """Tell whether there is a Zarr group at ``path`` that this class can read; False after any error."""
        # programs try one backend after the other, and an error of the first would hide the others
        try:
            parser.parse(open_store(path))
        except (errors.ZarrBackendError, OSError):
            return False
        return True

    # ---- reading ----------------------------------------------------------------------------------------------------

    @known_arguments
    def read(self, *, check: bool = False) -> Any:
        """Return the root container.

        Parameters
        ----------
        check : bool
            Create all containers now, so that an error in any of them is raised now. False: if the io is lazy, an error
            is raised when the object is accessed.

        Returns
        -------
        Container
            The root, such as an ``NWBFile``. Its data are read when they are indexed.

        Raises
        ------
        UnsupportedModeError
            The mode creates a new file.
        NoValuesError
            The file is empty.
        ContainerError
            The content does not fit the loaded namespaces.
        StoreError
            ``herd_path`` is not an archive of external resources.
        NestingError
            Groups are nested deeper than Python can recurse.
        """
        if self._mode in NEW_FILE_MODES:
            raise self._not_in_this_mode("read from", "Use mode 'r', 'r-', 'r+' or 'a'.")
        containers = self._session(is_lazy=self._is_lazy).containers if self._is_open else None
        if containers is None:
            if self._is_open:
                # Builders are complete or an error. Of containers, what cannot be read is left out with a warning: one
                # document that another program damaged must not hide the rest of the file.
                self._session().own.is_strict = False
            builder, catalog, source = self.read_builder(), self.manager.namespace_catalog, self.path
            # hdmf says "Cannot build data. There are no values." without naming the file
            if not (builder.groups or builder.datasets or builder.links or builder.attributes):
                problem = f"Cannot read data in mode {self._mode!r}. There are no values"
                raise NoValuesError(problem, store=source, remedy="Is this the right file?")
            check_link_paths(builder, self._raw_store.read_rules, source)
            schema.TypeCheck(catalog, source).file(builder)
            hierarchy = None if self._parsed is None else self._parsed.hierarchy
            herd_path, self.herd_path = self.herd_path, None  # hdmf finds an archive in the working directory only
            try:
                # the collector would look through all new containers again and again, and none of them is garbage
                with construction_errors(builder, source, catalog, hierarchy), gc_paused():
                    container = super().read()
                    if self._edited is not None:
                        let_indices_grow(container)
            finally:
                self.herd_path = herd_path
        else:
            container = containers.root()  # as hdmf's own read does: `get_read_io` of a container finds the file
            container.read_io = self
        if self.herd_path is not None:
            self.herd = files.attach_herd(container, self.herd_path, self._raw_store.read_rules.limits)
        if check:
            container.all_children()
        if self._edited is not None:
            self._fields.note(container)
        return container

    def read_builder(self) -> Any:
        """Return the builder of the root, always the same object.

        Raises
        ------
        UnsupportedModeError
            The file is closed.
        """
        if not self._is_open:
            problem = "Cannot read objects from a closed file, only the arrays that were read before"
            raise UnsupportedModeError(problem, store=self.source, remedy="Open it again, by io.open() or a new io.")
        return self._session().root()

    def _session(self, *, is_lazy: bool = False) -> files.ReadSession:
        if self._reading is None:
            if self._parsed is None or self._store is None:
                raise self._nothing_yet()
            edits = None if self._edited is None else self._edited.edits
            on_built = self._written_builders.set_written  # what was read from this file is not written to it again
            self._reading = files.ReadSession(
                self._store, self._parsed, self.manager, edits, is_lazy=is_lazy, on_built=on_built
            )
        return self._reading

    def _not_in_this_mode(self, doing: str, remedy: str) -> UnsupportedModeError:
        return UnsupportedModeError(f"Cannot {doing} file in mode {self._mode!r}", store=self.source, remedy=remedy)

    def _nothing_yet(self) -> errors.ZarrBackendError:
        """Return the error for reading a new file before it is written."""
        if self._mode in NEW_FILE_MODES:
            return UnsupportedModeError("there is nothing to read yet", store=self.source, remedy="Write it first.")
        error = parser.nothing_to_read(self._raw_store)
        problem = f"{error.problem}; mode {self._mode!r} creates a new one, which can be read after it is written"
        return TargetMissingError(problem, store=self.source, remedy=error.remedy)

    def get_builder(self, zarr_obj: Any) -> Any:
        """Return the builder of ``zarr_obj``, a group or array of this file or of one that it links to.

        Raises
        ------
        ReferenceTargetError
            There is none at its path.
        """
        return self._session().builder_of(zarr_obj)

    def get_container(self, zarr_obj: Any) -> Any:
        """Return the container of ``zarr_obj``, a group or array of this file."""
        return self.manager.construct(self.get_builder(zarr_obj))

    @staticmethod
    def generate_dataset_html(dataset: Any) -> str:
        """Return the HTML that a notebook shows for ``dataset``: type, shape, chunks, codecs, stored size and ratio."""
        return dataset_html(dataset)

    def _repr_html_(self) -> str:
        """Return the HTML that a notebook shows for an open file: its tree, with shapes, chunks and codecs."""
        from hdmf_zarr_backend.outline import Outline, outline_html  # on use: for notebooks

        if self._parsed is None or not self._is_open:
            return f"<p>{escape(self._location)}: mode {escape(self._mode)}, nothing is open to be read</p>"
        return outline_html(Outline(self._location, self._parsed.hierarchy, self._parsed.consolidated))

    # ---- namespaces -------------------------------------------------------------------------------------------------

    @classmethod
    def load_namespaces(
        cls,
        namespace_catalog: NamespaceCatalog | TypeMap,
        path: FileSource | None = None,
        namespaces: list[str] | None = None,
        file: Any = None,
        *,
        storage_options: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> dict[str, Any]:
        """Load the newest version of each namespace that is cached in a file.

        Parameters
        ----------
        namespace_catalog : NamespaceCatalog or TypeMap
            The catalog that receives the namespaces.
        path : str or Path, optional
            Path or URL of the file.
        namespaces : list of str, optional
            Names of the namespaces to load. None: all.
        file : zarr.Group, optional
            The file, if it is open already, instead of ``path``.
        storage_options : dict, optional
            Options for URLs, with the names of fsspec or obstore.
        **kwargs
            Ignored: arguments of HDF5IO such as ``driver``, which pynwb passes to any backend.

        Returns
        -------
        dict
            ``{namespace: {dependency: types}}``, empty (with a warning) if no namespace is cached.
        """
        # From the consolidated document. hdmf-zarr 0.13 lists the folder of specifications, which a web server cannot
        # do: extensions are then not found, without a warning (the probable cause of hdmf-zarr#332).
        store = _store_of(path, file, storage_options)
        parsed = parser.parse(store, leave_out=True)
        return schema.load_cached_namespaces(namespace_catalog, parsed.store(store), parsed.hierarchy, namespaces)

    @classmethod
    def get_namespaces(
        cls, path: FileSource | None = None, file: Any = None, *, storage_options: Mapping[str, Any] | None = None
    ) -> dict[str, str]:
        """Return ``{namespace: version}`` of the newest version of each namespace that is cached in a file.

        Parameters
        ----------
        path : str or Path, optional
            Path or URL of the file.
        file : zarr.Group, optional
            The file, if it is open already, instead of ``path``.
        storage_options : dict, optional
            Options for URLs, with the names of fsspec or obstore.
        """
        return newest_versions(parser.parse(_store_of(path, file, storage_options), leave_out=True).hierarchy)

    def load_namespaces_io(
        self, namespace_catalog: NamespaceCatalog | TypeMap, namespaces: list[str] | None = None
    ) -> dict[str, Any]:
        """Load the newest version of each namespace that is cached in this file.

        Parameters
        ----------
        namespace_catalog : NamespaceCatalog or TypeMap
            The catalog that receives the namespaces.
        namespaces : list of str, optional
            Names of the namespaces to load. None: all.

        Returns
        -------
        dict
            ``{namespace: {dependency: types}}``, empty (with a warning) if no namespace is cached.

        Raises
        ------
        UnsupportedModeError
            The file is closed.
        """
        if not self._is_open:
            raise UnsupportedModeError("Cannot load namespaces from a closed file", store=self.source)
        if self._store is None or self._parsed is None:
            raise self._nothing_yet()
        return schema.load_cached_namespaces(namespace_catalog, self._store, self._parsed.hierarchy, namespaces)

    def get_written(self, builder: Any) -> bool:
        """Tell whether ``builder`` was read from or written to this file."""
        return bool(self._written_builders.get_written(builder))

    # ---- writing ----------------------------------------------------------------------------------------------------

    def _targets(self) -> Targets:
        """Return what names the objects of this file that are on disk."""
        # a reference has the id of the file that it points into, by which `verify` notices a replaced one
        known = None if self._parsed is None else self._parsed.hierarchy.root.attributes.get("object_id")
        root_id = known if isinstance(known, str) else None
        return Targets(self.path, self.manager, root_id, self._file_ids(), self.get_written)

    def _file_ids(self) -> dict[str, str | None]:
        """Return the object ids of the roots of files that this io, and the source of an export, have read."""
        return {**self._source_ids, **(self._reading.root_ids if self._reading is not None else {})}

    def _create_ref(self, builder: Any) -> dict[str, Any] | None:
        """Return the stored form of a reference to ``builder``, which users of hdmf append to a dataset of rows."""
        return self._targets().encode_stored(builder)

    @known_arguments
    def write(
        self,
        container: Any,
        cache_spec: bool = True,  # noqa: FBT001, FBT002 - the order of hdmf-zarr 0.13
        link_data: bool = True,  # noqa: FBT001, FBT002 - the order of hdmf-zarr 0.13
        exhaust_dci: bool = True,  # noqa: FBT001, FBT002 - the order of hdmf-zarr 0.13
        *,
        herd: Any = None,
        expandable: Collection[str] = EXPANDABLE,
    ) -> None:
        """Write a container and everything in it.

        Parameters
        ----------
        container : Container
            The root container, such as an ``NWBFile``. In modes ``r+`` and ``a``, the one that was read from the file.
        cache_spec : bool
            Cache the namespaces in the file.
        link_data : bool
            Link to stored arrays of other files that are given as data. False: copy them.
        exhaust_dci : bool
            Exhaust data chunk iterators one after the other. False: take one block of each in turn.
        herd : HERD, optional
            External resources, which are written to ``herd_path``. None: those that ``container`` has.
        expandable : collection of str
            Data types whose datasets can be extended, up to the shape that the schema allows.

        Raises
        ------
        UnsupportedModeError
            The file is open for reading.
        WrongArgumentError
            ``container`` is not a container; also a TypeError.
        UsageError
            The container, or one in it, was read from another file: use `export`. Nothing was written.
        WriteError
            A value cannot be stored, or contradicts the file. Nothing was written.
        NestingError
            Groups are nested deeper than Python can recurse. Nothing was written.
        """
        if self._mode in READING_MODES:
            raise self._not_in_this_mode("write to", "Use 'r+', 'w', 'w-', 'x' or 'a'.")
        if not isinstance(container, AbstractContainer):
            problem = f"a {type(container).__name__} cannot be written"
            raise errors.WrongArgumentError(problem, store=self.source, remedy="Give a container, such as an NWBFile.")
        builder = self.manager.get_builder(container) if self._outdated else None
        if builder is not None and any(written.get_written(builder) for written in self._outdated):
            problem = "the container is from before something in the file was removed, renamed, replaced or copied, or "
            problem += "from before the file was opened again"
            remedy = "Read the file again with io.read(), and change what that returns."
            raise errors.UsageError(problem, store=self.source, remedy=remedy)
        check_origin(container, self.manager, self.path)
        # hdmf calls `write_builder`, and has lost the values then that it converted to the type of the schema
        self._unchecked = (container, lambda container, builder: self.get_written(builder))
        self._fields.check()
        options = {"link_data": link_data, "exhaust_dci": exhaust_dci, "expandable": expandable}
        super().write(container=container, herd=herd, cache_spec=cache_spec, **options)
        if self._edited is not None:
            self._fields.note(container, is_written=True)

    @partial(known_arguments, called="ZarrIO.write_builder (write_args of an export)")
    def write_builder(
        self,
        builder: Any,
        *,
        link_data: bool = True,
        exhaust_dci: bool = True,
        export_source: str | None = None,
        cache_spec: bool = False,
        spec_catalogs: Collection[NamespaceCatalog] | None = None,
        expandable: Collection[str] = EXPANDABLE,
    ) -> None:
        """Write a builder and everything below it.

        Parameters
        ----------
        builder : GroupBuilder
            The builder of the root.
        link_data : bool
            Link to stored arrays of other files that are given as data. False: copy them.
        exhaust_dci : bool
            Exhaust data chunk iterators one after the other. False: take one block of each in turn.
        export_source : str, optional
            Absolute path or URL of the file that is exported.
        cache_spec : bool
            Cache the namespaces in the file.
        spec_catalogs : collection of NamespaceCatalog, optional
            The catalogs whose namespaces are cached. None: that of the manager.
        expandable : collection of str
            Data types whose datasets can be extended, up to the shape that the schema allows.

        Raises
        ------
        UsageError
            ``nczarr`` is set for a file of format 3, for which netcdf-c has no attributes; ``consolidate_metadata`` is
            False for a file of both formats.
        """
        # a text would be a collection of its letters, and True is what one expects of this name
        if isinstance(expandable, (bool, str)):
            problem = f"expandable={expandable!r} is not a collection of names"
            raise errors.WrongArgumentError(problem, remedy="Name the data types, such as ['VectorData'].")
        if self.zarr_format == BOTH and not self._options.consolidate_metadata:
            problem = "a file of both formats has consolidated documents"
            raise errors.WrongArgumentError(problem, store=self.source, remedy="Leave consolidate_metadata out.")
        check_nczarr(self._number, self.source, nczarr=self._options.nczarr)
        unchecked, self._unchecked = self._unchecked, None  # not for builders that the user passes
        if unchecked is not None:
            manager = self._source_manager or self.manager  # that of an export knows the builders
            schema.check_conversions(unchecked[0], manager, self.path, is_stored=unchecked[1])
        # names of objects that references and links of the new file may point to, on disk or about to be written
        targets = replace(self._targets(), root_id=object_id(builder), root=builder)
        targets.export_location, targets.source_manager = export_source, self._source_manager
        for old, new in self._replaced:
            targets.replace(old, new)
        catalogs = [self.manager.namespace_catalog] if spec_catalogs is None else spec_catalogs
        request = self._request(
            builder,
            targets,
            texts=schema.namespace_texts(catalogs) if cache_spec else {},
            link_data=link_data,
            expandable=expandable,
            schema=next(iter(catalogs), None) if export_source is not None else None,
            one_by_one=exhaust_dci,
        )
        with limited_nesting(builder, store=self.source, doing="written"):
            self._carry_out(request)
        # a DataIO without data (only a shape) is filled by the user, through the array that now exists
        for wrapper, path in request.unfilled:
            wrapper.dataset = self._session().own.array_at(path)

    def _request(self, builder: Any, targets: Targets, *, expandable: Collection[str], **options: Any) -> WriteRequest:
        """Return the request for a write; ``options`` are more fields of it."""
        manager = self._source_manager or self.manager  # an export is built with the types of its source
        wanted, abilities, parsed = self._options, self._raw_store.abilities, self._parsed
        of_file = zarr3.key_encoding_of(parsed.hierarchy) if parsed and parsed.zarr_format == 3 else "default"
        keys = wanted.chunk_key_encoding or of_file
        consolidate = wanted.consolidate_metadata and abilities.consolidates
        return WriteRequest(
            builder,
            targets,
            replace(wanted, chunk_key_encoding=keys, consolidate_metadata=consolidate),
            self._raw_store.read_rules,
            max_shape=lambda child: schema.max_shape_of(manager, child, expandable),
            doc=partial(schema.documentation, manager) if wanted.doc else lambda child: None,
            zarr_format=self._number,
            has_both=self.zarr_format == BOTH,
            shards_choose_format=self._zarr_format is None and 3 in abilities.formats,
            exclusive=self._mode != "w",
            **options,
        )

    def _carry_out(self, request: WriteRequest) -> None:
        """Write a new file, or what a changed one lacks, and mark its builders as written."""
        if self._parsed is None:
            hierarchy, inlined = files.write_new(request, self._raw_store, self._writer)
            state: State | None = "alike" if request.has_both else None
            is_consolidated = request.options.consolidate_metadata
            self._parsed = parser.ParsedFile(hierarchy, consolidated=is_consolidated, inlined=inlined, state=state)
            if self._store is not None and self._writer is not None:
                # a change of an inlined chunk is a change of the consolidated document too
                self._store = self._parsed.store(self._store)
                edits = Edits(self._store, self._parsed, self._writer)
                self._edited = files.EditedFile(self._store, self._parsed, edits, self._options)
        else:
            session = self._session()
            assert self._edited is not None  # set when the file was opened or written
            planner_of = partial(AppendPlanner, original=self._original, fields=self._fields)
            with self._edited.edits.gate:
                files.write_difference(request, self._edited, planner_of)
            self._parsed.consolidated = request.options.consolidate_metadata
            # if nothing was read, the file may have more than the builder: it is read when somebody asks for it
            if "" in session.own.builders:
                session.own.adopt(request.builder)
        for _, builder in builders_below(request.builder):
            for written in (builder, *getattr(builder, "links", {}).values()):
                self._written_builders.set_written(written)

    def _original(self, path: str) -> Any:
        """Return the builder that is on disk at ``path``, of a session of its own if the file was not read."""
        session = self._session()
        if "" not in session.own.builders and self._parsed is not None:
            session = files.ReadSession(session.own.store, self._parsed, self.manager)
        return session.own.builder_at(path)

    # ---- changing what is in the file -------------------------------------------------------------------------------

    @known_arguments
    def remove(self, *paths: str, rows: Any = None, cascade: bool = False) -> list[str]:
        """Remove groups, datasets, columns, links, attributes, or rows of a table from the file, in one change.

        A column is removed with its indices, and from the ``colnames`` of its table.

        Parameters
        ----------
        *paths : str
            Paths in the file, such as ``"/acquisition/lick"``; an attribute as ``"/acquisition/lick@comments"``.
        rows : list of int, slice or array of bool, optional
            Rows to remove of the one table in ``paths``, by their numbers from 0 on, which are not their ids. Its ids
            and all columns get shorter, and row numbers of other tables and series follow. None: remove the paths.
        cascade : bool
            Remove also the links, and the attributes that are references, that lead to what is removed, make the
            references in datasets null where the schema does not require them, and take the numbers of removed rows out
            of ragged columns. False: refuse that, and list them.

        Returns
        -------
        list of str
            What was done, in words.

        Raises
        ------
        UnsupportedModeError, ReferenceTargetError
            The mode is not ``r+`` or ``a``; there is nothing at a path.
        ConflictError, UsageError
            Links, references or row numbers lead there, or the schema requires it; it is the root, a cached
            specification, the index of a column, an attribute that does not exist, or has no such rows. Nothing is
            changed.

        Notes
        -----
        Changes of arrays that wait are written first, also if this is refused then; of other changes in memory, which
        `write` has not written, a `DroppedChangesWarning` tells. Containers that were read before cannot be written any
        more, and their arrays that were removed raise an error. Call `read` again.

        Examples
        --------
        >>> with NWBZarrIO("session.nwb.zarr", "r+") as io:  # doctest: +SKIP
        ...     io.remove("/processing/behavior", "/units/quality")
        ...     io.remove("/intervals/trials", rows=[0, 5])
        """
        with self._editing(*paths) as edit:
            edit.remove(paths, rows, cascade=cascade)
        return edit.done

    @known_arguments
    def rename(self, path: str, name: str) -> list[str]:
        """Give a group, dataset, column or link another name; links and references that lead there follow.

        The indices of a column, and its name in the ``colnames`` of its table, follow too. Links in other files do not.
        What was read before is outdated, as after `remove`.

        Parameters
        ----------
        path : str
            Path in the file, such as ``"/acquisition/lick"``.
        name : str
            The new name, in the same group.

        Returns
        -------
        list of str
            What was done, in words.

        Raises
        ------
        UnsupportedModeError, ReferenceTargetError
            The mode is not ``r+`` or ``a``; there is nothing at the path.
        ConflictError, NameRefusedError, UsageError
            The name is in use, or cannot be stored; the schema requires the present one; it is the root, a cached
            specification, or the index of a column. Nothing is changed.

        Examples
        --------
        >>> with NWBZarrIO("session.nwb.zarr", "r+") as io:  # doctest: +SKIP
        ...     io.rename("/acquisition/lick", "lick_left")
        """
        with self._editing(path, name) as edit:
            edit.rename(path, name)
        return edit.done

    @known_arguments
    def replace(self, path: str, data: Any) -> list[str]:
        """Give a dataset other values, also of another shape, type, chunks or codec. Its attributes stay.

        To change single values, or to append, use the dataset itself: it is then not written as a whole. What was read
        before is outdated, as after `remove`. A dataset that is missing is added if the schema has its name there, such
        as ``/session_description``, without which an NWB file cannot be read. A link to a dataset, such as timestamps
        that two series share, becomes a dataset of its own.

        A program that has the file open gets an error for data of another form, never wrong numbers: if type or shape
        change and the chunks would have the size that they had, they get one more row.

        Parameters
        ----------
        path : str
            Path of the dataset in the file, such as ``"/acquisition/lick/data"``.
        data : array, list, number, text or ZarrDataIO
            The new values.

        Returns
        -------
        list of str
            What was done, in words.

        Raises
        ------
        UnsupportedModeError, ReferenceTargetError
            The mode is not ``r+`` or ``a``; there is nothing at the path.
        ValueRefusedError, ConflictError
            The schema has another type or shape, or the values cannot be stored; or the object could not be read any
            more, such as a table whose columns differ in length. Nothing is changed.
        UsageError
            It is a group, a link to an object, an attribute or a cached specification; or the data are an iterator,
            None or a `ZarrDataIO` that asks for a link.

        Examples
        --------
        >>> with NWBZarrIO("session.nwb.zarr", "r+") as io:  # doctest: +SKIP
        ...     io.replace("/acquisition/lick/data", ZarrDataIO(values.astype("int16"), compressor="zstd"))
        """
        with self._editing(path) as edit:
            edit.replace(path, data, partial(self._request, targets=self._targets(), expandable=EXPANDABLE))
        return edit.done

    @known_arguments
    def copy(self, container: Any, into: str | None = None, *, name: str | None = None) -> list[str]:
        """Copy a container of another open file, with everything in it, into this file.

        Data are copied chunk by chunk, as they are stored if possible. Links and references inside of the container
        lead to the copy. Those to objects outside of it lead to the objects of this file with the same object ids, such
        as the electrodes of the same session; without such objects, the copy is refused. Namespaces of extensions that
        this file lacks are cached in it. What was read before is outdated, as after `remove`.

        Parameters
        ----------
        container : Container
            What an `NWBZarrIO`, a `ZarrIO` or an ``NWBHDF5IO`` that is open has read; changes in memory are copied too.
        into : str, optional
            Path of the group in this file, such as ``"/processing/ecephys"``. None: the path in the other file.
        name : str, optional
            Name of the copy. None: that of the container.

        Returns
        -------
        list of str
            What was done, in words.

        Raises
        ------
        UnsupportedModeError, UsageError
            The mode is not ``r+`` or ``a``, or the other file is closed; the container was not read from another file,
            or is its root.
        MissingTargetError
            It leads to objects that this file lacks, which are listed: copy them first. Nothing is changed.
        ConflictError, ReferenceTargetError
            The name is in use, an object is in the file already, the schema has no place for it there, or there is no
            such group.

        Examples
        --------
        >>> with NWBHDF5IO("sorted.nwb") as source, NWBZarrIO("session.nwb.zarr", "r+") as io:  # doctest: +SKIP
        ...     io.copy(source.read().units)
        """
        source: Any = container.get_read_io() if isinstance(container, AbstractContainer) else None
        old = None if source is None else source.manager.get_builder(container)
        if old is None or old.parent is None or is_same_place(str(source.source), self.source):
            problem = "only a container that was read from another file, and is not its root, can be copied"
            remedy = "Use io.write for a new one, and export for a file."
            raise errors.UsageError(problem, store=self.source, remedy=remedy)
        source.read_builder()  # refuses a closed file
        reading = source._session() if isinstance(source, ZarrIO) else None
        into = split(relative(builder_path(old)))[0] if into is None else into
        with nullcontext() if reading is None else reading.copied(), self._editing() as edit:
            lazy = None if reading is None else reading.containers
            builder, manager, _ = build_again(container, source, self.source, lazy)
            targets = replace(self._targets(), manager=manager, source_manager=source.manager)
            targets.export_location = full_location(str(source.source))
            request = partial(self._request, builder, targets, expandable=EXPANDABLE)
            edit.copy(old, source.manager, into, name, request)
        return edit.done

    @contextmanager
    def _editing(self, *names: Any) -> Iterator[Edit]:
        """Yield an edit of the file at what the user ``names``, and write it if the block ends without an error."""
        if self._mode not in ("r+", "a"):
            raise self._not_in_this_mode("change what is in a", "Use 'r+'.")
        if not self._is_open:
            raise UnsupportedModeError("Cannot change a closed file", store=self.source, remedy="Open it again.")
        file = self._edited
        if file is None:
            raise self._nothing_yet()
        for given in (name for name in names if not isinstance(name, str)):
            builder = self.manager.get_builder(given) if isinstance(given, AbstractContainer) else None
            own: Any = getattr(given, "name", None) if builder is None else builder_path(builder)
            remedy = f"Give the path, {own if str(own).startswith('/') else '/acquisition/licks'!r}."
            raise errors.WrongArgumentError(f"{type(given).__name__} is not a path", store=self.source, remedy=remedy)
        from hdmf_zarr_backend.hdmf.editing import Edit

        with file.edits.gate:
            files.flush_edits(file, self._targets().encode_stored)
            edit = Edit(file, self.manager)
            yield edit
            edit.commit()
            # hdmf's containers do not follow a change of their file
            if changed := self._fields.unwritten():
                lost = f"{self.source}: not written: changes of {few(changed)} in memory. Call io.write before this, "
                warn(f"{lost}since the file has to be read again after it", errors.DroppedChangesWarning)
            problem = f"this was read before a change of the file: {few(edit.done, '; ')}"
            self._outdate(file.edits, problem, edit.is_gone)

    @known_arguments
    def export(
        self,
        src_io: HDMFIO,
        container: Any = None,
        write_args: dict[str, Any] | None = None,
        clear_cache: bool = False,  # noqa: FBT001, FBT002 - the order of hdmf-zarr 0.13
        cache_spec: bool = True,  # noqa: FBT001, FBT002 - the order of hdmf-zarr 0.13
    ) -> None:
        """Write what ``src_io`` has read, from any backend, to this file.

        Parameters
        ----------
        src_io : HDMFIO
            The source, which does not change.
        container : Container, optional
            The root container that ``src_io`` has read, with or without changes. None: everything in the source.
        write_args : dict, optional
            Arguments of `write_builder`: ``{"link_data": False}`` copies data that the source links to.
        clear_cache : bool
            Build all containers again, not only those that were changed.
        cache_spec : bool
            Cache the namespaces of the source in the file.

        Raises
        ------
        UnsupportedModeError
            The mode is not ``w``, ``w-`` or ``x``.
        StoreExistsError
            This file is the source.
        """
        if self._mode not in NEW_FILE_MODES:
            raise self._not_in_this_mode("export to", "Use mode 'w'.")
        source = None if src_io.source is None else full_location(str(src_io.source))
        # hdmf-zarr 0.13 left an empty file here: opening for writing deleted the source
        if source is not None and is_same_place(source, self.source):
            problem = "a file cannot be exported onto itself"
            raise errors.StoreExistsError(problem, store=self.source, remedy="Export to another path.")
        # While it is copied, a chunk that the source should have and lacks is an error, and not fill values in the
        # copy.
        copied: AbstractContextManager[None] = nullcontext()
        self._source_manager = src_io.manager
        if isinstance(src_io, ZarrIO):
            src_io.read_builder()
            self._source_ids = src_io._file_ids()
            copied = src_io._session().copied()
        if (write_args or {}).get("link_data") and not (isinstance(src_io, ZarrIO) and len(src_io._file_ids()) > 1):
            message = f"{self.source}: link_data=True has no effect: an export copies the data of its source, and only "
            message += "keeps the links that the source has to data in other files"
            warn(message)
        # types of the source first: what it contains was built with them, also if another version is loaded here
        arguments = {**(write_args or {}), "export_source": source, "cache_spec": cache_spec}
        if cache_spec and src_io.manager is not None:
            arguments["spec_catalogs"] = [src_io.manager.namespace_catalog, self.manager.namespace_catalog]
        if container is not None:
            self._unchecked = (container, lambda container, builder: container.container_source is not None)
        try:
            with copied:
                known = None if container is None or src_io.manager is None else src_io.manager.get_builder(container)
                if clear_cache or known is None or known.parent is not None:  # hdmf refuses what was not read as a root
                    super().export(src_io=src_io, container=container, write_args=arguments, clear_cache=clear_cache)
                else:
                    # hdmf builds only what `set_modified` marks, which a changed field or `set_data_io` does not do
                    lazy = src_io._session().containers if isinstance(src_io, ZarrIO) else None
                    builder, self._source_manager, self._replaced = build_again(container, src_io, self.source, lazy)
                    self.write_builder(builder=builder, **arguments)
        finally:
            self._source_manager, self._replaced, self._unchecked = None, [], None

    @classmethod
    def export_io(
        cls, path: FileSource, src_io: HDMFIO, *, write_options: WriteOptions | None = None, **kwargs: Any
    ) -> None:
        """Export ``src_io`` to a new file.

        Parameters
        ----------
        path : str or Path
            Path or URL of the new file.
        src_io : HDMFIO
            The source, which does not change.
        write_options : WriteOptions, optional
            How the file is written: executor, memory, progress, durability, form of the metadata.
        **kwargs
            The other arguments of `export`.
        """
        # a subclass with the signature of HDF5IO does not take write_options
        options: dict[str, Any] = {} if write_options is None else {"write_options": write_options}
        with cls(path, mode="w", **options) as io:
            io.export(src_io=src_io, **kwargs)


ZarrIO.__init__.__doc__ = ZarrIO.__doc__  # help() shows hdmf's otherwise
