"""Defects to plant in the file of `samples.rich_nwbfile`, each by a function that changes a draft."""

from __future__ import annotations

from collections.abc import Callable

from tests.checks.drafts import Draft

RAW = "acquisition/raw"
TRACE = "acquisition/trace"
LFP = "processing/ecephys/LFP"
PLANE = "general/optophysiology/plane"
SHANK = "general/extracellular_ephys/shank0"
CELLS = "processing/ophys/ImageSegmentation/cells"
TRIALS = "intervals/trials"
TRACK = "processing/behavior/Position/track"
ICEPHYS = "general/intracellular_ephys"

Plant = Callable[[Draft], object]


def retyped(path: str, data_type: str) -> Plant:
    """Give an object another type."""
    return lambda draft: draft.attributes(path).update(neurodata_type=data_type)


def without(path: str, name: str) -> Plant:
    """Take an attribute away."""
    return lambda draft: draft.attributes(path).pop(name)


def having(path: str, **attributes: object) -> Plant:
    """Set attributes, in the types of JSON."""

    def plant(draft: Draft) -> None:
        found = draft.attributes(path)
        for name in attributes:
            found.get("_nczarr_attr", {}).get("types", {}).pop(name, None)
        found.update(attributes)

    return plant


def _relink(draft: Draft, path: str, target: str) -> None:
    draft.links(path)[0].update(path=target, object_id=None)


def _relinked_times(draft: Draft) -> None:
    """Let a series link to time stamps without a unit, which lie where no rule leads."""
    draft.copy_node(f"{LFP}/lfp/timestamps", "scratch/times")
    del draft.attributes("scratch/times")["unit"]
    _relink(draft, TRACK, "/scratch/times")


def _linked_identifier(draft: Draft, target: str) -> None:
    draft.drop("identifier")
    draft.link("", "identifier", target)


#: name -> what is done; hdmf finds each of them
DEFECTS: dict[str, Plant] = {
    # what is missing
    "attribute of a group": without("processing/ecephys", "description"),
    "attribute of a dataset": without(f"{RAW}/data", "unit"),
    "attribute of a scalar": without(f"{TRACE}/starting_time", "rate"),
    "attribute of a column": without(f"{TRIALS}/start_time", "description"),
    "reference of a region": without(f"{RAW}/electrodes", "table"),
    "reference of an index": without("units/spike_times_index", "target"),
    "column names of a table": without("units", "colnames"),
    "version of the file": without("", "nwb_version"),
    "location of an electrode group": without(SHANK, "location"),
    "scalar dataset": lambda d: d.drop("identifier"),
    "data of a series": lambda d: d.drop(f"{RAW}/data"),
    "required group": lambda d: d.drop("acquisition"),
    "required group below": lambda d: d.drop("stimulus/templates"),
    "id of a table": lambda d: d.drop(f"{TRIALS}/id"),
    "required column": lambda d: d.drop(f"{TRIALS}/stop_time"),
    "required typed dataset": lambda d: d.drop(f"{RAW}/electrodes"),
    "one or more": lambda d: d.drop(f"{LFP}/lfp"),
    "one or more, of an imaging plane": lambda d: d.drop(f"{PLANE}/green"),
    "required link": lambda d: d.links(SHANK).clear(),
    "required link of a table": lambda d: d.links(CELLS).clear(),
    "link to nothing": lambda d: _relink(d, SHANK, "/general/devices/gone"),
    "reference to nothing": lambda d: d.refer(f"{RAW}/electrodes", "table", "/gone"),
    "group of a name": lambda d: d.drop(f"{ICEPHYS}/intracellular_recordings/stimuli"),
    # of the wrong type
    "number for text": having("processing/ecephys", description=5),
    "text for a number": having(f"{TRACE}/starting_time", rate="ten"),
    "bool for a number": having(f"{TRACE}/starting_time", rate=True),
    "integer for a float": having(f"{TRACE}/starting_time", rate=10, _nczarr_attr={"types": {"rate": "<i8"}}),
    "smaller float is fine, smaller integer is not": having(
        f"{RAW}/channel_conversion", axis=1, _nczarr_attr={"types": {"axis": "<i2"}}
    ),
    "text for a reference": having(f"{RAW}/electrodes", table="electrodes"),
    "reference for text": lambda d: d.refer("processing/ecephys", "description", "/units"),
    "list for a reference": having(f"{RAW}/electrodes", table=["a"]),
    "numbers for texts": lambda d: d.set_number("general/keywords", "<f8"),
    "texts for numbers": lambda d: d.set_text(f"{LFP}/lfp/timestamps", "general/keywords"),
    "float of half the size": lambda d: d.set_number(f"{LFP}/lfp/timestamps", "<f4"),
    "bool for numbers": lambda d: d.set_number(f"{RAW}/data", "|b1"),
    "texts for ids": lambda d: d.set_text(f"{TRIALS}/id", "general/keywords"),
    "float for rows": lambda d: d.set_number(f"{TRIALS}/timeseries", "<f8", shape=[6]),
    # of the wrong shape
    "scalar for a list": having("units", colnames="spike_times"),
    "axes too many": lambda d: d.set_shape(f"{LFP}/lfp/timestamps", [10, 10]),
    "axes too few": lambda d: d.set_shape("acquisition/pictures/colour", [7, 9]),
    "wrong length of an axis": lambda d: d.set_shape("acquisition/pictures/colour", [7, 9, 5]),
    "wrong length of the other axis": lambda d: d.set_shape("units/obs_intervals", [7, 3]),
    "array for a scalar is fine, axes too many are not": lambda d: d.set_shape("general/keywords", [2, 2]),
    # links and references to the wrong thing
    "link to another type": lambda d: _relink(d, SHANK, "/general/subject"),
    "link to a dataset": lambda d: _relink(d, SHANK, "/identifier"),
    "link to a table": lambda d: _relink(d, CELLS, "/units"),
    "reference to another type": lambda d: d.refer(f"{RAW}/electrodes", "table", "/acquisition/trace"),
    "reference to what has no type": lambda d: d.refer(f"{RAW}/electrodes", "table", "/general"),
    "index of no column": lambda d: d.refer("units/spike_times_index", "target", "/units"),
    # of the wrong kind
    "no type of this namespace at the root": retyped("", "Nothing"),
    "no type at all at the root": without("", "neurodata_type"),
    "a type that is not there, of a group with a name": retyped("general", "Elektrik"),
    "parent for child": retyped(f"{LFP}/lfp", "TimeSeries"),
    "child for parent asks for more": retyped(TRACE, "ElectricalSeries"),
    "type of a column": retyped(f"{TRIALS}/id", "VectorData"),
    "group for a dataset": lambda d: (d.drop("session_description"), d.add_group("session_description")),
    "dataset for a group": lambda d: (d.drop("acquisition"), d.copy_node("identifier", "acquisition")),
    "other file, other column": lambda d: d.move(f"{TRIALS}/start_time", f"{TRIALS}/begin"),
    # of a link, as if it were the object
    "defect behind a link": _relinked_times,
    "wrong type behind a link": lambda d: _linked_identifier(d, "/acquisition/raw/data"),
    # times
    "no time": lambda d: d.write_text("session_start_time", "yesterday"),
    "time of an impossible hour": lambda d: d.write_text("session_start_time", "2026-03-14T25:00:00Z"),
    "time without a zone": lambda d: d.write_text("general/subject/date_of_birth", "2026-03-14T12:00:00"),
    "date without a time": lambda d: d.write_text("timestamps_reference_time", "2026-03-14"),
}  # fmt: skip

