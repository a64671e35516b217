"""The modules of hdmf-zarr: classes and functions with its members and its order of arguments.

They have everything that hdmf-zarr 0.13 documents, and most additions of 0.14; ``docs/how-to/move-from-hdmf-zarr.md``
lists the differences. Names that have no use here are missing, so that importing them fails at once.

Source: hdmf-zarr 0.13.0 and 0.14.0, for the names and their arguments.
"""

from __future__ import annotations

import os
from abc import ABCMeta
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec
from typing import Any, ClassVar

from hdmf.build import DatasetBuilder

import hdmf_zarr_backend.io
from hdmf_zarr_backend import errors
from hdmf_zarr_backend.array.lazy import LazyArray
from hdmf_zarr_backend.encoding.chunk_codec import make_codec
from hdmf_zarr_backend.encoding.parser import parse
from hdmf_zarr_backend.encoding.references import ZarrReference
from hdmf_zarr_backend.encoding.reserved import SPECLOC
from hdmf_zarr_backend.errors import warn
from hdmf_zarr_backend.hdf5.filters import codecs_of, filters_of
from hdmf_zarr_backend.hdmf import dataio
from hdmf_zarr_backend.hdmf.datasets import BuilderReferences, BuilderTable, ContainerReferences, ContainerTable
from hdmf_zarr_backend.hdmf.namespaces import SPECIFICATIONS
from hdmf_zarr_backend.hdmf.targets import ROOT as ROOT_NAME
from hdmf_zarr_backend.model.links import THIS_FILE
from hdmf_zarr_backend.store.opening import open_neighbour, open_store
from hdmf_zarr_backend.store.zarr_python import open_zarr_group


# Code asks `isinstance(io, hdmf_zarr.NWBZarrIO)`, also about an object that was made under the name of this package.
class SameAsOurs(ABCMeta):
    """Makes instances of our class count as instances of the class with the other name."""

    def __instancecheck__(cls, instance: Any) -> bool:
        ours = vars(cls).get("ours")  # not inherited: a user's subclass is another class
        return super().__instancecheck__(instance) if ours is None else isinstance(instance, ours)


class ZarrDataIO(dataio.ZarrDataIO, metaclass=SameAsOurs):
    """`hdmf_zarr_backend.ZarrDataIO` with the static methods of hdmf-zarr's class."""

    ours: ClassVar[type] = dataio.ZarrDataIO

    @staticmethod
    def is_h5py_dataset(obj: Any) -> bool:
        """Tell whether ``obj`` is an ``h5py.Dataset``, without importing h5py."""
        return (type(obj).__module__, type(obj).__name__) == ("h5py._hl.dataset", "Dataset")

    @staticmethod
    def hdf5_to_zarr_filters(h5dataset: Any) -> list[Any]:
        """Return the codecs that read the chunks of an HDF5 dataset as Zarr chunks."""
        filters = filters_of(h5dataset.id.get_create_plist())
        translated = codecs_of(filters, h5dataset.dtype)
        if translated is None:
            numbers = [number for number, *_ in filters]
            what = f"Zarr has no codecs for the HDF5 filters {numbers}; the data will be stored with other codecs"
            warn(f"{h5dataset.name}: {what}")
            return []
        return [make_codec(dict(config), h5dataset.dtype) for config in translated.codecs]

    @staticmethod
    def from_h5py_dataset(h5dataset: Any, **options: Any) -> ZarrDataIO:
        """Wrap an HDF5 dataset with its chunks, fill value and filters, unless ``options`` has others."""
        filters = ZarrDataIO.hdf5_to_zarr_filters(h5dataset)
        # hdmf-zarr puts all codecs into `filters`, and its default Blosc on top; TensorStore cannot read that
        fill = h5dataset.fillvalue
        options.setdefault("chunks", h5dataset.chunks)
        options.setdefault("fillvalue", fill.decode("utf-8") if isinstance(fill, bytes) else fill)
        if filters and not {"compressor", "compressors", "filters"} & options.keys():
            options |= {"compressor": filters[-1], "filters": filters[:-1] or None}
        return ZarrDataIO(h5dataset, **options)


def is_zarr_v2_file(path: Any, storage_options: Mapping[str, Any] | None = None) -> bool:
    """Tell whether a Zarr hierarchy of format 2 exists at ``path``; False after any error."""
    # 0.14 has this to choose between its classes for format 3 and for format 2
    try:
        return parse(open_store(path, storage_options)).zarr_format == 2
    except (errors.ZarrBackendError, OSError):
        return False


