"""The reading half of `ZarrIO`: opening a file, its builders and containers, its cached namespaces."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Never

from hdmf.backends.io import HDMFIO
from hdmf.backends.utils import WriteStatusTracker
from hdmf.build import BuildManager, ConstructError, GroupBuilder, ObjectMapper, TypeMap
from hdmf.spec import NamespaceCatalog

from hdmf_zarr_backend.arrays.lazy import LazyArray
from hdmf_zarr_backend.changes.edits import Edits
from hdmf_zarr_backend.changes.journal import journal_of
from hdmf_zarr_backend.changes.locks import WriterLock
from hdmf_zarr_backend.changes.writer_lock import released_on_error
from hdmf_zarr_backend.dataio import object_codec
from hdmf_zarr_backend.errors import UsageError, ZarrBackendError
from hdmf_zarr_backend.interop.xarray import VIEWS
from hdmf_zarr_backend.mapping import formats
from hdmf_zarr_backend.mapping.dtypes import OBJECT_CODECS
from hdmf_zarr_backend.model.nesting import limited_nesting
from hdmf_zarr_backend.modes import (
    MODES,
    NEW_FILE_MODES,
    READING_MODES,
    NoValuesError,
    UnsupportedModeError,
    check_format,
    check_target,
    lock_for,
    parse_target,
    unknown_argument,
)
from hdmf_zarr_backend.read.columns import let_indices_grow
from hdmf_zarr_backend.read.herd import attach_herd
from hdmf_zarr_backend.read.html import dataset_html, io_html
from hdmf_zarr_backend.read.namespaces import load_cached_namespaces, newest_versions
from hdmf_zarr_backend.read.parser import ParsedFile, parse
from hdmf_zarr_backend.read.session import ReadSession
from hdmf_zarr_backend.read.typecheck import check_types, container_error
from hdmf_zarr_backend.stores.base import KeyStore
from hdmf_zarr_backend.stores.garbage import uncollected
from hdmf_zarr_backend.stores.limits import ExternalLinks, Limits, MissingChunks, ReadRules
from hdmf_zarr_backend.stores.opening import open_keys
from hdmf_zarr_backend.stores.queued import QueuedKeys
from hdmf_zarr_backend.stores.zarr_views import open_zarr_group

ROOT_NAME = "root"

# what hdmf raises while it makes containers
_CONSTRUCTION = (ConstructError, ValueError, TypeError, KeyError, AttributeError, IndexError)


class ZarrReader(HDMFIO):  # type: ignore[misc]
    """What `ZarrIO` does to read; all its parameters and errors are told there."""

    herd_path: str | None

    def __init__(
        self,
        path: str | os.PathLike[str],
        mode: str = "r",
        manager: BuildManager | TypeMap | None = None,
        *,
        object_codec_class: type | None = None,
        storage_options: Mapping[str, Any] | None = None,
        force_overwrite: bool = False,
        herd_path: str | None = None,
        strict_json: bool = False,
        use_inlined: bool = True,
        limits: Limits | None = None,
        missing_chunks: MissingChunks | None = None,
        external_links: ExternalLinks | None = None,
        synchronizer: Any = None,
        zarr_format: int | None = None,
        break_lock: bool = False,
        **unknown: Never,
    ) -> None:
        if unknown:
            raise unknown_argument(type(self), next(iter(unknown)))
        if mode not in MODES:
            raise UsageError(f"the mode {mode!r} is unknown", remedy=f"Use one of {', '.join(MODES)}.")
        if zarr_format not in (None, 2, 3):
            raise UsageError(f"there is no Zarr format {zarr_format!r}", remedy="Use 2 or 3.")
        if manager is None:
            manager = BuildManager(TypeMap(NamespaceCatalog()))
        elif isinstance(manager, TypeMap):
            manager = BuildManager(manager)
        if synchronizer:
            warnings.warn("synchronizer is ignored: a file has one writer at a time", UserWarning, stacklevel=2)
        self._mode = mode
        self._object_codec = object_codec(object_codec_class)
        self._place = open_keys(path, storage_options)
        if limits is not None or missing_chunks is not None or external_links is not None:
            rules = ReadRules(limits=limits or Limits(), missing_chunks=missing_chunks, external_links=external_links)
            self._place.read_rules = rules
        self._force_overwrite = force_overwrite
        self._break_lock = break_lock
        self._lock: WriterLock | None = None
        self._strict_json = strict_json
        self._zarr_format = zarr_format
        self._use_inlined = use_inlined
        self._keys: KeyStore | None = None
        self._parsed: ParsedFile | None = None
        self._reading: ReadSession | None = None
        self._source_ids: dict[str, str | None] = {}
        self._written_builders = WriteStatusTracker()
        self._is_open = False
        self._zarr_group: Any = None
        self._edits: Edits | None = None
        self._location = self._place.location
        super().__init__(manager, source=self._location, herd_path=herd_path)
        self._HDMFIO__source = self._location  # hdmf takes most URLs for relative paths
        ObjectMapper.no_convert(LazyArray)
        LazyArray.views = VIEWS | {"html": dataset_html}

    @property
    def source(self) -> str:
        """Absolute path or URL of the file."""
        return self._location

    # ---- state ------------------------------------------------------------------------------------------------------

    @property
    def mode(self) -> str:
        """The mode in which the file was opened."""
        return self._mode

    @property
    def path(self) -> str:
        """Absolute path of the file."""
        return str(self.source)

    @property
    def abspath(self) -> str:
        """Absolute path of the file."""
        return self.path

    @property
    def object_codec_class(self) -> type:
        """The numcodecs class that encodes references and rows."""
        import numcodecs

        names = {config["id"]: name for name, config in OBJECT_CODECS.items()}
        codec: type = getattr(numcodecs, names[self._object_codec["id"]])
        return codec

    @property
    def _file(self) -> Any:
        """The file as a ``zarr.Group``, made when something asks for it."""
        if self._keys is None:
            return None
        if self._zarr_group is None:
            self._zarr_group = open_zarr_group(self._keys)
        return self._zarr_group

    @property
    def _ZarrIO__file(self) -> Any:
        return self._file

    def open(self) -> None:
        """Open the file: for reading parse its metadata, for writing make sure that it may be written."""
        if self._is_open:
            return
        self._lock = lock_for(self._place, self._mode, break_lock=self._break_lock)
        with released_on_error(self._lock):
            self._open()
        self._is_open = True

    def _open(self) -> None:
        keys: KeyStore = self._place
        if self._mode not in READING_MODES and keys.abilities.is_far:
            keys = QueuedKeys(keys)
        if self._mode in NEW_FILE_MODES:
            check_target(keys, self._mode, force=self._force_overwrite)
        elif self._mode != "a" or keys.exists():
            self._parsed = parse_target(keys, self._mode, use_inlined=self._use_inlined, likely=self._zarr_format)
            keys = self._parsed.keys(keys)
        check_format(keys, self._mode, self._parsed, wanted=self._zarr_format)
        self._keys = keys
        if self._mode in ("r+", "a"):
            self._edits = Edits(keys, self._parsed, journal_of(keys, self.zarr_format))

    @property
    def zarr_format(self) -> int:
        """The Zarr format of the file, 2 or 3; of a new one, the one that is to be written."""
        found = self._zarr_format if self._parsed is None else self._parsed.zarr_format
        return found or formats.default_format(self._place.abilities.formats)

    def close(self) -> None:
        """Close the file. Arrays that were handed out still read; closing twice does no harm."""
        self._is_open = False
        if self._lock is not None:
            self._lock.release()

    def is_open(self) -> bool:
        """Tell whether the file is open."""
        return self._is_open

    @staticmethod
    def can_read(path: Any) -> bool:
        """Tell whether there is a Zarr group at ``path`` that this class reads; any error is a no."""
        try:
            parse(open_keys(path))
        except (ZarrBackendError, OSError):
            return False
        return True

    # ---- reading ----------------------------------------------------------------------------------------------------

    def read(self, **kwargs: Any) -> Any:
        """Return the root container; ``kwargs`` are what hdmf's ``read`` takes.

        Raises
        ------
        UnsupportedModeError
            The file is open for writing a new one.
        NoValuesError
            The file holds nothing.
        ContainerError
            What the file holds does not fit the namespaces that are loaded.
        StoreError
            ``herd_path`` is no archive of external resources.
        NestingError
            Groups are nested deeper than Python's calls may be.
        """
        if self._mode in NEW_FILE_MODES:
            raise UnsupportedModeError(
                f"Cannot read from file in mode {self._mode!r}",
                store=self.source,
                remedy="Use mode 'r', 'r-', 'r+' or 'a'.",
            )
        builder = self.read_builder()
        if not (builder.groups or builder.datasets or builder.links or builder.attributes):
            raise NoValuesError(
                f"Cannot read data in mode {self._mode!r}. There are no values",
                store=self.source,
                remedy="Is this the right file?",
            )
        check_types(builder, self.manager.namespace_catalog, str(self.source))
        try:
            with limited_nesting(builder, store=self.source, doing="read"):
                return self._construct(**kwargs)
        except ZarrBackendError:
            raise
        except _CONSTRUCTION as error:
            if isinstance(error.__cause__, ZarrBackendError):  # it says itself what is wrong where
                raise error.__cause__ from None
            raise container_error(error, builder, str(self.source)) from error

    @uncollected()  # what is made of a file is no garbage, and there is a lot of it to look through
    def _construct(self, **kwargs: Any) -> Any:
        herd_path, self.herd_path = self.herd_path, None  # hdmf finds an archive in the working directory only
        try:
            container = super().read(**kwargs)
        finally:
            self.herd_path = herd_path
        if self._edits is not None:
            let_indices_grow(container)
        if herd_path is not None:
            self.herd = attach_herd(container, herd_path)
        return container

    def read_builder(self) -> Any:
        """Return the builder of the root, always the same object.

        Raises
        ------
        UnsupportedModeError
            The file is closed.
        """
        if not self._is_open:
            raise UnsupportedModeError(
                "Cannot read data from a closed file", store=self.source, remedy="Open it again."
            )
        session = self._session()
        known = "" in session.own.builders
        root = session.root()
        if not known:
            self._mark_written(root)
        return root

    def _session(self) -> ReadSession:
        if self._reading is None:
            if self._parsed is None or self._keys is None:
                raise UnsupportedModeError("there is nothing to read yet", store=self.source, remedy="Write it first.")
            self._reading = ReadSession(self._keys, self._parsed, self.path, self.manager, edits=self._edits)
        return self._reading

    def _mark_written(self, builder: Any) -> None:
        """Mark all builders of this file as being on disk."""
        stack = [builder]
        while stack:
            here = stack.pop()
            self._written_builders.set_written(here)
            if isinstance(here, GroupBuilder):
                for members in (here.groups, here.datasets, here.links):
                    stack.extend(child for child in members.values() if child is not None)

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
        """Return what a notebook shows of ``dataset``: type, shape, chunks, codecs, stored size and ratio."""
        return dataset_html(dataset)

    def _repr_html_(self) -> str:
        """Return what a notebook shows of an open file: its tree, with shapes, chunks and codecs."""
        return io_html(self._location, self._mode, self._parsed if self._is_open else None)

    # ---- namespaces -------------------------------------------------------------------------------------------------

    @classmethod
    def load_namespaces(
        cls,
        namespace_catalog: NamespaceCatalog | TypeMap,
        path: str | Path | None = None,
        namespaces: list[str] | None = None,
        file: Any = None,
        *,
        storage_options: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> dict[str, Any]:
        """Load the newest version of each namespace that is cached in a file; ``kwargs`` mean nothing here.

        Parameters
        ----------
        namespace_catalog : NamespaceCatalog or TypeMap
            Where to.
        path, file : str or Path, or zarr.Group
            The file: its place, or open.
        namespaces : list of str, optional
            Only these.
        storage_options : dict, optional
            As of the class.

        Returns
        -------
        dict
            ``{namespace: {dependency: types}}``, empty (with a warning) where no namespace is cached.
        """
        keys = _given(path, file, storage_options)
        parsed = parse(keys)
        return load_cached_namespaces(namespace_catalog, parsed.keys(keys), parsed.hierarchy, namespaces)

    @classmethod
    def get_namespaces(
        cls,
        path: str | Path | None = None,
        file: Any = None,
        *,
        storage_options: Mapping[str, Any] | None = None,
    ) -> dict[str, str]:
        """Return ``{namespace: version}`` of the newest version of each namespace that is cached in a file.

        Parameters
        ----------
        path, file, storage_options
            As of `load_namespaces`.
        """
        return newest_versions(parse(_given(path, file, storage_options)).hierarchy)

    def load_namespaces_io(
        self, namespace_catalog: NamespaceCatalog | TypeMap, namespaces: list[str] | None = None
    ) -> dict[str, Any]:
        """Return what `load_namespaces` does of this file; ``namespace_catalog`` and ``namespaces`` are those of it.

        Raises
        ------
        UnsupportedModeError
            The file is closed.
        """
        if not self._is_open or self._keys is None or self._parsed is None:
            raise UnsupportedModeError("Cannot load namespaces from a closed file", store=self.source)
        return load_cached_namespaces(namespace_catalog, self._keys, self._parsed.hierarchy, namespaces)

    def get_written(self, builder: Any) -> bool:
        """Tell whether ``builder`` was read from or written to this file."""
        return bool(self._written_builders.get_written(builder))


def _given(path: Any, file: Any, storage_options: Mapping[str, Any] | None) -> KeyStore:
    """Return the keys of a file that is given by its place or as an open ``zarr.Group``."""
    if path is None and file is None:
        raise UsageError("no file is given", remedy="Pass path= or file=.")
    return open_keys(file) if path is None else open_keys(path, storage_options)
