"""The data of a file on its page: `opened` reads it, `DataView` shows it, and treemaps, envelopes, images are drawn.

Links are followed inside the file. Only a part of the values is read (`NodeReader`), and the page names it. What cannot
be read is a remark. All text comes from the file, which may be crafted, so it is escaped.

Source: NWB schema 2.9, ``NWBFile``, ``Subject``, ``TimeSeries``, ``ImageSeries``, ``Units``, ``DynamicTable``; SVG 2;
PNG (Third Edition); ISO 8601, durations.
"""

from __future__ import annotations

import base64
import math
import re
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from itertools import pairwise
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from hdmf_zarr_backend.array.content import ArrayReader, past_the_end, stated_target
from hdmf_zarr_backend.check.verify import lack_of_subject
from hdmf_zarr_backend.encoding.elements import describe_any, type_label
from hdmf_zarr_backend.encoding.parser import ParsedFile, Resolver, parse
from hdmf_zarr_backend.encoding.reserved import data_type_of, refused_version, shown_attributes
from hdmf_zarr_backend.errors import IsHdf5Error, ZarrBackendError
from hdmf_zarr_backend.model.content import Values
from hdmf_zarr_backend.model.element import Target
from hdmf_zarr_backend.model.links import OWN_SOURCES, THIS_FILE, is_url
from hdmf_zarr_backend.model.nodes import Dataset, Group, Hierarchy, absolute, join, split
from hdmf_zarr_backend.model.render import Item, counted, escape, natural, pattern, readable, size_text, sum_of
from hdmf_zarr_backend.options import ReadOptions
from hdmf_zarr_backend.outline import Outline, lengths_text, outline_of
from hdmf_zarr_backend.store.base import Store
from hdmf_zarr_backend.store.memory import InlinedStore
from hdmf_zarr_backend.store.opening import FileSource, open_store

# ---- a file and its values -------------------------------------------------------------------------------------------

VALUE_BYTES, REMOTE_VALUE_BYTES = 64 * 10**6, 16 * 10**6
"""Most bytes of values that are read for a page, of a file on this machine and of one at a URL."""

Span: TypeAlias = tuple[float, float]  # the first and the last time, in seconds
Part: TypeAlias = tuple[int, Values]  # rows of a dataset, after the number of the first

UNREADABLE = "cannot be read"
_TEXT_LENGTH = 400
_OBJECT_BYTES = 64  # of an element without a size, such as text, as an estimate
_SMALL = 10_000
_SHORT = 100
_LEAST_CHUNK = 4000  # bytes as which a smaller chunk counts: thousands of them take as long as one large one