def get_store_path(store: Any) -> str:
    """Return the absolute path of a ``LocalStore`` of zarr, the text of any other store."""
    root = getattr(store, "root", None)
    return os.path.realpath(root) if isinstance(root, str | os.PathLike) else str(store)


class ZarrIO(hdmf_zarr_backend.io.ZarrIO, metaclass=SameAsOurs):
    """`hdmf_zarr_backend.ZarrIO` with the members of hdmf-zarr's class."""

    ours: ClassVar[type] = hdmf_zarr_backend.io.ZarrIO

    # the order of hdmf-zarr 0.13, whose users pass these arguments by position
    def __init__(
        self,
        path: Any,
        mode: Any = "r",
        manager: Any = None,
        synchronizer: Any = None,
        object_codec_class: type | None = None,
        storage_options: Mapping[str, Any] | None = None,
        force_overwrite: bool = False,  # noqa: FBT001, FBT002 - hdmf-zarr's signature
        *,
        driver: None = None,
        aws_region: None = None,
        **options: Any,
    ) -> None:
        for name, value in (("driver", driver), ("aws_region", aws_region)):
            if value is not None:
                raise errors.UsageError(f"{name}={value!r} has no meaning for Zarr", remedy="Use storage_options.")
        # zarr-python 3 has no synchronizers; the lock of this package keeps a second writer away
        if synchronizer:
            warn("synchronizer is ignored: a file has one writer at a time")
        # object_codec_class is ignored: the default of hdmf-zarr 0.13 is a pickle
        options |= {"storage_options": storage_options, "force_overwrite": force_overwrite}
        super().__init__(path, mode, manager, **options)

    @property
    def object_codec_class(self) -> type:
        """The numcodecs class that encodes references and rows in format 2."""
        codec: type = import_module("numcodecs").JSON
        return codec

    def write(
        self,
        container: Any,
        cache_spec: bool = True,  # noqa: FBT001, FBT002 - hdmf-zarr's signature
        link_data: bool = True,  # noqa: FBT001, FBT002 - hdmf-zarr's signature
        exhaust_dci: bool = True,  # noqa: FBT001, FBT002 - hdmf-zarr's signature
        number_of_jobs: int = 1,
        max_threads_per_process: int | None = None,
        multiprocessing_context: str | None = None,
        consolidate_metadata: bool = True,  # noqa: FBT001, FBT002 - hdmf-zarr's signature
        **options: Any,
    ) -> None:
        """Write a container; ``max_threads_per_process`` and ``multiprocessing_context`` are ignored."""
        with self._writing(number_of_jobs, consolidate=consolidate_metadata):
            super().write(container, cache_spec, link_data, exhaust_dci, **options)

    def write_builder(
        self,
        builder: Any,
        link_data: bool = True,  # noqa: FBT001, FBT002 - hdmf-zarr's signature
        exhaust_dci: bool = True,  # noqa: FBT001, FBT002 - hdmf-zarr's signature
        export_source: str | None = None,
        consolidate_metadata: bool = True,  # noqa: FBT001, FBT002 - hdmf-zarr's signature
        number_of_jobs: int = 1,
        max_threads_per_process: int | None = None,
        multiprocessing_context: str | None = None,
        **options: Any,
    ) -> None:
        """Write a builder, with the order of arguments of hdmf-zarr."""
        with self._writing(number_of_jobs, consolidate=consolidate_metadata):
            super().write_builder(
                builder, link_data=link_data, exhaust_dci=exhaust_dci, export_source=export_source, **options
            )

    def export(
        self,
        src_io: Any,
        container: Any = None,
        write_args: dict[str, Any] | None = None,
        clear_cache: bool = False,  # noqa: FBT001, FBT002 - hdmf-zarr's signature
        cache_spec: bool = True,  # noqa: FBT001, FBT002 - hdmf-zarr's signature
        number_of_jobs: int = 1,
        max_threads_per_process: int | None = None,
        multiprocessing_context: str | None = None,
        consolidate_metadata: bool = True,  # noqa: FBT001, FBT002 - hdmf-zarr's signature
        **options: Any,
    ) -> None:
        """Write what ``src_io`` has read."""
        with self._writing(number_of_jobs, consolidate=consolidate_metadata):
            super().export(src_io, container, write_args, clear_cache, cache_spec, **options)

    @contextmanager
    def _writing(self, number_of_jobs: int, *, consolidate: bool) -> Iterator[None]:
        """Write with these arguments of hdmf-zarr in place of the options, where they differ from its defaults."""
        options = self._options
        # only what differs from the defaults of hdmf-zarr: otherwise the options of the io stay
        changes: dict[str, Any] = {"executor": number_of_jobs} if number_of_jobs > 1 else {}
        if not consolidate:
            changes["consolidate_metadata"] = False
        self._options = replace(options, **changes)
        try:
            yield
        finally:
            self._options = options
            if self._edited is not None:  # a new file was opened for changes with those of this write
                self._edited.options = options

    @classmethod
    def load_namespaces(  # type: ignore[override] # hdmf-zarr's order of arguments
        cls,
        namespace_catalog: Any,
        path: Any = None,
        file: Any = None,
        storage_options: Mapping[str, Any] | None = None,
        namespaces: list[str] | None = None,
        **options: Any,
    ) -> dict[str, Any]:
        """Load cached namespaces as `hdmf_zarr_backend.ZarrIO.load_namespaces` does, with hdmf-zarr's order."""
        return super().load_namespaces(
            namespace_catalog, path, namespaces, file, storage_options=storage_options, **options
        )

    @property
    def synchronizer(self) -> None:
        """None: zarr 3 has no synchronizers."""
        return None

    def is_remote(self) -> bool:
        """Tell whether the file is anywhere other than in a local folder."""
        return "://" in self.path

    def get_written(self, builder: Any, check_on_disk: bool = False) -> bool:  # noqa: FBT001, FBT002 - hdmf-zarr's
        """Tell whether a builder was read from or written to this file; ``check_on_disk``: and exists there."""
        return super().get_written(builder) and (not check_on_disk or self.get_builder_exists_on_disk(builder))

    def get_builder_exists_on_disk(self, builder: Any) -> bool:
        """Tell whether a group or array exists at the path of a builder."""
        return os.path.exists(self.get_builder_disk_path(builder))

    def get_builder_disk_path(self, builder: Any, filepath: str | None = None) -> str:
        """Return the folder of a builder, in this file or another one."""
        names = []
        while builder.parent is not None:
            names.append(builder.name)
            builder = builder.parent
        return os.path.join(self.path if filepath is None else filepath, *reversed(names))

    def resolve_ref(self, zarr_ref: Mapping[str, Any]) -> tuple[str | None, Any]:
        """Return name and array or group of the target of a stored reference, the root for one without a path."""
        reference = ZarrReference(zarr_ref.get("source") or THIS_FILE, zarr_ref.get("path") or "/")
        self.read_builder()
        try:
            builder = self._session().own.resolve(reference)
        except errors.ReferenceTargetError as error:
            problem = f"the reference to {reference.path} has no target"
            raise errors.UsageError(problem, store=self.source, remedy=str(error)) from error
        if isinstance(builder, DatasetBuilder):
            return builder.name, getattr(builder.data, "dataset", builder.data)
        # a group as zarr-python opens it: users of hdmf-zarr call its methods
        is_here = reference.source == THIS_FILE
        group = self._file if is_here else open_zarr_group(open_neighbour(self._raw_store, builder.source))
        return (ROOT_NAME, group) if reference.path == "/" else (builder.name, group[reference.path])


