"""What hdmf gets as the data of datasets: references, rows, columns that it can extend, and their HTML.

hdmf needs two views of references and rows: one with builders as elements, and one with containers.

Source: `hdmf.query.ReferenceResolver`; ``hdmf.backends.hdf5.h5_utils`` for the views of the HDF5 backend.
"""

from __future__ import annotations

import math
from abc import ABCMeta
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from hdmf.build import ReferenceBuilder
from hdmf.common import VectorIndex
from hdmf.container import AbstractContainer
from hdmf.data_utils import DataIO
from hdmf.query import BuilderResolver, ContainerResolver, HDMFDataset, ReferenceResolver
from hdmf.utils import generate_array_html_repr, get_basic_array_info

from hdmf_zarr_backend.array.edits import DeferredReference, Edits
from hdmf_zarr_backend.array.lazy import EditableArray, LazyArray, extend
from hdmf_zarr_backend.encoding import dtypes
from hdmf_zarr_backend.encoding.casting import count_axes, flatten, infer
from hdmf_zarr_backend.encoding.dtypes import zarr_type
from hdmf_zarr_backend.encoding.elements import to_hdmf
from hdmf_zarr_backend.encoding.references import RegionReference, ZarrReference, decode_reference, encode_reference
from hdmf_zarr_backend.encoding.reserved import DTYPE, HDF5, NOTES, notes_of
from hdmf_zarr_backend.errors import DamagedFileError, StoreError, UsageError, ValueRefusedError, ZarrBackendError, at
from hdmf_zarr_backend.hdmf.internals import accept_any_index
from hdmf_zarr_backend.hdmf.targets import REFERENCES, containers_below
from hdmf_zarr_backend.model.element import Element, Reference, Text
from hdmf_zarr_backend.model.render import escape, size_text
from hdmf_zarr_backend.write.sources import encode_rows, field_encoder

Array = npt.NDArray[Any]
_ROWS = 65536


# The classes are pairs, because hdmf tests `isinstance(data, BuilderResolver)` and `ContainerResolver`.


class _Resolving(HDMFDataset, ReferenceResolver, metaclass=ABCMeta):  # type: ignore[misc]
    """The common part of all views."""

    dataset: LazyArray
    _block: Callable[[Any], Array]  # of one element, or several, in their stored form
    _options: tuple[Any, ...] = ()  # of the constructor, besides dataset and resolver

    def __init__(self, dataset: LazyArray, resolver: FileResolver) -> None:
        super().__init__(dataset=dataset)
        self.resolver = resolver
        self._inverted: Any = None

    @property
    def shape(self) -> tuple[int, ...]:
        """Length of each axis; only one for rows."""
        return self.dataset.shape

    @property
    def maxshape(self) -> tuple[int | None, ...]:
        """Maximum shape."""
        return self.dataset.maxshape

    def _targets(self, references: Sequence[Any]) -> list[Any]:
        """Return the builders, or the containers, that stored references lead to."""
        return self.resolver.targets(references, are_builders=isinstance(self, BuilderResolver))

    @classmethod
    def get_inverse_class(cls) -> type:
        """Return the other view: that of containers, or that of builders."""
        return _INVERSE[cls]

    def invert(self) -> Any:
        """Return the other view of the dataset; always the same object."""
        if self._inverted is None:
            # kept: hdmf-zarr looked for it under another name than it set, and so made a new one for each call
            self._inverted = self.get_inverse_class()(self.dataset, self.resolver, *self._options)
            self._inverted._inverted = self
        return self._inverted

    def append(self, arg: Any) -> None:
        """Append a row, a container or builder of this file to which a reference leads, or a list of them."""
        self.dataset.append(self._block(arg))

    def extend(self, data: Iterable[Any]) -> None:
        """Append all elements of ``data``; errors: see `append`."""
        extend(self.dataset, data, self.append)

    def resize(self, size: Any, axis: int | None = None) -> None:
        """Make the data shorter, like `EditableArray.resize`. They cannot grow, because they have no fill value."""
        lazy, ndim = self.dataset, len(self.shape)
        shape = np.atleast_1d(size).tolist()
        if axis not in (None, *range(-ndim, ndim)):  # rows are stored with one more axis, that of their fields
            problem = f"axis {axis} does not exist: the shape is {self.shape}"
            raise UsageError(problem, store=lazy.location, path=lazy.name, remedy="Give an axis that it has.")
        if axis is not None and len(shape) == 1:
            shape = [shape[0] if n == axis % ndim else length for n, length in enumerate(self.shape)]
        is_number = all(isinstance(n, int) for n in shape)
        if is_number and len(shape) == ndim and any(n > m for n, m in zip(shape, self.shape, strict=True)):
            problem = f"references and rows have no fill value, with which the shape {self.shape} could grow to {size}"
            raise UsageError(problem, store=lazy.location, path=lazy.name, remedy="Use append or extend, with values.")
        lazy.resize((*shape, *lazy.shape[ndim:]))

    def __len__(self) -> int:
        return self.shape[0]

    def __iter__(self) -> Iterator[Any]:
        for start in range(0, len(self), _ROWS):  # by blocks: 2,000 rows, one by one, took hdmf-zarr 0.13 2.6 s
            yield from self[start : start + _ROWS]


