"""Random histories of files, over formats and kinds of stores; and stores with a defect, which they find.

``nox -s slow`` runs `HISTORIES` with new seeds; any number over some formats and stores is run by::

    HDMF_ZARR_BACKEND_HISTORIES=2000 pytest -n 2 -m slow tests/machine -k "local and both"

An error has the steps of its history in its notes. Write it as a plain test into the module of what was wrong.
"""

import os
import secrets
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from hdmf_zarr_backend import ZarrBackendError
from tests.keystores import DictStore
from tests.machine.machine import FileMachine, LocalSetup, Setup, ZipSetup
from tests.servers import S3Server

HISTORIES = int(os.environ.get("HDMF_ZARR_BACKEND_HISTORIES", "20000"))
"""Histories of the long search, over all formats and stores."""

_STEPS = 50
_PARTS = 4

formats = pytest.mark.parametrize("zarr_format", (2, 3, "both"))
setups = pytest.mark.parametrize("setup", [Setup, LocalSetup, ZipSetup], ids=lambda setup: setup.name)


class S3Setup(Setup):
    name = "s3"

    def __init__(self, zarr_format: Any, server: S3Server) -> None:
        super().__init__(zarr_format)
        self.storage_options = server.direct_options
        self._server = server
        self._number = 0

    def new_place(self) -> str:
        self._number += 1
        return self._server.url(f"folder/{self._number}")


def run(setup: Setup, histories: int, *, start: int = 0, steps: int = _STEPS) -> None:
    """Run histories; the same start takes the same steps. An error has the steps in its notes."""
    machine = type("Machine", (FileMachine,), {"setup": setup})
    chosen = settings(
        max_examples=histories, stateful_step_count=steps, deadline=None, database=None, derandomize=False,
        phases=(Phase.generate,), suppress_health_check=list(HealthCheck), print_blob=False, report_multiple_bugs=False,
    )  # fmt: skip
    run_state_machine_as_test(seed(start)(machine), settings=chosen)


@formats
@setups
def test_histories(setup, zarr_format):
    run(setup(zarr_format), 12)


@formats
def test_histories_on_a_server(zarr_format, s3):
    run(S3Setup(zarr_format, s3), 1, steps=30)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(_PARTS))
@formats
@setups
def test_long_histories(setup, zarr_format, part):
    """Each run takes others."""
    run(setup(zarr_format), HISTORIES // (9 * _PARTS), start=secrets.randbelow(2**31))


@pytest.mark.slow
@formats
def test_long_histories_on_a_server(zarr_format, s3):
    run(S3Setup(zarr_format, s3), HISTORIES // 500, start=secrets.randbelow(2**31))


class Toy(DictStore):
    def __init__(self, values: dict[str, bytes]) -> None:
        super().__init__(f"toy://{id(values)}")
        self.values = values


class LosesPuts(Toy):
    def _set(self, key: str, value: bytes) -> None:
        if key not in self.values or not key[-1].isdigit():  # a chunk that is there stays as it is
            super()._set(key, value)


class DeletesNoChunk(Toy):
    def _delete(self, keys: Iterable[str]) -> None:
        super()._delete(key for key in keys if not key[-1].isdigit())


class SetsHalf(Toy):
    def _set(self, key: str, value: bytes) -> None:
        super()._set(key, value[:3000])


class ToySetup(Setup):
    name = "toy"
    kind: type[Toy] = Toy

    def given(self, place: Any) -> Toy:
        return self.kind(place)


def test_a_store_of_ones_own():
    run(ToySetup(2), 6)


@pytest.mark.parametrize("kind", [LosesPuts, DeletesNoChunk, SetsHalf], ids=lambda kind: kind.__name__)
def test_a_defect_of_a_store_is_found(kind):
    setup = ToySetup(2)
    setup.kind = kind
    with pytest.raises((AssertionError, ZarrBackendError, Warning)):
        run(setup, 60)
