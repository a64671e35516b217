"""What the tests of both releases of hdmf-zarr call of an io while a new file is written.

``write_dataset`` and ``write_attributes`` of single objects, which this project does not have, are written as part of a
whole file.
"""

from __future__ import annotations

from pathlib import Path

import h5py_view
import numpy as np
import zarr
from hdmf.build import DatasetBuilder, GroupBuilder


class OpenAttributes:
    """Attributes as zarr gives them while they are written: a tuple that was set is a tuple still."""

    def __init__(self, attributes):
        self._attributes = attributes

    def __getitem__(self, name):
        value = self._attributes[name]
        return tuple(value) if isinstance(value, list) else value

    def asdict(self):
        return self._attributes.asdict()


class OpenFile:
    """``ZarrIO._file`` while a new file is written: what is on disk at the moment of asking."""

    def __init__(self, path, array):
        self.path = Path(path)
        self._array = array

    @property
    def _group(self):
        return zarr.open_group(self.path, mode="r", use_consolidated=False)

    @property
    def attrs(self):
        return OpenAttributes(self._group.attrs)

    @property
    def store(self):
        return self._group.store

    def __getitem__(self, name):
        data = h5py_view.value_of(self.path, name)
        if not isinstance(data, h5py_view.LazyArray):
            return self._group[name]
        shown = object.__new__(self._array)
        shown.__dict__.update(data.__dict__)
        return shown

    def __contains__(self, name):
        return name in self._group


def install(cls, array=h5py_view.LazyArray):
    """Give a class of io these methods; arrays are shown as ``array``."""

    def write_dataset(self, parent, builder, **options):
        root = vars(self).setdefault("_root_of_parts", GroupBuilder("root"))
        root.set_dataset(builder)
        self.write_builder(root, **options)

    def write_attributes(self, obj, attributes):
        self.write_builder(GroupBuilder("root", attributes=attributes))

    def list_fill(self, parent, name, data, options=None):
        dtype = (options or {}).get("dtype")
        write_dataset(self, parent, DatasetBuilder(name, data, dtype=dtype and np.dtype(dtype).name))
        return self._file[name]

    def file(self):
        return OpenFile(self.source, array) if self.mode in ("w", "w-", "x", "a") else super(cls, self)._file

    cls.write_dataset, cls.write_attributes, cls.__list_fill__ = write_dataset, write_attributes, list_fill
    cls._file = property(file)
