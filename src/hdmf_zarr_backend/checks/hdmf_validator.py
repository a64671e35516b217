"""Validation by hdmf and pynwb, whose validators read data if a schema has rules about them."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

from hdmf.build import BuildManager, TypeMap
from hdmf.common import get_type_map
from hdmf.spec import NamespaceCatalog
from hdmf.validate import ValidatorMap

from hdmf_zarr_backend.builders.namespaces import HDMF_ERRORS, load_cached_namespaces, newest_versions
from hdmf_zarr_backend.builders.reading import ReadSession
from hdmf_zarr_backend.builders.specs import TextSpecReader
from hdmf_zarr_backend.checks.findings import Finding, Problem
from hdmf_zarr_backend.checks.rules import USE_INSTALLED, Texts
from hdmf_zarr_backend.checks.view import type_key_of
from hdmf_zarr_backend.errors import MetadataError, ZarrBackendError
from hdmf_zarr_backend.files.parser import ParsedFile
from hdmf_zarr_backend.formats.namespaces import NAMESPACE
from hdmf_zarr_backend.model.nodes import Hierarchy, Node
from hdmf_zarr_backend.stores.base import Store

_KINDS = {
    "MissingError": "missing",
    "MissingDataType": "missing",
    "IncorrectQuantityError": "quantity",
    "DtypeError": "dtype",
    "ShapeError": "shape",
    "ExpectedArrayError": "shape",
    "IncorrectDataType": "target-type",
    "IllegalLinkError": "illegal-link",
}


# ---- `validate(full=True)` ------------------------------------------------------------------------------------------


def findings_of_hdmf(keys: Store, parsed: ParsedFile, texts: Texts, namespaces: list[str]) -> list[Finding]:
    """Return the findings of hdmf's validator for each of the namespaces, which ``texts`` contains.

    Raises
    ------
    MetadataError
        hdmf cannot load the namespaces.
    """
    found: list[Finding] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # broken links, and versions that differ from the installed ones
        catalog = _catalog(parsed.hierarchy.root, texts)
        session = ReadSession(keys, parsed, keys.location, BuildManager(TypeMap(catalog)))
        for name in namespaces:
            try:
                errors = ValidatorMap(catalog.get_namespace(name)).validate(session.root())
            except ZarrBackendError as error:
                found.append(Finding(error.path or "/", None, "failed", error.problem))
            except HDMF_ERRORS as error:
                found.append(Finding("/", None, "failed", f"{type(error).__name__}: {error}"))
            else:
                found += map(finding_of, errors)
    return list(dict.fromkeys(found))


def _catalog(root: Node, texts: Texts) -> Any:
    catalog = NamespaceCatalog(**_classes(root))
    readers = {name: TextSpecReader(name, dict(sources).__getitem__) for name, sources in texts}
    try:
        catalog.load_namespaces(NAMESPACE, reader=readers)
    except HDMF_ERRORS as error:
        raise MetadataError(
            f"hdmf cannot load the namespaces ({type(error).__name__}: {error})",
            remedy=USE_INSTALLED,
        ) from error
    return catalog


def _classes(root: Node) -> dict[str, Any]:
    if type_key_of(root) != "neurodata_type":
        return {}
    from pynwb.spec import NWBDatasetSpec, NWBGroupSpec, NWBNamespace

    return {
        "group_spec_cls": NWBGroupSpec,
        "dataset_spec_cls": NWBDatasetSpec,
        "spec_namespace_cls": NWBNamespace,
    }


def finding_of(error: Any) -> Finding:
    """Return an error of hdmf's validator as a finding."""
    path, attribute = _place(error)
    kind = _KINDS.get(type(error).__name__, "time" if "timezone" in str(error.reason) else "other")
    return Finding(path, attribute, kind, str(error.reason), str(error.name))


def _place(error: Any) -> tuple[str, str | None]:
    """Return path and attribute of an error; hdmf appends the attribute to the path after a dot."""
    text = "" if error.location is None else str(error.location)
    last = str(error.name).rpartition("/")[2]
    if text.endswith(f".{last}") and _KINDS.get(type(error).__name__) != "missing":
        return f"/{text.removesuffix(f'.{last}')}", last
    return f"/{text}", None


# ---- `verify(level="schema")` ---------------------------------------------------------------------------------------


def problems_by_schema(keys: Store, hierarchy: Hierarchy) -> Iterator[Problem]:
    """Yield the findings of the validator (pynwb's for NWB, else hdmf's) with the cached namespace of the root."""
    root = hierarchy.root.attributes
    namespace = root.get("namespace")
    if not isinstance(namespace, str) or namespace not in newest_versions(hierarchy):
        yield Problem("/", "no-schema", f"the namespace of the root, {namespace!r}, is not cached in the file")
        return
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # broken links are reported already
            found = _errors_of_pynwb(keys) if "nwb_version" in root else _errors_of_hdmf(keys, hierarchy, namespace)
    except ZarrBackendError as error:
        yield Problem(error.path or "/", "schema", f"it cannot be validated ({error.problem})")
        return
    except HDMF_ERRORS as error:
        yield Problem("/", "schema", f"it cannot be validated ({type(error).__name__}: {error})")
        return
    for one in found:
        yield Problem(_absolute(one.location), "schema", f"{one.name}: {one.reason}")


def _errors_of_pynwb(keys: Store) -> list[Any]:
    import pynwb

    from hdmf_zarr_backend.nwb import NWBZarrIO

    with NWBZarrIO(keys, "r-") as io:  # type: ignore[arg-type] # hdmf's classes accept store objects
        found: list[Any] = pynwb.validate(io=io)
    return found


def _errors_of_hdmf(keys: Store, hierarchy: Hierarchy, namespace: str) -> list[Any]:
    type_map = get_type_map()  # hdmf's own, since many files have cached only a part of hdmf-common
    load_cached_namespaces(type_map, keys, hierarchy)
    session = ReadSession(keys, ParsedFile(hierarchy, consolidated=False), keys.location, BuildManager(type_map))
    found: list[Any] = ValidatorMap(type_map.namespace_catalog.get_namespace(namespace)).validate(session.root())
    return found


def _absolute(location: Any) -> str:
    text = "" if location is None else str(location)
    return text if text.startswith("/") else f"/{text.removeprefix('root').lstrip('/')}"
