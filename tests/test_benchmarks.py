"""The benchmarks run (in their quick form: tiny sizes), and their verdicts have the documented meaning."""

import cProfile
import json
import subprocess
import sys
from contextlib import contextmanager
from pstats import Stats

import pytest

from benchmarks.bench_before import report
from benchmarks.harness.engines import BASE, NAMES, OURS, OURS_3, PEER_3
from benchmarks.harness.interleave import Results
from benchmarks.harness.job import Job
from benchmarks.harness.meter import Meter
from benchmarks.harness.targets import Cell, Figures, Target, judge
from benchmarks.workloads import scale
from benchmarks.workloads.catalog import WORKLOADS


@pytest.fixture
def bench(pytestconfig):
    """Runs a script in its quick form; what it returns has what was printed."""

    def run(script, *options):
        command = [sys.executable, pytestconfig.rootpath / "benchmarks" / f"bench_{script}.py", "--quick", *options]
        answer = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", timeout=900, check=False)
        assert answer.returncode == 0, answer.stdout + answer.stderr
        return answer

    return run


@pytest.mark.slow
def test_the_quick_form_runs_without_peers(bench, tmp_path):
    shown = bench("backends", "--only", "W5", "--engines", "ours,files", "--docs", tmp_path).stdout
    assert "| 100,000 strings + ragged: write |" in shown
    assert (tmp_path / "performance.svg").read_text().startswith("<svg")
    text = (tmp_path / "performance-figures.inc").read_text()
    assert "this package" in text
    assert str(tmp_path) not in text


@pytest.mark.peer
def test_other_programs_work_in_their_own_environments(bench, peer013, peer014):
    answer = bench("backends", "--only", "W5", "--engines", f"{BASE},{PEER_3}")
    assert f"| {BASE} |" in answer.stdout and f"| {PEER_3} |" in answer.stdout
    assert "failed:" not in answer.stdout + answer.stderr


@pytest.mark.slow
@pytest.mark.peer
def test_the_quick_form_runs_with_all_engines(bench, peer013, peer014, tmp_path):
    shown = bench("backends", "--docs", tmp_path).stdout
    assert "failed:" not in shown
    for workload in WORKLOADS.values():
        assert f"### {workload.title} ({workload.name})" in shown


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


@pytest.mark.parametrize(("ours", "limit", "verdict"), [
    ([1.0, 1.1, 1.2, 1.1, 1.0], 0.6, "met"),
    ([1.0, 1.1, 1.4, 1.1, 1.0], 0.6, "not shown"),  # one round of five is on the other side
    ([1.3, 1.4, 1.4, 1.5, 1.6], 0.6, "missed"),
    ([1.0, 1.0, 1.0, 1.0], 0.6, "not shown"),  # fewer rounds than a verdict takes
])  # fmt: skip
def test_a_target_within_the_spread_is_not_shown(ours, limit, verdict):
    assert judged(ours, [2.0] * len(ours), limit).verdict == verdict


@pytest.mark.parametrize(("ratios", "limit", "is_slow"), [
    ((1.0, 1.09, 1.4), 1.1, False),  # the median decides
    ((1.0, 1.12, 1.4), 1.1, True),
    ((1.0, 1.07, 1.4), None, True),  # 1.05 unless a limit is given
])  # fmt: skip
def test_a_change_may_not_take_longer_than_the_limit(capsys, ratios, limit, is_slow):
    def figures(seconds):
        return {clock: {"first": seconds, "again": seconds} for clock in ("cpu", "wall")}

    taken = {"write": [{"before": figures(2.0), "now": figures(2.0 * ratio)} for ratio in ratios]}
    assert bool(report(taken, {"before": 92, "now": 92}, limit)) is is_slow
    assert f"{ratios[1]:.2f}" in capsys.readouterr().out


@pytest.mark.slow
def test_the_cases_of_nwb_benchmarks_are_read_without_peers(bench, tmp_path):
    options = ["--only", "icephys", "--programs", "ours;ours, virtual;HDF5, fsspec"]
    shown = bench("nwb", *options, "--records", tmp_path / "records.json").stdout
    assert "| icephys | this package, format 2 |" in shown
    records = json.loads((tmp_path / "records.json").read_text())
    opened = {
        each["engine"]: each["requests"] for each in records if (each["place"], each["task"]) == ("remote", "open")
    }
    assert (opened["ours"], opened["ours, virtual"]) == (2, 1)
    sliced = [each["requests"] for each in records if (each["engine"], each["place"]) == ("ours", "remote")][1:]
    assert sliced == [1, 2, 3, 4, 5]


class CallMeter(Meter):
    """Counts the calls of functions, which unlike seconds are the same in each run."""

    @contextmanager
    def measured(self):
        with cProfile.Profile() as profile:
            yield
        self.figures["calls"] = Stats(profile).total_calls


GROWING = {"S1": (100, 2000), "S2": (20, 2000)}


@pytest.mark.parametrize(
    ("workload", "piece"),
    [(name, piece) for name in GROWING for piece in scale.PIECES if piece not in scale.SCANS[name]],
)
def test_what_is_not_a_scan_makes_as_many_calls_in_a_file_of_any_size(monkeypatch, tmp_path, workload, piece):
    small, large = GROWING[workload]
    monkeypatch.setattr(scale, "SERIES", 10)
    phases = {phase.name: phase for each in scale.WORKLOADS if each.name == workload for phase in each.phases}
    calls = []
    for size in (small, small, large):  # the first one fills caches
        meter = CallMeter(enabled=True)
        phases[piece].work[OURS](Job(size, tmp_path, tmp_path, meter))
        calls.append(meter.figures["calls"])
    assert calls[2] < 1.2 * calls[1]


@pytest.mark.slow
@pytest.mark.parametrize(("script", "said"), [
    ("readers", "20 readers: "), ("both", "write 10 series in both formats, by format 2: "), ("scale", "| open |"),
])  # fmt: skip
def test_a_benchmark_runs_in_its_quick_form(bench, script, said):
    found = bench(script).stdout.count(said)
    assert found == len(scale.WORKLOADS) if script == "scale" else found


@pytest.mark.slow
def test_a_cluster_converts_into_a_bucket(bench):
    pytest.importorskip("distributed")
    pytest.importorskip("moto")
    assert "cluster of two workers: " in bench("cluster").stdout
