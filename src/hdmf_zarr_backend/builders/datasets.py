"""The lazy datasets of references and of rows that hdmf asks for.

hdmf wants two views of each: one whose elements are builders, one whose elements are containers; `invert` goes from
one to the other. Chunks are decoded once and cached by the file, each distinct target is resolved once, so that a row
costs microseconds.

Source: `hdmf.query.ReferenceResolver`; ``hdmf.backends.hdf5.h5_utils`` for what the views of the HDF5 backend do.
"""

from __future__ import annotations

from abc import ABCMeta
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol, cast

import numpy as np
import numpy.typing as npt
from hdmf.query import BuilderResolver, ContainerResolver, HDMFDataset, ReferenceResolver

from hdmf_zarr_backend.arrays.lazy import LazyArray
from hdmf_zarr_backend.errors import DamagedFileError
from hdmf_zarr_backend.formats import dtypes
from hdmf_zarr_backend.formats.elements import hdmf_type
from hdmf_zarr_backend.model.elements import Element
from hdmf_zarr_backend.model.nodes import absolute

Array = npt.NDArray[Any]
_ROWS = 65536


class Resolver(Protocol):
    """Finds the targets of references, and remembers them."""

    def builder(self, reference: Any) -> Any:
        """Return the builder that the stored ``reference`` points to; None for None."""

    def container(self, reference: Any) -> Any:
        """Return the container of that builder."""

    def builders(self, references: Sequence[Any]) -> list[Any]:
        """Return the builders of many references."""

    def containers(self, references: Sequence[Any]) -> list[Any]:
        """Return the containers of many references."""

    def append_reference(self, dataset: LazyArray, target: Any) -> None:
        """Add a reference to ``target`` (a container or builder) at the end of ``dataset``."""

    def append_row(self, dataset: LazyArray, row: Sequence[Any], fields: Sequence[Element]) -> None:
        """Add a row at the end of ``dataset``."""


class _Resolving(HDMFDataset, ReferenceResolver, metaclass=ABCMeta):  # type: ignore[misc]
    """What the views have in common."""

    def __init__(self, dataset: LazyArray, resolver: Resolver) -> None:
        super().__init__(dataset=dataset)
        self.resolver = resolver
        self._inverted: Any = None

    @property
    def shape(self) -> tuple[int, ...]:
        """Length of each axis, of rows just one."""
        return cast(LazyArray, self.dataset).shape

    @property
    def maxshape(self) -> tuple[int | None, ...]:
        """Largest shape."""
        return cast(LazyArray, self.dataset).maxshape

    def _targets(self, references: Sequence[Any]) -> list[Any]:
        raise NotImplementedError

    def _arguments(self) -> tuple[Any, ...]:
        return (self.dataset, self.resolver)

    def invert(self) -> Any:
        """Return the view whose elements are of the other kind; always the same object."""
        if self._inverted is None:
            self._inverted = self.get_inverse_class()(*self._arguments())
            self._inverted._inverted = self
        return self._inverted

    def __len__(self) -> int:
        return self.shape[0]


class _References(_Resolving):
    """A dataset whose elements are references."""

    @property
    def dtype(self) -> str:
        """HDMF's word for references."""
        return "object"

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, (int, np.integer)) and len(self.shape) == 1:
            try:
                return self._targets([self.dataset.element(int(key))])[0]
            except LookupError:
                pass
        found = self.dataset[_index(key)]
        if not isinstance(found, np.ndarray):
            return self._targets([found])[0]
        return _nested(found, self._targets)

    def __iter__(self) -> Iterator[Any]:
        for start in range(0, len(self), _ROWS):
            yield from self[start : start + _ROWS]

    def append(self, arg: Any) -> None:
        """Add a reference to a container or builder of this file at the end."""
        self.resolver.append_reference(self.dataset, arg)


def _nested(array: Array, targets: Callable[[Sequence[Any]], list[Any]]) -> list[Any]:
    return [_nested(row, targets) for row in array] if array.ndim > 1 else targets(array.tolist())


def _index(key: Any) -> Any:
    return tuple(key) if isinstance(key, tuple) else key


class BuilderReferences(BuilderResolver, _References):  # type: ignore[misc]
    """References that resolve to builders."""

    @classmethod
    def get_inverse_class(cls) -> type:
        """Return the view of containers."""
        return ContainerReferences

    def _targets(self, references: Sequence[Any]) -> list[Any]:
        return self.resolver.builders(references)


class ContainerReferences(ContainerResolver, _References):  # type: ignore[misc]
    """References that resolve to containers."""

    @classmethod
    def get_inverse_class(cls) -> type:
        """Return the view of builders."""
        return BuilderReferences

    def _targets(self, references: Sequence[Any]) -> list[Any]:
        return self.resolver.containers(references)


