"""`loads_data`: reads pickles that hold only data, such as the reference and compound chunks of hdmf-zarr 0.1 to 0.13.

Those releases stored object references, compound rows and, up to 0.8, scalar text with numcodecs' ``pickle`` filter.
A pickle is a program for a stack machine, and one that restricts only the *names* which the C unpickler may look up
can still be crashed (a deep tuple as dictionary key overflows the C stack, a crafted dtype makes NumPy take bytes for
pointers, an eight-byte opcode asks for 16 GiB). So pickles are run by a separate machine, in `pickle_machine`:

- It has the opcodes that build data. Nothing is imported: a name is looked up in a table of a dozen names that those
  releases wrote, and means one function of `pickle_machine`.
- Dictionary keys are ``str``, so no object from a file is ever hashed or compared.
- dtypes are rebuilt from checked parts by ``numpy.dtype``, arrays by NumPy's validating constructors; the dtype
  flags in the file are ignored, and an object is never made from raw bytes.
- Memory and time are bounded by `loads_data`'s limits, whatever lengths and indices the file states. The result is
  finite and shallow, so that code which walks through it recursively is safe too.

Source: Python's ``pickletools`` for the opcodes; ``__reduce__`` of ``numpy.ndarray``, ``numpy.dtype`` and
``numpy.generic`` in NumPy 1.23 to 2.5 for what they pickle; chunks written by hdmf-zarr 0.2, 0.8 and 0.13.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from hdmf_zarr_backend.oldfiles.pickle_machine import Machine
from hdmf_zarr_backend.oldfiles.pickled_arrays import Array, UnsafePickleError, refuse

__all__ = ["UnsafePickleError", "loads_data"]

MAX_ITEMS: Final = 10_000_000
_FREE_BYTES: Final = 1 << 28  # arrays may take this much, and four times what the pickle has
_MAX_DEPTH: Final = 100  # lists in lists; well below Python's own recursion limit


def loads_data(buffer: bytes | memoryview, *, max_items: int = MAX_ITEMS, max_bytes: int | None = None) -> Any:
    """Return the data of a pickle, protocols 0 to 5.

    Parameters
    ----------
    buffer : bytes or memoryview
        One complete pickle and nothing after it.
    max_items : int
        Limit for each of three numbers: opcodes that are run, array elements that are created, and values in the
        result, with shared parts counted as often as they occur. 100,000 references take 2 million opcodes. In the
        worst case each takes 100 bytes of memory.
    max_bytes : int, optional
        The most bytes of array memory and of copies; by default 256 MiB and four times the length of `buffer`.

    Returns
    -------
    object
        None, bool, int, float, str, bytes, list, tuple, dict with str keys, NumPy scalars and arrays (own, writable
        memory; object elements are again of these types). A ``hdmf_zarr.utils.ZarrReference`` is a plain dict.
        dtype metadata (h5py's notes on strings) are left out.

    Raises
    ------
    UnsafePickleError
        For any other content of `buffer`. No other error is raised.
    """
    data = bytes(buffer)
    machine = Machine(data, max_items, _FREE_BYTES + 4 * len(data) if max_bytes is None else max_bytes)
    try:
        return _verified(machine.run(), max_items)
    except UnsafePickleError as error:
        reason, damaged = error.reason, error.damaged
        cause: Exception = error
    except IndexError as error:
        reason, damaged = "it ends before STOP, or uses a value that does not exist", True
        cause = error
    except (ValueError, TypeError, OverflowError, struct.error) as error:
        # invalid text or digits, or parts that NumPy's constructors refuse
        reason, damaged = f"{type(error).__name__}: {error}", True
        cause = error
    where = f"byte {min(machine.pos, len(data))} of {len(data)}"
    raise UnsafePickleError(f"{reason[:250]} ({where})", damaged=damaged) from cause


# --- the result -----------------------------------------------------------------------------------------------------

_PLAIN: Final = frozenset({type(None), bool, int, float, str, bytes})
_HOLDERS: Final = frozenset({list, tuple, dict, np.ndarray, np.void})


def _verified(value: Any, max_items: int) -> Any:
    """Return ``value`` if it is only data, of bounded depth and size, and does not contain itself.

    Shared parts are walked once and counted as often as they occur, so that code which does not know of the sharing
    (a comparison, a text form, a JSON encoder) stays within the limits too.
    """
    measured: dict[int, tuple[int, int]] = {}  # id -> size, depth; `value` keeps every part alive
    opened: dict[int, tuple[list[Any], int]] = {}  # the holders from the root to the current one
    root = [value]
    todo: list[Any] = [root]
    while todo:
        key = id(todo[-1])
        if key in measured:
            todo.pop()
        elif key not in opened:
            if len(opened) > _MAX_DEPTH:
                refuse(f"more than {_MAX_DEPTH} levels")
            inner, size = _parts(todo[-1])
            if any(id(part) in opened or id(part) == key for part in inner):
                refuse("a value that contains itself")
            opened[key] = inner, size
            todo.extend(inner)
        else:
            inner, size = opened.pop(key)
            measured[key] = _measured(size, [measured[id(part)] for part in inner], max_items)
    return value


def _measured(size: int, parts: list[tuple[int, int]], max_items: int) -> tuple[int, int]:
    """Return the size and the depth of a holder from those of its parts; refuse one that is beyond the limits."""
    size += sum(part_size for part_size, _ in parts)
    depth = 1 + max((part_depth for _, part_depth in parts), default=0)
    if size > max_items:
        refuse(f"more than {max_items} values")
    if depth > _MAX_DEPTH:
        refuse(f"more than {_MAX_DEPTH} levels")
    return size, depth


def _parts(holder: Any) -> tuple[list[Any], int]:
    """Return the holders in ``holder`` that have to be walked, and the number of its other values."""
    members = _members(holder)
    size = len(members)
    inner = []
    for member in members:
        kind = type(member)
        if kind in _PLAIN:
            continue
        if kind is dict and _PLAIN.issuperset(map(type, member.values())):
            size += len(member)  # a reference: these are most of all values
        elif kind in _HOLDERS:
            inner.append(member)
        elif not isinstance(member, np.generic):
            refuse("a name or an unfinished array in place of data")
    return inner, size


def _members(holder: Any) -> Sequence[Any]:
    if isinstance(holder, dict):
        return list(holder.values())
    if isinstance(holder, (np.ndarray, np.void)):
        return _objects(np.asarray(holder))
    return holder  # type: ignore[no-any-return]  # a list or tuple


def _objects(array: Array) -> list[Any]:
    if array.dtype.names is not None and array.dtype.hasobject:
        return [member for name in array.dtype.names for member in _objects(array[name])]
    return array.ravel().tolist() if array.dtype.kind == "O" else []
