"""The modes of a file: what each may do with what is there, and with a store of its kind."""

from __future__ import annotations

import difflib
import inspect

from hdmf.backends.errors import UnsupportedOperation

from hdmf_zarr_backend.changes.locks import WriterLock
from hdmf_zarr_backend.changes.recovery import recovered
from hdmf_zarr_backend.changes.writer_lock import writer_lock
from hdmf_zarr_backend.errors import (
    ModeError,
    NotZarrError,
    ReadOnlyStoreError,
    StoreExistsError,
    StoreNotFoundError,
    UsageError,
)
from hdmf_zarr_backend.read.parser import ParsedFile, is_empty_group, is_hdmf_zarr, parse
from hdmf_zarr_backend.stores.base import KeyStore

MODES = ("r", "r-", "r+", "a", "w", "w-", "x")
READING_MODES = ("r", "r-")
"""Modes that write nothing, and wait for nobody."""

NEW_FILE_MODES = ("w", "w-", "x")
"""Modes that make a new file."""


class UnsupportedModeError(ModeError, UnsupportedOperation):  # type: ignore[misc]
    """The operation is not possible in this mode; hdmf's own error for it as well."""


class WrongArgumentError(UsageError, TypeError):
    """An argument of a type that means nothing here."""


_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def unknown_argument(cls: type, name: str) -> WrongArgumentError:
    """Return the error for an argument that the constructor of ``cls`` does not take; it names the most similar one."""
    found = [inspect.signature(vars(base).get("__init__", object)).parameters.values() for base in cls.__mro__]
    known = {each.name for some in found for each in some if each.kind in _NAMED and each.name != "self"}
    similar = difflib.get_close_matches(name, known, n=1)
    remedy = f"Did you mean {similar[0]!r}?" if similar else f"It takes {', '.join(sorted(known))}."
    return WrongArgumentError(f"{cls.__name__} does not take the argument {name!r}", remedy=remedy)


class NoValuesError(NotZarrError, UnsupportedOperation):  # type: ignore[misc]
    """There is a Zarr hierarchy with nothing in it; hdmf's own error for it as well."""


class TargetExistsError(StoreExistsError, UnsupportedOperation):  # type: ignore[misc]
    """Modes ``w-`` and ``x`` make new files only; hdmf's own error for it as well."""


class TargetMissingError(StoreNotFoundError, UnsupportedOperation):  # type: ignore[misc]
    """There is nothing to read; hdmf's own error for it as well."""


def lock_for(keys: KeyStore, mode: str, *, break_lock: bool) -> WriterLock | None:
    """Return the lock of the only writer, None for a mode that only reads.

    Parameters
    ----------
    keys : KeyStore
        The file.
    mode : str
        One of `MODES`; one that this kind of store cannot have is refused before anything is asked of it.
    break_lock : bool
        As of `changes.writer_lock.writer_lock`.

    Raises
    ------
    ReadOnlyStoreError
        A store of this kind has no such mode.
    StoreLockedError
        Another writer has the file open.
    """
    check_abilities(keys, mode)
    return None if mode in READING_MODES else writer_lock(keys, break_lock=break_lock)


def parse_target(keys: KeyStore, mode: str, *, use_inlined: bool, likely: int | None) -> ParsedFile:
    """Return the metadata of a file that has to be there; before a change, what an interrupted one left is put right.

    Parameters
    ----------
    keys : KeyStore
        The file.
    mode : str
        One of `MODES`.
    use_inlined : bool
        As of `parse`.
    likely : int, optional
        The format that the user names: the hint for `parse` where the file is only read. What is changed has to be what
        everybody else reads.

    Raises
    ------
    TargetMissingError
        Nothing is there.
    ReadOnlyStoreError
        The file is one of LINDI, and is to be changed.
    """
    is_read = mode in READING_MODES
    if not is_read:
        recovered(keys)
    try:
        found = parse(keys, use_consolidated=mode != "r-", use_inlined=use_inlined, hint=likely if is_read else None)
    except StoreNotFoundError as error:
        raise TargetMissingError(
            f"Unable to open file in {mode!r} mode. File does not exist",
            store=keys.location,
            remedy=f"{error.remedy.removesuffix('.')}, or use mode 'w' to make a new file.",
        ) from error
    if found.is_foreign and not is_read:
        raise ReadOnlyStoreError(
            "a file of LINDI is read only here", store=keys.location, remedy="Export it to a new file, and change that."
        )
    return found


def check_abilities(keys: KeyStore, mode: str) -> None:
    """Refuse a mode that this kind of store cannot have, before anything is asked of it."""
    abilities = keys.abilities
    possible = {"r": True, "r-": True, "r+": abilities.change, "a": abilities.change}
    if not possible.get(mode, abilities.write):
        raise ReadOnlyStoreError(
            f"{abilities.why}: the mode {mode!r} is not possible",
            store=keys.location,
            remedy="Read it with mode 'r', and export to another place what shall be changed.",
        )


def check_target(keys: KeyStore, mode: str, *, force: bool) -> None:
    """Refuse to replace what a new file must not replace; ``force``: mode ``w`` replaces anything."""
    if not keys.exists() or (mode == "w" and keys.is_empty_folder()):
        return
    if mode != "w":
        raise TargetExistsError(
            f"Unable to open file in {mode!r} mode. File already exists",
            store=keys.location,
            remedy="Use mode 'w' to replace it, or 'a' to add to it.",
        )
    if not force and not is_hdmf_zarr(keys) and not is_empty_group(keys):
        raise StoreExistsError(
            "what is there is no HDMF Zarr file, and is not replaced",
            store=keys.location,
            remedy="Choose another path, or pass force_overwrite=True if it may be deleted.",
        )


def check_format(keys: KeyStore, mode: str, parsed: ParsedFile | None, *, wanted: int | None) -> None:
    """Refuse to change a file to another format than its own, or to make one that the store cannot hold."""
    if wanted is None:
        return
    abilities = keys.abilities
    if parsed is None and wanted not in abilities.formats:
        raise ReadOnlyStoreError(
            abilities.why, store=keys.location, remedy="Leave out zarr_format, or write to another place."
        )
    if parsed is not None and wanted != parsed.zarr_format and mode in ("r+", "a"):
        raise UsageError(
            f"the file is of Zarr format {parsed.zarr_format}, and zarr_format={wanted} is wanted",
            store=keys.location,
            remedy="Leave out zarr_format, or export to a new file.",
        )
