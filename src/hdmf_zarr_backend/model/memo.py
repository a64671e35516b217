"""`Memo`: caches the results of a function of JSON values, since a file has thousands of similar arrays."""

from __future__ import annotations

import marshal
from collections.abc import Callable
from typing import Any, Generic, TypeVar

T = TypeVar("T")

_VERSION = 2
"""Version of the marshal format: in later ones, the keys of equal values may differ."""


class Memo(Generic[T]):
    """A function of JSON values that caches its results.

    Arguments are equal if they are equal as JSON: 0, 0.0, -0.0 and false are four values, and NaN is one. Results are
    shared, so they must not be changed. Errors are not cached.
    """

    def __init__(self, make: Callable[..., T], *, most: int = 1024) -> None:
        self._make = make
        self._most = most
        self._known: dict[bytes, T] = {}

    def __call__(self, *arguments: Any) -> T:
        """Return the result for ``arguments``."""
        try:
            key = marshal.dumps(arguments, _VERSION)
        except ValueError:  # nested too deep, or not JSON: the function itself raises the error
            return self._make(*arguments)
        known = self._known.get(key)
        if known is None:
            known = self._make(*arguments)
            if len(self._known) >= self._most:
                self._known.clear()
            self._known[key] = known
        return known
