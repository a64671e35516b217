"""What a file says that it holds, against the namespaces that are loaded: told before containers are made of it.

hdmf leaves out what it finds no type for, without a word, and where a group stands in the place of a dataset it fails
with an error that names neither. Here the first is a warning and the second an error, and both name the node.

Source: issue "The main job", bad input; ``hdmf.build.ObjectMapper`` for what is left out.
"""

from __future__ import annotations

import posixpath
import warnings
from typing import Any

from hdmf.build import ConstructError, GroupBuilder
from hdmf.spec import GroupSpec

from hdmf_zarr_backend.errors import MetadataError, UnreadTypeWarning
from hdmf_zarr_backend.model.nodes import absolute

_OTHER_SCHEMA = "Pass a manager that knows its namespace, or open an NWB file with NWBZarrIO."


class ContainerError(MetadataError, ConstructError):  # type: ignore[misc]
    """No container can be made of what the file holds; hdmf's own error for it as well."""


def check_types(root: Any, catalog: Any, source: str) -> None:
    """Hold the types that the builders name against the namespaces in ``catalog``.

    Parameters
    ----------
    root : GroupBuilder
        Of the file.
    catalog : NamespaceCatalog
        Knows the namespaces.
    source : str
        The file, for messages.

    Raises
    ------
    ContainerError
        The root has no type; a type has no namespace, or one that is not loaded; a group is where the schema names a
        dataset.

    Warns
    -----
    UnreadTypeWarning
        A type is not in its namespace; a dataset is where the schema names a group.
    """
    key = catalog.group_spec_cls.type_key()
    if key not in root.attributes:
        raise ContainerError(f"the root has no {key}", store=source, path="/", remedy=_OTHER_SCHEMA)
    schema = _Schema(catalog)
    stack = [root]
    while stack:
        builder = stack.pop()
        if key in builder.attributes:
            _check_builder(builder, key, schema, source)
        if isinstance(builder, GroupBuilder):
            stack.extend(builder.groups.values())
            stack.extend(dataset for dataset in builder.datasets.values() if dataset is not None)


class _Members:
    """What a group may hold under a fixed name, as its specification says.

    Attributes
    ----------
    datasets : frozenset of str
        Names of datasets.
    groups : dict
        Specifications of groups by name.
    others : frozenset of str
        Names of links, which may be either.
    """

    def __init__(self, spec: GroupSpec) -> None:
        self.datasets = frozenset(dataset.name for dataset in spec.datasets if dataset.name is not None)
        self.groups = {group.name: group for group in spec.groups if group.name is not None}
        self.others = frozenset(link.name for link in spec.links if link.name is not None)


class _Schema:
    """The loaded namespaces; each specification is looked into once."""

    def __init__(self, catalog: Any) -> None:
        self.known = {
            name: frozenset(catalog.get_namespace(name).get_registered_types()) for name in catalog.namespaces
        }
        self._catalog = catalog
        self._specs: dict[tuple[str, str], Any] = {}
        self._members: dict[int, _Members] = {}  # the specifications are held by the catalog

    def spec(self, namespace: str, data_type: str) -> Any:
        """Return the specification of a type."""
        found = self._specs.get((namespace, data_type))
        if found is None:
            found = self._specs[namespace, data_type] = self._catalog.get_spec(namespace, data_type)
        return found

    def members(self, spec: GroupSpec) -> _Members:
        """Return what a group of this specification may hold."""
        found = self._members.get(id(spec))
        if found is None:
            found = self._members[id(spec)] = _Members(spec)
        return found


def _check_builder(builder: Any, key: str, schema: _Schema, source: str) -> None:
    data_type, namespace = builder.attributes[key], builder.attributes.get("namespace")
    if not isinstance(namespace, str):
        raise ContainerError(
            f"the type {data_type!r} names no namespace",
            store=source,
            path=path_of(builder),
            remedy="Add the attribute 'namespace', or write the file anew.",
        )
    if namespace not in schema.known:
        loaded = f"Loaded are: {', '.join(sorted(schema.known))}. " if schema.known else ""
        raise ContainerError(
            f"the namespace {namespace!r} of the type {data_type!r} is not loaded",
            store=source,
            path=path_of(builder),
            remedy=f"{loaded}{_OTHER_SCHEMA}",
        )
    if data_type not in schema.known[namespace]:
        warnings.warn(
            f"The type {data_type!r} of {path_of(builder)} in {source} is not in {namespace!r}: left out.",
            UnreadTypeWarning,
            stacklevel=2,
        )
    elif isinstance(builder, GroupBuilder):
        _check_members(builder, schema.spec(namespace, data_type), schema, source)


def _check_members(builder: Any, spec: GroupSpec, schema: _Schema, source: str) -> None:
    """Compare the members that the schema knows by name with what they are in the file."""
    expected = schema.members(spec)
    for name, member in builder.groups.items():
        if name in expected.datasets:
            raise ContainerError(
                "the file has a group where the schema names a dataset",
                store=source,
                path=path_of(member),
                remedy="Restore the dataset from a copy.",
            )
        group = expected.groups.get(name)
        if group is not None and group.data_type is None:
            _check_members(member, group, schema, source)
    for name, member in builder.datasets.items():
        if (
            name in expected.groups
            and member is not None
            and name not in expected.datasets
            and name not in expected.others
        ):
            warnings.warn(
                f"{path_of(member)} in {source} is a dataset, and a group in the schema: left out.",
                UnreadTypeWarning,
                stacklevel=2,
            )


def path_of(builder: Any) -> str:
    """Return the absolute path of a builder that was read."""
    return "/" if builder.location is None else absolute(posixpath.join(builder.location, builder.name))


def container_error(error: Exception, root: Any, source: str) -> ContainerError:
    """Return our error for one that hdmf raised while it made containers."""
    builder, problem = root, error.args[-1] if error.args else type(error).__name__
    if isinstance(error, ConstructError) and len(error.args) == 2:
        builder = error.args[0]
    return ContainerError(
        f"no container can be made of the file ({str(problem).rstrip('.')})",
        store=source,
        path=path_of(builder),
        remedy="Run `zarrio verify` on the file.",
    )
