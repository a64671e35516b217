"""Differences between two HDF5 files, found with h5py and NumPy alone: nothing of this package is asked."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from h5py import File, h5, h5a, h5d, h5g, h5l, h5o, h5p, h5r, h5s, h5t

TRACKED = h5p.CRT_ORDER_TRACKED


def differences(first: Path, second: Path) -> list[str]:
    with File(first, "r") as file, File(second, "r") as another:
        a, b = content_of(file.id), content_of(another.id)
    lines = [f"{path}: only in the first" for path in sorted(a.keys() - b.keys())]
    lines += [f"{path}: only in the second" for path in sorted(b.keys() - a.keys())]
    for path in sorted(a.keys() & b.keys()):
        for key in dict.fromkeys([*a[path], *b[path]]):
            one, other = a[path].get(key), b[path].get(key)
            if one != other:
                lines.append(f"{path}: {key}: {_short(one)} != {_short(other)}")
    return lines


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) < 300 else f"{text[:300]}..."


def content_of(file: Any) -> dict[str, dict[str, Any]]:
    result: dict[str, dict[str, Any]] = {}
    names: dict[int, bytes] = {}  # first path of each object
    names[h5o.get_info(file, b"/").addr] = b"/"
    stack = [b"/"]
    order = []
    while stack:
        path = stack.pop()
        order.append(path)
        if h5o.get_info(file, path).type != h5o.TYPE_GROUP:
            continue
        group = h5g.open(file, path)
        for name in sorted(group, reverse=True):
            here = path.rstrip(b"/") + b"/" + name
            info = group.links.get_info(name)
            link: dict[str, Any] = {"link": info.type, "charset of link": 0 if name.isascii() else info.cset}
            if info.type == h5l.TYPE_HARD:
                address = h5o.get_info(file, here).addr
                if address not in names:
                    names[address] = here
                    stack.append(here)
                else:
                    link["same as"] = min(names[address], here)
            else:
                link["target"] = group.links.get_val(name)
            result[f"{here.decode()} (link)"] = link
    _name_aliases(file, names, result)
    for path in order:
        result[path.decode()] = dict(_object(file, path, names))
    return result


def _name_aliases(file: Any, names: dict[int, bytes], found: dict[str, dict[str, Any]]) -> None:
    """Group hard links by their object; which of the paths comes first does not matter."""
    groups: dict[int, list[str]] = {}
    for text, link in found.items():
        if link["link"] == h5l.TYPE_HARD:
            path = text.removesuffix(" (link)")
            groups.setdefault(h5o.get_info(file, path.encode()).addr, []).append(path)
    for address, paths in groups.items():
        names[address] = min(paths).encode()
        for path in paths:
            found[f"{path} (link)"]["same as"] = sorted(paths)


def _object(file: Any, path: bytes, names: dict[int, bytes]) -> Iterator[tuple[str, Any]]:
    node = h5o.open(file, path)
    yield "kind", type(node).__name__
    if isinstance(node, h5t.TypeID):
        yield "type", type_of(node)
    else:
        created = node.get_create_plist()
        yield "order of attributes is tracked", created.get_attr_creation_order()
        if created.get_attr_creation_order() & TRACKED:
            result: list[bytes] = []
            h5a.iterate(node, result.append, index_type=h5.INDEX_CRT_ORDER)
            yield "order of attributes", result
    if isinstance(node, h5g.GroupID):
        flags = node.get_create_plist().get_link_creation_order()
        yield "order of links is tracked", flags
        if flags & TRACKED:
            links: list[bytes] = []
            node.links.iterate(links.append, idx_type=h5.INDEX_CRT_ORDER)
            yield "order of links", links
    if isinstance(node, h5d.DatasetID):
        yield from _dataset(file, node, names)
    attributes: list[bytes] = []
    h5a.iterate(node, attributes.append)
    for name in attributes:
        attribute = h5a.open(node, name)
        tid = attribute.get_type()
        kind = type_of(tid), names.get(h5o.get_info(tid).addr) if tid.committed() else None
        is_null = attribute.get_space().get_simple_extent_type() == h5s.NULL
        values = None if is_null else _values(file, attribute, tid, attribute.shape, names)
        yield f"@{name.decode()}", (*kind, None if is_null else attribute.shape, values)


def type_of(tid: Any) -> Any:  # noqa: C901, PLR0911 - one branch for each class of types
    form, size = tid.get_class(), tid.get_size()
    if form == h5t.COMPOUND:
        each = [(tid.get_member_name(i), tid.get_member_offset(i), type_of(tid.get_member_type(i)))
                for i in range(tid.get_nmembers())]  # fmt: skip
        return "compound", size, *each
    if form == h5t.ENUM:
        named = tuple((tid.get_member_name(i), tid.get_member_value(i)) for i in range(tid.get_nmembers()))
        return "enum", type_of(tid.get_super()), named
    if form == h5t.ARRAY:
        return "array", tid.get_array_dims(), type_of(tid.get_super())
    if form == h5t.VLEN:
        return "sequence", type_of(tid.get_super())
    if form == h5t.STRING:
        return "text", "variable" if tid.is_variable_str() else size, tid.get_strpad(), tid.get_cset()
    if form == h5t.OPAQUE:
        return "opaque", size, tid.get_tag()
    if form == h5t.INTEGER:
        order = tid.get_order() if size > 1 else 0
        return "integer", size, order, tid.get_sign(), tid.get_precision(), tid.get_offset()
    if form == h5t.FLOAT:
        return "float", size, tid.get_order(), tid.get_fields(), tid.get_ebias(), tid.get_precision(), tid.get_offset()
    if form == h5t.REFERENCE:
        return "reference", tid.equal(h5t.STD_REF_OBJ)
    if form == h5t.BITFIELD:
        return "bits", size, tid.get_order() if size > 1 else 0
    if form == getattr(h5t, "COMPLEX", -1):
        return "complex", type_of(tid.get_super())
    raise AssertionError(f"a type of class {form}")


# ---- values ---------------------------------------------------------------------------------------------------------
def is_plain(tid: Any) -> bool:
    """Tell whether values of a type lie in the file by themselves, without the heap and without references."""
    form = tid.get_class()
    if form == h5t.COMPOUND:
        return all(is_plain(tid.get_member_type(index)) for index in range(tid.get_nmembers()))
    if form == h5t.ARRAY:
        return is_plain(tid.get_super())
    return form not in (h5t.VLEN, h5t.REFERENCE) and not (form == h5t.STRING and tid.is_variable_str())


def memory_of(tid: Any) -> Any:
    """Return the type of values in memory: bytes as they lie in the file, but for text and references."""
    if is_plain(tid):
        return tid
    if tid.get_class() != h5t.COMPOUND:
        return h5t.py_create(tid.dtype)
    dtype = tid.dtype
    memory = h5t.create(h5t.COMPOUND, dtype.itemsize)
    for index, name in enumerate(dtype.names):
        memory.insert(tid.get_member_name(index), dtype.fields[name][1], memory_of(tid.get_member_type(index)))
    return memory


def _values(file: Any, node: Any, tid: Any, shape: tuple[int, ...], names: dict[int, bytes]) -> Any:
    """Return values as bytes; text, sequences and references as what they mean."""
    if 0 in shape:
        return []
    if is_plain(tid):
        values: Any = np.zeros(shape, f"V{tid.get_size()}")
        _read(node, values, tid)
        return [_leaves(item.tobytes(), tid) for item in values.reshape(-1)]
    values = np.zeros(shape, tid.dtype)
    _read(node, values, memory_of(tid))
    return [_meant(file, item, tid, names) for item in values.reshape(-1)]


def _read(node: Any, values: Any, memory: Any) -> None:
    if isinstance(node, h5a.AttrID):
        node.read(values, memory)
    else:
        node.read(h5s.ALL, h5s.ALL, values, memory)


def _leaves(raw: bytes, tid: Any) -> Any:
    form = tid.get_class()
    if form == h5t.COMPOUND:
        members = [(tid.get_member_offset(i), tid.get_member_type(i)) for i in range(tid.get_nmembers())]
        return [_leaves(raw[location : location + member.get_size()], member) for location, member in members]
    if form == h5t.ARRAY:
        base = tid.get_super()
        return [_leaves(raw[i : i + base.get_size()], base) for i in range(0, len(raw), base.get_size())]
    if form == h5t.STRING and tid.get_strpad() == h5t.STR_SPACEPAD:
        return raw.rstrip(b" \0")  # what was never written is empty text, whose padding is spaces
    return raw


def _meant(file: Any, item: Any, tid: Any, names: dict[int, bytes]) -> Any:
    form = tid.get_class()
    if form == h5t.REFERENCE:
        if not item:
            return None
        location = names.get(h5o.get_info(h5r.dereference(item, file)).addr)
        if tid.equal(h5t.STD_REF_OBJ):
            return location
        space = h5r.get_region(item, file)
        return location, space.get_select_bounds(), space.get_select_npoints()
    if form == h5t.COMPOUND and getattr(item, "dtype", None) is not None and item.dtype.names is not None:
        members = [tid.get_member_type(i) for i in range(tid.get_nmembers())]
        return [_meant(file, item[name], m, names) for name, m in zip(item.dtype.names, members, strict=True)]
    if isinstance(item, np.ndarray):
        return item.tobytes()
    if form == h5t.STRING and not tid.is_variable_str() and tid.get_strpad() == h5t.STR_SPACEPAD:
        return item.rstrip(b" \0")
    if isinstance(item, (str, bytes)):
        return item if isinstance(item, bytes) else item.encode("utf-8", "surrogateescape")
    return item.tobytes() if isinstance(item, np.generic) else item or b""


def _dataset(file: Any, node: Any, names: dict[int, bytes]) -> Iterator[tuple[str, Any]]:
    tid, space, created = node.get_type(), node.get_space(), node.get_create_plist()
    is_null = space.get_simple_extent_type() == h5s.NULL
    yield "type", type_of(tid)
    yield "named type", names.get(h5o.get_info(tid).addr) if tid.committed() else None
    yield "shape", None if is_null else space.get_simple_extent_dims()
    yield "maxshape", None if is_null else space.get_simple_extent_dims(1)
    layout = created.get_layout()
    yield "layout", layout
    yield "chunks", created.get_chunk() if layout == h5d.CHUNKED else None
    filters = [created.get_filter(index) for index in range(created.get_nfilters())]
    yield "filters", [(code, flags) for code, flags, _, _ in filters]
    yield "deflate", [values for code, _, values, _ in filters if code == 1]
    fill = _fill(created, tid)
    is_null_text = tid.get_class() == h5t.STRING and tid.is_variable_str() and fill is None
    yield "fill is defined", "zero" if is_null_text else created.fill_value_defined()
    yield "fill", fill
    if not is_null:
        yield "values", _values(file, node, tid, space.get_simple_extent_dims(), names)


def _fill(created: Any, tid: Any) -> Any:
    if created.fill_value_defined() != h5d.FILL_VALUE_USER_DEFINED:
        return None
    if tid.get_class() == h5t.STRING and tid.is_variable_str():
        values: Any = np.zeros(1, tid.dtype)
        created.get_fill_value(values)
        return values[0] or None
    values = np.zeros((), tid.dtype)
    try:
        created.get_fill_value(values)
    except (TypeError, ValueError, RuntimeError):
        return "not readable"
    return values.tobytes()