class _References(_Resolving):
    """A dataset whose elements are references."""

    @property
    def dtype(self) -> str:
        """HDMF's name for the type of references."""
        return "object"

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, (int, np.integer)) and len(self.shape) == 1:
            try:
                return self._targets([self.dataset.element(int(key))])[0]
            except LookupError:
                pass
        references = self.dataset[key]
        if not isinstance(references, np.ndarray):
            return self._targets([references])[0]
        return _nested(references, self._targets)

    def __setitem__(self, key: Any, value: Any) -> None:
        """Replace references by those to a container or builder, or nested lists of them; errors: see `append`."""
        self.dataset[key] = _all_deferred(value)

    def _block(self, given: Any) -> Array:
        """Return one reference, or nested lists of them, in their stored form."""
        targets = _all_deferred(given)
        return targets[np.newaxis] if targets.ndim < len(self.shape) else targets


def _nested(array: Array, targets: Callable[[Sequence[Any]], list[Any]]) -> list[Any]:
    return [_nested(row, targets) for row in array] if array.ndim > 1 else targets(array.tolist())


class BuilderReferences(BuilderResolver, _References):  # type: ignore[misc]
    """References that resolve to builders."""


class ContainerReferences(ContainerResolver, _References):  # type: ignore[misc]
    """References that resolve to containers."""


