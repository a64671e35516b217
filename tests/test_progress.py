"""Progress of operations: callbacks, and the bar on a terminal."""

import io
import sys
import time

import numpy as np
import pytest
from hdmf.data_utils import DataChunkIterator, GenericDataChunkIterator
from pynwb import H5DataIO, TimeSeries

from hdmf_zarr_backend import NWBZarrIO, WriteOptions, ZarrDataIO, ZarrIO, convert, upgrade, verify
from hdmf_zarr_backend.cli.main import main
from hdmf_zarr_backend.errors import UsageError
from hdmf_zarr_backend.progress import SILENT, Batch, Progress, TerminalProgress, terminal_progress
from tests import samples
from tests.cli.conftest import Terminal
from tests.trees import dataset, root, write_builder


def test_the_callbacks_do_nothing_and_give_nothing():
    for progress in (SILENT, Progress()):
        assert progress.start(10) is progress.advance("/a", 5) is progress.finish() is None


def on_a_terminal(monkeypatch):
    """Return what this process takes for its terminal from now on; pytest would replace what a fixture sets."""
    pytest.importorskip("tqdm")
    monkeypatch.setattr(sys, "stderr", Terminal())
    return sys.stderr


def test_a_bar_shows_what_is_done_and_goes_away(monkeypatch):
    terminal = on_a_terminal(monkeypatch)
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
    # an unknown total does no harm
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
    if stream is Terminal:
        assert terminal_progress("3/55 x", Batch(3, 55, time.time())) is SILENT


def test_a_long_label_stays_on_one_line(monkeypatch):
    terminal = on_a_terminal(monkeypatch)
    monkeypatch.setenv("COLUMNS", "20")
    terminal_progress("3/55 " + "x" * 30, Batch(3, 55, time.time())).finish()
    assert max(map(len, terminal.getvalue().split("\r"))) <= 20


def test_a_batch_has_one_bar(monkeypatch):
    terminal = on_a_terminal(monkeypatch)
    progress = terminal_progress("3/4 c.nwb", Batch(3, 4, time.time() - 60))
    progress.start(1000)
    assert progress._bar.n == 2
    for _ in range(3):  # more than was announced
        progress.advance("/a", 500)
    assert progress._bar.n == 3
    progress._bar.refresh()
    progress.finish()
    shown = terminal.getvalue()
    assert "3/4 c.nwb:  50%|" in shown and "3/4 c.nwb:  75%|" in shown
    assert "[01:00<00:20]" in shown  # of all files


def test_the_files_of_a_batch_share_the_bar(tmp_path, monkeypatch):
    paths = [samples.write_zarr(tmp_path / f"{name}.nwb.zarr") for name in "ab"]
    terminal = on_a_terminal(monkeypatch)
    assert main(["verify", *map(str, paths)]) == 0
    assert "1/2 a.nwb.zarr:   0%|" in terminal.getvalue() and "2/2 b.nwb.zarr:  50%|" in terminal.getvalue()


# ---- in Python -------------------------------------------------------------------------------------------------------
class Recorded(Progress):
    """Keeps what it receives."""

    def start(self, total):
        self.calls = [("start", total)]

    def advance(self, path, done):
        self.calls.append((path, done))

    def finish(self):
        self.calls.append(("finish", 0))


@pytest.fixture
def hdf5(tmp_path):
    nwbfile = samples.rich_nwbfile()
    data = H5DataIO(
        np.arange(1003, dtype="i4"), chunks=(100,), maxshape=(None,)
    )  # the last chunk is larger than the rest
    nwbfile.add_acquisition(TimeSeries(name="in_chunks", data=data, unit="V", rate=1.0))
    return samples.write_hdf5(tmp_path / "a.nwb", nwbfile)


@pytest.fixture
def operations(hdf5, tmp_path):
    """The long operations, each with a progress, in an order in which they can be done."""

    def export(progress):
        with (
            NWBZarrIO(tmp_path / "a.nwb.zarr", "r") as source,
            NWBZarrIO(tmp_path / "b.nwb.zarr", "w", write_options=WriteOptions(progress=progress)) as io,
        ):
            io.export(source, source.read())

    def write(progress):
        with NWBZarrIO(tmp_path / "c.nwb.zarr", "w", write_options=WriteOptions(progress=progress)) as io:
            io.write(samples.plain_nwbfile())

    def copy(source, target, progress, **options):
        convert(tmp_path / source, tmp_path / target, write_options=WriteOptions(progress=progress), **options)

    return {
        "convert": lambda progress: copy("a.nwb", "a.nwb.zarr", progress, chunks="keep"),
        "convert to shards": lambda progress: copy("a.nwb", "s.nwb.zarr", progress, chunks="keep", shards=(400,)),
        "convert both": lambda progress: copy("a.nwb", "both.nwb.zarr", progress, zarr_format="both"),
        "convert back": lambda progress: copy("a.nwb.zarr", "b.nwb", progress),
        "export": export,
        "write": write,
        "verify": lambda progress: verify(tmp_path / "a.nwb.zarr", progress=progress),
        "verify HDF5": lambda progress: verify(tmp_path / "a.nwb", progress=progress),
        "verify shards": lambda progress: verify(tmp_path / "s.nwb.zarr", progress=progress),
        "verify both": lambda progress: verify(tmp_path / "both.nwb.zarr", progress=progress),
        "upgrade": lambda progress: upgrade(tmp_path / "a.nwb.zarr", write_options=WriteOptions(progress=progress)),
    }


