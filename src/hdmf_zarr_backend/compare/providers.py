"""Which formats can be compared, and how their files are opened for it."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from hdmf_zarr_backend.errors import StoreNotFoundError, UsageError
from hdmf_zarr_backend.hdf5.facts import Hdf5Facts, is_hdf5
from hdmf_zarr_backend.mapping.facts import FileFacts
from hdmf_zarr_backend.read.facts import ZarrFacts, is_zarr, is_zarr_3

__all__ = ["FactsProvider", "open_facts", "open_pair", "register_provider"]


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
    """

    name: str
    recognises: Callable[[str], bool]
    open: Callable[[str], FileFacts]
    open_as_hdf5: Callable[[str], FileFacts] | None = None


_PROVIDERS: list[FactsProvider] = [
    FactsProvider("HDF5", is_hdf5, Hdf5Facts),
    FactsProvider("Zarr 3", is_zarr_3, ZarrFacts, lambda path: ZarrFacts(path, as_hdf5=True)),
    FactsProvider("Zarr", is_zarr, ZarrFacts, lambda path: ZarrFacts(path, as_hdf5=True)),
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


def open_facts(path: str | os.PathLike[str], *, as_hdf5: bool = False) -> FileFacts:
    """Open a file for comparing, by the first provider that recognises it; HDF5 by its signature.

    Parameters
    ----------
    path : str or PathLike
        The file.
    as_hdf5 : bool
        Give the facts that the file would have as HDF5.

    Raises
    ------
    StoreNotFoundError
        If no provider recognises the path and nothing is there.
    UsageError
        If something is there and no provider recognises it.
    """
    return _opened(path, _provider_of(path), as_hdf5=as_hdf5)


def open_pair(
    a: FileFacts | str | os.PathLike[str], b: FileFacts | str | os.PathLike[str]
) -> tuple[FileFacts, FileFacts]:
    """Open two files so that their facts can be compared; facts that are given stay as they are.

    Two files of one format give what that format has, others what they would have as HDF5. Errors as of `open_facts`.
    """
    known_a, known_b = (_provider_of(file) if isinstance(file, str | os.PathLike) else None for file in (a, b))
    as_hdf5 = known_a is not known_b
    left = _opened(a, known_a, as_hdf5=as_hdf5)
    try:
        right = _opened(b, known_b, as_hdf5=as_hdf5)
    except BaseException:
        if left is not a:
            left.close()
        raise
    return left, right


def _opened(file: FileFacts | str | os.PathLike[str], provider: FactsProvider | None, *, as_hdf5: bool) -> FileFacts:
    if not isinstance(file, str | os.PathLike) or provider is None:
        return cast(FileFacts, file)
    opener = provider.open_as_hdf5 if as_hdf5 and provider.open_as_hdf5 is not None else provider.open
    return opener(os.fspath(file))


def _provider_of(path: str | os.PathLike[str]) -> FactsProvider:
    source = os.fspath(path)
    for provider in _PROVIDERS:
        if provider.recognises(source):
            return provider
    if "://" not in source and not Path(source).exists():
        raise StoreNotFoundError("nothing is there to compare", store=source, remedy="Check the path.")
    known = ", ".join(provider.name for provider in _PROVIDERS)
    raise UsageError(
        "this is of no format that can be compared", store=source, remedy=f"Give a file of one of these: {known}."
    )
