"""What the real NWB files become is what it was: `tests/frozen.py` has the record, and the command that renews it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.frozen import RECORD, libraries, record_of


@pytest.mark.corpus
def test_real_files_become_the_same_bytes(some_nwbfiles: list[Path]) -> None:
    record = json.loads(RECORD.read_text())
    if record["libraries"] != libraries():
        pytest.skip(f"recorded with {record['libraries']}, and other releases may write other bytes")
    now = record_of(some_nwbfiles)
    known = {name: ways for name, ways in record["files"].items() if name in now}
    changed = {
        f"{name}, {way}": (digest, now[name].get(way))
        for name, ways in known.items()
        for way, digest in ways.items()
        if now[name].get(way) != digest
    }
    assert changed == {}
    assert known or os.environ.get("HDMF_ZARR_BACKEND_NWBFILES")
