"""`install_hdmf_zarr_alias`: this package under the name ``hdmf_zarr``, and the classes that code finds there.

``pynwb.read_nwb(path)``, ``pynwb.validate(path=...)`` and hdmf's build of compound columns import ``hdmf_zarr`` by
name, and so does code that was written for hdmf-zarr. After `install_hdmf_zarr_alias` they find the classes of this
package, with the members and arguments that hdmf-zarr 0.13 documents, and what 0.14 has besides: ``ZarrV2IO``,
``NWBZarrV2IO``, ``is_zarr_v2_file``, ``IncompleteConversionError``, and ``compressors``, ``serializer`` and ``shards``
of ``ZarrDataIO``. Nothing is replaced: where hdmf-zarr itself is installed, it is refused.

Differences from 0.14:

* The order of arguments where it differs: ``storage_options`` is the sixth one of ``ZarrIO``, as in 0.13.
* New files are of format 2 here, where 0.14 writes format 3; ``zarr_format=3`` asks for that.
* A ``serializer`` other than little-endian ``BytesCodec``, and codecs that numcodecs does not have.
* ``skipped_entries`` is empty, and ``allow_pickle`` without effect: what cannot be read is an error, and pickles are
  read without running what is in them.

Names without a meaning here are missing, so that importing them fails at once: stores of zarr 2, the iterator
queue, the writer and reader of specifications, synchronizers, 0.14's ``HDMFZarrArray``.

A module of its own, which the package imports when the alias is first used.

Source: hdmf-zarr 0.13.0 and 0.14.0, for the names and their arguments.
"""

from __future__ import annotations

import os
import sys
import warnings
from abc import ABCMeta
from collections.abc import Mapping, Sequence
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any, ClassVar

from hdmf.build import DatasetBuilder

import hdmf_zarr_backend.io
from hdmf_zarr_backend import dataio
from hdmf_zarr_backend.arrays.codecs import make_codec
from hdmf_zarr_backend.builders.datasets import BuilderReferences, BuilderTable, ContainerReferences, ContainerTable
from hdmf_zarr_backend.builders.specs import SPECIFICATIONS
from hdmf_zarr_backend.errors import DamagedFileError, ModeError, ReferenceTargetError, UsageError, ZarrBackendError
from hdmf_zarr_backend.files.parser import parse
from hdmf_zarr_backend.formats.references import ZarrReference
from hdmf_zarr_backend.formats.reserved import SPECLOC
from hdmf_zarr_backend.hdf5.filters import codecs_of
from hdmf_zarr_backend.io import ROOT_NAME
from hdmf_zarr_backend.model.locations import THIS_FILE
from hdmf_zarr_backend.stores.opening import open_neighbour, open_store
from hdmf_zarr_backend.stores.zarr_python import open_zarr_group

_READING = ("r", "r-")


def pipeline_of_zarr3(filters: Any, compressors: Any, serializer: Any) -> tuple[list[Any] | None, Any]:
    """Return the arguments ``filters`` and ``compressor`` of our ZarrDataIO.

    Parameters
    ----------
    filters : sequence of codecs, optional
        What changes the array: codecs of zarr 3 or of numcodecs.
    compressors : codec, sequence of codecs or bool, optional
        What changes the bytes: the last one is the compressor, those before it are filters. False: none; True and None:
        the default.
    serializer : codec, optional
        What makes bytes of the array: only ``BytesCodec``, little-endian, which is the default.

    Raises
    ------
    UsageError
        Another serializer.
    """
    if serializer is not None and _named(serializer) not in ("bytes", "bytes (little)"):
        raise UsageError(
            f"the serializer {serializer!r} is not accepted: the data decide about text and byte order",
            remedy="Leave serializer out; give data of the type that is to be stored.",
        )
    steps = list(filters or ())
    if compressors is None or isinstance(compressors, bool):
        return steps or None, compressors
    listed = compressors if isinstance(compressors, Sequence) else [compressors]
    if not listed:
        return steps or None, False
    return [*steps, *listed[:-1]] or None, listed[-1]


def _named(serializer: Any) -> str:
    document = serializer.to_dict()
    endian = document.get("configuration", {}).get("endian")
    return str(document["name"]) if endian is None else f"{document['name']} ({endian})"


class SameAsOurs(ABCMeta):
    """Makes instances of our class instances of the class under its other name as well."""

    def __instancecheck__(cls, instance: Any) -> bool:
        ours = vars(cls).get("ours")  # not inherited: a user's subclass is a class of its own
        return super().__instancecheck__(instance) if ours is None else isinstance(instance, ours)


