"""A function of JSON values that remembers its results: a file has thousands of arrays and few kinds of them."""

from __future__ import annotations

import marshal
from collections.abc import Callable
from typing import Any, Generic, TypeVar

T = TypeVar("T")

_VERSION = 2
"""Of the form of the keys: later ones depend on how often Python refers to a value, and equal values would differ."""


class Memo(Generic[T]):
    """A function of JSON values that answers from memory where it was asked the same before.

    The same is what reads the same as JSON: 0, 0.0, -0.0 and false are four values, and NaN is one. The answers are
    shared, so nobody may change them. A call that fails is not remembered.

    Parameters
    ----------
    make : callable
        The function; what it gives depends on its arguments alone.
    most : int
        So many answers are kept; then all are forgotten, since a file that has more has no kinds.
    """

    def __init__(self, make: Callable[..., T], *, most: int = 1024) -> None:
        self._make = make
        self._most = most
        self._known: dict[bytes, T] = {}

    def __call__(self, *arguments: Any) -> T:
        """Return what the function makes of ``arguments``."""
        try:
            key = marshal.dumps(arguments, _VERSION)
        except ValueError:  # nested too deep, or not JSON: the function raises the error
            return self._make(*arguments)
        known = self._known.get(key)
        if known is None:
            known = self._make(*arguments)
            if len(self._known) >= self._most:
                self._known.clear()
            self._known[key] = known
        return known