def test_true_is_a_bar_of_tqdm(operations, capsys):
    pytest.importorskip("tqdm")
    for name, operation in operations.items():
        operation(True)
        assert "B/s]" in capsys.readouterr().err, name
        operation(False) if name.startswith("verify") else None
        assert capsys.readouterr().err == ""


def test_every_operation_announces_all_that_it_does(operations):
    for name, operation in operations.items():
        progress = Recorded()
        operation(progress)
        (start, total), *done, (end, _) = progress.calls
        assert (start, end) == ("start", "finish"), name
        assert 0 < total == sum(count for _, count in done), name


def test_a_check_counts_the_bytes_of_all_chunks(tmp_path):
    progress, values = Recorded(), ZarrDataIO(np.zeros((64, 2**16), "u1"), chunks=(1, 2**16))
    path = write_builder(tmp_path / "a.zarr", root(dataset("a", values)))
    assert verify(path, executor=2, progress=progress).chunks == 64
    assert sum(done for _, done in progress.calls[1:]) == 2**22


class Slices(GenericDataChunkIterator):
    """An array of numbers in pieces, which knows its shape."""

    def _get_data(self, selection):
        return np.zeros((1000, 8), "i2")[selection]

    def _get_maxshape(self):
        return (1000, 8)

    def _get_dtype(self):
        return np.dtype("i2")


def rows(maxshape, dtype="i2"):
    return DataChunkIterator(iter(np.zeros((1000, 8), dtype)), buffer_size=100, maxshape=maxshape)


@pytest.mark.parametrize(("data", "nbytes"), [
    (lambda: rows((1000, 8)), 16_000),
    (lambda: Slices(chunk_shape=(100, 8), buffer_shape=(200, 8)), 16_000),
    (lambda: DataChunkIterator(iter(["a", "bc"]), maxshape=(2,), dtype=np.dtype("U2")), 16),
    (lambda: rows((None, 8)), None),
    (lambda: DataChunkIterator(iter(np.zeros((1000, 8)))), None),
], ids=["rows", "slices", "text", "an unknown length", "an unknown shape"])  # fmt: skip
@pytest.mark.parametrize("executor", [None, "threads"])
def test_iterators_count_and_without_a_length_the_total_is_unknown(tmp_path, data, nbytes, executor):
    options, count = WriteOptions(progress=Recorded(), executor=executor), np.arange(5.0)
    write_builder(tmp_path / "a.zarr", root(dataset("a", data()), dataset("b", count)), write_options=options)
    with ZarrIO(tmp_path / "a.zarr", "a", write_options=options) as io:
        first, options.progress.calls = options.progress.calls, []
        io.write_builder(root(dataset("c", data())))
    for calls, others in ((first, count.nbytes), (options.progress.calls, 0)):
        (_, total), *done, _ = calls
        assert total == (0 if nbytes is None else nbytes + others)
        assert nbytes is None or sum(n for _, n in done) == total


def test_the_bar_is_closed_before_the_message_of_an_error(hdf5, tmp_path):
    class Breaks(Recorded):
        def advance(self, path, done):
            raise KeyError(path)

    progress = Breaks()
    for work in (
        lambda: convert(hdf5, tmp_path / "a.nwb.zarr", write_options=WriteOptions(progress=progress)),
        lambda: verify(samples.write_zarr(tmp_path / "c.nwb.zarr"), progress=progress),
    ):
        with pytest.raises(KeyError):
            work()
        assert progress.calls[-1][0] == "finish"


def test_what_cannot_show_progress_is_refused(monkeypatch):
    with pytest.raises(UsageError, match="cannot show progress"):
        WriteOptions(progress="yes")
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    with pytest.raises(ModuleNotFoundError, match="progress=True needs tqdm; install it with"):
        WriteOptions(progress=True)
