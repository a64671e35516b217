"""The reading half of `ZarrIO`: opening a file, its builders and containers, its cached namespaces."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hdmf.backends.errors import UnsupportedOperation
from hdmf.backends.io import HDMFIO
from hdmf.backends.utils import WriteStatusTracker
from hdmf.build import BuildManager, ConstructError, GroupBuilder, ObjectMapper, TypeMap
from hdmf.spec import NamespaceCatalog

from hdmf_zarr_backend.dataio import object_codec
from hdmf_zarr_backend.errors import (
    ModeError,
    NotZarrError,
    StoreExistsError,
    StoreNotFoundError,
    UsageError,
    ZarrBackendError,
)
from hdmf_zarr_backend.mapping.dtypes import OBJECT_CODECS
from hdmf_zarr_backend.read.columns import let_indices_grow
from hdmf_zarr_backend.read.html import dataset_html
from hdmf_zarr_backend.read.namespaces import load_cached_namespaces, newest_versions
from hdmf_zarr_backend.read.parser import ParsedFile, is_hdmf_zarr, parse
from hdmf_zarr_backend.read.session import ReadSession
from hdmf_zarr_backend.read.typecheck import check_types, container_error
from hdmf_zarr_backend.storage.arrays import LazyArray
from hdmf_zarr_backend.storage.edits import Edits
from hdmf_zarr_backend.storage.keys import KeyStore
from hdmf_zarr_backend.storage.stores import local_path, open_keys, open_zarr_group

ROOT_NAME = "root"

_MODES = ("r", "r-", "r+", "a", "w", "w-", "x")
NEW_FILE_MODES = ("w", "w-", "x")
"""Modes that make a new file."""
# what hdmf raises while it makes containers
_CONSTRUCTION = (ConstructError, ValueError, TypeError, KeyError, AttributeError, IndexError)


class UnsupportedModeError(ModeError, UnsupportedOperation):  # type: ignore[misc]
    """The operation is not possible in this mode; hdmf's own error for it as well."""


class WrongArgumentError(UsageError, TypeError):
    """An argument of a type that means nothing here."""


class NoValuesError(NotZarrError, UnsupportedOperation):  # type: ignore[misc]
    """There is a Zarr hierarchy with nothing in it; hdmf's own error for it as well."""


class TargetExistsError(StoreExistsError, UnsupportedOperation):  # type: ignore[misc]
    """Modes ``w-`` and ``x`` make new files only; hdmf's own error for it as well."""


class TargetMissingError(StoreNotFoundError, UnsupportedOperation):  # type: ignore[misc]
    """There is nothing to read; hdmf's own error for it as well."""


