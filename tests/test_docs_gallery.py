"""The examples of the gallery run, their assertions hold, and they leave nothing behind.

In this process and one after the other: most of the time of an example is that of its imports. An example makes its own
data, runs offline in seconds and ends with assertions; ``docs/conf.py`` has the order of the gallery.
"""

import runpy
import sys
import tempfile
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import pytest

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = sorted((ROOT / "gallery").glob("plot_*.py"))


def test_the_order_of_the_gallery_is_that_of_all_examples():
    configuration = (ROOT / "docs" / "conf.py").read_text(encoding="utf-8")
    assert [path.stem for path in EXAMPLES if f'"{path.stem.removeprefix("plot_")}"' not in configuration] == []


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs(example, tmp_path, monkeypatch, capsys):
    if "spikeinterface" in example.stem:
        pytest.importorskip("spikeinterface")
    mpl.use("Agg")
    monkeypatch.setattr(sys, "argv", [str(example)])
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert "assert " in example.read_text(encoding="utf-8")
    result = runpy.run_path(str(example), run_name="__main__")
    plt.close("all")
    capsys.readouterr()
    result["_temporary"].cleanup()
    assert list(tmp_path.iterdir()) == []


def test_the_first_example_needs_installed_packages_only():
    """The first command of the README runs it with the extra ``all``, which has nothing that draws."""
    assert "matplotlib" not in (ROOT / "gallery" / "plot_first_file.py").read_text(encoding="utf-8")
