"""Servers that are not there, are busy, or answer wrongly: one error of ours, soon, and nothing is lost."""

from __future__ import annotations

import contextlib
import json
import os
import time
import warnings
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hdmf_zarr_backend import ZarrIO, convert
from hdmf_zarr_backend.errors import StoreUnreachableError, ZarrBackendError
from tests import trees
from tests.faults.badserver import ANSWERS, bad_server

OF_FSSPEC = {"headers": {"X-Test": "yes"}}
"""An option in the words of fsspec."""

NOBODY = ["http://127.0.0.1:1", "http://nobody.invalid"]
QUICK = {"retry_config": {"max_retries": 2, "backoff": {"init_backoff": timedelta(seconds=0.02)}}}
IMPATIENT = {**QUICK, "client_options": {"timeout": "2s"}}


@pytest.fixture(autouse=True)
def _within_minutes() -> Iterator[None]:
    """Make sure that nobody waits as long as the server does, which is silent for a quarter of an hour."""
    start = time.monotonic()
    yield
    assert time.monotonic() - start < 600


# ---- nobody is there ------------------------------------------------------------------------------------------------
S3 = {"key": "x", "secret": "y", "endpoint_url": NOBODY[0]}


@pytest.mark.parametrize(("place", "options", "mode"), [
    *((f"{server}/a.zarr", options, "r") for server in NOBODY for options in ({}, OF_FSSPEC)),
    *(("s3://bucket/a.zarr", options, mode) for options in (S3, {**S3, "use_ssl": False}) for mode in "rw"),
], ids=str)  # fmt: skip
def test_a_server_that_is_not_there_fails_at_once(place: str, options: dict[str, Any], mode: Any) -> None:
    if "use_ssl" in options:
        pytest.importorskip("s3fs")
    with pytest.raises(StoreUnreachableError) as caught:
        ZarrIO(place, mode, storage_options=options).read_builder()
    assert caught.value.store == place
    assert caught.value.remedy == "Check the address and whether the server is up, then try again."  # nothing was read


@pytest.mark.parametrize("server", NOBODY)
def test_an_hdf5_file_on_a_server_that_is_not_there_fails_at_once(server: str, tmp_path: Path) -> None:
    with pytest.raises(StoreUnreachableError):
        convert(f"{server}/a.nwb", tmp_path / "a.nwb.zarr.json", to="virtual")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("server", NOBODY)
def test_a_dead_link_in_a_local_file_costs_no_time(server: str, tmp_path: Path) -> None:
    """The rest of the file is read, and the link is told."""
    path = tmp_path / "a.zarr"
    trees.write_builder(path, trees.root(trees.dataset("x", np.arange(3))))
    link = {"name": "gone", "source": f"{server}/b.zarr", "path": "/x", "object_id": None, "source_object_id": None}
    (path / ".zattrs").write_text(json.dumps({"zarr_link": [link]}))
    with warnings.catch_warnings(record=True) as told, ZarrIO(path, "r-") as io:
        warnings.simplefilter("always")
        assert io.read_builder()["x"].data[:].tolist() == [0, 1, 2]
    assert any(server in str(entry.message) for entry in told)


# ---- somebody is there, who is busy ---------------------------------------------------------------------------------
@pytest.mark.parametrize("answer", ["status-500", "status-429", "reset", "nothing"])
@pytest.mark.parametrize("options", [{}, OF_FSSPEC], ids=["obstore", "fsspec"])
def test_options_say_how_often_a_request_is_sent(answer: str, options: dict[str, Any]) -> None:
    counts = []
    for most in (0, 3):
        asked: list[float] = []
        with bad_server(answer, asked) as server, pytest.raises(StoreUnreachableError):
            retries = {"max_retries": most, "backoff": {"init_backoff": timedelta(seconds=0.01)}}
            ZarrIO(f"{server}/a.zarr", "r", storage_options={**options, "retry_config": retries})
        counts.append(len(asked))
    assert counts[1] > counts[0] >= 1


@pytest.mark.parametrize("options", [{}, OF_FSSPEC], ids=["obstore", "fsspec"])
@pytest.mark.parametrize("duration", [0.2, timedelta(seconds=0.2)], ids=["seconds", "timedelta"])
def test_options_say_how_long_a_request_is_repeated(duration: Any, options: dict[str, Any]) -> None:
    retries = {"retry_timeout": duration, "backoff": {"init_backoff": 0.01, "max_backoff": duration}}
    asked: list[float] = []
    with bad_server("status-500", asked) as server, pytest.raises(StoreUnreachableError):
        ZarrIO(f"{server}/a.zarr", "r", storage_options={**options, "retry_config": retries})
    assert len(asked) < 40  # in ten seconds, the default, it is more


@pytest.mark.parametrize(
    "config", [{"max_retries": "often"}, {"backoff": 3}, 7, {"retry_timeout": "long"}, {"retry_timeout": 1e300}]
)
def test_bounds_that_cannot_be_used_are_refused(config: Any) -> None:
    with pytest.raises(ZarrBackendError, match="retry_config"):
        ZarrIO("http://127.0.0.1:1/a.zarr", "r", storage_options={"retry_config": config})


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, OF_FSSPEC], ids=["obstore", "fsspec"])
def test_a_busy_server_is_waited_for_about_ten_seconds(options: dict[str, Any]) -> None:
    with bad_server("status-500") as server, pytest.raises(StoreUnreachableError):
        start = time.monotonic()
        ZarrIO(f"{server}/a.zarr", "r", storage_options=options)
    assert 8 < time.monotonic() - start < 600


# ---- answers that are wrong -----------------------------------------------------------------------------------------
LONG = ("silent", "slow", "endless", "gzip-bomb", "endless-headers")
"""Answers that take a while to be given up."""


@pytest.mark.parametrize("answer", [pytest.param(name, marks=[pytest.mark.slow] * (name in LONG)) for name in ANSWERS])
@pytest.mark.parametrize("kind", ["obstore", "fsspec", "zip", "hdf5"])
def test_a_wrong_answer_is_one_error_and_no_hang(answer: str, kind: str, tmp_path: Path) -> None:
    options = IMPATIENT
    if kind == "fsspec":
        timeout = pytest.importorskip("aiohttp").ClientTimeout(total=5)
        options = {**QUICK, **OF_FSSPEC, "client_kwargs": {"timeout": timeout}}
    with bad_server(answer) as server, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of documents that are not JSON
        with pytest.raises(ZarrBackendError) as caught:
            if kind == "hdf5":
                target = tmp_path / "a.nwb.zarr.json"
                convert(f"{server}/a.nwb", target, to="virtual", storage_options=options)
            else:
                suffix = ".zip" if kind == "zip" else ""
                ZarrIO(f"{server}/a.zarr{suffix}", "r", storage_options=options).read_builder()
        assert caught.value.problem
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("answer", ["status-500", "shorter-than-said", "no-http", "redirect-loop"])
def test_a_conversion_from_a_bad_server_leaves_the_target_alone(answer: str, tmp_path: Path) -> None:
    target = tmp_path / "a.nwb.zarr"
    trees.write_builder(target, trees.root(trees.dataset("x", np.arange(3))))
    with bad_server(answer) as server, contextlib.suppress(ZarrBackendError):
        convert(f"{server}/a.zarr", target, zarr_format=3, storage_options=IMPATIENT, check=False)
        pytest.fail("it has converted nothing")
    assert trees.read_builder(target, "r")["x"].data[:].tolist() == [0, 1, 2]
    assert os.listdir(tmp_path) == ["a.nwb.zarr"]