class NodeReader:
    """Reads values of a file until ``most`` bytes are read, complete chunks; ``damaged``: paths that cannot be read."""

    def __init__(self, store: Store, parsed: ParsedFile, outline: Outline) -> None:
        self.store, self.parsed, self.outline, self.hierarchy = store, parsed, outline, parsed.hierarchy
        self.is_remote = is_url(outline.location)
        self.most = REMOTE_VALUE_BYTES if self.is_remote else VALUE_BYTES
        self.read_bytes = self._spent = 0
        self.damaged: dict[str, str] = {}
        self.resolver = Resolver(store, parsed.hierarchy, outline.location)
        self._arrays = ArrayReader(store, stated_target, as_hdf5=False)

    def share(self, part: int) -> int:
        """Return the bytes that one of ``part`` reads may have of those that are left."""
        return (self.most - self._spent) // part

    def prefetch(self, paths: Iterable[str]) -> None:
        """Keep small datasets in memory, after one round of requests."""
        # those in the consolidated document are in memory already, as in files of this package; others take requests
        keys = [join(path, node.stored.first_chunk) for path in paths if (node := self.small(path)) is not None]
        keys = [key for key in keys if self.store.inlined(key) is None]
        try:
            if keys:
                self.store = InlinedStore(self.store, self.store.get_many(keys))
        except (ZarrBackendError, OSError):
            return  # which of them cannot be read is reported with their labels
        self._arrays = ArrayReader(self.store, stated_target, as_hdf5=False)

    def small(self, path: str) -> Dataset | None:
        """Return a dataset of few values in one chunk, None if there is none."""
        node = self.hierarchy.get(path)
        if isinstance(node, Dataset) and 0 < node.stored.size <= _SMALL and math.prod(node.stored.grid) == 1:
            return node
        return None

    def dataset(self, group: str, name: str) -> tuple[str, Dataset] | None:
        """Return path and node of a dataset in a group, also through links inside the file."""
        with suppress(ZarrBackendError):
            _, path, node = self.resolver.find_inside(THIS_FILE, join(group, name))
            return (path, node) if isinstance(node, Dataset) else None
        return None

    def numbers(self, group: str, name: str, *selection: slice) -> Values | None:
        """Return a dataset in a group, or a part of it, if it is numbers along at most one axis, and not too many."""
        entry = self.dataset(group, name)
        if entry is None or self.cost(entry[1], selection) > self.share(4):
            return None
        values = self.read(entry[0], *selection)
        return values.reshape(-1) if values is not None and values.ndim < 2 and values.dtype.kind in "iuf" else None

    def cost(self, node: Dataset, selection: tuple[slice, ...] = (), least: int = _LEAST_CHUNK) -> int:
        """Return what reading a selection takes of `most`: the bytes of its chunks, of each at least ``least``."""
        stored, count = node.stored, 1
        for axis, (length, chunk) in enumerate(zip(stored.shape, stored.chunks, strict=True)):
            part = selection[axis] if axis < len(selection) else slice(0, length)
            count *= max(1, -(-part.stop // chunk) - part.start // chunk)
        return count * max(least, math.prod(stored.chunks) * (describe_any(node).itemsize or _OBJECT_BYTES))

    def read(self, path: str, *selection: slice) -> Values | None:
        """Return values of a dataset; None if there are none, they cannot be read, or would be too many bytes."""
        node = self.hierarchy.get(path)
        if not isinstance(node, Dataset):
            return None
        try:
            # as for a comparison: values of any type and format, without builders
            content = self._arrays.content(path, node, {}, is_spec=False)
            cost = self.cost(node, selection)
            if content.shape is None or self._spent + cost > self.most:
                return None
            self._spent += cost
            self.read_bytes += self.cost(node, selection, least=0)
            rest = (slice(0, length) for length in content.shape[len(selection) :])
            return content.read((*selection, *rest)[: len(content.shape)])
        except (ZarrBackendError, OSError) as error:
            self.damaged[path] = error.problem if isinstance(error, ZarrBackendError) else str(error)
            return None

    def parts(self, path: str, *rest: slice, pieces: int, most: int) -> list[Part]:
        """Return all of a dataset, or ``pieces`` of complete chunks of at most ``most`` bytes, each with its start."""
        node = self.hierarchy.array(path)
        length, chunk, grid = node.stored.shape[0], node.stored.chunks[0], node.stored.grid[0]
        one = self.cost(node, (slice(0, min(chunk, length)), *rest))
        is_all = self.cost(node, (slice(0, length), *rest)) <= most
        if is_all and (block := self.read(path, slice(0, length), *rest)) is not None:
            return [(0, block)]
        if one > max(most, self.share(4)):
            return []
        count = min(pieces, grid, max(1, most // one))
        # chunks of a piece; single ones where one of them is damaged
        run = 1 if is_all else max(1, min(most // one, grid) // count)
        starts = {round(position) * chunk for position in np.linspace(0, grid - run, count).tolist()}
        stops = {start: min(length, start + run * chunk) for start in sorted(starts)}
        blocks = [(start, self.read(path, slice(start, stop), *rest)) for start, stop in stops.items()]
        return [(start, block) for start, block in blocks if block is not None]

    def text(self, path: str) -> str:
        """Return a small dataset of text as one line; empty if it does not exist."""
        values = None if self.small(path) is None else self.read(path)
        if values is None:
            return UNREADABLE if path in self.damaged else ""
        return shortened("; ".join(map(str, values.reshape(-1).tolist())))


def small_values(reader: NodeReader) -> dict[str, Any]:
    """Return the values of scalars and short arrays by path, as Python has them."""
    short = [path for path, node in reader.hierarchy.arrays() if node.stored.size <= _SHORT]
    reader.prefetch(short)
    known = {path: readable(value.tolist()) for path in short if (value := reader.read(path)) is not None}
    return known | dict.fromkeys(reader.damaged, UNREADABLE)


def shortened(text: str, length: int = _TEXT_LENGTH) -> str:
    """Return a text as one line, which ends in an ellipsis if it is longer."""
    # a description may have pages; it is one line of a table here
    text = " ".join(readable(text).split())
    return text if len(text) <= length else f"{text[: length - 1]}…"


def duration_text(seconds: float) -> str:
    """Return a number of seconds as hours, minutes and seconds."""
    if seconds < 60:
        return f"{seconds:.3g} s"
    minutes, whole = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return " ".join(f"{number:,} {unit}" for number, unit in ((hours, "h"), (minutes, "min"), (whole, "s")) if number)


@contextmanager
def opened(
    source: FileSource,
    storage_options: Mapping[str, Any] | None,
    read_options: ReadOptions | None = None,
    *,
    sizes: bool = True,
    **shown: Any,
) -> Iterator[NodeReader]:
    """Yield the reader of a file, which is open inside the block; ``shown`` are arguments of `outline_of`."""
    store = open_store(source, storage_options, read_options)
    with ExitStack() as stack:
        try:
            parsed = parse(store)
            values, outline = parsed.store(store), outline_of(store, parsed, sizes=sizes, **shown)
        except IsHdf5Error:
            from hdmf_zarr_backend.from_hdf5 import planned_hdf5  # on use: it imports h5py and hdmf

            # links are shown: what a stranger's file shows must not come from other files of this machine
            rules = replace(store.read_rules, external_links="never")
            values, parsed, stored = stack.enter_context(planned_hdf5(store, rules))
            outline = outline_of(values, parsed, **shown)
            outline.is_hdf5, outline.stored = True, stored if sizes else None
        yield NodeReader(values, parsed, outline)


# ---- what is shown of the data ---------------------------------------------------------------------------------------

_SERIES, _TABLES, _IMAGES, _UNITS = 24, 8, 8, 60
_ALIKE = 3  # shown of those whose names differ in a number
_TIMED = 1000  # series whose times are read
_POINTS, _CHANNELS, _PIXELS = 600, 3, 320
_PIECES, _REMOTE_PIECES = 32, 4
_ROWS, _COLUMNS, _CELL = 5, 12, 60
_NO_UNIT: Final = frozenset({"", "unknown", "na", "none", "nan", "unspecified"})
_VOLTS: Final = frozenset({"v", "volt", "volts"})
_ENDS: Final = ("start_time", "stop_time")
_MONTH, _LATE = 30 * 86400.0, 1e8  # s
_RECORDED: Final = ("acquisition/", "processing/", "stimulus/", "analysis/")
_PICTURES: Final = frozenset({"GrayscaleImage", "RGBImage", "RGBAImage", "Image"})
_FRAMES: Final = ("Image", "Photon", "Optical")  # in the types of series of images
_IRREGULAR, _BETWEEN = "irregular timestamps", "pale between samples"
_EVENTS: Final = frozenset({"AnnotationSeries", "IntervalSeries", "SpikeEventSeries"})  # not sampled at a rate

_NAMES = 6
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
_OBJECTS: Final = (
    ("Devices", "general/devices", "manufacturer"),
    ("Intracellular electrodes", "general/intracellular_ephys", "location"),
    ("Imaging planes", "general/optophysiology", "location"),
    ("Optogenetic sites", "general/optogenetics", "location"),
)
_AGE = re.compile(r"P(?:([\d.]+)Y)?(?:([\d.]+)M)?(?:([\d.]+)W)?(?:([\d.]+)D)?")
_PERIODS: Final = ("year", "month", "week", "day")

Remark: TypeAlias = tuple[str, str, str]
"""What a reader of the file should know: what holds, the path where, and the numbers there."""


class DataView:
    """The data of a file as HTML; ``remarks`` are complete after `sections`."""

    def __init__(self, reader: NodeReader) -> None:
        self._reader = reader
        self._tables: list[str] = []
        self._pictures: list[str] = []
        self._waiting = 0  # series that are still to be drawn
        self.remarks: list[Remark] = []
        paths: list[str] = []  # of series
        nodes = reader.hierarchy.walk(without=reader.outline.spec_path)
        for path, node in sorted(nodes, key=lambda item: natural(item[0])):
            kind = data_type_of(node) or ""
            if isinstance(node, Dataset):
                self._pictures += [path] if kind in _PICTURES else []
            elif "colnames" in node.attributes:
                self._tables.append(path)
            elif path.startswith(_RECORDED) and (
                kind.endswith("Series")
                or node.members.keys() & {"timestamps", "starting_time"}
                or (not kind and isinstance(node.members.get("data"), Dataset))
            ):
                paths.append(path)
        if _START in reader.hierarchy:  # an NWB file
            self._check_session()
        reader.prefetch(join(path, "starting_time") for path in paths)
        # of thousands of series, as of intracellular sweeps, the first and the last ones
        timed = {*paths[: _TIMED // 2], *paths[-_TIMED // 2 :]}
        self._series = {path: self._times(path, reads=path in timed) for path in paths}  # how each is sampled
        self._spans = [span for _, span in self._series.values()]
        tables = [path for path in self._tables if reader.dataset(path, "stop_time") is not None][:_TABLES]
        reader.prefetch(join(path, name) for path in tables for name in _ENDS)
        self._intervals = [span for path in tables if (span := self._interval_span(path)) is not None]

    def sections(self) -> list[str]:
        """Return the sections of the page, those without content left out."""
        drawn = [
            ("Time series", self._cards(list(self._series), _SERIES, self._series_card, "series")),
            ("Units", "".join(map(self._spikes, self._tables))),
            ("Images", self._cards(self._pictures, _IMAGES, self._image, "images")),
            ("Tables", self._cards(self._tables, _TABLES, self._table, "tables")),
        ]
        for path, problem in self._reader.damaged.items():
            self._remark("values cannot be read", path, problem)
        return [f"<h2>{title}</h2>{content}" for title, content in drawn if content]

    def _cards(self, paths: list[str], most: int, draw: Callable[[str], str], noun: str) -> str:
        """Return the cards of the first paths, and how many are left out."""
        counts: dict[str, int] = {}
        shown: list[str] = []
        for path in paths:
            counts[pattern(path)] = counts.get(pattern(path), 0) + 1
            if counts[pattern(path)] <= _ALIKE and len(shown) < most:
                shown.append(path)
        self._waiting = len(shown)
        cards = "".join(map(draw, shown))
        left = len(paths) - len(shown)
        more = f'<p class="soft">{left:,} more {noun} are not shown; the tree below has them.</p>' if left else ""
        return f'<div class="data {noun}">{cards}</div>{more}' if cards else ""

    def _remark(self, text: str, path: str, detail: str = "") -> None:
        self.remarks.append((text, path, detail))

    def _check_session(self) -> None:
        version = self._reader.hierarchy.root.attributes.get("nwb_version", self._reader.text("nwb_version") or None)
        if refused := refused_version(version):
            self._remark(refused, "")
        if not self._reader.text("session_description"):
            self._remark("the session description is empty", "session_description")
        start = self._reader.text(_START)[:4]
        if start.isdecimal() and int(start) < 1950:
            self._remark(f"the session starts in {start}, which may stand for an unknown date", _START)
        if lack := lack_of_subject(self._reader.hierarchy):
            self._remark(lack, "general/subject")

    # ---- the session: subject, times, devices, electrodes, units ----------------------------------------------------

    def session(self) -> str:
        """Return the section on the session in an NWB file, of another file a sentence on what it is."""
        reader = self._reader
        hierarchy, root, text = reader.hierarchy, reader.hierarchy.root, reader.text
        kind, namespace = data_type_of(root), root.attributes.get("namespace")
        what = f"is a {kind} of the namespace {namespace}" if kind and namespace else "has no type"
        of_other_file = f"<p>{escape(f'This is not an NWB file: its root {what}.')}</p>"
        # NWB 1 has the version as a dataset
        is_named = root.attributes.get("neurodata_type") == "NWBFile" or "nwb_version" in root.attributes
        if not isinstance(root, Group) or not (is_named or "nwb_version" in root.members):
            return of_other_file
        paths = [_START, *(path for _, path in _TEXTS), *(f"general/subject/{name}" for name in _SUBJECT)]
        reader.prefetch([*paths, f"{_ELECTRODES}/location", "nwb_version"])
        # 2026-03-14T12:00:00.000000+00:00 as 2026-03-14 12:00:00+00:00
        start = re.sub(r"(?<=-\d\d)T", " ", text(_START))  # ISO 8601
        version, units = root.attributes.get("nwb_version"), _groups_in(hierarchy, "")[0].get("units")
        tables = [f"{name} ({rows:,})" for name, rows in _groups_in(hierarchy, "intervals")[0].items()]
        # between the first and the last sample of all time series, or of the intervals
        known = [span for span in self._spans if span is not None]
        of = f" of {len(self._spans):,}" if len(known) < len(self._spans) else ""
        where = f"{len(known):,}{of} time series" if known else f"{counted(len(self._intervals), 'table')} of intervals"
        recorded = ""
        if known := known or self._intervals:
            first, last = min(start for start, _ in known), max(stop for _, stop in known)
            began, ended = (f"{time:,.3f}".rstrip("0").rstrip(".") for time in (first, last))
            recorded = f"{duration_text(last - first)}, from {began} s to {ended} s in {where}"
        electrodes, parent, name = "", *split(_ELECTRODES)
        rows_of, groups = _groups_in(hierarchy, parent)
        if name in rows_of:
            in_groups = f" in {counted(len(groups), 'group')} ({_listed([*groups])})" if groups else ""
            electrodes = f"{rows_of[name]:,}{in_groups}"
            column = f"{_ELECTRODES}/location"
            values = None if reader.small(column) is None else reader.read(column)
            names = sorted(set(map(str, () if values is None else values.reshape(-1).tolist())) - {""})
            electrodes += f"; location: {_listed(names)}" if names else ""
        parts = [
            ("Subject", _subject(reader)),
            ("Session start", re.sub(r"\.0+(?!\d)", "", start)),
            ("Recorded time", recorded),
            *((label, text(path)) for label, path in _TEXTS),
            *((label, _members(reader, path, about)) for label, path, about in _OBJECTS),
            ("Electrodes", electrodes),
            ("Units", "" if units is None else f"{units:,}"),
            ("Intervals", ", ".join(tables)),
            ("NWB version", shortened(version) if isinstance(version, str) else text("nwb_version")),
        ]
        shown = [f"<dt>{escape(label)}</dt><dd>{escape(detail)}</dd>" for label, detail in parts if detail]
        return f'<h2>Session</h2><dl class="session">{"".join(shown)}</dl>' if shown else of_other_file

    # ---- times ------------------------------------------------------------------------------------------------------

    def _times(self, path: str, *, reads: bool) -> tuple[str, Span | None]:
        """Return how a series is sampled, and its first and last time; remark what is odd about them."""
        data, start = self._data(path), self._reader.dataset(path, "starting_time")
        axes = () if data is None else describe_any(data[1]).axes
        is_sampled = 0 < len(axes) < 3 and 0 not in axes and not self._is_events(path)
        unit = "" if data is None else _unit(data[1])
        if is_sampled and not unit:
            self._remark("the series has no unit", path)
        elif readable(unit) != unit:
            self._remark("the unit is not UTF-8 text", path, readable(unit))
        self._check_width(path, axes)
        stamps = self._reader.dataset(path, "timestamps")
        if start is not None and stamps is not None:
            self._remark("the series has a rate and timestamps", path, "the timestamps are used here")
        if start is None or stamps is not None:
            if stamps is None or not stamps[1].stored.size or len(stamps[1].stored.shape) != 1:
                return "no times", None
            length = stamps[1].stored.shape[0]
            if axes and axes[0] not in (0, length):
                self._remark("timestamps and data differ in length", path, f"{length:,} and {axes[0]:,}")
            return self._stamps(path, stamps[0]) if reads else ("timestamps", None)
        rate = _number(start[1], "rate", 0.0)
        if rate <= 0:
            self._remark("the rate is not above 0", path, f"{start[1].attributes.get('rate')}")
            return "no rate", None
        values = self._reader.numbers(path, "starting_time") if reads and axes and axes[0] else None
        if values is None or not values.size:
            return f"{rate:,.6g} Hz", None
        first = float(values[0])
        return f"{rate:,.6g} Hz", self._span(path, first, first + axes[0] / rate)

    def _check_width(self, path: str, axes: tuple[int, ...]) -> None:
        width = self._width(path, axes)
        for name in ("electrodes", "rois") if axes else ():
            rows = self._reader.dataset(path, name)
            if rows is not None and (count := math.prod(rows[1].stored.shape)) != width:
                self._remark(f"channels and {name} differ in number", path, f"{width:,} and {count:,}")

    def _data(self, path: str) -> tuple[str, Dataset] | None:
        """Return the data of a series, None if there are none, or an array that stands for frames in other files."""
        return None if self._reader.text(join(path, "format")) == "external" else self._reader.dataset(path, "data")

    def _is_events(self, path: str) -> bool:
        return data_type_of(self._reader.hierarchy.get(path)) in _EVENTS

    def _width(self, path: str, axes: tuple[int, ...]) -> int:
        """Return the number of channels; events of one channel may have their samples along the second axis."""
        return axes[1] if len(axes) > 1 + self._is_events(path) else 1

    def _interval_span(self, path: str) -> Span | None:
        """Return the first and the last time of a table of intervals; remark intervals without an end."""
        # all rows are read, since intervals may overlap and need not be sorted
        starts, stops = (self._reader.numbers(path, name) for name in _ENDS)
        if starts is None or stops is None or len(starts) != len(stops):
            return None
        if open_ended := int(np.isnan(stops).sum()):
            self._remark("intervals have no stop time", path, f"{open_ended:,} of {len(stops):,}")
        if back := int((stops < starts).sum()):
            self._remark("intervals stop before they start", path, f"{back:,} of {len(stops):,}")
        times = np.concatenate([starts, stops])
        times = times[np.isfinite(times)]
        return (float(times.min()), float(times.max())) if times.size else None

    def _span(self, path: str, first: float, last: float) -> Span | None:
        if first < 0:
            self._remark("times are negative, before the session starts", path, f"from {first:,.6g} s")
        if max(abs(first), abs(last)) > _LATE:
            self._remark("times are not seconds since the session start: since 1970, or milliseconds?", path)
        elif last - first > _MONTH:
            self._remark("the series lasts longer than a month", path, duration_text(last - first))
        return (first, last) if math.isfinite(first) and math.isfinite(last) else None

    def _stamps(self, path: str, stamps: str) -> tuple[str, Span | None]:
        """Return what `_times` returns from timestamps: all, or those of the first and the last chunks."""
        parts = self._reader.parts(stamps, pieces=2, most=self._reader.share(64))
        pieces = [values.astype("f8") for _, values in parts if values.dtype.kind in "iuf"]
        known = np.concatenate(pieces or [np.zeros(0)])
        if not np.isfinite(known).all():
            self._remark("timestamps are not numbers", path, f"{np.count_nonzero(~np.isfinite(known)):,} of them")
        known = known[np.isfinite(known)]
        if not known.size:
            return "timestamps", None
        late = np.abs(known) > _LATE
        if late.any() and late.mean() < 0.5:  # a few wrong ones say nothing about the unit of the others
            detail = f"{np.count_nonzero(late):,} of {len(known):,}, such as {known[late][0]:,.6g} s"
            self._remark("some timestamps are not seconds since the session start", path, detail)
            known, pieces = known[~late], [piece[np.abs(piece) <= _LATE] for piece in pieces]
        span = self._span(path, float(known.min()), float(known.max()))
        steps = np.concatenate([np.diff(piece[np.isfinite(piece)]) for piece in pieces])
        usual = float(np.median(steps)) if steps.size else 0.0
        odd = np.abs(steps - usual) > 0.05 * usual  # smaller differences are the jitter of a clock
        is_irregular, gaps = odd.any() and odd.mean() >= 0.1, int((steps > 1.5 * usual).sum())
        if (steps < 0).any():
            self._remark("timestamps are not in order", path, counted(int((steps < 0).sum()), "step") + " back")
            return _IRREGULAR, span
        if self._is_events(path):
            return "timestamps", span
        if is_irregular:
            rate = f" (about {1 / usual:,.4g} Hz)" if usual else ""
            detail = f"median step {usual:.4g} s{rate}, from {steps.min():.4g} s to {steps.max():.4g} s"
            self._remark("timestamps are irregular", path, detail)
        if gaps and (not is_irregular or gaps < 0.01 * len(steps)):  # more of them are part of the irregularity
            longer = f"longer than 1.5 times the median of {usual:.4g} s, up to {steps.max():.4g} s"
            self._remark("timestamps have gaps", path, f"{counted(gaps, 'step')} {longer}")
        if is_irregular or not usual:
            return _IRREGULAR if is_irregular else "timestamps", span
        # not the usual step: rounded times have two, and the rate is between them
        return f"about {1 / steps[~odd].mean():,.4g} Hz", span

    # ---- series -----------------------------------------------------------------------------------------------------

    def _series_card(self, path: str) -> str:
        self._waiting -= 1
        group, data = self._reader.hierarchy.get(path), self._data(path)
        sampling, span = self._series[path]
        kind, facts, drawing = data_type_of(group) or "", [sampling], ""
        facts += [duration_text(span[1] - span[0])] if span else []
        if data is not None:
            facts.append(_form(data[1]))
        links = self._reader.resolver.main.links(path, group) if isinstance(group, Group) else ()
        for name in ("data", "timestamps"):
            sources = [link.target.source for link in links if link.name == name]
            facts += [f"{name} in {source}, which is not read" for source in sources if source not in OWN_SOURCES]
        external = self._reader.dataset(path, "external_file")
        names = None if external is None else self._reader.read(external[0])
        if names is not None and names.size and (data is None or not data[1].stored.size):
            others = f" and {counted(names.size - 1, 'more file')}" if names.size > 1 else ""
            drawing = f'<p class="soft">frames are in {escape(shortened(str(names.flat[0])))}{others}</p>'
        elif data is not None:
            is_picture = len(describe_any(data[1]).axes) > 2 and any(name in kind for name in _FRAMES)
            drawing = self._frame(*data, slice(0, 1)) if is_picture else self._envelope(path, *data, span)
        about = getattr(group, "attributes", {}).get("description", "")
        if isinstance(about, str) and about not in ("", "no description"):
            drawing += f"<p>{escape(shortened(about, 200))}</p>"
        return _card(path, [kind, *facts], drawing)

    def _envelope(self, path: str, data: str, node: Dataset, span: Span | None) -> str:
        """Return the drawing of the least and greatest values of a series, from a part of its chunks."""
        axes, reader = describe_any(node).axes, self._reader
        if not axes or 0 in axes or not describe_any(node).itemsize:
            return ""
        width = self._width(path, axes)
        channels = min(_CHANNELS, width)
        rest = [slice(0, channels)] * (width > 1)
        pieces = _REMOTE_PIECES if reader.is_remote else _PIECES
        parts = reader.parts(data, *rest, pieces=pieces, most=reader.share(4 + self._waiting))
        places, note = self._places(path, axes[0], parts, span)
        bins = min(axes[0] if note != _BETWEEN else _POINTS, _POINTS // 2 // channels)
        wrong = count = 0
        lows, highs = np.full((2, channels, bins), np.nan)
        for (_, block), where in zip(parts, places, strict=True):
            if block.dtype.kind in "iufb":
                values = block.reshape(len(block), channels, -1).astype("f8")
                is_wrong = ~np.isfinite(values)
                wrong, count = wrong + int(is_wrong.sum()), count + values.size
                values[is_wrong] = np.nan
                kept = np.flatnonzero((where >= 0) & (where <= 1))
                order = kept[np.argsort(where[kept], kind="stable")]
                least, most = np.fmin.reduce(values, axis=2)[order], np.fmax.reduce(values, axis=2)[order]
                into, cuts = np.unique((where[order] * bins).astype("i8").clip(max=bins - 1), return_index=True)
                if len(into):
                    lows[:, into] = np.fmin(lows[:, into], np.fmin.reduceat(least, cuts).T)
                    highs[:, into] = np.fmax(highs[:, into], np.fmax.reduceat(most, cuts).T)
        if wrong:
            self._remark("values are not numbers (NaN or infinite)", path, f"{wrong:,} of {count:,} that were read")
        factor, offset = _number(node, "conversion", 1.0), _number(node, "offset", 0.0)
        own = reader.numbers(path, "channel_conversion", slice(0, channels))
        with np.errstate(over="ignore", invalid="ignore"):
            factors = np.full((channels, 1), factor) * (1.0 if own is None or len(own) != channels else own[:, None])
            lows, highs = np.sort([lows * factors + offset, highs * factors + offset], axis=0)  # a factor may be < 0
            unknown = ~(np.isfinite(lows) & np.isfinite(highs))
        lows[unknown], highs[unknown] = np.nan, np.nan
        if np.isnan(lows).all(axis=1).any():
            return f'<p class="soft">not drawn: {"no numbers" if parts else "its chunks are too large, or damaged"}</p>'
        least, most = np.nanmin(lows, axis=1), np.nanmax(highs, axis=1)
        seen, unit = sum(len(block) for _, block in parts), readable(_unit(node))
        low, high = float(np.nanmin(lows)), float(np.nanmax(highs))
        if seen > 1 and low == high:
            self._remark("all values that were read are equal", path, f"{low:.5g} {unit}")
        is_raw = factor == 1 and own is None and all(block.dtype.kind in "iu" for _, block in parts)
        if is_raw and unit.lower() in _VOLTS and max(-low, high) > 100:
            detail = f"{low:.5g} to {high:.5g} {unit}"
            self._remark("values are not plausible volts: is the conversion missing?", path, detail)
        names = [f"channel {number}: " if width > 1 else "" for number in range(channels)]
        labels = [f"{name}{low:.5g} to {high:.5g} {unit}" for name, low, high in zip(names, least, most, strict=True)]
        notes = [f"{channels} of {width:,} channels"] if channels < width else []
        notes += [f"{seen:,} of {axes[0]:,} samples read; pale where none were"] if seen < axes[0] else []
        notes += [note] if note else []
        return envelope_svg(lows, highs, labels) + _axis(span, "; ".join(notes))

    def _places(self, path: str, length: int, parts: list[Part], span: Span | None) -> tuple[list[Values], str]:
        """Return where the samples of some parts are in the time of a series, 0 to 1, and a note about that."""
        even = [(np.arange(start, start + len(block)) + 0.5) / length for start, block in parts]
        stamps = self._reader.dataset(path, "timestamps")
        if span is None or span[0] == span[1] or stamps is None or stamps[1].stored.shape != (length,):
            return even, ""
        places = list[Values]()
        for start, block in parts:
            times = self._reader.numbers(path, "timestamps", slice(start, start + len(block)))
            if times is None:
                return even, "not at their times, which were not read"
            places.append((times.astype("f8") - span[0]) / (span[1] - span[0]))
        return places, _BETWEEN if self._series[path][0] == _IRREGULAR else ""

    # ---- units ------------------------------------------------------------------------------------------------------

    def _spikes(self, path: str) -> str:
        """Return the spikes of a table of units: how many in each part of the time, a row for each unit."""
        reader = self._reader
        times, ends = reader.dataset(path, "spike_times"), reader.numbers(path, "spike_times_index")
        if times is None or ends is None or not ends.size or ends.dtype.kind == "f":
            return ""
        counts = np.diff(ends.astype("i8"), prepend=0)
        if (counts < 0).any() or ends[-1] > times[1].stored.size:
            self._remark("the index of the spikes is not in order, or leads out of them", path)
            return ""
        if not counts.all():
            self._remark("units have no spikes", path, f"{np.count_nonzero(counts == 0):,} of {len(counts):,}")
        shown, drawing = min(_UNITS, len(counts)), '<p class="soft">not drawn</p>'
        while shown and reader.cost(times[1], (slice(0, int(ends[shown - 1])),)) > reader.share(4):
            shown //= 2
        spikes = reader.numbers(path, "spike_times", slice(0, int(ends[shown - 1]))) if shown else None
        if spikes is not None and spikes.size and np.isfinite(spikes).all():
            unit, bins = np.repeat(np.arange(shown), counts[:shown]), _POINTS // 2
            low, high = float(spikes.min()), float(spikes.max())
            back = int((np.diff(spikes)[np.diff(unit) == 0] < 0).sum())
            if low < 0:
                self._remark("spikes are before the session", path, f"from {low:,.6g} s")
            if back:
                self._remark("spike times of a unit are not in order", path, f"{counted(back, 'step')} back")
            place = ((spikes - low) * (bins / (high - low or 1))).astype("i8").clip(0, bins - 1)
            table = np.bincount(unit * bins + place, minlength=shown * bins).reshape(shown, bins)
            pixels = np.empty((shown, bins, 4), "u1")
            # one colour, opaque by number: it is seen on light and dark
            pixels[:], pixels[..., 3] = (47, 124, 224, 0), np.sqrt(table / table.max()) * 255
            part = f"the first {shown:,} of {len(counts):,} units" if shown < len(counts) else "a row is a unit"
            part += f"; {duration_text((high - low) / bins)} a column, stronger with more spikes"
            drawing = png(pixels, f"spikes of {counted(shown, 'unit')}", "raster") + _axis((low, high), part)
        spread = f"{counts.min():,} to {counts.max():,} in a unit, median {np.median(counts):,.6g}"
        return _card(path, [counted(len(counts), "unit"), counted(int(ends[-1]), "spike"), spread], drawing)

    # ---- images -----------------------------------------------------------------------------------------------------

    def _image(self, path: str) -> str:
        node = self._reader.hierarchy.array(path)
        return _card(path, [data_type_of(node) or "", _form(node)], self._frame(path, node))

    def _frame(self, path: str, node: Dataset, *first: slice) -> str:
        """Return an image, or the ``first`` frame of a series; of a volume, the first plane."""
        if not node.stored.size:
            return ""
        cost = self._reader.cost(node, first)
        values = self._reader.read(path, *first) if cost <= self._reader.share(4) else None
        frame = values[0] if values is not None and first else values
        if frame is None or frame.ndim not in (2, 3) or frame.dtype.kind not in "iufb":
            return f'<p class="soft">not drawn, {size_text(cost)}</p>'
        is_coloured = frame.ndim == 3 and frame.shape[2] in (3, 4)
        frame = frame[:, :, 0] if frame.ndim == 3 and not is_coloured else frame
        step = max(1, -(-max(frame.shape[:2]) // _PIXELS))
        # by the schema the first axis is x; images that are not series have rows first, as other programs show them
        shown = (frame.swapaxes(0, 1) if first else frame)[::step, ::step].astype("f8")
        known = shown[np.isfinite(shown)]
        is_scaled = known.size and not (is_coloured and frame.dtype == np.uint8)
        low, high = np.percentile(known, [1, 99]) if is_scaled else (0.0, 255.0)
        pixels = (np.nan_to_num(shown - low) * (255 / (high - low or 1))).clip(0, 255).astype("u1")
        notes = ["first frame" if first else "image", f"every {step} pixels" if step > 1 else ""]
        notes += [f"black {low:.5g}, white {high:.5g}"] if is_scaled else []
        return f'{png(pixels, notes[0], "frame")}<p class="soft">{", ".join(filter(None, notes))}</p>'

    # ---- tables -----------------------------------------------------------------------------------------------------

    def _table(self, path: str) -> str:
        """Return the first rows of a table, and what its columns are."""
        group, ids = self._reader.hierarchy.get(path), self._reader.dataset(path, "id")
        names = getattr(group, "attributes", {})["colnames"]
        names = [name for name in (names if isinstance(names, list) else [names]) if isinstance(name, str)]
        rows = ids[1].stored.shape[0] if ids is not None and ids[1].stored.shape else 0
        numbers = self._reader.numbers(path, "id")
        if numbers is not None and (repeated := len(numbers) - len(np.unique(numbers))):
            self._remark("ids of rows repeat", path, f"{repeated:,} of {len(numbers):,}")
        series = self._reader.dataset(path, "timeseries")
        fits = series is not None and self._reader.cost(series[1]) <= self._reader.share(4)
        ranges = self._reader.read(series[0]) if series is not None and fits else None
        if ranges is not None and (outside := past_the_end(ranges, self._reader.resolver).total()):
            self._remark("references to samples that the series does not have", path, f"{outside:,} of {len(ranges):,}")
        cells = [self._cells(path, name, min(rows, _ROWS)) for name in names[:_COLUMNS]]
        head = "".join(f"<th>{escape(name)}</th>" for name in names[:_COLUMNS])
        body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in zip(*cells, strict=False))
        listed = ""
        for name in names:
            _, column = self._reader.dataset(path, name) or ("", None)
            about = f"{type_label(column)}: {column.attributes.get('description', '')}" if column else "missing"
            listed += f"<li><b>{escape(name)}</b> {escape(shortened(about))}</li>"
        title = counted(len(names), "column") + (f", {_COLUMNS} of them above" if len(names) > _COLUMNS else "")
        table = f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
        more = f"first {_ROWS} of {rows:,} rows" if rows > _ROWS else counted(rows, "row")
        columns = f"{table}<details><summary>{title}</summary><ul>{listed}</ul></details>"
        return _card(path, [data_type_of(group) or "", more], columns)

    def _cells(self, path: str, name: str, rows: int) -> list[str]:
        """Return the first cells of a column; those of a ragged one are lists."""
        column, index = self._reader.dataset(path, name), self._reader.dataset(path, f"{name}_index")
        first = None if column is None else self._reader.read((index or column)[0], slice(0, rows))
        is_index = index is None or (first is not None and first.ndim == 1 and first.dtype.kind in "iu")
        if first is None or column is None or not first.ndim or not is_index:
            return ["?"] * rows
        if index is None:
            return list(map(_cell, first))
        cells, length = [], (column[1].stored.shape or (0,))[0]
        for start, stop in pairwise([0, *map(int, first)]):
            end = min(stop, start + _ROWS, length)
            items: Any = self._reader.read(column[0], slice(start, end)) if 0 <= start < end else np.zeros(0)
            cells.append("?" if items is None else _cell(items, stop - start))
        return cells


# ---- parts of the session and of cards ------------------------------------------------------------------------------


def _subject(reader: NodeReader) -> str:
    texts = {name: reader.text(f"general/subject/{name}") for name in _SUBJECT}
    texts["sex"] = _SEXES.get(texts["sex"], texts["sex"])
    age, born = texts["age"], texts.pop("date_of_birth")
    match = _AGE.fullmatch(age)  # ISO 8601, such as P90D
    counts = () if match is None else zip(match.groups(), _PERIODS, strict=True)
    parts = [f"{number} {unit}{'' if number == '1' else 's'}" for number, unit in counts if number]
    if parts:
        texts["age"] = f"{' '.join(parts)} old"
    elif age:
        texts["age"] = f"age {age}"
    elif born:
        texts["age"] = f"born {born.partition('T')[0]}"
    return ", ".join(filter(None, texts.values()))


def _members(reader: NodeReader, path: str, about: str) -> str:
    """Return the objects at ``path``, each with a text that is one of its attributes or datasets."""
    names: list[str] = []
    for name, group in _groups_in(reader.hierarchy, path)[1].items():
        detail = group.attributes.get(about)
        if not isinstance(detail, str):  # each dataset may take a request, and only the first names are shown
            detail = reader.text(f"{path}/{name}/{about}") if len(names) < _NAMES else ""
        names.append(f"{name} ({detail})" if detail else name)
    return _listed(names)


def _groups_in(hierarchy: Hierarchy, path: str) -> tuple[dict[str, int], dict[str, Group]]:
    """Return the groups in a group by name: the tables, each as its number of rows, and the others that have a type."""
    node = hierarchy.get(path)
    tables: dict[str, int] = {}
    objects: dict[str, Group] = {}
    members = node.members if isinstance(node, Group) else {}
    for name in sorted(members, key=natural):
        member = members[name]
        if isinstance(member, Group):
            ids = member.members.get("id")  # each DynamicTable has a column of ids
            if isinstance(ids, Dataset) and ids.stored.shape:
                tables[name] = ids.stored.shape[0]
            elif "neurodata_type" in member.attributes:
                objects[name] = member
    return tables, objects


def _listed(names: list[str]) -> str:
    """Return names as a list, of which a long one ends in a number."""
    shown = [shortened(name) for name in names]
    if len(shown) <= _NAMES:
        return ", ".join(shown)
    return f"{', '.join(shown[: _NAMES - 1])} and {len(shown) - _NAMES + 1:,} more"


def _unit(node: Dataset) -> str:
    """Return the unit of data, empty if it has none, which files also write as ``n.a.``, ``N/A`` or ``-``."""
    unit = shown_attributes(node.attributes).get("unit")
    unit = unit[0] if isinstance(unit, list) and len(unit) == 1 else unit  # as in files of early releases of MatNWB
    return unit if isinstance(unit, str) and re.sub(r"[\s./-]", "", unit).lower() not in _NO_UNIT else ""


def _form(node: Dataset) -> str:
    return f"{lengths_text(describe_any(node).axes)} {type_label(node)}"


def _axis(span: Span | None, text: str) -> str:
    first, last = [f"{time:,.6g} s" for time in span] if span else ("", "")
    return f'<p class="axis"><span>{first}</span><span>{text}</span><span>{last}</span></p>'


def _card(path: str, facts: Sequence[str], drawing: str) -> str:
    about = escape(", ".join(filter(None, facts)))
    caption = f'<figcaption><b>{escape(absolute(path))}</b><br><span class="soft">{about}</span></figcaption>'
    return f"<figure>{caption}{drawing}</figure>"


def _cell(value: Any, length: int | None = None) -> str:
    """Return a value in a table as HTML; of an array the first items, and its ``length`` if there are more."""
    if isinstance(value, np.generic) or (isinstance(value, np.ndarray) and not value.ndim):
        value = value.item()
    if isinstance(value, np.ndarray | tuple):
        count = len(value) if length is None else length
        items = ", ".join(map(_cell, value[:_ROWS])) + (f", … {count:,} in all" if count > _ROWS else "")
        return f"({items})" if isinstance(value, tuple) else f"[{items}]"
    text = value.path or "" if isinstance(value, Target) else shortened(str(value), _CELL)
    return escape(f"{value:.6g}" if isinstance(value, float) else text)


# ---- a treemap of sizes ---------------------------------------------------------------------------------------------

_TITLE = 16.0  # of a group, above its members
_LEAST = 3.0  # narrower rectangles are drawn as one
_COLOURS = 8
_LETTER = 6.6  # width of a letter of a label
Rectangle: TypeAlias = tuple[float, float, float, float]  # left, top, width and height, in pixels


def lay_out(sizes: Sequence[float], whole: Rectangle) -> list[Rectangle]:
    """Divide a rectangle into one for each size, with proportional areas; the largest size is first."""
    # the longer side is cut between two halves of the sizes, again and again: parts become about as wide as high
    if len(sizes) < 2:
        return [whole] * len(sizes)
    count, half, total = 1, sizes[0], sum(sizes) or 1.0
    while count < len(sizes) - 1 and half + sizes[count] / 2 < total / 2:
        half += sizes[count]
        count += 1
    x, y, width, height = whole
    if width >= height:
        cut = width * half / total
        parts = (x, y, cut, height), (x + cut, y, width - cut, height)
    else:
        cut = height * half / total
        parts = (x, y, width, cut), (x, y + cut, width, height - cut)
    return [*lay_out(sizes[:count], parts[0]), *lay_out(sizes[count:], parts[1])]


def treemap_svgs(root: Item) -> str:
    """Return the treemap of ``root`` in a wide and a narrow form, or that nothing is stored."""
    if root.sum.stored <= 0:
        return '<p class="soft">Nothing is stored in chunks.</p>'
    pictures = ""
    # two pictures, of which the style shows one: a phone would show the wide one with labels of 3 pixels
    for form, width, height in (("wide", 960.0, 420.0), ("narrow", 380.0, 460.0)):
        parts = "".join(_drawn(root, (0, 0, width, height)))
        box = f'viewBox="0 0 {width:.0f} {height:.0f}" role="img"'
        pictures += f'<div class="{form}"><svg class="treemap" {box}>{parts}</svg></div>'
    return pictures


def _drawn(root: Item, whole: Rectangle) -> Iterator[str]:
    """Yield the boxes of a tree of stored sizes, each before those in it; members too small for a box are combined."""
    pending = [(root, whole, 0, 0)]
    while pending:
        item, (x, y, width, height), level, colour = pending.pop()
        if level:
            about = "" if item.path.endswith(item.name) else f": {item.name}"
            title = f"{absolute(item.path)}{about}, {size_text(item.sum.stored)}"
            yield (
                f'<rect class="c{colour} l{min(level, 4)}" x="{x:.1f}" y="{y:.1f}" '
                f'width="{max(width - 1, 0.5):.1f}" height="{max(height - 1, 0.5):.1f}">'
                f"<title>{escape(title)}</title></rect>"
            )
            # SVG does not shorten text, and a page without scripts cannot measure it
            letters, label = int((width - 6) / _LETTER), f"{item.name} {size_text(item.sum.stored)}"
            if letters >= 4 and height >= _TITLE:
                if len(label) > letters:
                    label = item.name if len(item.name) <= letters else f"{item.name[: letters - 1]}…"
                yield f'<text x="{x + 4:.1f}" y="{y + 12:.1f}">{escape(label)}</text>'
            x, y, width, height = x + 1, y + _TITLE, width - 2, height - _TITLE
        if width < 2 * _LEAST or height < 2 * _LEAST:
            continue
        members = sorted((member for member in item.members if member.sum.stored), key=lambda each: -each.sum.stored)
        least = sum(member.sum.stored for member in members) * (_LEAST * _LEAST) / (width * height)
        small = [member for member in members if member.sum.stored < least]
        if len(small) > 1:  # thousands of datasets would be as many rectangles, all too thin to be seen
            rest = Item(f"{len(small):,} smaller ones", item.path, None, sum=sum_of(small))
            members = [*members[: len(members) - len(small)], rest]
        boxes = lay_out([member.sum.stored for member in members], (x, y, width, height))
        for number, (member, box) in enumerate(zip(members, boxes, strict=True)):
            pending.append((member, box, level + 1, number % _COLOURS if level == 0 else colour))


# ---- values ---------------------------------------------------------------------------------------------------------

_LANE = 60.0


def envelope_svg(lows: Values, highs: Values, labels: Sequence[str]) -> str:
    """Return a drawing of the least and greatest values, ``(channels, bins)``, pale where none were read (NaN)."""
    lanes = ""
    for low, high, label in zip(lows, highs, labels, strict=True):
        known = np.flatnonzero(~np.isnan(low))
        parts = ""
        if known.size:
            least, most = low[known].min() / 2, high[known].max() / 2  # the difference of halves is finite
            extent, middle = (_LANE - 4, 2.0) if most > least else (0.0, _LANE / 2)
            ys = [middle + (most - values / 2) / (most - least or 1.0) * extent for values in (high, low)]
            if known.size < len(low):
                parts = _band("pale", known, ys)
            for run in np.split(known, np.flatnonzero(np.diff(known) > 1) + 1):
                parts += _band("read", run, ys)
        box = f'viewBox="0 0 {len(low)} {_LANE:.0f}" preserveAspectRatio="none" role="img"'
        lanes += f'<p class="soft">{escape(label)}</p><svg class="envelope" {box}>{parts}</svg>'
    return lanes


def _number(node: Dataset, name: str, default: float) -> float:
    """Return an attribute that is a finite number, else ``default``."""
    value = node.attributes.get(name)
    with suppress(OverflowError):  # JSON has integers that are too large
        if isinstance(value, int | float) and math.isfinite(value):
            return float(value)
    return default


def _band(kind: str, places: npt.NDArray[np.intp], ys: Sequence[Values]) -> str:
    """Return the area between two lines at some bins."""
    xs = [places[0], *(places + 0.5), places[-1] + 1]  # the first and the last bin are as wide as the others
    top, bottom = ([values[places[0]], *values[places], values[places[-1]]] for values in ys)
    points = [*zip(xs, top, strict=True), *zip(xs[::-1], bottom[::-1], strict=True)]
    return f'<path class="{kind}" d="M{"L".join(f"{x:g} {y:.1f}" for x, y in points)}Z"/>'


def png(pixels: Values, text: str, kind: str) -> str:
    """Return an image element with ``uint8`` pixels: ``(rows, columns)`` in grey, with a third axis in RGB or RGBA."""
    rows, columns = pixels.shape[:2]
    colours = {2: 0, 3: 2}[pixels.ndim] if pixels.ndim == 2 or pixels.shape[2] == 3 else 6
    lines = b"".join(b"\0" + row.tobytes() for row in pixels)
    data = b"\x89PNG\r\n\x1a\n"
    header = struct.pack(">IIBBBBB", columns, rows, 8, colours, 0, 0, 0)
    for name, content in ((b"IHDR", header), (b"IDAT", zlib.compress(lines)), (b"IEND", b"")):
        data += struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))
    source = f"data:image/png;base64,{base64.b64encode(data).decode('ascii')}"
    return f'<img class="{kind}" alt="{escape(text)}" width="{columns}" height="{rows}" src="{source}">'
