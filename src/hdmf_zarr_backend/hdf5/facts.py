"""What an HDF5 file says, node by node, for comparing."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from hdmf_zarr_backend.hdf5.allocated import check_allocated
from hdmf_zarr_backend.hdf5.attributenames import attribute_names
from hdmf_zarr_backend.hdf5.facttypes import buffer_for, element_type, filter_at, layout_of, read_block, region_of
from hdmf_zarr_backend.hdf5.failures import H5_ERRORS, UnreadableHdf5Error, reading
from hdmf_zarr_backend.hdf5.rawfiles import check_other_files
from hdmf_zarr_backend.model.elements import Element, Reference
from hdmf_zarr_backend.model.facts import (
    AttributeFacts,
    DatasetFacts,
    DatatypeFacts,
    GroupFacts,
    LinkFacts,
    NodeFacts,
    Selection,
    Values,
    plain_values,
    text_of,
)
from hdmf_zarr_backend.stores.limits import Limits
from hdmf_zarr_backend.stores.locations import is_hdf5

__all__ = ["Hdf5Facts", "UnreadableHdf5Error", "is_hdf5"]

_FIRST_REGISTERED = 256  # smaller numbers are HDF5's own filters


class Hdf5Facts(Mapping[str, NodeFacts]):
    """`FileFacts` of an HDF5 file, which is opened for reading until `close`.

    Objects are found by walking depth first in the order of names. An object with several hard links is a node at the
    first path and a link of form ``hard`` at the others, so that cycles end. Links are not followed.

    Parameters
    ----------
    path : str or PathLike
        A local file.

    Raises
    ------
    UnreadableHdf5Error
        The file cannot be opened, or a node of it cannot be read.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        import h5py

        self.source = os.fspath(path)
        with reading(self.source, None):
            self._file = h5py.File(self.source, "r")
            self._addresses: dict[int, str] = {}
            self._nodes: dict[str, LinkFacts | None] = dict(self._walk())

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def __iter__(self) -> Iterator[str]:
        return iter(self._nodes)

    def __len__(self) -> int:
        return len(self._nodes)

    def __getitem__(self, path: str) -> NodeFacts:
        link = self._nodes[path]
        if link is not None:
            return link
        from h5py import h5d, h5o, h5t

        with reading(self.source, path):
            node = h5o.open(self._file.id, path.encode("utf-8", "surrogateescape"))
            attributes = self._attributes(node)
            if isinstance(node, h5d.DatasetID):
                return self._dataset(path, node, attributes)
            if isinstance(node, h5t.TypeID):
                return DatatypeFacts(attributes, element_type(node))
            return GroupFacts(attributes)

    def _walk(self) -> Iterator[tuple[str, LinkFacts | None]]:
        from h5py import h5g, h5l, h5o

        root = h5g.open(self._file.id, b"/")
        pending = [b"/"]
        while pending:
            raw = pending.pop()
            path = raw.decode("utf-8", "surrogateescape")
            if raw != b"/" and root.links.get_info(raw).type != h5l.TYPE_HARD:
                yield path, self._link(root, raw)
                continue
            info = h5o.get_info(root, raw)
            first = self._addresses.setdefault(info.addr, path)
            if first != path:
                yield path, LinkFacts("hard", first)
                continue
            yield path, None
            if info.type == h5o.TYPE_GROUP:
                prefix = raw.rstrip(b"/") + b"/"
                pending += [prefix + name for name in sorted(h5g.open(root, raw), reverse=True)]

    def _link(self, root: Any, raw: bytes) -> LinkFacts:
        from h5py import h5l

        form = root.links.get_info(raw).type
        if form not in (h5l.TYPE_SOFT, h5l.TYPE_EXTERNAL):
            return LinkFacts("user-defined", f"link class {form}")
        value = root.links.get_val(raw)
        if form == h5l.TYPE_SOFT:
            # a relative target starts at the group of the link; HDF5 knows "." but not ".."
            parts = posixpath.join(posixpath.dirname(raw), value).split(b"/")
            return LinkFacts("soft", "/" + text_of(b"/".join(part for part in parts if part not in {b"", b"."})))
        file = os.fsdecode(value[0])
        location = os.path.abspath(os.path.join(os.path.dirname(self.source), file))
        return LinkFacts("external", "/" + text_of(value[1]).strip("/"), file, location)

    def _attributes(self, node: Any) -> dict[str, AttributeFacts]:
        from h5py import h5s

        found = {}
        for name, attribute in attribute_names(node):
            tid = attribute.get_type()
            dtype = element_type(tid)
            if attribute.get_space().get_simple_extent_type() == h5s.NULL:
                found[name] = AttributeFacts(dtype, None, None)
                continue
            values, memory = buffer_for(tid, attribute.shape)
            if values.size:
                attribute.read(values, mtype=memory)
            found[name] = AttributeFacts(dtype, attribute.shape, plain_values(values, dtype, self._resolve))
        return found

    def _dataset(self, path: str, node: Any, attributes: Mapping[str, AttributeFacts]) -> DatasetFacts:
        from h5py import h5d, h5s

        check_other_files(node, os.path.abspath(self.source), path, None)
        tid, space, creation = node.get_type(), node.get_space(), node.get_create_plist()
        dtype = element_type(tid)
        empty = space.get_simple_extent_type() == h5s.NULL
        chunked = creation.get_layout() == h5d.CHUNKED
        limits = () if empty else space.get_simple_extent_dims(1)

        filters = tuple(filter_at(creation, index, tid.get_size()) for index in range(creation.get_nfilters()))

        def read(selection: Selection) -> Values:
            import h5py

            _register_plugins(creation)
            with reading(self.source, path, creation):
                check_allocated(h5py.Dataset(node), Limits())
                return plain_values(read_block(node, tid, selection), dtype, self._resolve)

        return DatasetFacts(
            attributes=attributes,
            dtype=dtype,
            shape=None if empty else node.shape,
            maxshape=None if empty else tuple(None if n == h5s.UNLIMITED else n for n in limits),
            chunks=creation.get_chunk() if chunked else None,
            layout=layout_of(creation),
            filters=filters,
            fill=self._fill(creation, tid, dtype),
            read=read,
        )

    def _fill(self, creation: Any, tid: Any, dtype: Element) -> Values | None:
        from h5py import h5d

        defined = creation.fill_value_defined()
        if defined == h5d.FILL_VALUE_UNDEFINED:
            return None
        if defined == h5d.FILL_VALUE_USER_DEFINED and dtype.kind in {"array", "sequence"}:
            return None  # h5py has no way to read these
        # h5py takes a text fill value into element 0 of a 1-d array, any other into a 0-d array
        values, _ = buffer_for(tid, (1,) if dtype.kind == "text" else ())
        if defined == h5d.FILL_VALUE_USER_DEFINED:
            creation.get_fill_value(values)
        plain = plain_values(values, dtype, self._resolve)
        return plain[0:1].reshape(()) if dtype.kind == "text" else plain

    def _resolve(self, reference: Any) -> Reference:
        import h5py
        from h5py import h5o, h5r

        if not reference:
            return Reference(None)
        try:
            target = h5r.dereference(reference, self._file.id)
            path = self._addresses.get(h5o.get_info(target).addr, "<unlinked>")
            if not isinstance(reference, h5py.RegionReference):
                return Reference(path)
            return Reference(path, region_of(h5r.get_region(reference, self._file.id)))
        except H5_ERRORS:
            return Reference("<dangling>")


def _register_plugins(creation: Any) -> None:
    """Let HDF5 know the filters of hdf5plugin, where a dataset uses one that is not HDF5's own and it is installed."""
    if any(creation.get_filter(index)[0] >= _FIRST_REGISTERED for index in range(creation.get_nfilters())):
        with suppress(ModuleNotFoundError):
            import hdf5plugin  # noqa: F401 - imported for what it registers
