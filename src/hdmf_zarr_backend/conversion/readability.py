"""Checks whether pynwb can read a file, before a conversion writes anything."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from contextlib import closing
from importlib.util import find_spec
from typing import Any, TypeVar

from hdmf_zarr_backend.builders.namespaces import FindSpec, cached_specs, newest_versions, specs_in
from hdmf_zarr_backend.encoding.references import LinkedFile
from hdmf_zarr_backend.encoding.reserved import NOTES
from hdmf_zarr_backend.errors import UnsupportedFileError, ZarrBackendError
from hdmf_zarr_backend.files.parser import ParsedFile
from hdmf_zarr_backend.hdf5.files import SourceFile, check_other_files, reading
from hdmf_zarr_backend.model.nodes import Hierarchy
from hdmf_zarr_backend.stores.base import Store

T = TypeVar("T")

_UNREADABLE = (
    ValueError, TypeError, LookupError, AttributeError, NameError, RuntimeError, OSError, ArithmeticError,
    AssertionError,
)  # fmt: skip
"""Errors that pynwb and hdmf raise for files that they cannot read, in addition to their own error classes."""

_ANYWAY = {"remedy": "Pass check=False to convert it anyway.", "remedy_cli": "Use --no-check to convert it anyway."}


def check_version(source: str, storage: Mapping[str, Any] | None = None) -> bool:
    """Refuse an HDF5 file whose NWB version pynwb does not support; tell whether it is an NWB file."""
    import h5py

    with closing(SourceFile(source, storage)) as opened, reading(source, "/"):
        root = opened.file
        kind, version = _text(root.attrs.get("neurodata_type")), root.attrs.get("nwb_version")
        old = root.get("nwb_version")  # a dataset in NWB 1.x
        if version is None and isinstance(old, h5py.Dataset):
            check_other_files(old.id, source, "/nwb_version", "never")
            version = old[()]
    if kind != "NWBFile" and version is None:
        return False
    _check_version(source, version)
    return True


def check_planned(source: str, store: Store, hierarchy: Hierarchy) -> None:
    """Refuse an NWB file that pynwb cannot read, from the plan of its copy, before anything is written."""
    if find_spec("pynwb") is None:
        return
    from hdmf_zarr_backend.builders.lazy import construction_errors
    from hdmf_zarr_backend.nwb import ParsedNWBIO

    def read() -> None:
        with (
            ParsedNWBIO(store, ParsedFile(hierarchy, consolidated=True)) as io,
            construction_errors(io.read_builder(), source, io.manager.namespace_catalog, hierarchy),
        ):
            io.read()

    try:
        _check_read(source, read)
    except ZarrBackendError as error:
        if not isinstance(error, UnsupportedFileError):
            error.store = None  # the planned file does not exist yet
        error.locate(source)
        raise


def schema_of(store: Store, hierarchy: Hierarchy, *, or_installed: bool = False) -> FindSpec | None:
    """Return the cached schema of a file; with ``or_installed``, that of pynwb if none is cached."""
    if newest_versions(hierarchy):
        return cached_specs(store, hierarchy)
    if not or_installed or find_spec("pynwb") is None:
        return None
    from pynwb import get_type_map

    return specs_in(get_type_map().namespace_catalog)


def check_zarr(main: LinkedFile) -> dict[str, dict[str, Any]]:
    """Refuse a Zarr file that pynwb cannot read as NWB; return the attributes whose types are only in the schema."""
    attributes = main.hierarchy.root.attributes
    version = attributes.get("nwb_version")
    if attributes.get("neurodata_type") != "NWBFile" and version is None:
        return {}
    _check_version(main.location, version)
    if find_spec("pynwb") is None:
        return {}
    from hdmf_zarr_backend.builders.schema import unsigned_attributes  # imported here: hdmf is slow to import
    from hdmf_zarr_backend.nwb import NWBZarrIO

    def read() -> dict[str, dict[str, Any]]:
        store: Any = main.store.unwrapped
        with NWBZarrIO(store, mode="r", lazy=False) as io:
            io.read()
            # a file of hdmf-zarr keeps no types
            return {} if NOTES in attributes else unsigned_attributes(io.read_builder())

    return _check_read(main.location, read)


def _text(value: Any) -> Any:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def _check_version(source: str, value: Any) -> None:
    """Refuse an NWB version that pynwb does not support: a missing one, one that is not text, and NWB 1.x."""
    version = _text(value)
    if not isinstance(version, str):
        said = "has no NWB version" if version is None else "gives its NWB version as an array"
    elif version.strip().removeprefix("NWB-").startswith("1."):
        said = f"has NWB version {version}, and pynwb reads version 2 and newer"
    else:
        return
    raise UnsupportedFileError(f"pynwb cannot read this file: it {said}", store=source, **_ANYWAY)


def _check_read(source: str, read: Callable[[], T]) -> T:
    """Return what ``read`` does; errors of hdmf and pynwb in it mean that the file cannot be read."""
    from hdmf.build.errors import BuildError, ConstructError, ContainerConfigurationError  # slow to import

    from hdmf_zarr_backend.builders.schema import OTHER_VERSION

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the conversion itself warns
            return read()
    except (BuildError, ConstructError, ContainerConfigurationError, *_UNREADABLE) as error:
        if isinstance(error, ZarrBackendError) and not isinstance(error, ConstructError):
            raise  # it has a message already
        if isinstance(error, ZarrBackendError) and error.remedy == OTHER_VERSION:
            problem = f"pynwb cannot read this file here: {error.problem}"
            raise UnsupportedFileError(problem, store=source, path=error.path, remedy=OTHER_VERSION) from error
        raise UnsupportedFileError(
            f"pynwb cannot read this file ({_reason(error)})", store=source, **_ANYWAY
        ) from error


def _reason(error: BaseException) -> str:
    """Return the original error of hdmf or pynwb in one line."""
    from hdmf.build.errors import ConstructError  # slow to import

    from hdmf_zarr_backend.builders.targets import builder_path

    text = str(error)
    if isinstance(error, ZarrBackendError):
        if error.__cause__ is not None:
            return _reason(error.__cause__)
        text = f"{error.problem}, at {error.path}"
    elif isinstance(error, ConstructError) and len(error.args) == 2:  # its text is the content of the builder
        text = f"{error.args[1].rstrip('.')}, at {builder_path(error.args[0])}"
    return f"{type(error).__name__}: {' '.join(text.split())[:300]}"
