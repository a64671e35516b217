"""A file held against its namespaces by hdmf's own validator, which reads data where a schema speaks of them."""

from __future__ import annotations

import warnings
from typing import Any

from hdmf.build import BuildManager, TypeMap
from hdmf.spec import NamespaceCatalog
from hdmf.validate import ValidatorMap

from hdmf_zarr_backend.builders.namespaces import HDMF_ERRORS, NAMESPACE, TextSpecReader
from hdmf_zarr_backend.builders.resolver import ReadSession
from hdmf_zarr_backend.errors import MetadataError, ZarrBackendError
from hdmf_zarr_backend.files.parser import ParsedFile
from hdmf_zarr_backend.model.nodes import Node
from hdmf_zarr_backend.stores.base import Store
from hdmf_zarr_backend.validation.findings import Finding
from hdmf_zarr_backend.validation.inheritance import Texts
from hdmf_zarr_backend.validation.view import type_key_of

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
    """Return what hdmf's validator finds.

    Parameters
    ----------
    keys : Store
        The store.
    parsed : ParsedFile
        Its metadata.
    texts : tuple
        The namespaces.
    namespaces : list of str
        Those to hold the file against.

    Raises
    ------
    MetadataError
        hdmf cannot load the namespaces.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # links to nothing, and versions that differ from the installed ones
        catalog = _catalog(parsed.hierarchy.root, texts)
        session = ReadSession(keys, parsed, keys.location, BuildManager(TypeMap(catalog)))
        found: list[Finding] = []
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
            remedy="Validate against the installed namespaces: use_cached=False, or --installed.",
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
    """Return path and attribute of an error; an attribute follows the path after a point."""
    text = "" if error.location is None else str(error.location)
    last = str(error.name).rpartition("/")[2]
    if text.endswith(f".{last}") and _KINDS.get(type(error).__name__) != "missing":
        return f"/{text.removesuffix(f'.{last}')}", last
    return f"/{text}", None
