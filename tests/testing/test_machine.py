"""Random histories of files, over formats and kinds of stores; and stores with a defect, which they find."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from hdmf_zarr_backend.stores.base import Store
from hdmf_zarr_backend.testing.machine import DivergenceError, run
from hdmf_zarr_backend.testing.setups import LocalSetup, Setup, ZipSetup
from tests.servers import S3Server

FORMATS = (2, 3, "both")
STEPS = int(os.environ.get("HDMF_ZARR_BACKEND_STEPS", "1000000"))
"""Steps of the long search, over all formats and stores."""

_FAST_STEPS = 560
_PARTS = 4

formats = pytest.mark.parametrize("zarr_format", FORMATS)
setups = pytest.mark.parametrize("setup", [Setup, LocalSetup, ZipSetup], ids=lambda setup: setup.name)


class S3Setup(Setup):
    """Files on an S3 server, which takes a request for each key."""

    name = "s3"

    def __init__(self, zarr_format: Any, server: S3Server) -> None:
        super().__init__(zarr_format)
        self.options = {"storage_options": server.direct_options}
        self._server = server
        self._number = 0

    def new_place(self) -> str:
        self._number += 1
        return self._server.url(f"folder/{self._number}")


def taken(setup: Setup, steps: int, seed: int, record_property: Any) -> None:
    """Take steps, and record how many."""
    count = run(setup, steps, seed=seed)
    record_property(f"steps of {setup!r}, seed {seed}", count)
    assert count >= steps


@formats
@setups
def test_histories(setup, zarr_format, record_property):
    taken(setup(zarr_format), _FAST_STEPS, 0, record_property)


@formats
def test_histories_on_a_server(zarr_format, s3, record_property):
    taken(S3Setup(zarr_format, s3), 30, 0, record_property)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(_PARTS))
@formats
@setups
def test_long_histories(setup, zarr_format, part, record_property):
    """A million steps; each run takes others."""
    taken(setup(zarr_format), STEPS // (9 * _PARTS), secrets.randbelow(2**31), record_property)


@pytest.mark.slow
@formats
def test_long_histories_on_a_server(zarr_format, s3, record_property):
    taken(S3Setup(zarr_format, s3), STEPS // 500, secrets.randbelow(2**31), record_property)


def test_a_seed_takes_the_same_steps():
    assert run(Setup(2), 300, seed=3) == run(Setup(2), 300, seed=3)


def test_without_hypothesis_the_error_says_what_to_install():
    source = str(Path(sys.modules[Setup.__module__].__file__ or "").parents[2])
    code = f"""
import sys
sys.path.insert(0, {source!r})
sys.modules["hypothesis"] = None
try:
    import hdmf_zarr_backend.testing.machine
except ModuleNotFoundError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install hypothesis" in done.stdout


# ---- stores with a defect --------------------------------------------------------------------------------------------


class Toy(Store):
    """A store of a plain dict."""

    def __init__(self, values: dict[str, bytes]) -> None:
        self.values = values
        self.location = f"toy://{id(values)}"

    def get(self, key: str) -> bytes | None:
        return self.values.get(key)

    def set(self, key: str, value: bytes) -> None:
        self.values[key] = value

    def delete(self, keys: Iterable[str]) -> None:
        for key in keys:
            self.values.pop(key, None)

    def sizes(self, prefix: str) -> dict[str, int]:
        start = f"{prefix}/" if prefix else ""
        return {key: len(value) for key, value in self.values.items() if key.startswith(start)}

    def exists(self) -> bool:
        return bool(self.values)


class LosesPuts(Toy):
    """It loses each put of a chunk whose key is there already."""

    def set(self, key: str, value: bytes) -> None:
        if key not in self.values or not key[-1].isdigit():
            super().set(key, value)


class DeletesNothing(Toy):
    """It deletes no chunk."""

    def delete(self, keys: Iterable[str]) -> None:
        super().delete(key for key in keys if not key[-1].isdigit())


class SetsHalf(Toy):
    """It cuts long values."""

    def set(self, key: str, value: bytes) -> None:
        super().set(key, value[:3000])


class ToySetup(Setup):
    """Files in a toy store."""

    name = "toy"
    kind: type[Toy] = Toy

    def given(self, place: Any) -> Toy:
        return self.kind(place)


def test_a_store_of_ones_own():
    assert run(ToySetup(2), 300) >= 300


@pytest.mark.parametrize("kind", [LosesPuts, DeletesNothing, SetsHalf], ids=lambda kind: kind.__name__)
def test_a_defect_of_a_store_is_found(kind):
    setup = ToySetup(2)
    setup.kind = kind
    with pytest.raises(DivergenceError):
        run(setup, 3000, is_shrunk=False)
