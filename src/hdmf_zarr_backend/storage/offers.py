"""What only some kinds of stores can do, asked of any store."""

from __future__ import annotations

from collections.abc import Mapping

from hdmf_zarr_backend.storage.keys import KeyStore, innermost
from hdmf_zarr_backend.storage.openvalue import OpenValue


def replace_below(keys: KeyStore, prefix: str, items: Mapping[str, bytes]) -> None:
    """Make ``items`` all that there is below ``prefix/``, so that a reader sees the old keys or the new ones.

    A store that has no ``replace_below`` cannot do that in one step: there the keys are set one by one.
    """
    offered = getattr(keys, "replace_below", None)
    if offered is None:
        keys.set_many(items)
    else:
        offered(prefix, items)


def opens_values(keys: KeyStore) -> bool:
    """Tell whether parts of a value can be read from a store, by `open_value`, at no more cost than the whole."""
    return hasattr(innermost(keys), "open_value")


def open_value(keys: KeyStore, key: str) -> OpenValue | None:
    """Return the value of ``key``, open, to read parts of it; None where it is not there, or the store cannot do so."""
    offered = getattr(keys, "open_value", None)
    found: OpenValue | None = None if offered is None else offered(key)
    return found
