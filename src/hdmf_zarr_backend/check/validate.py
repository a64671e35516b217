"""`validate`: checks a file against its schema with the validator of hdmf, as ``pynwb.validate`` does for HDF5 files.

Source: hdmf 6, ``hdmf.validate``; pynwb 4, ``pynwb.validation``, for the choice of the namespaces.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

from hdmf.build import BuildManager, TypeMap
from hdmf.spec import NamespaceCatalog
from hdmf.validate import ValidatorMap

from hdmf_zarr_backend.check.contents import without_target
from hdmf_zarr_backend.check.findings import Finding, Problem, Report, Validation
from hdmf_zarr_backend.encoding.parser import ParsedFile, Resolver, parse
from hdmf_zarr_backend.encoding.reserved import data_type_of, refused_version
from hdmf_zarr_backend.errors import IsHdf5Error, MetadataError, UsageError, ZarrBackendError, at, known_arguments
from hdmf_zarr_backend.extras import library_of
from hdmf_zarr_backend.hdmf.assembler import check_link_paths
from hdmf_zarr_backend.hdmf.files import ReadSession
from hdmf_zarr_backend.hdmf.namespaces import HDMF_ERRORS, is_registered, newest_versions
from hdmf_zarr_backend.hdmf.schema import load_cached_namespaces
from hdmf_zarr_backend.model.nodes import Hierarchy, absolute
from hdmf_zarr_backend.options import ReadOptions
from hdmf_zarr_backend.store.base import Store
from hdmf_zarr_backend.store.opening import FileSource, open_store

_CORE = "core"
_NOT_USED = "hdmf-experimental"  # pynwb does not validate against it
# Each class of error that hdmf 6 raises; names and not classes, since releases of hdmf have more or fewer of them.
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


@known_arguments
def validate(
    source: FileSource,
    *,
    namespace: str | None = None,
    use_cached: bool = True,
    storage_options: Mapping[str, Any] | None = None,
    read_options: ReadOptions | None = None,
) -> Validation:
    """Check a file, in Zarr or HDF5, against its schema with the validator of hdmf, as ``pynwb.validate`` does.

    Parameters
    ----------
    source : str, Path, mapping, zarr.abc.store.Store or zarr.Group
        The file.
    namespace : str, optional
        The namespace to check against. Default: for an NWB file, each cached one that no other includes (extensions
        before the core that they extend); for another file, the one that the root names.
    use_cached : bool
        Use the cached namespaces of the file, if any; else the installed ones.
    storage_options : mapping, optional
        Options for URLs, with the names of fsspec or obstore.
    read_options : ReadOptions, optional
        Limits for the file, and other files that it may lead to. Links that are not followed are not checked.

    Returns
    -------
    Validation
        ``findings`` list what the schema does not allow, and links and references to nothing, which hdmf leaves out.

    Raises
    ------
    StoreNotFoundError, NotZarrError, MetadataError
        No Zarr file exists there, it cannot be read, or its namespaces are missing.
    UsageError
        The namespace does not exist.

    Examples
    --------
    >>> from hdmf_zarr_backend import validate
    >>> result = validate("session.nwb.zarr")
    >>> result.is_valid
    True
    """
    opened = open_store(source, storage_options, read_options)
    try:
        parsed = parse(opened)
    except IsHdf5Error:
        from hdmf_zarr_backend.from_hdf5 import planned_hdf5  # on use: it imports h5py

        with planned_hdf5(opened) as (planned, nodes, _):
            return validate_parsed(planned, nodes, namespace=namespace, use_cached=use_cached)
    return validate_parsed(parsed.store(opened), parsed, namespace=namespace, use_cached=use_cached)


def validate_parsed(
    store: Store, parsed: ParsedFile, *, namespace: str | None = None, use_cached: bool = True
) -> Validation:
    """Check a file whose metadata are parsed; ``store`` has its values."""
    with at(store):
        is_cached = use_cached and bool(newest_versions(parsed.hierarchy))
        catalog, included = _catalog(store, parsed.hierarchy, is_cached=is_cached)
        names = _names(catalog, included, parsed.hierarchy, namespace)
        # hdmf's validator takes a link to nothing for a missing object, or does not see it
        problems, remarks = without_target(Resolver(store, parsed.hierarchy))
        findings = _found(store, parsed, catalog, names, remarks)
        findings += [Finding(problem.path, None, "target", problem.message) for problem in problems]
    versions = {name: str(catalog.get_namespace(name).version) for name in names}
    stated = parsed.hierarchy.root.attributes.get("nwb_version")
    version = stated if isinstance(stated, str) else None
    return Validation(store.location, versions, is_cached, findings, remarks, version)


def add_problems_by_schema(store: Store, hierarchy: Hierarchy, report: Report) -> None:
    """Add the findings of hdmf's validator with the cached namespaces of a file, for `verify`."""
    namespace = hierarchy.root.attributes.get("namespace")
    if not isinstance(namespace, str) or namespace not in newest_versions(hierarchy):
        report.add("/", "no-schema", f"the namespace of the root, {namespace!r}, is not cached in the file")
        return
    try:
        catalog, included = _catalog(store, hierarchy, is_cached=True)
        names = _names(catalog, included, hierarchy, None)
    except ZarrBackendError as error:
        report.add(error.path or "/", "schema-damaged", f"the cached namespaces cannot be used ({error.problem})")
        return
    try:
        findings = _found(store, ParsedFile(hierarchy, consolidated=False), catalog, names, report.remarks)
    except ZarrBackendError as error:
        report.add(error.path or "/", "schema", error.problem)
        return
    for finding in findings:
        report.add(finding.path, "schema", f"{finding.rule}: {finding.message}" if finding.rule else finding.message)