class ZarrV2IO(ZarrIO):
    """`ZarrIO` that only reads, with the arguments of hdmf-zarr 0.14's classes for files of format 2."""

    def __init__(
        self,
        path: Any,
        mode: str = "r",
        manager: Any = None,
        storage_options: Mapping[str, Any] | None = None,
        force_overwrite: bool = False,  # noqa: FBT001, FBT002 - hdmf-zarr's signature
        allow_pickle: bool = False,  # noqa: FBT001, FBT002 - hdmf-zarr's signature
        **options: Any,
    ) -> None:
        if mode not in ("r", "r-"):
            problem = f"{type(self).__name__} only reads, and the mode is {mode!r}"
            raise errors.ModeError(problem, remedy="Use ZarrIO or NWBZarrIO to write.")
        super().__init__(path, mode, manager, storage_options=storage_options, **options)


# hdmf-zarr needs pynwb; this package does not, for other data types of HDMF
if find_spec("pynwb") is not None:
    from hdmf_zarr_backend import nwb

    class NWBZarrIO(ZarrIO, nwb.NWBZarrIO):
        """`hdmf_zarr_backend.NWBZarrIO` with the members of hdmf-zarr's class."""

        ours: ClassVar[type] = nwb.NWBZarrIO

        def __init__(
            self,
            path: Any,
            mode: str = "r",
            manager: Any = None,
            synchronizer: Any = None,
            object_codec_class: type | None = None,
            storage_options: Mapping[str, Any] | None = None,
            force_overwrite: bool = False,  # noqa: FBT001, FBT002 - hdmf-zarr's signature
            load_namespaces: bool = True,  # noqa: FBT001, FBT002 - hdmf-zarr's signature
            extensions: Any = None,
            **options: Any,
        ) -> None:
            options |= {"load_namespaces": load_namespaces, "extensions": extensions}
            super().__init__(
                path, mode, manager, synchronizer, object_codec_class, storage_options, force_overwrite, **options
            )

        def export(  # type: ignore[override] # pynwb calls the container nwbfile
            self,
            src_io: Any,
            nwbfile: Any = None,
            write_args: dict[str, Any] | None = None,
            *arguments: Any,
            **options: Any,
        ) -> None:
            """Write what ``src_io`` has read; other arguments as for `ZarrIO.export`."""
            super().export(src_io, options.pop("container", nwbfile), write_args, *arguments, **options)

        @staticmethod
        def read_nwb(path: Any, **options: Any) -> Any:
            """Return the ``NWBFile`` at ``path``; options as for `NWBZarrIO`.

            A file at ``s3://`` is read without credentials, as with hdmf-zarr, unless ``storage_options`` are given.
            """
            # such as a file of the DANDI archive, for which nobody has credentials
            options.setdefault("storage_options", {"anon": True} if str(path).startswith("s3://") else None)
            return NWBZarrIO(path, mode="r", **options).read()

    class NWBZarrV2IO(ZarrV2IO, NWBZarrIO):
        """`NWBZarrIO` that only reads."""

        @staticmethod
        def read_nwb(path: Any, allow_pickle: bool = False) -> Any:  # type: ignore[override] # noqa: FBT001, FBT002 - hdmf-zarr's
            """Return the ``NWBFile`` at ``path``."""
            return NWBZarrIO.read_nwb(path)


