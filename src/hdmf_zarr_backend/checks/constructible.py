"""`is_constructible`: whether the metadata of an NWB file show that pynwb can read it.

pynwb and hdmf are slow to import, and a conversion needs them only for this question. pynwb can read a file if its
schema allows everything in it and the container classes accept it. Most classes require little more than the schema;
for the types in `_KNOWN` that is checked here. The answer False means that only pynwb itself can tell: the file has a
type of an extension, an unusual link, circular references, or something that the schema does not allow.

Source: pynwb 4.2, the classes of containers and ``pynwb.io``; hdmf 6, ``hdmf.build.ObjectMapper.construct`` and
``hdmf.common.table``.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Iterator

import numpy as np

from hdmf_zarr_backend.arrays.chunk_cache import ChunkCache
from hdmf_zarr_backend.arrays.chunks import ChunkReader
from hdmf_zarr_backend.checks.rules import REFERENCE, Rule, Types
from hdmf_zarr_backend.checks.validate import Checker
from hdmf_zarr_backend.checks.view import Item, Member, Value, view
from hdmf_zarr_backend.errors import ZarrBackendError
from hdmf_zarr_backend.files.links import resolver_of
from hdmf_zarr_backend.formats.attributes import decode_attributes
from hdmf_zarr_backend.formats.references import Reference, decode_attribute_reference
from hdmf_zarr_backend.formats.reserved import LINKS
from hdmf_zarr_backend.model.link_sources import THIS_FILE
from hdmf_zarr_backend.model.nodes import Attributes, Dataset, Hierarchy, absolute, relative
from hdmf_zarr_backend.stores.base import Store

_COMMON = frozenset({"DynamicTable", "DynamicTableRegion", "ElementIdentifiers", "VectorData", "VectorIndex"})
_TABLES = frozenset({"DynamicTable", "ElectrodesTable", "TimeIntervals", "Units", "PlaneSegmentation"})
_SERIES = frozenset({
    "TimeSeries", "AbstractFeatureSeries", "AnnotationSeries", "IntervalSeries", "ElectricalSeries",
    "SpikeEventSeries", "SpatialSeries", "OptogeneticSeries", "RoiResponseSeries", "ImageSeries", "TwoPhotonSeries",
    "PatchClampSeries", "CurrentClampSeries", "CurrentClampStimulusSeries", "IZeroClampSeries", "VoltageClampSeries",
    "VoltageClampStimulusSeries",
})  # fmt: skip
_OTHERS = frozenset({
    "NWBFile", "Subject", "Device", "DeviceModel", "ElectrodeGroup", "TimeSeriesReferenceVectorData",
    "ProcessingModule", "LFP", "FilteredEphys", "Position", "BehavioralEvents", "BehavioralEpochs",
    "BehavioralTimeSeries", "CompassDirection", "EyeTracking", "PupilTracking", "Fluorescence", "DfOverF",
    "ImageSegmentation", "ImagingPlane", "OpticalChannel", "OptogeneticStimulusSite", "IntracellularElectrode",
})  # fmt: skip
_KNOWN = _COMMON | _TABLES | _SERIES | _OTHERS
"""The types whose classes require only what the schema requires and what is checked here."""

_ELECTRODES = "/general/extracellular_ephys/electrodes"
_MASKS = frozenset({"image_mask", "pixel_mask", "voxel_mask"})
_VERSION = re.compile(r"2\.0b$|(?:NWB-)?\d+\.\d+\.\d+")
_TIMES = ("session_start_time", "timestamps_reference_time", "file_create_date")


def is_constructible(keys: Store, hierarchy: Hierarchy, types: Types) -> bool:
    """Tell whether the metadata show that pynwb can read a file. False means that only pynwb itself can tell."""
    try:
        file = _File(keys, hierarchy)
        return file.root.data_type == "NWBFile" and file.is_plain() and _Strict(types, file).is_valid()
    except ZarrBackendError:
        return False


class _File:
    """The items of a file by path, and the values of their attributes."""

    def __init__(self, keys: Store, hierarchy: Hierarchy) -> None:
        self._keys = keys
        self._hierarchy = hierarchy
        self.root = view(resolver_of(keys, hierarchy))
        self.items: dict[str, Item] = {}
        stack = [self.root]
        while stack:
            item = stack.pop()
            self.items[item.path] = item
            stack += (member.item for member in item.members if not member.is_link)
        electrodes = self.items.get(_ELECTRODES)
        if electrodes is not None and electrodes.data_type == "DynamicTable":
            electrodes.data_type = "ElectrodesTable"  # pynwb does the same with files from before NWB 2.9

    def is_plain(self) -> bool:
        """Tell whether all types are known, all links point to groups of this file, and no item depends on itself."""
        items = self.items.values()
        return all(self._has_known_type(item) and self._has_plain_links(item) for item in items) and not (
            self._has_circle()
        )

    def _has_known_type(self, item: Item) -> bool:
        if item.data_type is None:
            return "neurodata_type" not in item.attributes
        namespace = self.text(item, "namespace")
        is_common = item.data_type in _COMMON or item.path == _ELECTRODES
        return item.data_type in _KNOWN and (namespace == "core" or (namespace == "hdmf-common" and is_common))

    def _has_plain_links(self, item: Item) -> bool:
        links = [member.item for member in item.members if member.is_link]
        if len(links) != len(self._attributes(item).get(LINKS, ())):  # `view` omits broken links
            return False
        if not all(target.is_group and self.items.get(target.path) is target for target in links):
            return False
        # hdmf names a container after the target of a link, and two members must not have the same name
        names = [member.item.path.rpartition("/")[2] for member in item.members]
        return len(set(names)) == len(names)

    def _has_circle(self) -> bool:
        """Tell whether an item depends on itself: pynwb first makes what it contains, links to and refers to."""
        done: set[Item] = set()
        begun = {self.root}
        stack = [(self.root, self._needed_by(self.root))]
        while stack:
            item, needed = stack[-1]
            other = next(needed, None)
            if other is None:
                stack.pop()
                begun.remove(item)
                done.add(item)
            elif other in begun:
                return True
            elif other not in done:
                begun.add(other)
                stack.append((other, self._needed_by(other)))
        return False

    def _needed_by(self, item: Item) -> Iterator[Item]:
        for member in item.members:
            yield member.item
        for name, value in item.attributes.items():
            if value.dtype == REFERENCE:
                target = self.target(item, name)
                yield item if target is None else target  # a reference to another file counts as a circle

    def target(self, item: Item, name: str) -> Item | None:
        """Return the target of a reference in an attribute; None for a region, and for a target in another file."""
        attributes = self._attributes(item)
        if name not in attributes:
            return None
        found = decode_attributes({name: attributes[name]}, resolve=decode_attribute_reference)[name]
        if not isinstance(found, Reference) or found.source != THIS_FILE or found.region is not None:
            return None
        return self.items.get(absolute(found.path))

    def _attributes(self, item: Item) -> Attributes:
        node = self._hierarchy.get(relative(item.path))
        return {} if node is None else node.attributes

    def text(self, item: Item, name: str) -> str | None:
        """Return an attribute that is a single text, None for any other."""
        value = item.attributes.get(name)
        found = None if value is None or value.read is None or value.shape is not None else value.read()
        return found if isinstance(found, str) else None

    def texts(self, item: Item, name: str) -> list[str] | None:
        """Return an attribute that is a list of texts, None for any other."""
        found = self._attributes(item).get(name)
        return found if isinstance(found, list) and all(isinstance(text, str) for text in found) else None

    def are_times(self, path: str) -> bool:
        """Tell whether an array contains times that Python can parse, or does not exist."""
        node = self._hierarchy.get(relative(path))
        if node is None:
            return True
        if not isinstance(node, Dataset):
            return False
        texts = np.asarray(ChunkReader(self._keys, relative(path), node.stored, ChunkCache()).read()).reshape(-1)
        return all(map(_is_time, texts.tolist()))


def _is_time(text: object) -> bool:
    try:
        return isinstance(text, str) and datetime.datetime.fromisoformat(text) is not None
    except ValueError:
        return False


class _Strict(Checker):
    """Checks a file against the schema, and against what the classes of pynwb require beyond it."""

    def __init__(self, types: Types, file: _File) -> None:
        super().__init__(types)
        self._file = file
        self._is_accepted = True
        self._demands: dict[str, Callable[[Item], bool]] = {
            "NWBFile": self._is_file, "Subject": self._is_subject, "ElectrodeGroup": self._is_electrode_group,
            **dict.fromkeys(_SERIES, self._is_series), **dict.fromkeys(_TABLES, self._is_table),
        }  # fmt: skip

    def is_valid(self) -> bool:
        """Tell whether the file passes all checks."""
        self.run(self._file.root)
        return self._is_accepted and not self.findings

    def _check(self, rule: Rule, item: Item) -> None:
        if not self._is_accepted or self.findings:
            return  # the answer is known
        super()._check(rule, item)
        self._is_accepted = (
            self._has_plain_values(rule, item)
            and all(self._is_in_place(rule, member) for member in item.members)
            and self._meets_demands(rule, item)
        )

    def _has_plain_values(self, rule: Rule, item: Item) -> bool:
        """Tell whether each value without a shape in the schema is a single value; the schema allows arrays too."""
        shapes = [(item.attributes.get(attribute.name), attribute.shape) for attribute in rule.attributes]
        if rule.dtype is not None:
            shapes.append((item.value, rule.shape))
        return all(value is None or shape is not None or _is_single(value) for value, shape in shapes)

    def _is_in_place(self, rule: Rule, member: Member) -> bool:
        """Tell whether a member is a link exactly if the schema has a link of its name."""
        return all(
            self._matches(one, member) and (member.is_link or one.section != "link")
            for one in rule.members
            if one.name == member.name
        )

    def _meets_demands(self, rule: Rule, item: Item) -> bool:
        """Tell whether the class of an item accepts it, if the rule is that of its type."""
        data_type = item.data_type
        if data_type is None or rule is not self._types.rules.get(data_type):
            return True
        demands = self._demands.get(data_type)
        return demands is None or demands(item)

    # ---- requirements of the classes --------------------------------------------------------------------------------

    def _is_file(self, item: Item) -> bool:
        version = self._file.text(item, "nwb_version")
        return (
            version is not None
            and _VERSION.match(version) is not None
            and not any(member.name in ("scratch", "events") for member in item.members)
            and all(self._file.are_times(f"/{name}") for name in _TIMES)
        )

    def _is_subject(self, item: Item) -> bool:
        return self._is_age(_member(item, "age")) and self._file.are_times(f"{item.path}/date_of_birth")

    def _is_age(self, age: Item | None) -> bool:
        if age is None or "reference" not in age.attributes:
            return True
        return self._file.text(age, "reference") in ("birth", "gestational")

    def _is_electrode_group(self, item: Item) -> bool:
        return _member(item, "position") is None

    def _is_series(self, item: Item) -> bool:
        """Tell whether a series has data and times."""
        data = _member(item, "data")
        if data is None or _member(item, "external_file") is not None:
            return False
        start, times = _member(item, "starting_time"), _member(item, "timestamps")
        if item.data_type == "SpikeEventSeries":
            return times is not None and _length(times) == _length(data)
        return times is not None or (start is not None and "rate" in start.attributes)

    def _is_table(self, item: Item) -> bool:
        """Tell whether ``colnames`` lists the columns of a table, and each column has a value for each row."""
        columns = {member.name: member.item for member in item.members if self._is_column(member.item)}
        indices = {name for name, column in columns.items() if column.data_type == "VectorIndex"}
        names = self._file.texts(item, "colnames")
        return (
            names is not None
            and sorted(names) == sorted(columns.keys() - indices)
            and self._has_rows(item, columns, indices)
            and self._has_own_columns(item, columns)
        )

    def _has_rows(self, table: Item, columns: dict[str, Item], indices: set[str]) -> bool:
        """Tell whether each index belongs to a column, and columns without an index are as long as the ids."""
        indexed = {self._file.target(columns[name], "target") for name in indices}
        held = set(columns.values())
        if len(indexed) != len(indices) or not indexed <= held:
            return False
        lengths = {_length(_member(table, "id")), *map(_length, held - indexed)}
        return len(lengths) == 1 and None not in lengths

    def _has_own_columns(self, item: Item, columns: dict[str, Item]) -> bool:
        """Tell whether a table has the columns that its class needs, and everything in it has a type."""
        if item.data_type == "PlaneSegmentation" and not _MASKS & columns.keys():
            return False
        series = columns.get("timeseries") if item.data_type == "TimeIntervals" else None
        if series is not None and series.data_type != "TimeSeriesReferenceVectorData":
            return False
        return all(member.item.data_type is not None for member in item.members)

    def _is_column(self, item: Item) -> bool:
        return item.data_type is not None and "VectorData" in self._types.ancestors(item.data_type)


def _is_single(value: Value) -> bool:
    return value.shape in (None, ()) and value.dtype != "ascii"


def _member(item: Item, name: str) -> Item | None:
    return next((member.item for member in item.members if member.name == name), None)


def _length(item: Item | None) -> int | None:
    """Return the length of the first axis of a dataset, None for a scalar."""
    return None if item is None or item.value is None or not item.value.shape else item.value.shape[0]
