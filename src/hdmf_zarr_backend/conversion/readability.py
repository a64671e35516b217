"""Checks whether pynwb can read a file, before a conversion writes anything."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
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
from hdmf_zarr_backend.formats.links import LinkedFile
from hdmf_zarr_backend.formats.reserved import NOTES
from hdmf_zarr_backend.hdf5.reader import SourceFile
from hdmf_zarr_backend.hdf5.safe_reading import check_other_files, reading
from hdmf_zarr_backend.model.nodes import Hierarchy
from hdmf_zarr_backend.stores.base import Store

_UNREADABLE = (
    ValueError, TypeError, LookupError, AttributeError, NameError, RuntimeError, OSError, ArithmeticError,
    AssertionError,
)  # fmt: skip
"""Errors that pynwb and hdmf raise for files that they cannot read, in addition to their own error classes."""


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


def check_planned(source: str, keys: Store, hierarchy: Hierarchy, texts: Texts) -> None:
    """Refuse an NWB file that pynwb cannot read, from the plan of its copy, before anything is written.

    For most files the metadata show that pynwb can read them; the others are read with pynwb, which is slow to import.
    """
    if find_spec("pynwb") is None or _is_shown_readable(keys, hierarchy, texts):
        return
    from hdmf_zarr_backend.builders.lazy import construction_errors
    from hdmf_zarr_backend.nwb import ParsedNWBIO

    def read() -> None:
        with (
            ParsedNWBIO(keys, ParsedFile(hierarchy, consolidated=True)) as io,
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


def _is_shown_readable(keys: Store, hierarchy: Hierarchy, texts: Texts) -> bool:
    try:
        types = compile_types(core_texts(texts, newest_versions(hierarchy)), "core")
    except MetadataError:
        return False
    return is_constructible(keys, hierarchy, types)


def namespaces_of(keys: Store, hierarchy: Hierarchy, *, or_installed: bool = False) -> Texts:
    """Return the cached namespaces of a file; empty if it has none, or if they cannot be read.

    Damaged namespaces are reported by `validate`. Here, a file without them only lacks the names of its axes.
    """
    try:
        cached = cached_texts(keys, hierarchy)
    except ZarrBackendError:
        return ()
    return installed_texts() if or_installed and not newest_versions(hierarchy) else cached


def schema_of(texts: Texts) -> FindSpec | None:
    """Return the schema for `builders.dimensions.name_axes`; None without valid namespaces."""
    try:
        types = {name: compile_types(texts, name) for name, _ in texts}
    except MetadataError:
        return None

    def find(namespace: str, data_type: str) -> tuple[Rule, Sequence[str]] | None:
        known = types.get(namespace)
        rule = None if known is None else known.rules.get(data_type)
        return None if known is None or rule is None else (rule, known.ancestors(data_type))

    return find if types else None


def check_zarr(main: LinkedFile) -> dict[str, dict[str, Any]]:
    """Refuse a Zarr file that pynwb cannot read as NWB; return the attributes whose types are only in the schema."""
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
    from hdmf_zarr_backend.builders.schema import unsigned_attributes  # imported here: hdmf is slow to import
    from hdmf_zarr_backend.nwb import NWBZarrIO

    typed: dict[str, dict[str, Any]] = {}

    def read() -> None:
        store: Any = main.keys.unwrapped
        with NWBZarrIO(store, mode="r", lazy=False) as io:
            io.read()
            if not keeps_types:
                typed.update(unsigned_attributes(io.read_builder()))

    _check_read(main.location, read)
    return typed


def _text(value: Any) -> Any:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def _check_version(source: str, value: Any) -> None:
    """Refuse an NWB version that pynwb does not support: a missing one, one that is not text, and NWB 1.x."""
    version = _text(value)
    if not isinstance(version, str):
        said = "has no NWB version" if version is None else "gives its NWB version as an array"
        raise UnsupportedFileError(
            f"pynwb cannot read this file: it {said}",
            store=source,
            remedy="Pass check=False to convert it anyway.",
            remedy_cli="Use --no-check to convert it anyway.",
        )
    if version.strip().removeprefix("NWB-").startswith("1."):
        raise UnsupportedFileError(
            f"pynwb cannot read this file: it has NWB version {version}, and pynwb reads version 2 and newer",
            store=source,
            remedy="Pass check=False to convert it anyway.",
            remedy_cli="Use --no-check to convert it anyway.",
        )


def _check_read(source: str, read: Callable[[], None]) -> None:
    from hdmf.build.errors import BuildError, ConstructError, ContainerConfigurationError  # slow to import

    from hdmf_zarr_backend.builders.schema import OTHER_VERSION

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the conversion itself warns
            read()
    except (BuildError, ConstructError, ContainerConfigurationError, *_UNREADABLE) as error:
        if isinstance(error, ZarrBackendError) and not isinstance(error, ConstructError):
            raise  # it has a message already
        if isinstance(error, ZarrBackendError) and error.remedy == OTHER_VERSION:
            problem = f"pynwb cannot read this file here: {error.problem}"
            raise UnsupportedFileError(problem, store=source, path=error.path, remedy=OTHER_VERSION) from error
        raise UnsupportedFileError(
            f"pynwb cannot read this file ({_reason(error)})",
            store=source,
            remedy="Pass check=False to convert it anyway.",
            remedy_cli="Use --no-check to convert it anyway.",
        ) from error


def _reason(error: BaseException) -> str:
    """Return the original error of hdmf or pynwb in one line."""
    from hdmf.build.errors import ConstructError  # slow to import

    from hdmf_zarr_backend.builders.schema import path_of

    text = str(error)
    if isinstance(error, ZarrBackendError):
        if error.__cause__ is not None:
            return _reason(error.__cause__)
        text = f"{error.problem}, at {error.path}"
    elif isinstance(error, ConstructError) and len(error.args) == 2:  # its text is the content of the builder
        text = f"{error.args[1].rstrip('.')}, at {path_of(error.args[0])}"
    return f"{type(error).__name__}: {' '.join(text.split())[:300]}"
