"""The peers have the releases that they name, and their failures are reported."""

from __future__ import annotations

import sys

import pytest

from tests.interpreters import find_python
from tests.peers import RECIPES, Peer, PeerError, PeerUnavailableError, obtain_peer

VERSIONS = """
import json, sys
from importlib.metadata import version
import hdmf_zarr
try:
    import hdmf_zarr_backend
except ModuleNotFoundError:
    ours = False
else:
    ours = True
print("anything before the last line")
print(json.dumps({"hdmf-zarr": version("hdmf-zarr"), "zarr": version("zarr"), "ours": ours, "arguments": sys.argv[1:]}))
"""


@pytest.mark.peer
@pytest.mark.parametrize(("name", "release", "zarr"), [("peer013", "0.13.0", "2.18."), ("peer014", "0.14.0", "3.")])
def test_a_peer_has_its_own_packages_and_none_of_ours(request, monkeypatch, pytestconfig, name, release, zarr):
    monkeypatch.setenv("PYTHONPATH", str(pytestconfig.rootpath / "src"))
    peer = request.getfixturevalue(name)
    answer = peer.run(VERSIONS, "a b", pytestconfig.rootpath)
    assert f"hdmf-zarr {answer['hdmf-zarr']}" == f"hdmf-zarr {release}" == peer.release
    assert answer["zarr"].startswith(zarr)
    assert answer["ours"] is False
    assert answer["arguments"] == ["a b", str(pytestconfig.rootpath)]


@pytest.fixture
def this_python() -> Peer:
    """Stands for a peer where only the running of scripts matters."""
    return Peer("0.0", find_python(f"{sys.version_info.major}.{sys.version_info.minor}"))


def test_the_switch_of_unsafe_pickles_is_off_unless_given(this_python, monkeypatch):
    script = "import json, os; print(json.dumps(os.environ.get('NUMCODECS_ALLOW_UNSAFE_PICKLE_DECODE')))"
    monkeypatch.setenv("NUMCODECS_ALLOW_UNSAFE_PICKLE_DECODE", "1")
    assert this_python.run(script) is None
    assert this_python.run(script, env={"NUMCODECS_ALLOW_UNSAFE_PICKLE_DECODE": "1"}) == "1"


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("raise KeyError('electrodes')", "KeyError: 'electrodes'"),
        ("print('no document')", "not JSON"),
        ("pass", "not JSON"),
        ("import time; time.sleep(60)", "did not end within 1 s"),
    ],
)
def test_a_failing_script_is_reported(this_python, script, message):
    with pytest.raises(PeerError, match=message):
        this_python.run(script, timeout=1 if "sleep" in script else 600)


def test_a_named_interpreter_is_used(monkeypatch):
    monkeypatch.setenv("HDMF_ZARR_BACKEND_PEER013", sys.executable)
    assert str(obtain_peer(RECIPES["0.13"]).python) == sys.executable


def test_a_named_interpreter_that_is_none_is_refused(monkeypatch, tmp_path):
    monkeypatch.setenv("HDMF_ZARR_BACKEND_PEER013", str(tmp_path / "python"))
    with pytest.raises(PeerUnavailableError, match="HDMF_ZARR_BACKEND_PEER013"):
        obtain_peer(RECIPES["0.13"])


def test_an_unknown_version_is_not_found():
    assert find_python("3.0") is None


CONFTEST_TRIAL = """
import pytest
from tests.conftest import peer013

def test_it(peer013):
    pass
"""


@pytest.mark.parametrize(("decisive", "outcome"), [(True, "errors"), (False, "skipped")])
def test_an_absent_peer_skips_and_fails_where_it_decides(pytester, monkeypatch, tmp_path, decisive, outcome):
    monkeypatch.setenv("HDMF_ZARR_BACKEND_PEER013", str(tmp_path / "python"))
    monkeypatch.setattr("tests.conftest._DECISIVE", decisive)
    pytester.makepyfile(CONFTEST_TRIAL)
    pytester.runpytest_inprocess().assert_outcomes(**{outcome: 1})