class ZarrDataIO(dataio.ZarrDataIO, metaclass=SameAsOurs):
    """`hdmf_zarr_backend.ZarrDataIO` with what hdmf-zarr's class has besides.

    Parameters
    ----------
    data, chunks, fillvalue, compressor, filters, link_data
        As of `hdmf_zarr_backend.ZarrDataIO`.
    compressors, serializer
        Codecs of zarr 3, as of hdmf-zarr 0.14; as of `pipeline_of_zarr3`.
    **options
        Everything else that `hdmf_zarr_backend.ZarrDataIO` takes.

    Raises
    ------
    UsageError
        ``compressor`` and ``compressors`` are both given, or a codec is not accepted.
    """

    ours: ClassVar[type] = dataio.ZarrDataIO

    def __init__(
        self,
        data: Any = None,
        chunks: Any = None,
        fillvalue: Any = None,
        compressor: Any = None,
        filters: Any = None,
        link_data: bool = False,  # noqa: FBT001, FBT002 - hdmf-zarr's signature
        *,
        compressors: Any = None,
        serializer: Any = None,
        **options: Any,
    ) -> None:
        if compressor is not None and compressors is not None:
            raise UsageError("compressor and compressors are both given", remedy="Give one of them.")
        if compressors is not None or serializer is not None:
            filters, found = pipeline_of_zarr3(filters, compressors, serializer)
            compressor = found if compressor is None else compressor
        super().__init__(data, chunks, fillvalue, compressor, filters, link_data, **options)

    @staticmethod
    def is_h5py_dataset(obj: Any) -> bool:
        """Tell whether ``obj`` is an ``h5py.Dataset``, without importing h5py."""
        return (type(obj).__module__, type(obj).__name__) == ("h5py._hl.dataset", "Dataset")

    @staticmethod
    def hdf5_to_zarr_filters(h5dataset: Any) -> list[Any]:
        """Return the codecs with which the chunks of an HDF5 dataset are chunks of Zarr.

        Warns
        -----
        UserWarning
            A filter has no counterpart; there are no codecs then.
        """
        properties = h5dataset.id.get_create_plist()
        filters = [properties.get_filter(number) for number in range(properties.get_nfilters())]
        found = codecs_of([[number, flags, list(options)] for number, flags, options, _ in filters], h5dataset.dtype)
        if found is None:
            warnings.warn(
                f"{h5dataset.name}: Zarr has no codecs for the HDF5 filters {[number for number, *_ in filters]}; the "
                "data will be stored with other codecs",
                UserWarning,
                stacklevel=2,
            )
        return [] if found is None else [make_codec(dict(config), h5dataset.dtype) for config in found.codecs]

    @staticmethod
    def from_h5py_dataset(h5dataset: Any, **options: Any) -> ZarrDataIO:
        """Wrap an HDF5 dataset with its chunks, fill value and filters, as far as ``options`` do not say otherwise."""
        filters = ZarrDataIO.hdf5_to_zarr_filters(h5dataset)
        fill = h5dataset.fillvalue
        options.setdefault("chunks", h5dataset.chunks)
        options.setdefault("fillvalue", fill.decode("utf-8") if isinstance(fill, bytes) else fill)
        if filters and not {"compressor", "compressors", "filters"} & options.keys():
            options |= {"compressor": filters[-1], "filters": filters[:-1] or None}
        return ZarrDataIO(h5dataset, **options)


class UnsafePickleCodecError(ValueError):
    """Raised by nothing here: pickles are read without running what is in them, asked or not."""


class IncompleteConversionError(RuntimeError):
    """A file of format 3 would lack something that could not be read of the file of format 2."""


def is_zarr_v2_file(path: Any, storage_options: Mapping[str, Any] | None = None) -> bool:
    """Tell whether there is a Zarr hierarchy of format 2 at ``path``; any error is a no."""
    try:
        return parse(open_store(path, storage_options)).zarr_format == 2
    except (ZarrBackendError, OSError):
        return False