# ---- namespaces: those in the file, else the installed ones ---------------------------------------------------------


def _catalog(store: Store, hierarchy: Hierarchy, *, is_cached: bool) -> tuple[Any, set[str]]:
    """Return the catalogue of the cached or installed namespaces, and the names of those that others include."""
    specs: tuple[Any, ...] = ()
    if "neurodata_type" in hierarchy.root.attributes:  # an NWB file
        with library_of("nwb", "validate, for an NWB file,"):
            from pynwb import get_type_map
            from pynwb.spec import NWBDatasetSpec, NWBGroupSpec, NWBNamespace
        # they know neurodata_type_def; hdmf's own know data_type_def
        specs = NWBGroupSpec, NWBDatasetSpec, NWBNamespace
    else:
        from hdmf.common import get_type_map
    if not is_cached:
        catalog = get_type_map().namespace_catalog
        return catalog, set(catalog.namespaces) - {_CORE}  # an installed extension says nothing about this file
    catalog = NamespaceCatalog(*specs)
    with warnings.catch_warnings(action="ignore"):  # hdmf warns of each namespace that the file has in another version
        try:
            loaded = load_cached_namespaces(catalog, store, hierarchy)
        except MetadataError as error:
            error.remedy = "Validate against the installed namespaces, with use_cached=False."
            raise
    return catalog, {name for others in loaded.values() for name in others}


def _names(catalog: Any, included: set[str], hierarchy: Hierarchy, namespace: str | None) -> list[str]:
    """Return the namespaces to check against: the requested one, or the most specific ones for the file."""
    known = sorted(catalog.namespaces)
    if namespace is not None:
        if namespace not in known:
            raise UsageError(f"there is no namespace {namespace!r}", remedy=f"Use one of {', '.join(known)}.")
        return [namespace]
    attributes = hierarchy.root.attributes
    named = attributes.get("namespace")
    if "neurodata_type" in attributes:
        # as pynwb.validate chooses them: an extension includes core, so core need not be checked separately
        specific = [name for name in known if name not in included and name != _NOT_USED]
        if specific:
            return specific
        named = _CORE
    if named in known:
        return [str(named)]
    problem = f"the schema of the file is the namespace {named!r}, which does not exist"
    if named is None:
        problem = "the root has no attribute 'namespace', which names the schema of the file"
    others = f"to check it against one of them: {', '.join(known)}."
    raise MetadataError(problem, path="/", remedy=f"Pass namespace= {others}", remedy_cli=f"Pass --namespace {others}")


def _found(store: Store, parsed: ParsedFile, catalog: Any, names: list[str], remarks: list[Problem]) -> list[Finding]:
    """Return what hdmf's validator finds, or its error; what it misses may be behind a link that ``remarks`` name."""
    links = {remark.path for remark in remarks if remark.kind == "link-refused"}
    links |= {f"{path.rpartition('/')[0] or '/'}: a type" for path in links}
    unchecked: dict[Any, list[str]] = {}  # the objects that hdmf's validator leaves out, by the namespace of their type
    for path, node in parsed.hierarchy.walk():
        data_type = data_type_of(node)
        if data_type and not any(is_registered(catalog, name, data_type) for name in names):
            unchecked.setdefault(node.attributes.get("namespace"), []).append(path)
    for namespace, paths in unchecked.items():
        were = "object was" if len(paths) == 1 else "objects were"
        message = f"{namespace!r} is not known: {len(paths):,} {were} not checked"
        remarks.append(Problem(absolute(paths[0]), "type-unknown", message))
    version = parsed.hierarchy.root.attributes.get("nwb_version")
    refused = "" if version is None else refused_version(version)
    findings = [Finding("/", "nwb_version", "version", refused)] if refused else []
    with warnings.catch_warnings(action="ignore"):  # links to nothing: they are findings
        session = ReadSession(store, parsed, BuildManager(TypeMap(catalog)))
        for name in names:
            try:
                check_link_paths(session.root(), store.read_rules, store.location)
                errors = ValidatorMap(catalog.get_namespace(name)).validate(session.root())
            except ZarrBackendError:
                raise
            # hdmf ends in an error on some damaged files; what the other namespaces find is still worth reporting
            except HDMF_ERRORS as error:
                problem = f"hdmf's validator failed ({type(error).__name__}: {error})"
                findings += [] if refused else [Finding("/", None, "failed", problem)]
            else:
                findings += [finding for finding, missed in map(_finding_of, errors) if missed not in links]
    return list(dict.fromkeys(findings))  # core and an extension that includes it find the same


def _finding_of(error: Any) -> tuple[Finding, str]:
    """Return an error of hdmf's validator as a finding, and what it misses: a path, or that of a group and "a type"."""
    name, rule, message = type(error).__name__, str(error.name), str(error.reason)
    # hdmf has no class for a time without a time zone, only this reason
    kind = _KINDS.get(name, "time" if "timezone" in message else "other")
    path = "/" if error.location is None else f"/{error.location}"
    last = rule.rpartition("/")[2]
    attribute: str | None = None
    missed = ""
    if name == "MissingError":  # its text is "argument missing"
        message, missed = f"{last!r} is missing", f"{path.rstrip('/')}/{last}"
    elif name == "MissingDataType":
        missed = f"{path}: a type"
    elif path.endswith(f".{last}"):  # hdmf appends an attribute to the path after a dot
        path, attribute = path.removesuffix(f".{last}"), last
    return Finding(path, attribute, kind, message, rule), missed
