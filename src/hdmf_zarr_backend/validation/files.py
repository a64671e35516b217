"""`validate`: whether a file is what its schema says."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from hdmf_zarr_backend.errors import UsageError, ZarrBackendError
from hdmf_zarr_backend.files.parser import ParsedFile, parse
from hdmf_zarr_backend.stores.base import Store
from hdmf_zarr_backend.stores.gc_pause import gc_paused
from hdmf_zarr_backend.stores.limits import ExternalLinks, Limits, ReadRules
from hdmf_zarr_backend.stores.opening import open_store
from hdmf_zarr_backend.validation.checking import check
from hdmf_zarr_backend.validation.documents import document_of
from hdmf_zarr_backend.validation.findings import Validation
from hdmf_zarr_backend.validation.inheritance import Texts, compile_types
from hdmf_zarr_backend.validation.schema import schema_of
from hdmf_zarr_backend.validation.texts import cached_texts, installed_texts, is_nwb, namespaces_to_hold
from hdmf_zarr_backend.validation.view import view
from hdmf_zarr_backend.verification.targets import Targets

Source = str | os.PathLike[str] | Any


def validate(
    source: Source,
    *,
    full: bool = False,
    namespace: str | None = None,
    use_cached: bool = True,
    storage_options: Mapping[str, Any] | None = None,
    limits: Limits | None = None,
    external_links: ExternalLinks | None = None,
) -> Validation:
    """Hold a Zarr file against its schema, as ``pynwb.validate`` does, from its metadata alone.

    Parameters
    ----------
    source : str, Path, mapping, zarr.abc.store.Store or zarr.Group
        The file.
    full : bool
        Let hdmf's own validator do it: it reads the times and other small data that the schema speaks of, and takes
        seconds.
    namespace : str, optional
        The namespace to hold it against. Default: of an NWB file each cached one that no other includes (extensions
        before the core that they extend), of another file the one that the root names.
    use_cached : bool
        Take the namespaces that are cached in the file, as far as there are some; else the installed ones.
    storage_options : mapping, optional
        For URLs, as of `ZarrIO`.
    limits : Limits, optional
        How much the file may ask for.
    external_links : {"follow", "within", "never"}, optional
        As of `ZarrIO`; links that are not followed are not looked at.

    Returns
    -------
    Validation
        ``findings`` are what the schema does not allow.

    Raises
    ------
    StoreNotFoundError, NotZarrError, MetadataError
        There is no Zarr file, or its metadata are damaged, or its namespaces are not there.
    UsageError
        There is no such namespace.

    Notes
    -----
    Without `full`, no chunk of a dataset is fetched: a time in a dataset is looked at if it came with the consolidated
    metadata (in files of this package it does), and targets of references in datasets are not. hdmf's validator does
    not look at those either, unless the dataset is a scalar.

    Source: issue "Open to every other tool", part 2; hdmf 6, ``hdmf.validate``; pynwb 4, ``pynwb.validate``.
    """
    keys, parsed = _opened(source, storage_options, limits, external_links)
    try:
        with gc_paused():  # what is made here is no garbage, and looking for some takes longer than making it
            texts, cached = _texts(keys, parsed, use_cached=use_cached)
            names = namespaces_to_hold(texts, parsed.hierarchy, namespace, cached=cached)
            if full:
                return _full(keys, parsed, texts, names, cached=cached)
            result = Validation(keys.location, cached=cached)
            root = view(Targets(keys, parsed.hierarchy))
            for name in names:
                types = compile_types(texts, name)
                found, result.items = check(root, types)
                result.namespaces[name] = types.version
                result.findings += (finding for finding in found if finding not in result.findings)
            return result
    except ZarrBackendError as error:
        raise error.located(store=keys.location) from error.__cause__


def json_schema_for(source: Source | None = None, namespace: str | None = None, **options: Any) -> dict[str, Any]:
    """Return a namespace as JSON Schema (draft 2020-12), for the documents that `describe` makes of files.

    Parameters
    ----------
    source : str, Path, mapping, zarr.abc.store.Store or zarr.Group, optional
        A file that has the namespace cached; None: take an installed one.
    namespace : str, optional
        Its name; None: the one that `validate` takes, without a file ``"core"``.
    **options
        ``use_cached``, ``storage_options``, ``limits`` as of `validate`.

    Returns
    -------
    dict
        The schema. It gives the verdicts of `validate`.

    Raises
    ------
    MetadataError, UsageError
        As of `validate`; a file may have several namespaces that `validate` takes, then one is to be named.

    Source: JSON Schema, draft 2020-12; issue "Open to every other tool", part 2.
    """
    if source is None:
        name = namespace or "core"
        return schema_of(compile_types(installed_texts(nwb=not name.startswith("hdmf-")), name))
    use_cached = options.pop("use_cached", True)
    keys, parsed = _opened(source, options.pop("storage_options", None), options.pop("limits", None), None)
    if options:
        raise UsageError(f"unknown options: {', '.join(options)}")
    try:
        texts, cached = _texts(keys, parsed, use_cached=use_cached)
        names = namespaces_to_hold(texts, parsed.hierarchy, namespace, cached=cached)
        if len(names) > 1:
            raise UsageError("there are several namespaces", remedy=f"Name one of {', '.join(names)}.")
        return schema_of(compile_types(texts, names[0]))
    except ZarrBackendError as error:
        raise error.located(store=keys.location) from error.__cause__


def describe(
    source: Source,
    *,
    storage_options: Mapping[str, Any] | None = None,
    limits: Limits | None = None,
    external_links: ExternalLinks | None = None,
) -> dict[str, Any]:
    """Return a file as a schema sees it, as JSON: its object model in the words of HDMF.

    Each group and dataset says its name, kind, type and attributes (type and shape of each value, and the type of the
    target of a reference); a dataset its ``dtype``, ``shape`` and whether a text is a time; a group its ``members``,
    links among them with what they lead to. `json_schema_for` makes schemas for these documents.

    Parameters
    ----------
    source, storage_options, limits, external_links
        As of `validate`.

    Returns
    -------
    dict
        The root group.

    Raises
    ------
    StoreNotFoundError, NotZarrError, MetadataError
        As of `validate`.

    Source: issue "Open to every other tool", part 2.
    """
    keys, parsed = _opened(source, storage_options, limits, external_links)
    try:
        return document_of(view(Targets(keys, parsed.hierarchy)))
    except ZarrBackendError as error:
        raise error.located(store=keys.location) from error.__cause__


def _opened(
    source: Source,
    storage_options: Mapping[str, Any] | None,
    limits: Limits | None,
    external_links: ExternalLinks | None,
) -> tuple[Store, ParsedFile]:
    keys = open_store(source, storage_options)
    keys.read_rules = ReadRules(limits=limits or Limits(), external_links=external_links)
    parsed = parse(keys)
    return parsed.keys(keys), parsed


def _texts(keys: Store, parsed: ParsedFile, *, use_cached: bool) -> tuple[Texts, bool]:
    texts = cached_texts(keys, parsed.hierarchy) if use_cached else ()
    return (texts, True) if texts else (installed_texts(nwb=is_nwb(parsed.hierarchy)), False)


def _full(keys: Store, parsed: ParsedFile, texts: Texts, names: list[str], *, cached: bool) -> Validation:
    from hdmf_zarr_backend.validation.full import findings_of_hdmf  # on use: hdmf takes its time to load

    versions = {name: compile_types(texts, name).version for name in names}
    return Validation(keys.location, versions, cached, findings_of_hdmf(keys, parsed, texts, names))
