"""What a file says that it holds, against the schema that is cached in it: hdmf's own validator, pynwb's for NWB."""

from __future__ import annotations

import warnings
from typing import Any

from hdmf.build import BuildManager
from hdmf.common import get_type_map
from hdmf.validate import ValidatorMap

from hdmf_zarr_backend.builders.namespaces import load_cached_namespaces, newest_versions
from hdmf_zarr_backend.builders.resolver import ReadSession
from hdmf_zarr_backend.errors import ZarrBackendError
from hdmf_zarr_backend.files.parser import ParsedFile
from hdmf_zarr_backend.model.nodes import Hierarchy
from hdmf_zarr_backend.stores.base import Store
from hdmf_zarr_backend.verification.problems import Problem, Report

_VALIDATION = (ValueError, TypeError, KeyError, AttributeError, IndexError, RecursionError)


def check_schema(keys: Store, hierarchy: Hierarchy, report: Report) -> None:
    """Validate a file by the namespace that its root names.

    Parameters
    ----------
    keys : Store
        The store.
    hierarchy : Hierarchy
        Its nodes.
    report : Report
        Takes the findings.
    """
    root = hierarchy.root.attributes
    namespace = root.get("namespace")
    if not isinstance(namespace, str) or namespace not in newest_versions(hierarchy):
        report.add(Problem("/", "no-schema", f"the namespace of the root, {namespace!r}, is not cached in the file"))
        return
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # broken links and the like have been found as such
            found = _validated_nwb(keys) if "nwb_version" in root else _validated(keys, hierarchy, namespace)
    except ZarrBackendError as error:
        report.add(Problem(error.path or "/", "schema", f"it cannot be validated ({error.problem})"))
        return
    except _VALIDATION as error:
        report.add(Problem("/", "schema", f"it cannot be validated ({type(error).__name__}: {error})"))
        return
    for finding in found:
        report.add(Problem(_absolute(finding.location), "schema", f"{finding.name}: {finding.reason}"))


def _validated_nwb(keys: Store) -> list[Any]:
    import pynwb

    from hdmf_zarr_backend.nwb import NWBZarrIO

    with NWBZarrIO(keys, "r-") as io:  # type: ignore[arg-type] # hdmf's classes take what a file is in
        found: list[Any] = pynwb.validate(io=io)
    return found


def _validated(keys: Store, hierarchy: Hierarchy, namespace: str) -> list[Any]:
    type_map = get_type_map()  # hdmf's own, since many a file has only a part of hdmf-common cached
    load_cached_namespaces(type_map, keys, hierarchy)
    manager = BuildManager(type_map)
    catalog = type_map.namespace_catalog
    session = ReadSession(keys, ParsedFile(hierarchy, consolidated=False), keys.location, manager)
    found: list[Any] = ValidatorMap(catalog.get_namespace(namespace)).validate(session.root())
    return found


def _absolute(location: Any) -> str:
    text = "" if location is None else str(location)
    return text if text.startswith("/") else f"/{text.removeprefix('root').lstrip('/')}"
