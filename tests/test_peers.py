"""The peers have the releases that they name, and nothing of this project."""

import pytest

VERSIONS = """
import json, sys
from importlib.metadata import version
from importlib.util import find_spec
import hdmf_zarr
print("anything before the last line")
ours = find_spec("hdmf_zarr_backend") is not None
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