_MEMBERS = {
    "": (
        "ZarrIO", "ZarrDataIO", "ZarrV2IO", "is_zarr_v2_file", "IncompleteConversionError", "NWBZarrIO", "NWBZarrV2IO",
    ),
    "backend": ("ZarrIO", "ROOT_NAME", "SPEC_LOC_ATTR", "DEFAULT_SPEC_LOC_DIR", "SUPPORTED_ZARR_STORES"),
    "utils": ("ZarrDataIO", "ZarrReference", "HDMFZarrArray", "get_store_path"),
    "zarr_utils": (
        "BuilderZarrReferenceDataset", "BuilderZarrTableDataset", "ContainerZarrReferenceDataset",
        "ContainerZarrTableDataset",
    ),
    "backend_zarrv2": ("IncompleteConversionError", "UnsafePickleCodecError", "ZarrV2IO", "is_zarr_v2_file"),
    "nwb": ("ZarrIO", "NWBZarrIO"),
    "nwb_zarrv2": ("NWBZarrV2IO",),
}  # fmt: skip
"""Module of hdmf-zarr -> its members; those for NWB are left out where pynwb is not installed."""

_OTHER_NAMES: dict[str, Any] = {
    "IncompleteConversionError": errors.DamagedFileError,
    "UnsafePickleCodecError": errors.UnsafeDataError,
    "SPEC_LOC_ATTR": SPECLOC,
    "DEFAULT_SPEC_LOC_DIR": SPECIFICATIONS,
    "HDMFZarrArray": LazyArray,
    "BuilderZarrReferenceDataset": BuilderReferences,
    "BuilderZarrTableDataset": BuilderTable,
    "ContainerZarrReferenceDataset": ContainerReferences,
    "ContainerZarrTableDataset": ContainerTable,
}


def members_of(module: str) -> dict[str, Any]:
    """Return the members of a module of the alias."""
    # names of NWB exist only with pynwb, and names without a use here are missing on purpose
    known: dict[str, Any] = {**globals(), **_OTHER_NAMES}
    if module == "backend":  # the store classes of the installed zarr that are accepted as a path
        storage = import_module("zarr.storage")
        names = ("LocalStore", "FsspecStore", "DirectoryStore", "TempStore", "NestedDirectoryStore")
        stores = [getattr(storage, name) for name in names if hasattr(storage, name)]
        any_store = [import_module("zarr.abc.store").Store] if hasattr(storage, "LocalStore") else []
        known["SUPPORTED_ZARR_STORES"] = (*stores, *any_store)
    return {name: known[name] for name in _MEMBERS[module] if name in known}
