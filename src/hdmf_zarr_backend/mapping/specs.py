"""Namespaces <-> arrays of JSON text under ``/specifications/<namespace>/<version>/<source>``.

The root attribute ``.specloc`` names the group. hdmf asks for a writer and a reader with four methods in all; both are
here, and neither touches a store: the writer collects text, the reader is given a function that returns it.

Source: hdmf-zarr storage specification, "Caching format specifications".
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from hdmf.spec import SpecReader, SpecWriter

from hdmf_zarr_backend.errors import MetadataError
from hdmf_zarr_backend.mapping.specloc import NAMESPACE, spec_location
from hdmf_zarr_backend.mapping.versions import newest_version, version_key

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
