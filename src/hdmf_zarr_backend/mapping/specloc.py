"""Where the cached namespaces of a file are: the root attribute ``.specloc``, in its new form and the old ones.

Source: hdmf-zarr storage specification, "Caching format specifications".
"""

from __future__ import annotations

from typing import Any

from hdmf_zarr_backend.model.nodes import relative

NAMESPACE = "namespace"
"""Name of the source that describes a namespace and names its other sources."""


def spec_location(value: Any) -> str | None:
    """Return the path that ``.specloc`` names, in the model's spelling, None where it names nothing.

    It is a path, or in old files a reference.
    """
    if isinstance(value, dict):
        value = value.get("path", value.get("value"))
        if isinstance(value, dict):
            value = value.get("path")
    return relative(value) if isinstance(value, str) and relative(value) else None
