"""Checks that pynwb can read a file, made before a conversion writes anything."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from functools import partial
from importlib.util import find_spec
from typing import Any

from hdmf.build.errors import BuildError, ConstructError, ContainerConfigurationError

from hdmf_zarr_backend.builders.namespaces import newest_versions, source_texts
from hdmf_zarr_backend.builders.schema import unsigned_attributes
from hdmf_zarr_backend.errors import UnsupportedFileError, ZarrBackendError
from hdmf_zarr_backend.files.parser import ParsedFile
from hdmf_zarr_backend.formats.namespaces import NAMESPACE, spec_location
from hdmf_zarr_backend.formats.reserved import NOTES, SPECLOC
from hdmf_zarr_backend.hdf5.file_bytes import RemoteFile
from hdmf_zarr_backend.hdf5.files import H5_ERRORS, check_other_files
from hdmf_zarr_backend.hdf5.placement import ZarrFile
from hdmf_zarr_backend.hdf5.reader import Hdf5Tree
from hdmf_zarr_backend.model.locations import is_url
from hdmf_zarr_backend.model.nodes import Hierarchy, absolute, join
from hdmf_zarr_backend.stores.base import Store
from hdmf_zarr_backend.stores.limits import ExternalLinks

UNREADABLE = (
    ConstructError, BuildError, ContainerConfigurationError, ValueError, TypeError, LookupError, AttributeError,
    NameError, RuntimeError, OSError, ArithmeticError, AssertionError,
)  # fmt: skip
"""What pynwb and hdmf were seen to raise for files that they cannot read."""


def check_hdf5(
    source: str, storage: Mapping[str, Any] | None = None, external_links: ExternalLinks | None = None
) -> None:
    """Refuse an NWB file in HDF5 that pynwb cannot read; other files are not looked into.

    Parameters
    ----------
    source : str
        Path or URL.
    storage : mapping, optional
        ``storage_options``, for a URL.
    external_links : {"follow", "within", "never"}, optional
        Which other files may be read; None as of `convert`.

    Raises
    ------
    UnsupportedFileError
        pynwb cannot read it, or HDF5 cannot open it.
    """
    if not check_version(source, storage) or find_spec("pynwb") is None:
        return
    import h5py
    from pynwb import NWBHDF5IO

    far = _far(source, storage)
    if far is None:  # pynwb reads whatever file the values are in
        Hdf5Tree(source, source, external_links=external_links).close()

    def read() -> None:
        if far is None:
            with NWBHDF5IO(source, mode="r") as io:
                io.read()
            return
        with h5py.File(far.stream(), "r") as file, NWBHDF5IO(file=file, mode="r") as io:
            io.read()

    _check_read(source, read)


def _far(source: str, storage: Mapping[str, Any] | None) -> RemoteFile | None:
    return RemoteFile(source, storage or {}) if is_url(source) else None


def check_version(source: str, storage: Mapping[str, Any] | None = None) -> bool:
    """Refuse a file in HDF5 that pynwb refuses at once, for its version of NWB; tell whether it is an NWB file.

    Parameters
    ----------
    source, storage
        As of `check_hdf5`.

    Raises
    ------
    UnsupportedFileError
        pynwb cannot read it, or HDF5 cannot open it.
    """
    import h5py

    far = _far(source, storage)
    try:
        with h5py.File(far.stream() if far is not None else source, "r") as file:
            kind, version = _text(file.attrs.get("neurodata_type")), file.attrs.get("nwb_version")
            old = file.get("nwb_version")  # a dataset in NWB 1.x
            if version is None and isinstance(old, h5py.Dataset):
                check_other_files(old.id, source, "/nwb_version", "never")
                version = old[()]
    except ZarrBackendError:
        raise
    except H5_ERRORS as error:
        raise UnsupportedFileError(
            f"HDF5 cannot open this file ({error})",
            store=source,
            remedy="It may be cut short, or be open for writing elsewhere.",
        ) from error
    if kind != "NWBFile" and version is None:
        return False
    _check_version(source, version)
    return True


def check_planned(source: str, keys: Store, hierarchy: Hierarchy) -> Any:
    """Refuse an NWB file that pynwb cannot read, by what is planned to be made of it: nothing is written yet.

    It costs a third of `check_hdf5`, and says the same of a file.

    Parameters
    ----------
    source : str
        The file that is converted, for messages.
    keys : Store
        Has the chunks of what is planned.
    hierarchy : Hierarchy
        What is planned.

    Returns
    -------
    NamespaceCatalog or None
        The schema of the file; None without pynwb.

    Raises
    ------
    UnsupportedFileError
        pynwb cannot read it.
    """
    if find_spec("pynwb") is None:
        return None
    from hdmf_zarr_backend.nwb import ParsedNWBIO

    catalogs: list[Any] = []

    def read() -> None:
        with ParsedNWBIO(keys, ParsedFile(hierarchy, consolidated=True)) as io:
            io.read()
            catalogs.append(io.manager.namespace_catalog)

    try:
        _check_read(source, read)
    except ZarrBackendError as error:
        if not isinstance(error, UnsupportedFileError):
            error.store = None  # what is planned is nowhere yet
        raise error.located(store=source) from error.__cause__
    return catalogs[0]


def schema_of(keys: Store, hierarchy: Hierarchy) -> Any:
    """Return the namespaces that are cached in a file, as an hdmf catalogue; None where hdmf can read none.

    The names that NWB has for the keys of a specification are replaced by those of hdmf, so that pynwb is not needed.
    Damaged namespaces are reported by `validate`; all that a file lacks without them is the names of its axes.
    """
    versions = newest_versions(hierarchy)
    if not versions:
        return None
    from hdmf.spec import NamespaceCatalog

    from hdmf_zarr_backend.builders.specs import TextSpecReader

    location = str(spec_location(hierarchy.root.attributes.get(SPECLOC)))
    readers = {}
    for name, version in versions.items():
        place = join(location, join(name, version))
        words = partial(_in_hdmf_words, source_texts(keys, hierarchy, place))
        readers[name] = TextSpecReader(keys.location, words, path=absolute(place))
    catalog = NamespaceCatalog()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            catalog.load_namespaces(NAMESPACE, reader=readers)
    except (ZarrBackendError, *UNREADABLE):
        return None
    return catalog


def _in_hdmf_words(texts: Callable[[str], str], source: str) -> str:
    return texts(source).replace('"neurodata_type', '"data_type')


def check_zarr(main: ZarrFile) -> dict[str, dict[str, Any]]:
    """Refuse an NWB file in Zarr that pynwb cannot read; return the attributes whose types only the schema knows.

    Returns
    -------
    dict
        ``{path: {name: value}}``.

    Raises
    ------
    UnsupportedFileError
        pynwb cannot read it.
    """
    attributes = main.hierarchy.root.attributes
    version = attributes.get("nwb_version")
    if attributes.get("neurodata_type") != "NWBFile" and version is None:
        return {}
    _check_version(main.location, version)
    if find_spec("pynwb") is None:
        return {}
    from hdmf_zarr_backend.nwb import NWBZarrIO

    typed: dict[str, dict[str, Any]] = {}

    def read() -> None:
        store: Any = main.keys.unwrapped
        with NWBZarrIO(store, mode="r") as io:
            io.read()
            if NOTES not in attributes:  # hdmf-zarr kept no types
                typed.update(unsigned_attributes(io.read_builder()))

    _check_read(main.location, read)
    return typed


def _text(value: Any) -> Any:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def _check_version(source: str, value: Any) -> None:
    """Refuse what pynwb refuses at once: no version, a version that is no text, and NWB 1.x."""
    version = _text(value)
    if not isinstance(version, str):
        said = "has no NWB version" if version is None else "gives its NWB version as an array"
        raise UnsupportedFileError(
            f"pynwb cannot read this file: it {said}",
            store=source,
            remedy="Pass check=False to convert it all the same.",
        )
    if version.strip().removeprefix("NWB-").startswith("1."):
        raise UnsupportedFileError(
            f"pynwb cannot read this file: it is of NWB version {version}, and NWB 2 is the first that pynwb reads",
            store=source,
            remedy="Pass check=False to convert it all the same.",
        )


def _check_read(source: str, read: Any) -> None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what concerns the conversion is warned of by the conversion
            read()
    except UNREADABLE as error:
        if isinstance(error, ZarrBackendError) and not isinstance(error, ConstructError):
            raise  # it says itself what is wrong
        raise UnsupportedFileError(
            f"pynwb cannot read this file ({_reason(error)})",
            store=source,
            remedy="Pass check=False to convert it all the same.",
        ) from error


def _reason(error: BaseException) -> str:
    """Return in one line what hdmf or pynwb said, whoever passed it on."""
    text = str(error)
    if isinstance(error, ZarrBackendError):
        if error.__cause__ is not None:
            return _reason(error.__cause__)
        text = f"{error.problem}, at {error.path}"
    return f"{type(error).__name__}: {' '.join(text.split())[:300]}"
