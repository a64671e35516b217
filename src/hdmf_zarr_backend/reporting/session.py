"""`session_of`: the session in an NWB file as labels and texts: subject, times, devices, electrodes, units.

Source: NWB schema 2.9, ``NWBFile``, ``Subject``, ``TimeSeries`` and ``DynamicTable``; ISO 8601, durations.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from hdmf_zarr_backend.encoding.reserved import data_type_of
from hdmf_zarr_backend.model.nodes import Dataset, Group, Hierarchy, join, split
from hdmf_zarr_backend.model.render import counted, natural
from hdmf_zarr_backend.reporting.data import NodeReader, Span, duration_text, is_small, shortened

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
_MEMBERS: Final = (
    ("Devices", "general/devices", "manufacturer"),
    ("Intracellular electrodes", "general/intracellular_ephys", "location"),
    ("Imaging planes", "general/optophysiology", "location"),
    ("Optogenetic sites", "general/optogenetics", "location"),
)
_AGE = re.compile(r"P(?:([\d.]+)Y)?(?:([\d.]+)M)?(?:([\d.]+)W)?(?:([\d.]+)D)?")
_UNITS: Final = ("year", "month", "week", "day")


def session_of(reader: NodeReader, spans: Sequence[Span | None], intervals: Sequence[Span]) -> list[tuple[str, str]]:
    """Return the session in an NWB file; the times are those of its series and of its tables of intervals."""
    hierarchy, text = reader.hierarchy, reader.text
    root = hierarchy.root
    # NWB 1 has the version as a dataset
    is_named = root.attributes.get("neurodata_type") == "NWBFile" or "nwb_version" in root.attributes
    if not isinstance(root, Group) or not (is_named or "nwb_version" in root.members):
        return []
    paths = [_START, *(path for _, path in _TEXTS), *(f"general/subject/{name}" for name in _SUBJECT)]
    reader.prefetch([*paths, f"{_ELECTRODES}/location", "nwb_version"])
    # 2026-03-14T12:00:00.000000+00:00 as 2026-03-14 12:00:00+00:00
    start = re.sub(r"(?<=-\d\d)T", " ", text(_START))  # ISO 8601
    version, units = root.attributes.get("nwb_version"), _rows(hierarchy, "units")
    tables = [f"{split(path)[1]} ({n:,})" for path, n in _groups_in(hierarchy, "intervals").items() if n is not None]
    # between the first and the last sample of all time series, or of the intervals
    known = [span for span in spans if span is not None]
    of = f" of {len(spans):,}" if len(known) < len(spans) else ""
    where = f"{len(known):,}{of} time series" if known else f"{counted(len(intervals), 'table')} of intervals"
    recorded = ""
    if known := known or [*intervals]:
        first, last = min(start for start, _ in known), max(stop for _, stop in known)
        began, ended = (f"{time:,.3f}".rstrip("0").rstrip(".") for time in (first, last))
        recorded = f"{duration_text(last - first)}, from {began} s to {ended} s in {where}"
    electrodes = ""
    if (count := _rows(hierarchy, _ELECTRODES)) is not None:
        groups = [split(path)[1] for path in _objects_in(hierarchy, split(_ELECTRODES)[0])]
        electrodes = f"{count:,}" + (f" in {counted(len(groups), 'group')} ({_listed(groups)})" if groups else "")
        column = hierarchy.get(f"{_ELECTRODES}/location")
        is_known = isinstance(column, Dataset) and is_small(column.stored)
        values = reader.read(f"{_ELECTRODES}/location") if is_known else None
        names = sorted(set(map(str, () if values is None else values.reshape(-1).tolist())) - {""})
        electrodes += f"; location: {_listed(names)}" if names else ""
    parts = [
        ("Subject", _subject(reader)),
        ("Session start", re.sub(r"\.0+(?!\d)", "", start)),
        ("Recorded time", recorded),
        *((label, text(path)) for label, path in _TEXTS),
        *((label, _members(reader, path, about)) for label, path, about in _MEMBERS),
        ("Electrodes", electrodes),
        ("Units", "" if units is None else f"{units:,}"),
        ("Intervals", ", ".join(tables)),
        ("NWB version", shortened(version) if isinstance(version, str) else text("nwb_version")),
    ]
    return [(label, shown) for label, shown in parts if shown]


def kind_of(hierarchy: Hierarchy) -> str:
    """Return what a file is that is not an NWB file, as a sentence."""
    data_type, namespace = data_type_of(hierarchy.root), hierarchy.root.attributes.get("namespace")
    what = f"is a {data_type} of the namespace {namespace}" if data_type and namespace else "has no type"
    return f"This is not an NWB file: its root {what}."


def _subject(reader: NodeReader) -> str:
    texts = {name: reader.text(f"general/subject/{name}") for name in _SUBJECT}
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


def _members(reader: NodeReader, path: str, about: str) -> str:
    """Return the objects at ``path``, each with a text that is one of its attributes or datasets."""
    names: list[str] = []
    for member in _objects_in(reader.hierarchy, path):
        detail = reader.hierarchy.group(member).attributes.get(about)
        if not isinstance(detail, str):  # each dataset may take a request, and only the first names are shown
            detail = reader.text(f"{member}/{about}") if len(names) < _NAMES else ""
        names.append(f"{split(member)[1]} ({detail})" if detail else split(member)[1])
    return _listed(names)


def _rows(hierarchy: Hierarchy, path: str) -> int | None:
    """Return the number of rows of a table, or None without a table."""
    # each DynamicTable has a column of ids
    ids = hierarchy.get(f"{path}/id")
    return ids.stored.shape[0] if isinstance(ids, Dataset) and ids.stored.shape else None


def _groups_in(hierarchy: Hierarchy, path: str) -> dict[str, int | None]:
    """Return the groups in a group by their paths, with the number of rows of those that are tables."""
    node = hierarchy.get(path)
    members = node.members if isinstance(node, Group) else {}
    paths = [join(path, name) for name in sorted(members, key=natural) if isinstance(members[name], Group)]
    return {member: _rows(hierarchy, member) for member in paths}


def _objects_in(hierarchy: Hierarchy, path: str) -> list[str]:
    """Return the paths of the groups in a group that have a type, without tables."""
    others = [member for member, rows in _groups_in(hierarchy, path).items() if rows is None]
    return [member for member in others if "neurodata_type" in hierarchy.group(member).attributes]


def _listed(names: list[str]) -> str:
    """Return names as a list, of which a long one ends in a number."""
    shown = [shortened(name) for name in names]
    if len(shown) <= _NAMES:
        return ", ".join(shown)
    return f"{', '.join(shown[: _NAMES - 1])} and {len(shown) - _NAMES + 1:,} more"
