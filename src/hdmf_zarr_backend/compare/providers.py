"""Which formats can be compared, and how their files are opened for it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from hdmf_zarr_backend.errors import StoreError, StoreNotFoundError, StoreUnreachableError, UsageError
from hdmf_zarr_backend.hdf5.facts import Hdf5Facts, is_hdf5
from hdmf_zarr_backend.mapping.facts import FileFacts
from hdmf_zarr_backend.model import v2, v3
from hdmf_zarr_backend.model.locations import is_url
from hdmf_zarr_backend.read.facts import ZarrFacts, is_zarr, is_zarr_3
from hdmf_zarr_backend.stores.base import KeyStore
from hdmf_zarr_backend.stores.opening import open_keys

__all__ = ["FactsProvider", "open_facts", "open_pair", "register_provider"]

_MARKS = (v2.CONSOLIDATED, v2.GROUP, v3.DOCUMENT, v2.ARRAY)


@dataclass(frozen=True, slots=True)
class FactsProvider:
    """A file format that can be compared.

    Parameters
    ----------
    name : str
        For messages.
    recognises : callable
        Tells from a path or URL, cheaply, whether the file is of this format.
    open : callable
        Gives the facts of the file.
    open_as_hdf5 : callable, optional
        Gives the facts that the file would have as HDF5, for comparing with a file of another format; default `open`.
    takes_keys : bool
        These functions take the keys of a store too, and get those of a URL, opened with the storage options.
    """

    name: str
    recognises: Callable[[Any], bool]
    open: Callable[[Any], FileFacts]
    open_as_hdf5: Callable[[Any], FileFacts] | None = None
    takes_keys: bool = False


def _is_some_zarr(place: str | KeyStore) -> bool:
    return is_zarr(place) if isinstance(place, str) else any(_is_there(place, mark) for mark in _MARKS)


def _is_zarr_3(place: str | KeyStore) -> bool:
    return is_zarr_3(place) if isinstance(place, str) else _is_there(place, v3.DOCUMENT)


def _is_there(keys: KeyStore, key: str) -> bool:
    try:
        return keys.get(key) is not None
    except StoreUnreachableError:  # after a while, which is not to be waited for again
        raise
    except (StoreError, UsageError):
        return False


def _as_hdf5(place: Any) -> FileFacts:
    return ZarrFacts(place, as_hdf5=True)


_PROVIDERS: list[FactsProvider] = [
    FactsProvider("HDF5", is_hdf5, Hdf5Facts),
    FactsProvider("Zarr 3", _is_zarr_3, ZarrFacts, _as_hdf5, takes_keys=True),
    FactsProvider("Zarr", _is_some_zarr, ZarrFacts, _as_hdf5, takes_keys=True),
]


def register_provider(provider: FactsProvider) -> None:
    """Let `open_facts` know one more format; it is asked after those that are known already.

    Raises
    ------
    UsageError
        If a provider of that name is there.
    """
    if any(known.name == provider.name for known in _PROVIDERS):
        raise UsageError(f"a provider of facts named {provider.name!r} is registered already", remedy="Choose another.")
    _PROVIDERS.append(provider)


def open_facts(
    path: str | os.PathLike[str], *, as_hdf5: bool = False, storage_options: Mapping[str, Any] | None = None
) -> FileFacts:
    """Open a file for comparing, by the first provider that recognises it; HDF5 by its signature.

    Parameters
    ----------
    path : str or PathLike
        The file.
    as_hdf5 : bool
        Give the facts that the file would have as HDF5.
    storage_options : mapping, optional
        For a URL.

    Raises
    ------
    StoreRefusedError, StoreUnreachableError
        If a server does not give what is at a URL.
    StoreNotFoundError
        If no provider recognises the path and nothing is there.
    UsageError
        If something is there and no provider recognises it.
    """
    provider, place = _provider_of(path, storage_options)
    return _opener(provider, as_hdf5=as_hdf5)(place)


def open_pair(
    a: FileFacts | str | os.PathLike[str],
    b: FileFacts | str | os.PathLike[str],
    *,
    storage_options: Mapping[str, Any] | None = None,
) -> tuple[FileFacts, FileFacts]:
    """Open two files so that their facts can be compared; facts that are given stay as they are.

    Two files of one format give what that format has, others what they would have as HDF5. ``storage_options`` are for
    those that are URLs. Errors as of `open_facts`.
    """
    known_a, known_b = (_known(file, storage_options) for file in (a, b))
    as_hdf5 = known_a[0] is not known_b[0]
    left = _opened(*known_a, as_hdf5=as_hdf5)
    try:
        right = _opened(*known_b, as_hdf5=as_hdf5)
    except BaseException:
        if left is not a:
            left.close()
        raise
    return left, right


def _known(
    file: FileFacts | str | os.PathLike[str], storage_options: Mapping[str, Any] | None
) -> tuple[FactsProvider | None, Any]:
    return _provider_of(file, storage_options) if isinstance(file, str | os.PathLike) else (None, file)


def _opened(provider: FactsProvider | None, place: Any, *, as_hdf5: bool) -> FileFacts:
    return cast(FileFacts, place) if provider is None else _opener(provider, as_hdf5=as_hdf5)(place)


def _opener(provider: FactsProvider, *, as_hdf5: bool) -> Callable[[Any], FileFacts]:
    return provider.open_as_hdf5 if as_hdf5 and provider.open_as_hdf5 is not None else provider.open


def _provider_of(
    path: str | os.PathLike[str], storage_options: Mapping[str, Any] | None
) -> tuple[FactsProvider, str | KeyStore]:
    """Return who knows the format of a file, and what its functions take."""
    source = os.fspath(path)
    keys = _keys_of(source, storage_options)
    for provider in _PROVIDERS:
        place = keys if provider.takes_keys and keys is not None else source
        if provider.recognises(place):
            return provider, place
    known = ", ".join(provider.name for provider in _PROVIDERS)
    remedy = f"Give a file of one of these: {known}."
    if is_url(source):
        open_keys(source, storage_options).get_many(_MARKS)  # raises what was the matter, if it was not the format
        remedy = "Check the URL; an HDF5 file is compared where it is local, so download it first."
    elif not Path(source).exists():
        raise StoreNotFoundError("nothing is there to compare", store=source, remedy="Check the path.")
    raise UsageError("this is of no format that can be compared", store=source, remedy=remedy)


def _keys_of(source: str, storage_options: Mapping[str, Any] | None) -> KeyStore | None:
    """Return the keys of a URL; None of a local file, and of a URL that only another provider may know how to open."""
    if not is_url(source):
        return None
    try:
        return open_keys(source, storage_options)
    except (StoreError, UsageError):
        return None
