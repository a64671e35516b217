"""`check_conversions`: what hdmf made of the values of containers when it built them for the types of a schema.

hdmf converts without looking at the result: 1.5 becomes 1 where a schema asks for an integer, -1 becomes a large
unsigned number, None becomes text, and rows lose the names of their fields. The builders have the results, and the
containers what was given.

Source: ``ObjectMapper.convert_dtype`` and ``ObjectMapper.get_attr_value`` of hdmf.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

import numpy as np
from hdmf.data_utils import DataIO
from hdmf.spec import RefSpec

from hdmf_zarr_backend.builders.schema import is_untyped
from hdmf_zarr_backend.builders.targets import builder_path, containers_below
from hdmf_zarr_backend.errors import ValueRefusedError
from hdmf_zarr_backend.formats.casting import cast, flatten, infer

_REMEDY = "Give values that the type of the schema holds."
_IN_MEMORY = (list, tuple, np.ndarray)
_NUMBERS = (bool, int, float, complex, np.bool_, np.number)


def check_conversions(root: Any, manager: Any, location: str, *, is_stored: Callable[[Any, Any], bool]) -> None:
    """Check the values of the containers below ``root``, and put the fields of rows in the order of the schema.

    ``is_stored`` tells whether a container, with its builder, is in a file already: then its builder has other values
    than the container, if those were changed, and they are not written.
    """
    for container in containers_below(root):
        builder = manager.get_builder(container)
        if builder is None or is_stored(container, builder):
            continue
        mapper = manager.type_map.get_map(container)
        if hasattr(builder, "data"):
            if isinstance(builder.dtype, list):
                _order_fields(container.data, builder)
            else:
                _check(container.data, builder.data, builder, None, location)
        for path, name, attribute in _values_in(mapper):
            _check_value(container, builder, path, name, attribute, location)


def _check_value(container: Any, builder: Any, path: tuple[str, ...], name: str, attribute: str, location: str) -> None:
    """Check one attribute (``name``), or one dataset without a type (an empty name), at ``path`` below a builder."""
    given = getattr(container, attribute, None)
    if given is None:
        return
    for part in path:
        members = {**getattr(builder, "groups", {}), **getattr(builder, "datasets", {})}
        builder = members.get(part)
        if builder is None:
            return
    made = builder.attributes.get(name) if name else getattr(builder, "data", None)
    _check(given, made, builder, name or None, location)


@lru_cache(maxsize=1024)
def _values_in(mapper: Any) -> tuple[tuple[tuple[str, ...], str, str], ...]:
    """Return path, name of an attribute, and name in the container, for all values that hdmf converts."""
    return tuple(_values_of_spec(mapper, mapper.spec, ()))


def _values_of_spec(mapper: Any, spec: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str, str]]:
    for member in spec.attributes:
        if member.value is None and not isinstance(member.dtype, RefSpec):
            yield from _found(mapper, member, path, member.name)
    for member in getattr(spec, "datasets", ()):
        if is_untyped(member):
            if not isinstance(member.dtype, (RefSpec, list)):
                yield from _found(mapper, member, (*path, member.name), "")
            yield from _values_of_spec(mapper, member, (*path, member.name))
    for member in getattr(spec, "groups", ()):
        if is_untyped(member):
            yield from _values_of_spec(mapper, member, (*path, member.name))


def _found(mapper: Any, spec: Any, path: tuple[str, ...], name: str) -> Iterator[tuple[tuple[str, ...], str, str]]:
    attribute = mapper.get_attribute(spec)
    if attribute is not None and (not name or attribute not in mapper.obj_attrs):  # else the mapper computes the value
        yield path, name, attribute


def _check(given: Any, made: Any, builder: Any, name: str | None, location: str) -> None:
    """Refuse a value ``made`` by hdmf that is not the one that was ``given``."""
    given = getattr(given, "value", given) if type(given).__name__ == "TermSetWrapper" else given
    if given is made or isinstance(given, DataIO) or isinstance(made, DataIO):
        return
    try:
        if isinstance(given, _IN_MEMORY) and isinstance(made, _IN_MEMORY):
            _check_arrays(given, made)
        elif isinstance(given, _NUMBERS) and isinstance(made, (*_NUMBERS, str, bytes)):
            _check_arrays([given], [made])
        elif isinstance(given, str) and isinstance(made, bytes):
            _check_ascii([given])
    except ValueRefusedError as error:
        what = "" if name is None else f"the attribute {name!r}: "
        problem = f"{what}{error.problem}: the schema has another type, and hdmf would change the value"
        path = builder_path(builder)
        raise ValueRefusedError(problem, store=location, path=path, remedy=_REMEDY) from error.__cause__


def _check_arrays(given: Any, made: Any) -> None:
    _, leaves = flatten(made)
    if not leaves or not isinstance(leaves[0], (*_NUMBERS, str, bytes, np.ndarray)):  # such as references
        return
    if isinstance(leaves[0], (str, bytes)) or (isinstance(leaves[0], np.ndarray) and leaves[0].dtype.kind in "SUT"):
        _, items = flatten(given)
        if items and isinstance(items[0], np.ndarray):
            _check_text([item for leaf in items for item in np.ravel(leaf).tolist()])
        else:
            _check_text(items)
        if isinstance(leaves[0], bytes) or (isinstance(leaves[0], np.ndarray) and leaves[0].dtype.kind == "S"):
            _check_ascii(items)
        return
    array = infer(made)
    if array.dtype.kind in "biufc":
        cast(given, array.dtype)


def _check_text(items: list[Any]) -> None:
    for position, item in enumerate(items):
        if item is None or isinstance(item, _NUMBERS):
            raise ValueRefusedError(f"element {position}: {item!r} is not text")


def _check_ascii(items: list[Any]) -> None:
    for position, item in enumerate(items):
        if isinstance(item, str) and not item.isascii():
            raise ValueRefusedError(f"element {position}: {item!r} is not ASCII")


def _order_fields(given: Any, builder: Any) -> None:
    """Put the values of rows, of which hdmf makes tuples, in the order of the fields of the schema."""
    rows = builder.data.data if isinstance(builder.data, DataIO) else builder.data
    if not isinstance(rows, list):
        return
    names = tuple(field["name"] for field in builder.dtype)
    source = given.data if isinstance(given, DataIO) else given
    dtype = getattr(source, "dtype", None)
    for position, row in enumerate(source if isinstance(source, list) else [None] * len(rows)):
        own = getattr(dtype, "names", None) if row is None else row.dtype.names if isinstance(row, np.void) else None
        if own is not None and own != names and set(own) == set(names):
            rows[position] = tuple(rows[position][own.index(name)] for name in names)