class ReadsOnly:
    """Mixed into an io class: it reads, and takes the arguments of hdmf-zarr's classes for old files.

    Parameters
    ----------
    path, mode, manager, storage_options
        As of `hdmf_zarr_backend.ZarrIO`; the mode is ``r`` or ``r-``.
    force_overwrite, allow_pickle : bool
        Without effect: nothing is written, and pickles are read without running what is in them.
    **options
        Everything else that the class takes.

    Raises
    ------
    ModeError
        Another mode; a ValueError, as with hdmf-zarr.
    """

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
        if mode not in _READING:
            raise ModeError(
                f"{type(self).__name__} only reads, and the mode is {mode!r}",
                remedy="Use ZarrIO or NWBZarrIO to write.",
            )
        self._allow_pickle = allow_pickle
        super().__init__(path, mode, manager, storage_options=storage_options, **options)  # type: ignore[call-arg] # of the io class

    @property
    def allow_pickle(self) -> bool:
        """What was given; it changes nothing."""
        return self._allow_pickle

    @property
    def skipped_entries(self) -> list[tuple[str, str]]:
        """Empty: what cannot be read is an error here."""
        return []


class MakesFormat3:
    """Mixed into an io class for NWB that reads: it writes what it reads to a new file of format 3."""

    writer: ClassVar[Any]
    """The class that writes."""

    def export_to_v3(
        self,
        path: Any,
        nwbfile: Any = None,
        write_args: Mapping[str, Any] | None = None,
        storage_options: Mapping[str, Any] | None = None,
    ) -> None:
        """Write this file, or ``nwbfile`` that was read from it, to a new one of format 3; all data are copied.

        Parameters
        ----------
        path : str, Path or zarr.abc.store.Store
            The new file.
        nwbfile : NWBFile, optional
            What was read, changed perhaps; None: everything.
        write_args : dict, optional
            Arguments of ``write_builder``.
        storage_options : dict, optional
            Of the new file.

        Raises
        ------
        IncompleteConversionError
            Something cannot be read.
        """
        arguments = {**(write_args or {}), "link_data": False}
        try:
            with self.writer(path, mode="w", storage_options=storage_options, zarr_format=3) as io:
                io.export(src_io=self, nwbfile=nwbfile, write_args=arguments)
        except DamagedFileError as error:
            raise IncompleteConversionError(str(error)) from error

    @classmethod
    def convert_to_v3(
        cls,
        source_path: str | os.PathLike[str],
        dest_path: Any,
        write_args: Mapping[str, Any] | None = None,
        storage_options: Mapping[str, Any] | None = None,
        allow_pickle: bool = False,  # noqa: FBT001, FBT002 - hdmf-zarr's signature
    ) -> None:
        """Write the file at ``source_path`` to a new one of format 3; arguments as of `export_to_v3`."""
        with _opened(cls, source_path, allow_pickle=allow_pickle) as io:
            io.export_to_v3(dest_path, write_args=write_args, storage_options=storage_options)

    @classmethod
    def read_nwb(cls, path: str | os.PathLike[str], allow_pickle: bool = False) -> Any:  # noqa: FBT001, FBT002 - hdmf-zarr's
        """Return the ``NWBFile`` at ``path``."""
        return _opened(cls, path, allow_pickle=allow_pickle).read()


def _opened(io_class: Any, path: str | os.PathLike[str], *, allow_pickle: bool) -> Any:
    """Open a file; one in a bucket without credentials, as hdmf-zarr does."""
    options = {"anon": True} if str(path).startswith("s3://") else None
    return io_class(path, mode="r", storage_options=options, allow_pickle=allow_pickle)


NAME = "hdmf_zarr"

ANSWERS_TO = "0.13.0"
"""The release of hdmf-zarr whose public names are given; ``hdmf_zarr.__version__`` says so and adds ours."""


class AliasRefusedError(UsageError, ImportError):
    """There is a real hdmf_zarr, and two cannot have one name."""


