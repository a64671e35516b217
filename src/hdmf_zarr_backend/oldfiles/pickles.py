"""Read pickles that hold data, and refuse all others: the reference and compound chunks of hdmf-zarr 0.1 to 0.13.

Those releases stored object references, compound rows and, up to 0.8, scalar text with numcodecs' ``pickle`` filter.
A pickle is a program for a stack machine, and one that restricts only the *names* which the C unpickler may look up
can still be crashed (a deep tuple as dictionary key overflows the C stack, a crafted dtype makes NumPy take bytes for
pointers, an eight-byte opcode asks for 16 GiB). So pickles are run by a separate machine, in `pickle_machine`:

- It has the opcodes that build data. There is no import: a name is looked up in a table of a dozen names that those
  releases wrote, and stands for one function of `pickle_names`.
- Dictionary keys are ``str``, so nothing that a file made is ever hashed or compared.
- dtypes are built anew from checked parts by ``numpy.dtype``, arrays by NumPy's validating constructors; the dtype
  flags in the file are ignored, and an object is never made from raw bytes.
- Memory and time are bounded by `loads_data`'s limits, whatever lengths and indices the file states. The result is
  finite and shallow, so that code which walks through it recursively is safe too.

Source: Python's ``pickletools`` for the opcodes; ``__reduce__`` of ``numpy.ndarray``, ``numpy.dtype`` and
``numpy.generic`` in NumPy 1.23 to 2.5 for what they pickle; chunks written by hdmf-zarr 0.2, 0.8 and 0.13.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, Final, NoReturn

import numpy as np

from hdmf_zarr_backend.errors import UsageError
from hdmf_zarr_backend.oldfiles.pickle_machine import Machine
from hdmf_zarr_backend.oldfiles.pickled_arrays import Array, UnsafePickleError, refuse

__all__ = ["DataPickle", "UnsafePickleError", "loads_data"]

MAX_ITEMS: Final = 10_000_000
_FREE_BYTES: Final = 1 << 28  # arrays may take this much, and four times what the pickle has
_MAX_DEPTH: Final = 100  # lists in lists; well below Python's own recursion limit


def loads_data(buffer: bytes | memoryview, *, max_items: int = MAX_ITEMS, max_bytes: int | None = None) -> Any:
    """Return the data of a pickle, protocols 0 to 5.

    Parameters
    ----------
    buffer : bytes or memoryview
        One whole pickle and nothing after it.
    max_items : int
        The most opcodes that are run and, each on its own, array elements that are made and values that the result
        has when shared parts are counted as often as they occur. 100,000 references take 2 million opcodes. In the
        worst case a pickle takes 100 bytes of memory for each.
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
        Anything else. No other error is raised for any content of `buffer`.
    """
    data = bytes(buffer)
    machine = Machine(data, max_items, _FREE_BYTES + 4 * len(data) if max_bytes is None else max_bytes)
    try:
        return _settled(machine.run(), max_items)
    except UnsafePickleError as error:
        reason, damaged = error.reason, error.damaged
        cause: Exception = error
    except IndexError as error:
        reason, damaged = "it ends before STOP, or takes a value that is not there", True
        cause = error
    except (ValueError, TypeError, OverflowError, struct.error) as error:
        # bad text or digits; NumPy's constructors refuse what they are given
        reason, damaged = f"{type(error).__name__}: {error}", True
        cause = error
    where = f"byte {min(machine.pos, len(data))} of {len(data)}"
    raise UnsafePickleError(f"{reason[:250]} ({where})", damaged=damaged) from cause


class DataPickle:
    """The ``pickle`` filter of old files as an object with numcodecs' codec interface; it decodes data only.

    It is not registered with numcodecs: give the object itself to whoever decodes.

    Parameters
    ----------
    protocol : int
        What the file declares; kept for `get_config`, any protocol is read.
    max_items : int
        As for `loads_data`.
    """

    codec_id = "pickle"

    def __init__(self, protocol: int = 5, *, max_items: int = MAX_ITEMS) -> None:
        self.protocol = protocol
        self._max_items = max_items

    def encode(self, buf: Any) -> NoReturn:
        """Raise `UsageError`: pickles are read, never written."""
        raise UsageError(
            "pickles are only read", remedy="Write object arrays with a JSON or variable-length codec instead."
        )

    def decode(self, buf: Any, out: Any = None) -> Any:
        """Return the data in ``buf``; where ``out`` is given, fill and return it.

        Raises
        ------
        UnsafePickleError
            ``buf`` is not a data-only pickle, or does not have as many elements as ``out``.
        """
        value = loads_data(memoryview(buf).tobytes(), max_items=self._max_items)
        if out is None:
            return value
        if not isinstance(value, np.ndarray) or value.size != out.size:
            raise UnsafePickleError(f"the pickle holds no array of {out.size} elements", damaged=True)
        np.copyto(out, value.reshape(out.shape))
        return out

    def get_config(self) -> dict[str, Any]:
        """Return ``{"id": "pickle", "protocol": ...}``, the filter as a document states it."""
        return {"id": self.codec_id, "protocol": self.protocol}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> DataPickle:
        """Return the codec of a configuration, with or without its ``id``."""
        return cls(config.get("protocol", 5))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DataPickle) and self.get_config() == other.get_config()

    def __hash__(self) -> int:
        return hash((self.codec_id, self.protocol))

    def __repr__(self) -> str:
        return f"DataPickle(protocol={self.protocol})"


# --- the result -----------------------------------------------------------------------------------------------------

_PLAIN: Final = frozenset({type(None), bool, int, float, str, bytes})
_HOLDERS: Final = frozenset({list, tuple, dict, np.ndarray, np.void})


def _settled(value: Any, max_items: int) -> Any:
    """Return ``value`` after a walk which shows that it is data, of bounded depth and size, and not part of itself.

    Shared parts are walked once and counted as often as they occur, so that code which does not know of the sharing
    (a comparison, a text form, a JSON encoder) stays within the limits too.
    """
    measured: dict[int, tuple[int, int]] = {}  # id -> size, depth; `value` keeps every part alive
    opened: dict[int, tuple[list[Any], int]] = {}  # the way from the root to where the walk is
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
    """Return the holders directly in ``holder`` that need a walk of their own, and how many values there are else."""
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
