"""The benchmarks run (in their quick form: tiny sizes), and their verdicts have the documented meaning."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from benchmarks.bench_before import report
from benchmarks.harness.buckets import BucketServer
from benchmarks.harness.cases_page import CaseFigures, tables
from benchmarks.harness.engines import BASE, NAMES, OURS, OURS_3
from benchmarks.harness.interleave import Results
from benchmarks.harness.meter import Meter
from benchmarks.harness.targets import Cell, Figures, Target, judge
from benchmarks.workloads.catalog import WORKLOADS
from tests.servers import serving


@pytest.fixture
def bench(pytestconfig):
    def run(*options):
        command = [sys.executable, pytestconfig.rootpath / "benchmarks" / "bench_backends.py", *options]
        return subprocess.run(command, capture_output=True, text=True, encoding="utf-8", timeout=900, check=False)

    return run


@pytest.mark.slow
def test_the_quick_form_runs_without_peers(bench, tmp_path):
    answer = bench("--quick", "--only", "W5", "--engines", "ours,files", "--docs", tmp_path)
    assert answer.returncode == 0, answer.stderr
    assert "| 100,000 strings + ragged: write |" in answer.stdout
    assert (tmp_path / "performance.svg").read_text().startswith("<svg")
    text = (tmp_path / "performance-figures.inc").read_text()
    assert "this package" in text
    assert str(tmp_path) not in text


@pytest.mark.slow
@pytest.mark.peer
def test_the_quick_form_runs_with_all_engines(bench, peer013, peer014, tmp_path):
    answer = bench("--quick", "--docs", tmp_path)
    assert answer.returncode == 0, answer.stderr
    assert "failed:" not in answer.stdout
    for workload in WORKLOADS.values():
        assert f"### {workload.title} ({workload.name})" in answer.stdout


def test_each_workload_has_work_for_this_package():
    for workload in WORKLOADS.values():
        for phase in workload.phases:
            assert phase.work.keys() <= {*NAMES, "backend"}, phase.name
        assert any({OURS, OURS_3, "backend"} & phase.work.keys() for phase in workload.phases)


def judged(ours, base, limit, **options):
    """Return the line of a target whose figures are these."""
    results = Results(len(ours))
    for turn, (one, other) in enumerate(zip(ours, base, strict=True)):
        for engine, seconds in ((OURS, one), (BASE, other)):
            results.add(("write", 10, engine), turn, {"status": "done", "cpu": seconds})
    target = Target("work", Cell("W", "write"), limit, Cell("W", "write", BASE), **options)
    return judge(target, Figures({"W": results}, {"W": (10,)}))


@pytest.mark.parametrize(
    ("ours", "limit", "verdict"),
    [
        ([1.0, 1.1, 1.2, 1.1, 1.0], 0.6, "met"),
        ([1.0, 1.1, 1.4, 1.1, 1.0], 0.6, "not shown"),  # one round of five is on the other side
        ([1.3, 1.4, 1.4, 1.5, 1.6], 0.6, "missed"),
        ([1.0, 1.0, 1.0, 1.0], 0.6, "not shown"),  # fewer rounds than a verdict takes
    ],
)
def test_a_target_within_the_spread_is_not_shown(ours, limit, verdict):
    assert judged(ours, [2.0] * len(ours), limit).verdict == verdict


def test_a_target_can_be_a_least():
    assert judged([1.8] * 5, [1.0] * 5, 1.7, at_least=True).verdict == "met"


def test_what_could_not_be_measured_says_why():
    results = Results(5)
    results.add(("write", 10, OURS), 0, {"status": "unsupported", "reason": "not yet"})
    target = Target("work", Cell("W", "write"), 1.0, Cell("W", "write", BASE))
    line = judge(target, Figures({"W": results}, {"W": (10,)}))
    assert (line.verdict, line.reason) == ("no figure", "unsupported: not yet")


def test_operations_on_files_are_counted(tmp_path):
    here = tmp_path / "here"
    here.mkdir()
    meter = Meter(enabled=True, count_below=here)
    with meter.measured():
        (here / "a").write_bytes(b"1")
        (here / "a").read_bytes()
        (here / "folder").mkdir()
        (here / "a").rename(here / "b")
        (tmp_path / "elsewhere").write_bytes(b"1")
    (here / "c").write_bytes(b"1")
    assert meter.operations == {"write": 1, "read": 1, "mkdir": 1, "rename": 1}


@pytest.fixture
def bucket(tmp_path):
    """A client of the S3 server of the benchmarks, and the server."""
    from obstore.store import S3Store

    (tmp_path / "bucket").mkdir()
    with serving(BucketServer(tmp_path)) as server:
        endpoint = f"http://127.0.0.1:{server.server_address[1]}"
        options = {"access_key_id": "k", "secret_access_key": "s", "region": "us-east-1"}
        yield S3Store("bucket", endpoint=endpoint, client_options={"allow_http": True}, **options), server


def test_the_bucket_server_holds_objects(bucket):
    store, server = bucket
    store.put("a/b & c", b"0123456789")
    store.put("a/d/e", b"")
    assert bytes(store.get("a/b & c").bytes()) == b"0123456789"
    assert bytes(store.get_range("a/b & c", start=2, end=4)) == b"23"
    assert store.head("a/b & c")["size"] == 10
    with pytest.raises(FileNotFoundError):
        store.get("a/x")
    with pytest.raises(FileNotFoundError):
        store.head("a")
    assert server.requests == 7
    assert server.sent >= 12
    store.delete(["a/b & c", "a/d/e"])
    assert [entry["path"] for page in store.list("a") for entry in page] == []


@pytest.mark.parametrize(
    ("ratios", "limit", "is_slow"),
    [
        ((1.0, 1.09, 1.4), 1.1, False),  # the median decides
        ((1.0, 1.12, 1.4), 1.1, True),
        ((1.0, 1.07, 1.4), None, True),  # 1.05 unless a limit is given
    ],
)
def test_a_change_may_not_take_longer_than_the_limit(capsys, ratios, limit, is_slow):
    def figures(seconds):
        return {clock: {"first": seconds, "again": seconds} for clock in ("cpu", "wall")}

    taken = {"write": [{"before": figures(2.0), "now": figures(2.0 * ratio)} for ratio in ratios]}
    assert bool(report(taken, {"before": 92, "now": 92}, limit)) is is_slow
    assert f"{ratios[1]:.2f}" in capsys.readouterr().out


@pytest.mark.slow
def test_the_cases_of_nwb_benchmarks_are_read_without_peers(pytestconfig, tmp_path):
    script = pytestconfig.rootpath / "benchmarks" / "bench_nwb.py"
    options = ["--quick", "--only", "icephys", "--programs", "ours;ours, virtual;HDF5, fsspec"]
    command = [sys.executable, script, *options, "--records", tmp_path / "records.json"]
    answer = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", timeout=600, check=False)
    assert answer.returncode == 0, answer.stderr
    assert "| icephys | this package, format 2 |" in answer.stdout
    records = json.loads((tmp_path / "records.json").read_text())
    opened = {
        each["engine"]: each["requests"] for each in records if (each["place"], each["task"]) == ("remote", "open")
    }
    assert (opened["ours"], opened["ours, virtual"]) == (2, 1)
    sliced = [each["requests"] for each in records if (each["engine"], each["place"]) == ("ours", "remote")][1:]
    assert sliced == [1, 2, 3, 4, 5]


def case_records(**seconds):
    """Return records of one case: opening in these seconds, and slices in a tenth of them."""
    return [
        {"case": "ecephys", "engine": engine, "place": place, "task": task, "delay": delay,
         "cpu": value * share, "wall": value * share, "requests": 3, "bytes": 2_000_000}
        for engine, value in seconds.items()
        for place, delay in (("local", 0.0), ("remote", 0.1))
        for task, share in (("open", 1.0), ("slice 1", 0.1), ("slice 5", 0.1))
    ]  # fmt: skip


def test_a_case_in_which_another_program_is_faster_is_named():
    text = tables(CaseFigures(case_records(ours=1.0, LINDI=2.0)))
    assert "- opening remote files: this package is first in 1 of 1\n" in text
    assert "| ecephys | LINDI (HDF5) | 2000 | 3 | 2.0 | 2 |" in text
    text = tables(CaseFigures(case_records(ours=1.0, LINDI=0.8)))
    assert "- opening remote files: this package is first in 0 of 1; LINDI (HDF5) (ecephys) in 1\n" in text
    nearly = tables(CaseFigures(case_records(ours=1.0, LINDI=0.95)))
    assert "- opening remote files: this package is first in 1 of 1\n" in nearly
