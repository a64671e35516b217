"""Namespaces <-> arrays of JSON text under ``/specifications/<namespace>/<version>/<source>``.

The root attribute ``.specloc`` names the group. hdmf asks for a writer and a reader with four methods in all; both are
here, and neither touches a store: the writer collects text, the reader is given a function that returns it.

Source: hdmf-zarr storage specification, "Caching format specifications".
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from typing import Any

from hdmf.spec import SpecReader, SpecWriter

from hdmf_zarr_backend.errors import MetadataError
from hdmf_zarr_backend.mapping.specloc import spec_location

__all__ = [
    "NAMESPACE",
    "SPECIFICATIONS",
    "TextSpecReader",
    "TextSpecWriter",
    "newest_version",
    "spec_location",
    "version_key",
]

SPECIFICATIONS = "specifications"
NAMESPACE = "namespace"
_UNVERSIONED = ("None", "unversioned")
_VERSION = re.compile(r"v?(?P<release>[0-9]+(?:\.[0-9]+)*)(?P<suffix>.*)", re.DOTALL)
_POST = re.compile(r"[-_.]?(?:post|rev|r)(?![a-z])")
_IDENTIFIER = re.compile(r"[0-9]+|[a-z]+")
_LONG = {"a": "alpha", "b": "beta", "c": "rc", "pre": "rc", "preview": "rc"}
_END = (1,)


class TextSpecWriter(SpecWriter):  # type: ignore[misc]
    """Collects the sources of one namespace as JSON text.

    Attributes
    ----------
    texts : dict
        ``{source: text}``; the namespace itself is under ``"namespace"``.
    """

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}

    def write_spec(self, spec: Any, path: str) -> None:
        """Keep the text of one source file."""
        self.texts[path] = _text(spec)

    def write_namespace(self, namespace: Any, path: str) -> None:
        """Keep the text of the namespace."""
        self.texts[path] = _text({"namespaces": [namespace]})


def _text(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


class TextSpecReader(SpecReader):  # type: ignore[misc]
    """Gives hdmf the sources of one cached namespace.

    Parameters
    ----------
    store : str
        The file, for messages.
    text : callable
        Returns the JSON text of a source by its name.
    path : str
        Absolute path of the group that holds the sources.
    """

    def __init__(self, store: str, text: Callable[[str], str], *, path: str = "/") -> None:
        super().__init__(source=f"{store}:{path}")
        self._store = store
        self._path = path.rstrip("/")
        self._source_text = text

    def read_spec(self, spec_path: str) -> Any:
        """Return the specification of one source."""
        return self._load(spec_path)

    def read_namespace(self, ns_path: str) -> Any:
        """Return the list of namespaces of the source ``ns_path``."""
        document = self._load(ns_path)
        if not isinstance(document, dict) or not isinstance(document.get("namespaces"), list):
            raise MetadataError(
                f"the cached source {ns_path!r} lists no namespaces",
                store=self._store,
                path=f"{self._path}/{ns_path}",
                remedy="Open with load_namespaces=False to read the file with the installed schema.",
            )
        return document["namespaces"]

    def _load(self, name: str) -> Any:
        try:
            return json.loads(self._source_text(name))
        except (ValueError, RecursionError) as error:
            raise MetadataError(
                f"the cached specification {name!r} is no JSON ({type(error).__name__})",
                store=self._store,
                path=f"{self._path}/{name}",
                remedy="Open with load_namespaces=False to read the file with the installed schema.",
            ) from error


def newest_version(versions: Iterable[str]) -> str:
    """Return the newest of ``versions``, by version order (2.11.0 is newer than 2.9.0, 2.9.0 newer than 2.9.0-alpha).

    Names that mean "no version" lose against any other.
    """
    return max(sorted(versions), key=version_key)


def version_key(version: str) -> tuple[Any, ...]:
    """Return a key that sorts versions from old to new, as SemVer 2.0 and PEP 440 do where they agree.

    Pre-releases come before their release (``dev`` before ``alpha``), builds and post-releases after it; ``2.0`` is
    ``2.0.0``. What is no version comes before all versions, what says that there is none first of all.
    """
    if version in _UNVERSIONED:
        return (0,)
    match = _VERSION.match(version)
    if match is None:
        return (1, version)
    release = [_number(part) for part in match["release"].split(".")]
    while release and not release[-1][0]:
        release.pop()
    suffix = match["suffix"].lower()
    rank = 0 if not suffix else 1 if suffix.startswith("+") else 2 if _POST.match(suffix) else -1
    return (2, release, rank, [*map(_identifier, _IDENTIFIER.findall(suffix)), _END])


def _number(digits: str) -> tuple[int, str]:
    """Return what sorts like the number; a crafted version may have more digits than `int` takes."""
    significant = digits.lstrip("0")
    return len(significant), significant


def _identifier(text: str) -> tuple[Any, ...]:
    if text[0].isdigit():
        return (2, _number(text))
    return (0,) if text == "dev" else (3, _LONG.get(text, text))
