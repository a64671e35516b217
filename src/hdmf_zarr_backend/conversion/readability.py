"""Checks that pynwb can read a file, made before a conversion writes anything."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from typing import Any

from hdmf_zarr_backend.builders.dimensions import FindSpec
from hdmf_zarr_backend.builders.namespaces import newest_versions
from hdmf_zarr_backend.checks.constructible import is_constructible
from hdmf_zarr_backend.checks.installed import core_texts, installed_texts
from hdmf_zarr_backend.checks.rules import Rule, Texts, compile_types
from hdmf_zarr_backend.checks.validate import cached_texts
from hdmf_zarr_backend.errors import MetadataError, UnsupportedFileError, ZarrBackendError
from hdmf_zarr_backend.files.parser import ParsedFile
from hdmf_zarr_backend.formats.reserved import NOTES
from hdmf_zarr_backend.hdf5.file_bytes import RemoteFile
from hdmf_zarr_backend.hdf5.placement import ZarrFile
from hdmf_zarr_backend.hdf5.reader import Hdf5Tree
from hdmf_zarr_backend.hdf5.safe_reading import H5_ERRORS, check_other_files
from hdmf_zarr_backend.model.link_sources import is_url
from hdmf_zarr_backend.model.nodes import Hierarchy
from hdmf_zarr_backend.stores.base import Store
from hdmf_zarr_backend.stores.limits import ExternalLinks

_UNREADABLE = (
    ValueError, TypeError, LookupError, AttributeError, NameError, RuntimeError, OSError, ArithmeticError,
    AssertionError,
)  # fmt: skip
"""What pynwb and hdmf were seen to raise for files that they cannot read, besides errors of their own."""


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
        As for `check_hdf5`.

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


def check_planned(source: str, keys: Store, hierarchy: Hierarchy, texts: Texts) -> None:
    """Refuse an NWB file that pynwb cannot read, by what is planned to be made of it: nothing is written yet.

    The result is that of `check_hdf5`. The metadata of most files show that pynwb can read them; pynwb reads only the
    others, as it is slow to load.

    Parameters
    ----------
    source : str
        The file that is converted, for messages.
    keys : Store
        Has the chunks of what is planned.
    hierarchy : Hierarchy
        What is planned.
    texts : tuple
        The namespaces that are cached in the file, from `namespaces_of`.

    Raises
    ------
    UnsupportedFileError
        pynwb cannot read it.
    """
    if find_spec("pynwb") is None or _is_shown_readable(keys, hierarchy, texts):
        return
    from hdmf_zarr_backend.nwb import ParsedNWBIO

    def read() -> None:
        with ParsedNWBIO(keys, ParsedFile(hierarchy, consolidated=True)) as io:
            io.read()

    try:
        _check_read(source, read)
    except ZarrBackendError as error:
        if not isinstance(error, UnsupportedFileError):
            error.store = None  # what is planned is nowhere yet
        raise error.located(store=source) from error.__cause__


def _is_shown_readable(keys: Store, hierarchy: Hierarchy, texts: Texts) -> bool:
    try:
        types = compile_types(core_texts(texts, newest_versions(hierarchy)), "core")
    except MetadataError:
        return False
    return is_constructible(keys, hierarchy, types)


def namespaces_of(keys: Store, hierarchy: Hierarchy, *, or_installed: bool = False) -> Texts:
    """Return the namespaces that are cached in a file; empty without them, and where they cannot be read.

    Damaged namespaces are reported by `validate`; all that a file lacks without them is the names of its axes.

    Parameters
    ----------
    keys : Store
        Has the chunks.
    hierarchy : Hierarchy
        The nodes.
    or_installed : bool
        Return the installed ones where none are cached.
    """
    try:
        cached = cached_texts(keys, hierarchy)
    except ZarrBackendError:
        return ()
    return installed_texts() if or_installed and not newest_versions(hierarchy) else cached


def schema_of(texts: Texts) -> FindSpec | None:
    """Return the schema for `builders.dimensions.name_axes`; None without namespaces, or if one is not valid."""
    try:
        types = {name: compile_types(texts, name) for name, _ in texts}
    except MetadataError:
        return None

    def find(namespace: str, data_type: str) -> tuple[Rule, Sequence[str]] | None:
        known = types.get(namespace)
        rule = None if known is None else known.rules.get(data_type)
        return None if known is None or rule is None else (rule, known.ancestors(data_type))

    return find if types else None


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
    keeps_types = NOTES in attributes  # unlike files of hdmf-zarr
    if keeps_types and _is_shown_readable(main.keys, main.hierarchy, namespaces_of(main.keys, main.hierarchy)):
        return {}
    from hdmf_zarr_backend.builders.schema import unsigned_attributes  # on use, as the next: hdmf is slow to load
    from hdmf_zarr_backend.nwb import NWBZarrIO

    typed: dict[str, dict[str, Any]] = {}

    def read() -> None:
        store: Any = main.keys.unwrapped
        with NWBZarrIO(store, mode="r") as io:
            io.read()
            if not keeps_types:
                typed.update(unsigned_attributes(io.read_builder()))

    _check_read(main.location, read)
    return typed


def _text(value: Any) -> Any:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def _check_version(source: str, value: Any) -> None:
    """Refuse what pynwb refuses at once: no version, a version that is not text, and NWB 1.x."""
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


def _check_read(source: str, read: Callable[[], None]) -> None:
    from hdmf.build.errors import BuildError, ConstructError, ContainerConfigurationError  # on use: slow to load

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what concerns the conversion is warned of by the conversion
            read()
    except (BuildError, ConstructError, ContainerConfigurationError, *_UNREADABLE) as error:
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
