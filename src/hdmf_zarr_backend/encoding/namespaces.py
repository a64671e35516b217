"""The group of cached namespaces, and the order of the versions of a namespace. Standard library only."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from hdmf_zarr_backend.encoding.reserved import SPECLOC
from hdmf_zarr_backend.model.nodes import Group, Hierarchy, relative
from hdmf_zarr_backend.model.render import number_key

# hdmf writes "unversioned" or "None" for a namespace without a version.
_UNVERSIONED = ("None", "unversioned")
_VERSION = re.compile(r"v?(?P<release>[0-9]+(?:\.[0-9]+)*)(?P<suffix>.*)", re.DOTALL)
_POST = re.compile(r"[-_.]?(?:post|rev|r)(?![a-z])")
_IDENTIFIER = re.compile(r"[0-9]+|[a-z]+")
# PEP 440 has these other spellings of the names of pre-releases.
_LONG = {"a": "alpha", "b": "beta", "c": "rc", "pre": "rc", "preview": "rc"}
_END = (1,)


def newest_version(versions: Iterable[str]) -> str:
    """Return the newest of ``versions``: 2.11.0 is newer than 2.9.0, and 2.9.0 newer than 2.9.0-alpha.

    Names that mean "no version" are older than all others.
    """
    return max(sorted(versions), key=version_key)


def version_key(version: str) -> tuple[Any, ...]:
    """Return a key that sorts versions from old to new, as SemVer 2.0 and PEP 440 do where they agree.

    Pre-releases come before their release (``dev`` before ``alpha``), builds and post-releases after it; ``2.0`` equals
    ``2.0.0``. Text that is not a version comes before all versions, and names for "no version" come first.
    """
    if version in _UNVERSIONED:
        return (0,)
    match = _VERSION.match(version)
    if match is None:
        return (1, version)
    release = [number_key(part) for part in match["release"].split(".")]
    while release and not release[-1][0]:
        release.pop()
    suffix = match["suffix"].lower()
    rank = 0 if not suffix else 1 if suffix.startswith("+") else 2 if _POST.match(suffix) else -1
    # numbers come before names, "dev" before both, and the end of the version before all but "dev"
    identifiers = [
        (2, number_key(part)) if part[0].isdigit() else (0,) if part == "dev" else (3, _LONG.get(part, part))
        for part in _IDENTIFIER.findall(suffix)
    ]
    return (2, release, rank, [*identifiers, _END])


NAMESPACE = "namespace"
"""Name of the source that describes a namespace and lists its other sources."""


def spec_location(value: Any) -> str | None:
    """Return the path in ``.specloc``, as in the model; None if it has none.

    It is a path, or in old files a reference.
    """
    if isinstance(value, dict):
        value = value.get("path", value.get("value"))
        if isinstance(value, dict):
            value = value.get("path")
    return relative(value) if isinstance(value, str) and relative(value) else None


def cached_versions(hierarchy: Hierarchy) -> dict[str, list[str]]:
    """Return ``{namespace: versions}`` of the cached namespaces of a file."""
    location = spec_location(hierarchy.root.attributes.get(SPECLOC))
    group = hierarchy.get(location) if location is not None else None
    if not isinstance(group, Group):
        return {}
    return {name: sorted(node.members) for name, node in sorted(group.members.items()) if isinstance(node, Group)}
