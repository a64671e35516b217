"""The namespaces installed with pynwb and hdmf, read from their YAML files without importing these libraries."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from hdmf_zarr_backend.checks.rules import Texts, frozen_texts
from hdmf_zarr_backend.formats.namespaces import NAMESPACE

_FILES = {
    "hdmf": "common/hdmf-common-schema/common/namespace.yaml",
    "pynwb": "nwb-schema/core/nwb.namespace.yaml",
}
_NAMES = re.compile(r"^(?:- |  )name: ['\"]?([^\s'\"]+)['\"]?$", re.MULTILINE)
_VERSIONS = re.compile(r"^(?:- |  )version: ['\"]?([^\s'\"]+)['\"]?$", re.MULTILINE)


def core_texts(cached: Texts, versions: Mapping[str, str]) -> Texts:
    """Return the namespaces with which pynwb reads a file: the installed ones, whatever the file has cached.

    If the cached ones have the versions of the installed ones, they are returned instead, and no YAML is read.
    """
    installed = installed_versions()
    same = tuple((name, sources) for name, sources in cached if versions.get(name) == installed.get(name))
    return same if len(same) == len(installed) else installed_texts()


@cache
def installed_versions() -> dict[str, str]:
    """Return ``{namespace: version}`` of the installed namespaces."""
    found: dict[str, str] = {}
    for path in _namespace_files():
        text = path.read_text(encoding="utf-8")
        found.update(zip(_NAMES.findall(text), _VERSIONS.findall(text), strict=True))
    return found


@cache
def installed_texts() -> Texts:
    """Return the installed namespaces; empty if pynwb is not installed."""
    from ruamel.yaml import YAML  # imported here: few files need it; hdmf requires it

    load = YAML(typ="safe").load
    found: dict[str, dict[str, str]] = {}
    for path in _namespace_files():
        for namespace in load(path)["namespaces"]:
            texts = found[namespace["name"]] = {NAMESPACE: json.dumps({"namespaces": [namespace]})}
            for source in (entry["source"] for entry in namespace["schema"] if "source" in entry):
                texts[source] = json.dumps(load(path.with_name(source.removesuffix(".yaml") + ".yaml")))
    return frozen_texts(found)


def _namespace_files() -> list[Path]:
    """Return the files that describe the namespaces; empty if one of the libraries is not installed."""
    found = []
    for package, name in _FILES.items():
        spec = find_spec(package)
        folders = [] if spec is None else list(spec.submodule_search_locations or ())
        found += [path for path in (Path(folder, name) for folder in folders) if path.is_file()]
    return found if len(found) == len(_FILES) else []