#: name -> what is done; hdmf finds nothing wrong with it
HARMLESS: dict[str, Plant] = {
    "nothing": lambda d: None,
    "an attribute more": having(RAW, remark="good"),
    "a group more": lambda d: d.add_group("general/extra"),
    "an untyped dataset more": lambda d: d.copy_node("identifier", f"{RAW}/remark"),
    "a value that the schema fixes": having(f"{RAW}/data", unit="furlongs"),
    "a version that is another one": having("", nwb_version="1.0"),
    "optional attribute": without(TRACE, "comments"),
    "optional dataset": lambda d: d.drop("general/keywords"),
    "optional group": lambda d: d.drop("units"),
    "optional link": lambda d: d.attributes(f"{CELLS}/reference_images").clear(),
    "more precise numbers": lambda d: d.set_number(f"{RAW}/data", "<f8"),
    "fewer axes, which are allowed": lambda d: d.set_shape(f"{RAW}/data", [900]),
    "subtype for type": lambda d: _relink(d, CELLS, "/general/optophysiology/plane"),
    "a link for an object": lambda d: (d.move(f"{RAW}/data", "scratch/data"), d.link(RAW, "data", "/scratch/data")),
    "a second channel": lambda d: d.copy_node(f"{PLANE}/green", f"{PLANE}/red"),
    "another series": lambda d: d.copy_node(RAW, "acquisition/again"),
    "time in UTC": lambda d: d.write_text("session_start_time", "2026-03-14T12:00:00Z"),
    "a link for a required dataset": lambda d: _linked_identifier(d, "/session_description"),
    "image for a series": lambda d: _relink(d, f"{CELLS}/reference_images", "/acquisition/pictures/grey"),
    "a type that the group does not ask for": retyped(TRACE, "Device"),
    "a type that is not there": retyped(RAW, "Elektrik"),
    "an object without a type": without(TRACE, "neurodata_type"),
    "empty list": lambda d: d.attributes("units").update(colnames=[]),
}
