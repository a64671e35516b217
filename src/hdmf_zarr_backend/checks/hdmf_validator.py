"""Validation by hdmf and pynwb, whose validators read data if a schema has rules about them."""

from __future__ import annotations

import warnings
from typing import Any

from hdmf.build import BuildManager, TypeMap
from hdmf.spec import NamespaceCatalog
from hdmf.validate import ValidatorMap

from hdmf_zarr_backend.builders.assembler import check_link_paths
from hdmf_zarr_backend.builders.namespaces import HDMF_ERRORS
from hdmf_zarr_backend.builders.reading import ReadSession
from hdmf_zarr_backend.builders.specs import TextSpecReader
from hdmf_zarr_backend.checks.findings import Finding
from hdmf_zarr_backend.checks.rules import USE_INSTALLED, Texts
from hdmf_zarr_backend.checks.view import type_key_of
from hdmf_zarr_backend.errors import MetadataError, ZarrBackendError
from hdmf_zarr_backend.files.parser import ParsedFile
from hdmf_zarr_backend.formats.namespaces import NAMESPACE
from hdmf_zarr_backend.model.nodes import Node
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


def findings_of_hdmf(keys: Store, parsed: ParsedFile, texts: Texts, namespaces: list[str]) -> list[Finding]:
    """Return the findings of hdmf's validator for each of the namespaces, which ``texts`` contains."""
    found: list[Finding] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # broken links, and versions that differ from the installed ones
        catalog = _catalog(parsed.hierarchy.root, texts)
        session = ReadSession(keys, parsed, keys.location, BuildManager(TypeMap(catalog)))
        for name in namespaces:
            try:
                check_link_paths(session.root(), keys.read_rules, keys.location)
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