class ZarrReader(HDMFIO):  # type: ignore[misc]
    """Reads and writes HDMF containers in Zarr files.

    Parameters
    ----------
    path : str or Path
        The file: a local directory.
    mode : {"r", "r-", "r+", "a", "w", "w-", "x"}
        As of HDF5IO; ``r-`` reads without the consolidated document.
    manager : BuildManager or TypeMap, optional
        Builds and constructs containers; None: one that knows no types.
    object_codec_class : type, optional
        Codec of references and rows: ``numcodecs.JSON`` (default), ``numcodecs.MsgPack``, or ``numcodecs.Pickle``,
        which other programs cannot read safely.
    force_overwrite : bool
        With mode ``w``, replace whatever is there. Without it only an HDMF Zarr file is replaced.
    herd_path : str, optional
        Where the HERD of external resources is.
    storage_options : dict, optional
        For remote stores.
    strict_json : bool
        Write no NaN or Infinity tokens into documents (hdmf-zarr 0.13 cannot read what stands for them).
    use_inlined : bool
        Take scalars and cached specifications from the consolidated document where it holds them; False: from their
        chunks.
    synchronizer : object, optional
        Taken for compatibility; zarr 3 has none, and one writer per file is the rule here.

    Raises
    ------
    StoreNotFoundError, NotZarrError, MetadataError
        On opening for reading.
    StoreExistsError
        On opening for writing, before anything is touched.
    """

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
        synchronizer: Any = None,
    ) -> None:
        if mode not in _MODES:
            raise UsageError(f"the mode {mode!r} is unknown", remedy=f"Use one of {', '.join(_MODES)}.")
        if manager is None:
            manager = BuildManager(TypeMap(NamespaceCatalog()))
        elif isinstance(manager, TypeMap):
            manager = BuildManager(manager)
        if synchronizer:
            warnings.warn("synchronizer is ignored: a file has one writer at a time", UserWarning, stacklevel=2)
        self._mode = mode
        self._object_codec = object_codec(object_codec_class)
        self._storage_options = dict(storage_options or {})
        self._force_overwrite = force_overwrite
        self._strict_json = strict_json
        self._use_inlined = use_inlined
        self._keys: KeyStore | None = None
        self._parsed: ParsedFile | None = None
        self._reading: ReadSession | None = None
        self._source_ids: dict[str, str | None] = {}
        self._written_builders = WriteStatusTracker()
        self._is_open = False
        self._zarr_group: Any = None
        self._edits: Edits | None = None
        super().__init__(manager, source=local_path(path), herd_path=herd_path)
        ObjectMapper.no_convert(LazyArray)

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
        keys: KeyStore = open_keys(str(self.source))
        if self._mode in NEW_FILE_MODES:
            self._check_target(keys)
        elif self._mode != "a" or keys.exists():
            try:
                self._parsed = parse(keys, use_consolidated=self._mode != "r-", use_inlined=self._use_inlined)
                keys = self._parsed.keys(keys)
            except StoreNotFoundError as error:
                raise TargetMissingError(
                    f"Unable to open file in {self._mode!r} mode. File does not exist",
                    store=self.source,
                    remedy="Check the path, or use mode 'w' to make a new file.",
                ) from error
        self._keys = keys
        self._edits = Edits(keys) if self._mode in ("r+", "a") else None
        self._is_open = True

    def _check_target(self, keys: KeyStore) -> None:
        if not keys.exists():
            return
        if self._mode != "w":
            raise TargetExistsError(
                f"Unable to open file in {self._mode!r} mode. File already exists",
                store=self.source,
                remedy="Use mode 'w' to replace it, or 'a' to add to it.",
            )
        if not self._force_overwrite and not is_hdmf_zarr(keys):
            raise StoreExistsError(
                "what is there is no HDMF Zarr file, and is not replaced",
                store=self.source,
                remedy="Choose another path, or pass force_overwrite=True if it may be deleted.",
            )

    def close(self) -> None:
        """Close the file. Arrays that were handed out still read; closing twice does no harm."""
        self._is_open = False

    def is_open(self) -> bool:
        """Tell whether the file is open."""
        return self._is_open

    @staticmethod
    def can_read(path: str | os.PathLike[str]) -> bool:
        """Tell whether there is a Zarr group at ``path`` that this class reads; any error is a no."""
        try:
            parse(open_keys(local_path(path)))
        except (ZarrBackendError, OSError):
            return False
        return True

    # ---- reading ----------------------------------------------------------------------------------------------------

    def read(self, **kwargs: Any) -> Any:
        """Return the root container.

        Raises
        ------
        UnsupportedModeError
            The file is open for writing a new one.
        NoValuesError
            The file holds nothing.
        ContainerError
            What the file holds does not fit the namespaces that are loaded.
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
            container = super().read(**kwargs)
            if self._edits is not None:
                let_indices_grow(container)
            return container
        except ZarrBackendError:
            raise
        except _CONSTRUCTION as error:
            if isinstance(error.__cause__, ZarrBackendError):  # it says itself what is wrong where
                raise error.__cause__ from None
            raise container_error(error, builder, str(self.source)) from error

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
        """Return the builder of a group or array of this file, or of one that it links to.

        Raises
        ------
        ReferenceTargetError
            There is none at its path.
        """
        return self._session().builder_of(zarr_obj)

    def get_container(self, zarr_obj: Any) -> Any:
        """Return the container of a group or array."""
        return self.manager.construct(self.get_builder(zarr_obj))

    @staticmethod
    def generate_dataset_html(dataset: Any) -> str:
        """Return what a notebook shows of a dataset: type, shape, chunks, codecs, stored size and ratio."""
        return dataset_html(dataset)

    # ---- namespaces -------------------------------------------------------------------------------------------------

    @classmethod
    def load_namespaces(
        cls,
        namespace_catalog: NamespaceCatalog | TypeMap,
        path: str | Path | None = None,
        namespaces: list[str] | None = None,
        file: Any = None,
        **kwargs: Any,
    ) -> dict[str, Any]:
        """Load the newest version of each namespace that is cached in a file.

        Parameters
        ----------
        namespace_catalog : NamespaceCatalog or TypeMap
            Where to.
        path : str or Path, optional
            The file.
        namespaces : list of str, optional
            Only these.
        file : zarr.Group, optional
            The open file, instead of ``path``.

        Returns
        -------
        dict
            ``{namespace: {dependency: types}}``, empty (with a warning) where no namespace is cached.
        """
        keys = open_keys(_location(path, file))
        parsed = parse(keys)
        return load_cached_namespaces(namespace_catalog, parsed.keys(keys), parsed.hierarchy, namespaces)

    @classmethod
    def get_namespaces(cls, path: str | Path | None = None, file: Any = None) -> dict[str, str]:
        """Return ``{namespace: version}`` of the newest version of each namespace that is cached in a file.

        Parameters
        ----------
        path, file
            As of `load_namespaces`.
        """
        return newest_versions(parse(open_keys(_location(path, file))).hierarchy)

    def load_namespaces_io(
        self, namespace_catalog: NamespaceCatalog | TypeMap, namespaces: list[str] | None = None
    ) -> dict[str, Any]:
        """Load the newest version of each namespace that is cached in this file."""
        if not self._is_open or self._keys is None or self._parsed is None:
            raise UnsupportedModeError("Cannot load namespaces from a closed file", store=self.source)
        return load_cached_namespaces(namespace_catalog, self._keys, self._parsed.hierarchy, namespaces)

    def get_written(self, builder: Any) -> bool:
        """Tell whether this builder was read from or written to this file."""
        return bool(self._written_builders.get_written(builder))


def _location(path: str | Path | None, file: Any) -> str:
    """Return the location of a file that is given by its path or as an open ``zarr.Group``."""
    if path is None and file is None:
        raise UsageError("no file is given", remedy="Pass path= or file=.")
    return local_path(str(file.store_path.store.root) if path is None else path)
