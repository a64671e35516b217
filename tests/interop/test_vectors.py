"""Other readers read the test vectors of `docs/format/vectors` that the page of the documentation says."""

import importlib
import importlib.util
import json

import pytest

from tests import vectors

RESULTS = json.loads((vectors.FOLDER / "results.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory):
    return vectors.unpack(tmp_path_factory.mktemp("vectors"))


def lost(name, unpacked):
    """Return the vectors that a reader no longer reads as stated."""
    label = vectors.label(name)
    if label not in RESULTS:
        pytest.skip(f"the results of {label} are not kept")
    result = vectors.read_with(name, unpacked)
    assert result.keys() == RESULTS[label].keys()
    return [location for location, was_read in RESULTS[label].items() if was_read and not result[location]]


@pytest.mark.parametrize("name", [
    *vectors.HERE, *(pytest.param(name, marks=pytest.mark.peer) for name in (*vectors.PEERS, "zarrita")),
])  # fmt: skip
def test_a_reader_reads_what_it_has_read(name, unpacked):
    if name == "TensorStore" and importlib.util.find_spec("tensorstore") is None:
        pytest.skip("tensorstore is not installed")
    assert lost(name, unpacked) == []


def test_the_page_has_the_results(monkeypatch):
    monkeypatch.syspath_prepend(vectors.FOLDER.parents[1] / "_scripts")
    for path, text in importlib.import_module("vectors").files().items():
        assert path.read_text(encoding="utf-8") == text, "run docs/_scripts/vectors.py"
