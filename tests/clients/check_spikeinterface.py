"""SpikeInterface on files of this package: recordings, sortings and intervals, as from HDF5."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import spikeinterface.extractors as se

from tests.clients.work import HDF5, report, same, written


def recording(path: Path, *, use_pynwb: bool) -> Any:
    found = se.read_nwb_recording(path, use_pynwb=use_pynwb)
    return found.get_traces(), found.get_channel_ids(), found.get_channel_gains()


def sorting(path: Path, *, use_pynwb: bool) -> Any:
    found = se.read_nwb_sorting(path, use_pynwb=use_pynwb, sampling_frequency=1000.0, t_start=0.0)
    return [found.get_unit_spike_train(unit) for unit in found.unit_ids], found.get_property("quality")


def intervals(path: Path, *, use_pynwb: bool) -> Any:
    found = se.NwbTimeIntervalsExtractor(path, table_path="intervals/trials", use_pynwb=use_pynwb)
    return found.get_event_times(0) if hasattr(found, "get_event_times") else found.get_num_channels()


def compare(work: Any, path: Path, original: Path, *, use_pynwb: bool) -> None:
    wanted = work(original, use_pynwb=use_pynwb)
    for one, other in zip(work(path, use_pynwb=use_pynwb), wanted, strict=True):
        same(one, other)


def main() -> None:
    with written() as files:
        for what, path in files.items():
            if what == HDF5:
                continue
            for work in (recording, sorting):
                for use_pynwb in (False, True):
                    task = f"{work.__name__}, use_pynwb={use_pynwb}"
                    report("spikeinterface", task, what, partial(compare, work, path, files[HDF5], use_pynwb=use_pynwb))


if __name__ == "__main__":
    main()