class _Table(_Resolving):
    """A compound dataset: rows of named fields, some of which are references or text."""

    def __init__(self, dataset: LazyArray, resolver: FileResolver, fields: dict[str, Element]) -> None:
        super().__init__(dataset, resolver)
        self.fields, self._options = fields, (fields,)
        self._row_dtype = np.dtype([(name, dtypes.dtype_of(field)) for name, field in fields.items()])
        self._references = [name for name, field in fields.items() if isinstance(field, Reference)]
        # as from HDF5: hdmf's validator tells ASCII from UTF-8 by bytes and str
        self._bytes = [name for name, field in fields.items() if isinstance(field, Text) and field.charset == "ascii"]

    @property
    def dtype(self) -> list[str]:
        """HDMF's names for the types of the fields."""
        return [to_hdmf(field) for field in self.fields.values()]

    types = dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of rows."""
        return super().shape[:1]

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str):
            return self[:][key]
        rows = self._rows(key)
        for name in self._bytes:
            rows[name] = [item.encode() if isinstance(item, str) else item for item in rows[name].reshape(-1)]
        single = rows.ndim == 0
        rows = rows.reshape(-1) if single else rows
        for name in self._references:
            # `fromiter` does not look into the targets, of which NumPy would take some for sequences
            rows[name] = np.fromiter(self._targets(rows[name].tolist()), dtype=object, count=len(rows))
        return rows[0] if single else rows

    def _rows(self, key: Any) -> Array:
        """Return the selected rows as a new structured array."""
        flat, shape = self._stored_rows(key)
        rows = np.empty(len(flat), self._row_dtype)
        try:
            if flat.ndim == 2:  # lists of cells
                for column, name in enumerate(self.fields):
                    cells: Any = flat[:, column]
                    if rows.dtype[name].kind == "c":  # a stored number is a list of two, as in JSON
                        cells = [complex(*cell) if type(cell) is list else cell for cell in cells]
                    rows[name] = cells
            elif flat.dtype.names is not None:
                for stored, name in zip(flat.dtype.names, self.fields, strict=True):
                    rows[name] = flat[stored]
            else:
                for position, row in enumerate(flat):
                    rows[position] = tuple(row)
        except (ValueError, TypeError, IndexError) as error:
            problem = f"a row does not fit the fields {list(self.fields)} ({error})"
            raise DamagedFileError(problem, store=self.dataset.location, path=self.dataset.name) from error
        return rows.reshape(shape)

    def _stored_rows(self, key: Any) -> tuple[Array, tuple[int, ...]]:
        """Return the selected rows as stored, with the rows on one axis, and the shape of the selection."""
        lazy = self.dataset
        if isinstance(key, (int, np.integer)) and lazy.ndim == 2:
            # hdmf reads tables row by row: hdmf-zarr decodes the complete chunk for each, in quadratic time
            try:
                cells = lazy.element(int(key))
            except LookupError:
                cells = lazy[int(key)].tolist()
            return np.fromiter(cells, dtype=object).reshape(1, -1), ()
        if lazy.dtype.names is not None or lazy.ndim != 2:
            rows = lazy[key]
            if not isinstance(rows, np.ndarray):  # one row; a tuple is not an array of its cells
                row, rows = rows, np.empty((), lazy.dtype)
                rows[()] = row
            return rows.reshape(-1), rows.shape
        if key is Ellipsis or (isinstance(key, tuple) and not key):
            key = slice(None)
        cells = lazy[(*key, slice(None)) if isinstance(key, tuple) else (key, slice(None))]
        return cells.reshape(-1, cells.shape[-1]), cells.shape[:-1]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:  # noqa: FBT001 - NumPy's protocol
        rows: Array = self[:]
        return rows if dtype is None else rows.astype(dtype)

    def resolve(self, manager: Any) -> Any:
        """Return all rows with their references resolved."""
        return self[:]

    def __setitem__(self, key: Any, value: Any) -> None:
        """Replace one row, or several rows by a list of them or a structured array; errors: see `append`."""
        if self.dataset.ndim == 2 and isinstance(key, tuple):
            key = (*key, slice(None))
        self.dataset[key] = self._block(value)

    def _block(self, given: Any) -> Array:
        """Return one row, or several, in their stored form."""
        rows = [given] if count_axes(given) == 0 else list(given)
        dataset = self.dataset
        with at(dataset, dataset.name):
            encoders = [field_encoder(field, _deferred) for field in self.fields.values()]
            block = encode_rows(rows, [*self.fields], encoders)
        if dataset.dtype.names is None:
            return block
        records = np.empty(len(rows), dataset.dtype)
        for position, name in enumerate(dataset.dtype.names):
            records[name] = block[:, position]
        return records


class BuilderTable(BuilderResolver, _Table):  # type: ignore[misc]
    """Rows whose references resolve to builders."""


class ContainerTable(ContainerResolver, _Table):  # type: ignore[misc]
    """Rows whose references resolve to containers."""


_INVERSE: dict[type, type] = {BuilderReferences: ContainerReferences, BuilderTable: ContainerTable}
_INVERSE |= {other: one for one, other in _INVERSE.items()}


class FileResolver:
    """Finds the builders and containers that the datasets of one file refer to, each distinct target once."""

    def __init__(self, resolve: Callable[[ZarrReference], Any], construct: Callable[[Any], Any], manager: Any) -> None:
        self._resolve, self._construct, self._manager = resolve, construct, manager
        self._known: dict[tuple[Any, Any, Any, bool], Any] = {}  # source, path, region (None), is it a builder?

    def targets(self, references: Sequence[Any], *, are_builders: bool) -> list[Any]:
        """Return the builders or containers that stored references point to, None for null references."""
        targets, known = [], self._known
        for reference in references:
            # without decoding: 5,300 images with `order_of_images` took hdmf-zarr three minutes (hdmf-zarr#289)
            try:
                target = known[reference["source"], reference["path"], reference.get("region"), are_builders]
            except (KeyError, TypeError, AttributeError):
                target = self._find(reference, is_builder=are_builders)
            targets.append(target)
        return targets

    def _find(self, reference: Any, *, is_builder: bool) -> Any:
        if reference is None:
            return None
        if isinstance(reference, DeferredReference):  # what the user has put into a column, which is not written yet
            given = reference.target
            if isinstance(given, RegionReference):
                return given
            if isinstance(given, AbstractContainer):
                return self._manager.get_builder(given) if is_builder else given
            if not isinstance(given, ZarrReference):
                builder = given.builder if isinstance(given, ReferenceBuilder) else given
                return builder if is_builder else self._construct(builder)
            reference = encode_reference(given)
        decoded = decode_reference(reference)
        if decoded.region is not None:  # hdmf 4 has removed its own classes of regions (hdmf#1198)
            return RegionReference(self._resolve(decoded), decoded.region)
        targets = () if is_builder else self.targets([reference], are_builders=True)
        target = self._construct(targets[0]) if targets else self._resolve(decoded)
        self._known[reference.get("source"), reference["path"], None, is_builder] = target
        return target


def _deferred(target: Any) -> DeferredReference | None:
    """Return a reference to a container or builder that is encoded when the file is written, None for None."""
    if target is not None and not isinstance(target, REFERENCES):
        problem = f"{target!r} of type {type(target).__name__} cannot be the target of a reference"
        raise ValueRefusedError(problem, remedy="Give a container or builder of this file.")
    return None if target is None else DeferredReference(target)


def _all_deferred(targets: Any) -> Array:
    """Return nested lists of containers and builders as an array of references."""
    shape, leaves = flatten(targets)
    return np.fromiter(map(_deferred, leaves), object, len(leaves)).reshape(shape)


# ``extend_data`` of hdmf 6.2 supports lists, NumPy, h5py and its own `DataIO`, but not Zarr arrays.
class EditableColumn(EditableArray, DataIO):  # type: ignore[misc]
    """An `EditableArray` that hdmf can extend, since it is a DataIO whose data are the array itself."""

    def __init__(self, edits: Edits, *arguments: Any, **options: Any) -> None:
        # not the __init__ of DataIO: `data` is a property here
        EditableArray.__init__(self, edits, *arguments, **options)
        self._plain = EditableArray(edits, *arguments, **options)
        self.grows_wider = False  # accept unsigned integers that exceed the data type, by changing to a wider one

    def _typed(self, data: Any, dtype: np.dtype[Any]) -> Array:
        if self.grows_wider and not self.node.stored.filters:
            data = infer(data)
            wanted = np.min_scalar_type(np.max(data, initial=0) if data.dtype.kind in "iu" else 0)
            if wanted.kind == dtype.kind == "u" and wanted.itemsize > dtype.itemsize:
                dtype = wanted.newbyteorder(dtype.byteorder)

                def describe() -> None:
                    attributes = self.node.attributes
                    self.node.stored.data_type = zarr_type(dtype)
                    attributes[DTYPE] = dtype.name
                    if NOTES in attributes:  # the notes of HDF5 describe the old type
                        attributes[NOTES] = {key: value for key, value in notes_of(attributes).items() if key != HDF5}

                self._edits.widen(self._reader, dtype, describe)
        return super()._typed(data, dtype)

    @property
    def data(self) -> Any:
        """The same array, not as a DataIO."""
        return self._plain

    # what hdmf asks of a DataIO

    @property
    def valid(self) -> bool:
        """True: a dataset exists."""
        return True

    def get_io_params(self) -> dict[str, Any]:
        """Return no options: the dataset is stored already."""
        return {}

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # during construction, where `_plain` itself is absent
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self._plain, name)  # DataIO delegates to its data, which are this array


def let_indices_grow(container: Any) -> None:
    """Let the indices of all ragged columns in ``container`` grow beyond their stored data type."""
    for index in containers_below(container):
        if isinstance(index, VectorIndex) and isinstance(index.data, EditableColumn):
            accept_any_index(index)
            index.data.grows_wider = True
            if isinstance(index.target.data, ReferenceResolver):  # which hdmf cannot extend by several elements

                def extend(values: Iterable[Any], column: Any = index.target, **options: Any) -> None:
                    for value in values:
                        column.add_row(value, **options)

                index.target.extend = extend  # of this column only


def dataset_html(dataset: Any) -> str:
    """Return an HTML table of the data type, shape, chunks, codecs and stored size of ``dataset``."""
    lazy = getattr(dataset, "dataset", dataset)
    kind = "Zarr Array"
    if isinstance(lazy, LazyArray):
        dataset, stored = lazy, lazy.node.stored
        unit = lazy.attrs.get("unit")
        named = {"Path": escape(lazy.name), **({"Unit": escape(str(unit))} if unit is not None else {})}
        how = named | _stored_as(lazy, _codec_name(stored.compressor), map(_codec_name, stored.filters or ()))
    elif hasattr(dataset, "nbytes_stored"):  # an array that zarr itself has opened
        compressors = dataset.compressors if hasattr(dataset, "compressors") else filter(None, [dataset.compressor])
        how = _stored_as(dataset, ", ".join(map(str, compressors)), map(str, dataset.filters or ()))
    else:
        kind, how = "NumPy array" if type(dataset).__module__ == "numpy" else type(dataset).__name__, {}
    return str(generate_array_html_repr(get_basic_array_info(dataset) | how, dataset, kind))


_FEW_BYTES = 1024 * 0.1  # hdmf shows all values of smaller arrays
_MOST_BYTES = 2**24
_ARRAY_STYLE = """\
.zarr-array .grid { fill: none; stroke: currentColor; stroke-width: .6; margin: 4px 0; display: block }
.zarr-array .chunk { fill: #6a9fd4; stroke: none }
"""


def array_html(array: LazyArray) -> str:
    """Return what a notebook shows for a dataset: how it is stored, its chunks as a drawing, and first values."""
    drawing = _chunk_drawing(array.shape, array.chunks)
    html = f'<div class="zarr-array"><style>{_ARRAY_STYLE}</style>{dataset_html(array)}{drawing}'
    if array.nbytes < _FEW_BYTES:
        return f"{html}</div>"
    # a few from the first chunk, unless it takes long to fetch
    lengths = [1] * (array.ndim - 2) + [5, 8][-array.ndim :]
    corner = tuple(slice(0, min(few, length)) for few, length in zip(lengths, array.chunks, strict=True))
    values = "not read: the chunks are large"
    if math.prod(array.chunks) * array.dtype.itemsize <= _MOST_BYTES:
        try:
            values = str(array[corner])
        except (ZarrBackendError, OSError) as error:
            values = str(error)
    return f"{html}<div>First values</div><pre>{chr(10).join(map(escape, values.splitlines()))}</pre></div>"


def _chunk_drawing(shape: tuple[int, ...], chunks: tuple[int, ...]) -> str:
    """Return the chunks on the first axis, downwards, and on the last one as SVG: the first one is filled."""
    if not shape or 0 in shape:
        return ""
    axes = [(shape[0], chunks[0]), (shape[-1], chunks[-1]) if len(shape) > 1 else (1, 1)]
    scale = min(54 / axes[0][0], 150 / axes[1][0])
    height, width = (max(length * scale, 12) for length, _ in axes)
    row, column = (side * min(chunk / length, 1) for side, (length, chunk) in zip((height, width), axes, strict=True))
    # a million cuts would be a million lines: of more than 30 chunks, some are drawn
    ys, xs = (np.arange(part, side - 0.1, max(part, side / 30)) for part, side in ((row, height), (column, width)))
    cuts = "".join([*(f"M0 {y:.1f}H{width:.1f}" for y in ys), *(f"M{x:.1f} 0V{height:.1f}" for x in xs)])
    return (
        f'<svg class="grid" width="{width + 2:.0f}" height="{height + 2:.0f}" viewBox="-1 -1 {width + 2:.1f} '
        f'{height + 2:.1f}"><rect class="chunk" width="{column:.2f}" height="{row:.2f}"/>'
        f'<rect width="{width:.1f}" height="{height:.1f}"/><path d="{cuts}"/></svg>'
    )


def _stored_as(array: Any, compressor: str, filters: Iterable[str]) -> dict[str, Any]:
    try:
        stored = array.stored_bytes() if isinstance(array, LazyArray) else array.nbytes_stored
        stored = stored() if callable(stored) else stored  # a method in zarr-python 3, a number in 2
    except StoreError:  # a web server cannot list its keys
        stored = None
    return {
        "Chunk shape": array.chunks,
        "Chunks": array.nchunks,
        "Compressor": escape(compressor or "none"),
        "Filters": escape(", ".join(filters) or "none"),
        "Array size": size_text(array.nbytes),
        "Stored size": "unknown" if stored is None else size_text(stored),
        "Compression ratio": f"{array.nbytes / stored:.2f}" if stored and not array.dtype.hasobject else "undefined",
    }


def _codec_name(config: Any) -> str:
    if not config:
        return "none"
    options = ", ".join(f"{key}={value}" for key, value in config.items() if key != "id")
    return f"{config['id']}({options})" if options else str(config["id"])
