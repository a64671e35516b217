"""Progress of operations: callbacks, and the bar on a terminal."""

import io
import sys

import pytest

from hdmf_zarr_backend.progress import SILENT, Progress, TerminalProgress, clear_line, terminal_progress
from tests.cli.conftest import Terminal


def test_the_callbacks_do_nothing_and_give_nothing():
    for progress in (SILENT, Progress()):
        assert progress.start(10) is progress.advance("/a", 5) is progress.finish() is None


def test_a_bar_shows_what_is_done_and_goes_away(monkeypatch):
    pytest.importorskip("tqdm")
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    progress = terminal_progress("a.nwb")
    assert isinstance(progress, TerminalProgress)
    progress.advance("/early", 5)  # before anything began
    progress.start(1000)
    progress.advance("/a", 400)
    progress.advance("/b", 600)
    assert progress._bar.n == 1000
    progress.finish()
    progress.finish()
    shown = terminal.getvalue()
    assert "a.nwb" in shown
    assert "0.00/1.00k" in shown
    assert shown.rstrip(" ").endswith("\r")


def test_an_unknown_total_does_no_harm(monkeypatch):
    pytest.importorskip("tqdm")
    monkeypatch.setattr(sys, "stderr", Terminal())
    progress = TerminalProgress("x")
    progress.start(0)
    progress.advance("/a", 5)
    assert progress._bar.total is None
    progress.finish()


@pytest.mark.parametrize("stream", [io.StringIO, Terminal])
def test_a_pipe_and_a_terminal_without_tqdm_are_silent(monkeypatch, stream):
    monkeypatch.setattr(sys, "stderr", stream())
    if stream is Terminal:
        monkeypatch.setitem(sys.modules, "tqdm", None)
    assert terminal_progress("x") is SILENT


def test_without_tqdm_the_label_of_a_batch_is_shown_and_removed(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setitem(sys.modules, "tqdm", None)
    progress = terminal_progress("3/55 a.nwb", at_once=True)
    assert terminal.getvalue() == "\r3/55 a.nwb"
    progress.start(1000)
    progress.advance("/a", 400)
    progress.finish()
    assert terminal.getvalue() == f"\r3/55 a.nwb\r{' ' * 10}\r"


def test_a_message_does_not_share_the_line_of_the_progress(monkeypatch, capsys):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("COLUMNS", "20")
    clear_line()
    assert terminal.getvalue() == f"\r{' ' * 19}\r"
    monkeypatch.undo()
    clear_line()
    assert capsys.readouterr().err == ""


def test_a_long_label_stays_on_one_line(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("COLUMNS", "20")
    terminal_progress("3/55 " + "x" * 30, at_once=True).finish()
    assert max(map(len, terminal.getvalue().split("\r"))) == 19
