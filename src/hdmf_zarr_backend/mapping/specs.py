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
from hdmf_zarr_backend.model.nodes import relative

SPECIFICATIONS = "specifications"
NAMESPACE = "namespace"
_UNVERSIONED = ("None", "unversioned")


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
    location : str
        What messages name: the file and the group.
    text : callable
        Returns the JSON text of a source by its name.
    """

    def __init__(self, location: str, text: Callable[[str], str]) -> None:
        super().__init__(source=location)
        self._location = location
        self._source_text = text

    def read_spec(self, spec_path: str) -> Any:
        """Return the specification of one source."""
        return self._load(spec_path)

    def read_namespace(self, ns_path: str) -> Any:
        """Return the list of namespaces of the source ``ns_path``."""
        document = self._load(ns_path)
        if not isinstance(document, dict) or not isinstance(document.get("namespaces"), list):
            raise MetadataError(f"the cached source {ns_path!r} lists no namespaces", path=self._location)
        return document["namespaces"]

    def _load(self, name: str) -> Any:
        try:
            return json.loads(self._source_text(name))
        except (ValueError, RecursionError) as error:
            raise MetadataError(
                f"the cached specification {name!r} is no JSON ({type(error).__name__})",
                path=self._location,
                remedy="Open with load_namespaces=False to read the file with the installed schema.",
            ) from error


def newest_version(versions: Iterable[str]) -> str:
    """Return the newest of ``versions``, by version order (2.11.0 is newer than 2.9.0, 2.9.0 newer than 2.9.0-alpha).

    Names that mean "no version" lose against any other.
    """
    return max(versions, key=version_key)


def version_key(version: str) -> tuple[Any, ...]:
    """Return a key that sorts versions from old to new."""
    if version in _UNVERSIONED:
        return (0,)
    release, _, suffix = re.sub(r"^(\d+(?:\.\d+)*)[-+_.]?", r"\1 ", version).partition(" ")
    numbers = tuple(int(part) for part in release.split(".") if part.isdigit())
    while numbers and numbers[-1] == 0:
        numbers = numbers[:-1]
    parts = tuple((1, int(p), "") if p.isdigit() else (0, 0, p) for p in re.findall(r"\d+|[A-Za-z]+", suffix))
    return (1, numbers, suffix == "", parts)


def spec_location(value: Any) -> str | None:
    """Return the path that ``.specloc`` names, in the model's spelling, None where it names nothing.

    It is a path, or in old files a reference.
    """
    if isinstance(value, dict):
        value = value.get("path", value.get("value"))
        if isinstance(value, dict):
            value = value.get("path")
    return relative(value) if isinstance(value, str) and relative(value) else None