class _Table(_Resolving):
    """A compound dataset: rows of named fields, some of which are references or text.

    Parameters
    ----------
    dataset : LazyArray
        An ``(n, k)`` array of objects, an array of tuples, or a structured array.
    resolver : Resolver
        Finds targets.
    fields : dict
        What the fields hold, by name.
    """

    def __init__(self, dataset: LazyArray, resolver: Resolver, fields: dict[str, Element]) -> None:
        super().__init__(dataset, resolver)
        self.fields = fields
        self._row_dtype = np.dtype([(name, dtypes.dtype_of(field)) for name, field in fields.items()])
        self._references = [name for name, field in fields.items() if field.kind in ("reference", "region")]
        self._bytes = [name for name, field in fields.items() if field.encoding == "ascii"]

    @property
    def dtype(self) -> list[str]:
        """What HDMF calls the types of the fields."""
        return [hdmf_type(field) for field in self.fields.values()]

    @property
    def types(self) -> list[str]:
        """What HDMF calls the types of the fields."""
        return self.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of rows."""
        return super().shape[:1]

    def _arguments(self) -> tuple[Any, ...]:
        return (self.dataset, self.resolver, self.fields)

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str):
            return self[:][key]
        rows = self._rows(_index(key))
        for name in self._bytes:
            rows[name] = [item.encode() if isinstance(item, str) else item for item in rows[name].reshape(-1)]
        single = rows.ndim == 0
        rows = rows.reshape(-1) if single else rows
        for name in self._references:
            rows[name] = np.fromiter(self._targets(rows[name].tolist()), dtype=object, count=len(rows))
        return rows[0] if single else rows

    def _rows(self, key: Any) -> Array:
        """Return the selected rows as a structured array of their own."""
        lazy = cast(LazyArray, self.dataset)
        if isinstance(key, (int, np.integer)) and lazy.ndim == 2:
            flat = self._single(lazy, int(key))
            shape: tuple[int, ...] = ()
        elif lazy.dtype.names is None and lazy.ndim == 2:
            rows_key = slice(None) if (isinstance(key, tuple) and not key) or key is Ellipsis else key
            found = lazy[(*rows_key, slice(None)) if isinstance(rows_key, tuple) else (rows_key, slice(None))]
            flat = found.reshape(-1, found.shape[-1])
            shape = found.shape[:-1]
        else:
            found = np.asarray(lazy[key], dtype=lazy.dtype)
            flat = found.reshape(-1)
            shape = found.shape
        rows = np.empty(len(flat), self._row_dtype)
        try:
            if flat.ndim == 2:
                for column, name in enumerate(list(self.fields)):
                    rows[name] = flat[:, column]
            elif flat.dtype.names is not None:
                for stored, name in zip(flat.dtype.names, list(self.fields), strict=True):
                    rows[name] = flat[stored]
            else:
                for position, row in enumerate(flat):
                    rows[position] = tuple(row)
        except (ValueError, TypeError, IndexError) as error:
            raise DamagedFileError(
                f"a row does not fit the fields {list(self.fields)} ({error})",
                store=lazy.location,
                path=absolute(lazy.path),
            ) from error
        return rows.reshape(shape)

    def _single(self, lazy: LazyArray, position: int) -> Array:
        try:
            cells = lazy.element(position)
        except LookupError:
            cells = lazy[position].tolist()
        return np.fromiter(cells, dtype=object).reshape(1, -1)

    def __iter__(self) -> Iterator[Any]:
        for start in range(0, len(self), _ROWS):
            yield from self[start : start + _ROWS]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:  # noqa: FBT001 - NumPy's protocol
        rows = cast(Array, self[:])
        return rows if dtype is None else rows.astype(dtype)

    def resolve(self, manager: Any) -> Any:
        """Return all rows with their references resolved."""
        return self[:]

    def append(self, arg: Any) -> None:
        """Add a row at the end."""
        self.resolver.append_row(self.dataset, arg, list(self.fields.values()))


class BuilderTable(BuilderResolver, _Table):  # type: ignore[misc]
    """Rows whose references resolve to builders."""

    @classmethod
    def get_inverse_class(cls) -> type:
        """Return the view of containers."""
        return ContainerTable

    def _targets(self, references: Sequence[Any]) -> list[Any]:
        return self.resolver.builders(references)


class ContainerTable(ContainerResolver, _Table):  # type: ignore[misc]
    """Rows whose references resolve to containers."""

    @classmethod
    def get_inverse_class(cls) -> type:
        """Return the view of builders."""
        return BuilderTable

    def _targets(self, references: Sequence[Any]) -> list[Any]:
        return self.resolver.containers(references)
