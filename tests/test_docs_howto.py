"""The Python of the how-to guides runs as it stands there, prints what they say, and warns of nothing."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from pynwb import NWBFile, TimeSeries

from hdmf_zarr_backend import NWBZarrIO

HOW_TO = Path(__file__).resolve().parents[1] / "docs" / "how-to"
PAGES = sorted(path.name for path in HOW_TO.glob("*.md"))

_BLOCK = re.compile(r"^```(?P<language>[^\n]*)\n(?P<text>.*?)^```$", re.DOTALL | re.MULTILINE)
_MARK = "\x1e"


class Block(NamedTuple):
    """A piece of Python, and what the page says that it prints."""

    code: str
    output: str


def blocks(page: str) -> Iterator[Block]:
    """Yield the blocks of Python of a page; a block of text right after one is its output."""
    found = [match.groupdict() | {"start": match.start(), "end": match.end()} for match in _BLOCK.finditer(page)]
    found.append({"language": "", "start": len(page), "text": ""})
    for block, after in pairwise(found):
        if block["language"] == "python":
            adjacent = after["language"] == "text" and not page[block["end"] : after["start"]].strip()
            yield Block(block["text"], after["text"] if adjacent else "")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A working directory with the file that the guides speak of."""
    nwbfile = NWBFile(
        session_description="a session", identifier="session", session_start_time=datetime(2026, 3, 14, tzinfo=UTC)
    )
    device = nwbfile.create_device(name="probe")
    group = nwbfile.create_electrode_group(name="shank0", description="a shank", location="CA1", device=device)
    nwbfile.add_electrode(group=group, location="CA1")
    data = np.arange(1000, dtype="i2").reshape(500, 2)
    nwbfile.add_acquisition(TimeSeries(name="raw", data=data, unit="V", rate=1000.0))
    for start in (0.0, 2.0):
        nwbfile.add_trial(start_time=start, stop_time=start + 2.0)
        nwbfile.add_unit(spike_times=[start, start + 0.5])
    with NWBZarrIO(tmp_path / "session.nwb.zarr", "w") as io:
        io.write(nwbfile)
    return tmp_path


def test_there_are_guides():
    assert {"append.md", "links-and-references.md", "move-from-hdmf-zarr.md", "stores.md"} <= set(PAGES)


@pytest.mark.parametrize("name", PAGES)
def test_the_code_of_a_guide_runs(name, folder, s3):
    s3.make_bucket("my-bucket")
    found = list(blocks((HOW_TO / name).read_text(encoding="utf-8")))
    assert found, "a guide without code"
    script = folder / "guide.py"
    script.write_text("".join(f"{block.code}\nprint({_MARK!r})\n" for block in found), encoding="utf-8")
    # in a process of its own: guides change zarr and the table of modules
    command = [sys.executable, "-W", "error::UserWarning", script.name]
    answer = subprocess.run(
        command,
        cwd=folder,
        env=os.environ | {**s3.environment, "TMPDIR": str(folder)},
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    assert (answer.returncode, answer.stderr) == (0, "")
    printed = [part.lstrip("\n") for part in answer.stdout.split(_MARK)]
    for block, output in zip(found, printed, strict=False):
        assert output == block.output, block.code


def test_a_wrong_output_is_noticed():
    page = "```python\nprint(1)\n```\n\n```text\n2\n```\n\nWords.\n\n```text\nno output of any code\n```\n"
    assert list(blocks(page)) == [Block("print(1)\n", "2\n")]
