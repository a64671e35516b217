"""`session_of`: the session in an NWB file as labels and texts: subject, times, devices, electrodes, units.

It comes from the metadata and from a few small datasets, which are requested together. Neither hdmf nor pynwb is
imported. Links are not followed.

Source: NWB schema 2.9, ``NWBFile``, ``Subject``, ``TimeSeries`` and ``DynamicTable``; ISO 8601, durations.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Final

import numpy as np

from hdmf_zarr_backend.array.content import ArrayReader
from hdmf_zarr_backend.encoding.elements import describe_any
from hdmf_zarr_backend.errors import ZarrBackendError
from hdmf_zarr_backend.model.content import Values
from hdmf_zarr_backend.model.element import Target
from hdmf_zarr_backend.model.nodes import Attributes, Dataset, Group, Hierarchy, StoredArray, join, split
from hdmf_zarr_backend.model.render import counted, natural
from hdmf_zarr_backend.store.base import Store
from hdmf_zarr_backend.store.memory import InlinedStore

__all__ = ["kind_of", "session_of"]

_UNREADABLE: Final = "cannot be read"
_TEXT_LENGTH = 400
_NAMES = 6
_ROWS = 10_000
_SERIES = 1000
_TIMES_BYTES = 2**25
"""Uncompressed bytes of the chunks that are read for the first and last timestamps."""

_TEXTS: Final = (
    ("Description", "session_description"),
    ("Experiment", "general/experiment_description"),
    ("Session id", "general/session_id"),
    ("Identifier", "identifier"),
    ("Experimenter", "general/experimenter"),
    ("Lab", "general/lab"),
    ("Institution", "general/institution"),
    ("Keywords", "general/keywords"),
    ("Publications", "general/related_publications"),
)
_START: Final = "session_start_time"
_SUBJECT: Final = ("subject_id", "species", "strain", "genotype", "sex", "age", "date_of_birth")
_SEXES: Final = {"M": "male", "F": "female", "O": "other sex", "U": "unknown sex"}
_ELECTRODES: Final = "general/extracellular_ephys/electrodes"
_DEVICES: Final = "general/devices"
_MEMBERS: Final = (
    ("Devices", _DEVICES, "manufacturer"),
    ("Intracellular electrodes", "general/intracellular_ephys", "location"),
    ("Imaging planes", "general/optophysiology", "location"),
    ("Optogenetic sites", "general/optogenetics", "location"),
)
_RECORDED: Final = ("acquisition", "processing", "stimulus/presentation", "analysis")
_AGE = re.compile(r"P(?:([\d.]+)Y)?(?:([\d.]+)M)?(?:([\d.]+)W)?(?:([\d.]+)D)?")
_UNITS: Final = ("year", "month", "week", "day")


def session_of(store: Store, hierarchy: Hierarchy) -> list[tuple[str, str]]:
    """Return the session in an NWB file."""
    root = hierarchy.root
    # NWB 1 has the version as a dataset
    is_named = root.attributes.get("neurodata_type") == "NWBFile" or "nwb_version" in root.attributes
    is_nwb = isinstance(root, Group) and (is_named or "nwb_version" in root.members)
    return _Session(store, hierarchy).parts() if is_nwb else []


def kind_of(hierarchy: Hierarchy) -> str:
    """Return what a file is that is not an NWB file, as a sentence."""
    attributes = hierarchy.root.attributes
    data_type = attributes.get("neurodata_type", attributes.get("data_type"))
    namespace = attributes.get("namespace")
    if isinstance(data_type, str) and isinstance(namespace, str):
        return f"This is not an NWB file: its root is a {data_type} of the namespace {namespace}."
    return "This is not an NWB file: its root has no type."


class _Session:
    """Reads the parts of a session."""

    def __init__(self, store: Store, hierarchy: Hierarchy) -> None:
        self._hierarchy = hierarchy
        self._intervals = [path for path in self._paths_in("intervals") if self._rows(path) is not None]
        recorded = tuple(f"{group}/" for group in _RECORDED)
        self._series: list[tuple[str, Group[Attributes]]] = []  # those with times of their own
        for path, node in hierarchy.walk():
            if isinstance(node, Group) and path.startswith(recorded):
                times = node.members.get("starting_time", node.members.get("timestamps"))
                if isinstance(times, Dataset):
                    self._series.append((path, node))
        self._series.sort(key=lambda series: natural(series[0]))
        # of thousands of series, as of intracellular sweeps, the first and the last ones
        regular = [path for path, node in self._series if "starting_time" in node.members]
        self._starts = {*regular[: _SERIES // 2], *regular[-_SERIES // 2 :]}
        self._read = ArrayReader(self._with_small_values(store), lambda _: Target(None), as_hdf5=False)

    def parts(self) -> list[tuple[str, str]]:
        """Return label and text of each part that the file has."""
        # 2026-03-14T12:00:00.000000+00:00 as 2026-03-14 12:00:00+00:00
        start = re.sub(r"(?<=-\d\d)T", " ", self._text(_START))  # ISO 8601
        version = self._hierarchy.root.attributes.get("nwb_version")
        parts = [
            ("Subject", self._subject()),
            ("Session start", re.sub(r"\.0+(?!\d)", "", start)),
            ("Recorded time", self._recorded_time()),
            *((label, self._text(path)) for label, path in _TEXTS),
            *((label, self._members(path, about)) for label, path, about in _MEMBERS),
            ("Electrodes", self._electrodes()),
            ("Units", f"{self._rows('units'):,}" if self._rows("units") is not None else ""),
            ("Intervals", ", ".join(f"{split(path)[1]} ({self._rows(path):,})" for path in self._intervals)),
            ("NWB version", _shortened(version) if isinstance(version, str) else self._text("nwb_version")),
        ]
        return [(label, text) for label, text in parts if text]

    # ---- values -----------------------------------------------------------------------------------------------------

    def _with_small_values(self, store: Store) -> Store:
        """Return the store with the small datasets of the session in memory, after one round of requests."""
        paths = [_START, *(path for _, path in _TEXTS), *(f"general/subject/{name}" for name in _SUBJECT)]
        paths += [f"{_ELECTRODES}/location", "nwb_version", *(f"{path}/starting_time" for path in self._starts)]
        # those in the consolidated document are in memory already, as in files of this package; others take requests
        keys = []
        for path in paths:
            node = self._hierarchy.get(path)
            if isinstance(node, Dataset) and _is_small(node.stored):
                key = join(path, node.stored.first_chunk)
                keys += [key] if store.inlined(key) is None else []
        try:
            return InlinedStore(store, store.get_many(keys)) if keys else store
        except (ZarrBackendError, OSError):
            return store  # which of them cannot be read is reported with their labels

    def _values(self, path: str, *selection: slice) -> Values | None:
        """Return values of a dataset, all by default; None if it does not exist or is too long."""
        node = self._hierarchy.get(path)
        if not isinstance(node, Dataset) or not (selection or _is_small(node.stored)):
            return None
        # as for a comparison: values of any type and format, without builders
        content = self._read.content(path, node, {}, is_spec=False)
        shape = content.shape or ()
        return content.read(selection or tuple(slice(0, length) for length in shape)).reshape(-1)

    def _text(self, path: str) -> str:
        """Return a dataset of text as one line; empty if it does not exist."""
        try:
            values = self._values(path)
        except (ZarrBackendError, OSError):
            return _UNREADABLE
        return "" if values is None else _shortened("; ".join(map(str, values.tolist())))

    # ---- parts ------------------------------------------------------------------------------------------------------

    def _subject(self) -> str:
        texts = {name: self._text(f"general/subject/{name}") for name in _SUBJECT}
        texts["sex"] = _SEXES.get(texts["sex"], texts["sex"])
        age, born = texts["age"], texts.pop("date_of_birth")
        match = _AGE.fullmatch(age)  # ISO 8601, such as P90D
        counts = () if match is None else zip(match.groups(), _UNITS, strict=True)
        parts = [f"{number} {unit}{'' if number == '1' else 's'}" for number, unit in counts if number]
        if parts:
            texts["age"] = f"{' '.join(parts)} old"
        elif age:
            texts["age"] = f"age {age}"
        elif born:
            texts["age"] = f"born {born.partition('T')[0]}"
        return ", ".join(filter(None, texts.values()))

    def _members(self, path: str, about: str) -> str:
        """Return the objects at ``path``, each with a text that is one of its attributes or datasets."""
        names: list[str] = []
        for member in self._objects_in(path):
            node = self._hierarchy.get(member)
            detail = None if node is None else node.attributes.get(about)
            if not isinstance(detail, str):  # each dataset may take a request, and only the first names are shown
                detail = self._text(f"{member}/{about}") if len(names) < _NAMES else ""
            names.append(f"{split(member)[1]} ({detail})" if detail else split(member)[1])
        return _listed(names)

    def _electrodes(self) -> str:
        count = self._rows(_ELECTRODES)
        if count is None:
            return ""
        groups = [split(path)[1] for path in self._objects_in(split(_ELECTRODES)[0])]
        text = f"{count:,}" + (f" in {counted(len(groups), 'group')} ({_listed(groups)})" if groups else "")
        try:
            values = self._values(f"{_ELECTRODES}/location")
            locations = [] if values is None else values.tolist()
        except (ZarrBackendError, OSError):
            locations = [_UNREADABLE]
        names = sorted(set(map(str, locations)) - {""})
        return f"{text}; location: {_listed(names)}" if names else text

    def _rows(self, path: str) -> int | None:
        """Return the number of rows of a table, None if there is no table."""
        # each DynamicTable has a column of ids
        ids = self._hierarchy.get(f"{path}/id")
        return ids.stored.shape[0] if isinstance(ids, Dataset) and ids.stored.shape else None

    def _paths_in(self, path: str) -> list[str]:
        """Return the paths of the groups in a group."""
        node = self._hierarchy.get(path)
        members = node.members if isinstance(node, Group) else {}
        return [join(path, name) for name in sorted(members, key=natural) if isinstance(members[name], Group)]

    def _objects_in(self, path: str) -> list[str]:
        """Return the paths of the groups in a group that have a type, without tables."""
        nodes = ((member, self._hierarchy.get(member)) for member in self._paths_in(path) if self._rows(member) is None)
        return [member for member, node in nodes if node is not None and "neurodata_type" in node.attributes]

    # ---- times ------------------------------------------------------------------------------------------------------

    def _recorded_time(self) -> str:
        """Return the time between the first and the last sample of all time series, or of the intervals."""
        spans = [span for span in self._spans() if span is not None]
        where = f"{len(spans):,} time series"
        if len(spans) < len(self._series):
            where = f"{len(spans):,} of {len(self._series):,} time series"
        if not spans:
            spans = [span for path in self._intervals if (span := self._span_of_rows(path)) is not None]
            where = f"{counted(len(spans), 'table')} of intervals"
        if not spans:
            return ""
        first, last = min(start for start, _ in spans), max(stop for _, stop in spans)
        length = f"{last - first:.3g} s"
        if last - first >= 60:
            minutes, seconds = divmod(round(last - first), 60)
            hours, minutes = divmod(minutes, 60)
            parts = [(hours, "h"), (minutes, "min"), (seconds, "s")]
            length = " ".join(f"{number:,} {unit}" for number, unit in parts if number)
        return f"{length}, from {_number_text(first)} s to {_number_text(last)} s in {where}"

    def _spans(self) -> Iterator[tuple[float, float] | None]:
        irregular = []
        for path, node in self._series:
            times, data = node.members.get("timestamps"), node.members.get("data")
            if isinstance(times, Dataset):
                irregular.append((f"{path}/timestamps", times))
            elif path in self._starts and isinstance(data, Dataset) and data.stored.size:
                rate = node.members["starting_time"].attributes.get("rate")
                if isinstance(rate, (int, float)) and rate > 0:
                    first = self._first(f"{path}/starting_time")
                    yield _span(first, first + data.stored.shape[0] / rate)
        left = _TIMES_BYTES
        irregular.sort(key=lambda series: -series[1].stored.size)
        for path, times in irregular:  # the longest ones, as many as are small
            # of a decoded chunk; more than are read, if they are unknown
            chunk_bytes = math.prod(times.stored.chunks) * (describe_any(times).itemsize or _TIMES_BYTES)
            count = times.stored.size
            if 2 * chunk_bytes <= left and len(times.stored.shape) == 1 and count:
                left -= 2 * chunk_bytes
                yield _span(self._first(path, slice(0, 1)), self._first(path, slice(count - 1, count)))

    def _first(self, path: str, *selection: slice) -> float:
        """Return the first of the values of `_values`; NaN if there is none, or no number."""
        try:
            values = self._values(path, *selection)
        except (ZarrBackendError, OSError):
            return math.nan
        return float(values[0]) if values is not None and values.size and values.dtype.kind in "iuf" else math.nan

    def _span_of_rows(self, path: str) -> tuple[float, float] | None:
        try:
            starts, stops = self._values(f"{path}/start_time"), self._values(f"{path}/stop_time")
        except (ZarrBackendError, OSError):
            return None
        # all rows are read, since intervals may overlap and need not be sorted
        if starts is None or stops is None or {starts.dtype.kind, stops.dtype.kind} - set("iuf"):
            return None
        times = np.concatenate([starts, stops])
        times = times[np.isfinite(times)]
        return _span(float(times.min()), float(times.max())) if times.size else None


def _is_small(stored: StoredArray) -> bool:
    """Tell whether an array is one chunk of few values."""
    return 0 < stored.size <= _ROWS and math.prod(stored.grid) == 1


def _span(first: float, last: float) -> tuple[float, float] | None:
    return (first, last) if math.isfinite(first) and math.isfinite(last) and first <= last else None


# ---- words ----------------------------------------------------------------------------------------------------------


def _shortened(text: str) -> str:
    # a description may have pages; it is one line of a table here
    text = " ".join(text.split())
    return text if len(text) <= _TEXT_LENGTH else f"{text[: _TEXT_LENGTH - 1]}…"


def _listed(names: list[str]) -> str:
    """Return names as a list, of which a long one ends in a number."""
    shown = [_shortened(name) for name in names]
    if len(shown) <= _NAMES:
        return ", ".join(shown)
    return f"{', '.join(shown[: _NAMES - 1])} and {len(shown) - _NAMES + 1:,} more"


def _number_text(number: float) -> str:
    return f"{number:,.3f}".rstrip("0").rstrip(".")