class ZarrIO(hdmf_zarr_backend.io.ZarrIO, metaclass=SameAsOurs):
    """`hdmf_zarr_backend.ZarrIO` with the members and the order of arguments of hdmf-zarr's class.

    Parameters
    ----------
    path, mode, manager, object_codec_class, storage_options, force_overwrite
        As of `hdmf_zarr_backend.ZarrIO`.
    synchronizer : object
        Ignored with a warning: a file has one writer.
    driver, aws_region : None
        Given by ``pynwb.validate``; they have a meaning for HDF5 only.
    **options
        Everything else that `hdmf_zarr_backend.ZarrIO` takes.
    """

    ours: ClassVar[type] = hdmf_zarr_backend.io.ZarrIO

    def __init__(
        self,
        path: str | os.PathLike[str],
        mode: str = "r",
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
                raise UsageError(f"{name}={value!r} has no meaning for Zarr", remedy="Use storage_options.")
        super().__init__(
            path,
            mode,
            manager,
            synchronizer=synchronizer,
            object_codec_class=object_codec_class,
            storage_options=storage_options,
            force_overwrite=force_overwrite,
            **options,
        )

    def write(  # type: ignore[override]  # hdmf-zarr has no `herd`, and `cache_spec` in its place
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
        """Write a container, with the order of arguments of hdmf-zarr; they mean what our `ZarrIO` says."""
        super().write(
            container,
            cache_spec=cache_spec,
            link_data=link_data,
            exhaust_dci=exhaust_dci,
            number_of_jobs=number_of_jobs,
            max_threads_per_process=max_threads_per_process,
            multiprocessing_context=multiprocessing_context,
            consolidate_metadata=consolidate_metadata,
            **options,
        )

    def write_builder(
        self,
        builder: Any,
        link_data: bool = True,  # noqa: FBT001, FBT002 - hdmf-zarr's signature
        exhaust_dci: bool = True,  # noqa: FBT001, FBT002 - hdmf-zarr's signature
        export_source: str | None = None,
        consolidate_metadata: bool = True,  # noqa: FBT001, FBT002 - hdmf-zarr's signature
        **options: Any,
    ) -> None:
        """Write a builder, with the order of arguments of hdmf-zarr."""
        super().write_builder(
            builder,
            link_data=link_data,
            exhaust_dci=exhaust_dci,
            export_source=export_source,
            consolidate_metadata=consolidate_metadata,
            **options,
        )

    @property
    def synchronizer(self) -> None:
        """None: zarr 3 has no synchronizers."""
        return None

    def is_remote(self) -> bool:
        """Tell whether the file is elsewhere than in a local folder."""
        return "://" in self.path

    def get_written(self, builder: Any, check_on_disk: bool = False) -> bool:  # noqa: FBT001, FBT002 - hdmf-zarr's
        """Tell whether a builder was read from or written to this file; ``check_on_disk``: and is there."""
        return super().get_written(builder) and (not check_on_disk or self.get_builder_exists_on_disk(builder))

    def get_builder_exists_on_disk(self, builder: Any) -> bool:
        """Tell whether there is a group or array at the place of a builder."""
        return os.path.exists(self.get_builder_disk_path(builder))

    def get_builder_disk_path(self, builder: Any, filepath: str | None = None) -> str:
        """Return the folder of a builder, in this file or in another one."""
        names = []
        while builder.parent is not None:
            names.append(builder.name)
            builder = builder.parent
        return os.path.join(self.path if filepath is None else filepath, *reversed(names))

    def resolve_ref(self, zarr_ref: Mapping[str, Any]) -> tuple[str | None, Any]:
        """Return name and array or group of what a stored reference points to, the root for one without a path.

        Raises
        ------
        UsageError
            Nothing is there; a ValueError, as with hdmf-zarr.
        """
        reference = ZarrReference(zarr_ref.get("source") or THIS_FILE, zarr_ref.get("path") or "/")
        self.read_builder()
        try:
            builder = self._session().own.resolve(reference)
        except ReferenceTargetError as error:
            raise UsageError(
                f"the reference to {reference.path} leads nowhere", store=self.source, remedy=str(error)
            ) from error
        if isinstance(builder, DatasetBuilder):
            return builder.name, getattr(builder.data, "dataset", builder.data)
        group = (
            self._file
            if reference.source == THIS_FILE
            else open_zarr_group(open_neighbour(self._place, builder.source))
        )
        return (ROOT_NAME, group) if reference.path == "/" else (builder.name, group[reference.path])


class ZarrV2IO(ReadsOnly, ZarrIO):
    """`ZarrIO` that reads only, under the name that hdmf-zarr 0.14 has for files of format 2."""


def install_hdmf_zarr_alias() -> None:
    """Let ``import hdmf_zarr`` find this package, in this process.

    Afterwards ``pynwb.read_nwb``, ``pynwb.validate(path=...)`` and code that was written for hdmf-zarr read and write
    Zarr files with this package. A second call does nothing.

    Raises
    ------
    AliasRefusedError
        hdmf-zarr is installed, or a module of its name is loaded.

    Examples
    --------
    >>> import hdmf_zarr_backend
    >>> hdmf_zarr_backend.install_hdmf_zarr_alias()
    >>> import pynwb
    >>> nwbfile = pynwb.read_nwb("a.nwb.zarr")  # doctest: +SKIP
    """
    there = sys.modules.get(NAME)
    if there is not None and getattr(there, "_is_alias", False):
        return
    origin = getattr(there, "__file__", None) if there is not None else _origin()
    if there is not None or origin is not None:
        raise AliasRefusedError(
            f"there is a module {NAME} already, at {origin}",
            remedy="Uninstall hdmf-zarr, or use the classes of hdmf_zarr_backend by their own names.",
        )
    for name, module in _modules().items():
        sys.modules[name] = module


def _origin() -> str | None:
    spec = find_spec(NAME)
    return None if spec is None else str(spec.origin or spec.submodule_search_locations)


def _modules() -> dict[str, ModuleType]:
    """Return the modules by name, each as attribute of the one above it."""
    contents: dict[str, dict[str, Any]] = {
        "": {
            "ZarrIO": ZarrIO,
            "ZarrDataIO": ZarrDataIO,
            "ZarrV2IO": ZarrV2IO,
            "is_zarr_v2_file": is_zarr_v2_file,
            "IncompleteConversionError": IncompleteConversionError,
            "__version__": f"{ANSWERS_TO}+hdmf.zarr.backend.{hdmf_zarr_backend.__version__}",
            "_is_alias": True,
        },
        "backend": {
            "ZarrIO": ZarrIO,
            "ROOT_NAME": ROOT_NAME,
            "SPEC_LOC_ATTR": SPECLOC,
            "DEFAULT_SPEC_LOC_DIR": SPECIFICATIONS,
        },
        "utils": {"ZarrDataIO": ZarrDataIO, "ZarrReference": ZarrReference},
        "zarr_utils": {
            "BuilderZarrReferenceDataset": BuilderReferences,
            "BuilderZarrTableDataset": BuilderTable,
            "ContainerZarrReferenceDataset": ContainerReferences,
            "ContainerZarrTableDataset": ContainerTable,
        },
        "backend_zarrv2": {
            "IncompleteConversionError": IncompleteConversionError,
            "UnsafePickleCodecError": UnsafePickleCodecError,
            "ZarrV2IO": ZarrV2IO,
            "is_zarr_v2_file": is_zarr_v2_file,
        },
        "nwb": {},
        "nwb_zarrv2": {},
    }
    if find_spec("pynwb") is not None:
        writer, reader = _nwb_classes()
        contents["nwb"] = {"NWBZarrIO": writer, "ZarrIO": ZarrIO}
        contents["nwb_zarrv2"] = {"NWBZarrV2IO": reader}
        contents[""] |= {"NWBZarrIO": writer, "NWBZarrV2IO": reader}
    top = _module(NAME, contents.pop(""), is_package=True)
    modules = {NAME: top}
    for name, members in contents.items():
        modules[f"{NAME}.{name}"] = _module(f"{NAME}.{name}", members, is_package=False)
        setattr(top, name, modules[f"{NAME}.{name}"])
    return modules


def _module(name: str, members: dict[str, Any], *, is_package: bool) -> ModuleType:
    module = ModuleType(name, "A part of hdmf_zarr_backend under the name that hdmf-zarr has for it.")
    module.__spec__ = ModuleSpec(name, None, origin=__file__, is_package=is_package)
    module.__file__ = __file__
    if is_package:
        module.__path__ = []
    vars(module).update(members)
    vars(module)["__all__"] = sorted(member for member in members if not member.startswith("_"))
    return module


def _nwb_classes() -> tuple[type, type]:
    from hdmf_zarr_backend import nwb

    class NWBZarrIO(ZarrIO, nwb.NWBZarrIO):
        """`hdmf_zarr_backend.NWBZarrIO` with the members and the order of arguments of hdmf-zarr's class."""

        ours: ClassVar[type] = nwb.NWBZarrIO

        @staticmethod
        def read_nwb(path: str | os.PathLike[str], **options: Any) -> Any:
            """Return the ``NWBFile`` at ``path``; options as of `NWBZarrIO`."""
            return NWBZarrIO(path, mode="r", **options).read()

    class NWBZarrV2IO(MakesFormat3, ReadsOnly, NWBZarrIO):  # type: ignore[misc] # hdmf-zarr's read_nwb takes less
        """`NWBZarrIO` that reads only, under the name that hdmf-zarr 0.14 has for files of format 2."""

        writer: ClassVar[Any] = NWBZarrIO

    return NWBZarrIO, NWBZarrV2IO
