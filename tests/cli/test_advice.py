"""What a user reads when something does not work, or when there is much to report: short, and with one thing to do."""

import contextlib
import inspect
import json
import os
import pydoc
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import zarr
import zarr.codecs
from pynwb import NWBHDF5IO, NWBFile, TimeSeries

import hdmf_zarr_backend
from hdmf_zarr_backend import Limits, NWBZarrIO, ZarrDataIO, ZarrIO, convert, dry_run, verify
from hdmf_zarr_backend.cli.main import main
from hdmf_zarr_backend.errors import NotZarrError, StoreError, UsageError, WrongArgumentError
from hdmf_zarr_backend.options import WriteOptions
from tests.places import stored_files
from tests.samples import plain_nwbfile, read_zarr, write_hdf5, write_zarr
from tests.trees import dataset, read_builder, root, write_builder
from tests.watching import Interrupted
from tests.zarrs import IS_ZARR_2, needs_zarr_3, open_group

COMMAND_LINE = [sys.executable, "-m", "hdmf_zarr_backend.cli.main"]


@pytest.fixture
def nwb(tmp_path: Path) -> Path:
    return write_zarr(tmp_path / "a.nwb.zarr", plain_nwbfile())


@pytest.fixture
def shown(zarrio: Callable[..., Any]) -> Callable[..., str]:
    return lambda *arguments, code=0: "".join(reversed(zarrio(*arguments, code=code)))


# ---- far files ------------------------------------------------------------------------------------------------------

FSSPEC = {"client_kwargs": {"trust_env": False}}  # only fsspec knows it


@pytest.mark.parametrize("options", [{}, FSSPEC], ids=["obstore", "fsspec"])
def test_a_server_without_ranges_is_named(options, web, tmp_path, shown):
    web.has_ranges = False
    write_builder(web.folder / "a.zarr.zip", root(dataset("x", ZarrDataIO(np.arange(100_000), compressor=False))))
    shards = ZarrDataIO(np.arange(1000), chunks=(10,), shards=(100,))
    write_builder(web.folder / "a.zarr", root(dataset("x", shards)), zarr_format=3)
    with pytest.raises(StoreError, match=r"does not support byte ranges.*Download the file"):
        ZarrIO(f"{web.url}/a.zarr.zip", "r", storage_options=options).open()
    data = read_builder(f"{web.url}/a.zarr", storage_options=options)["x"].data
    with pytest.raises(StoreError, match="does not support byte ranges"):
        data[5:7]
    write_hdf5(web.folder / "a.nwb", plain_nwbfile())
    virtual = ("convert", f"{web.url}/a.nwb", tmp_path / "a.zarr.json", "--to", "virtual")
    for command in (("inspect", f"{web.url}/a.zarr.zip"), virtual):
        said = shown(*command, code=2)
        assert "does not support byte ranges" in said
        assert "cut short" not in said


@pytest.mark.parametrize("cls", [ZarrIO, NWBZarrIO])
@pytest.mark.parametrize("has_ranges", [True, False])
def test_an_hdf5_file_at_a_url(cls, web, has_ranges):
    web.has_ranges = has_ranges
    write_hdf5(web.folder / "a.nwb", plain_nwbfile())
    with pytest.raises(NotZarrError, match="this is an HDF5 file") as caught:
        cls(f"{web.url}/a.nwb", "r").open()
    assert "zarrio convert --to virtual" in caught.value.remedy
    assert "mode 'w'" not in str(caught.value)


def test_an_hdf5_file_in_the_command_line_and_an_empty_file_that_is_no_zip_file(web, tmp_path, shown):
    path = write_hdf5(web.folder / "a.nwb", plain_nwbfile())
    for command in ("inspect", "verify", "validate"):
        for location in (f"{web.url}/a.nwb", path):
            shown(command, location)
    shown("convert", f"{web.url}/a.nwb", tmp_path / "a.nwb.zarr.json", "--to", "virtual")
    assert read_zarr(tmp_path / "a.nwb.zarr.json").identifier == "plain"
    (web.folder / "a.zarr.zip").write_bytes(b"")
    with pytest.raises(NotZarrError, match="not a zip file"):
        ZarrIO(f"{web.url}/a.zarr.zip", "r").open()


# ---- codecs ---------------------------------------------------------------------------------------------------------
def _zarr_codecs() -> dict[str, tuple[Callable[[], Any], dict[str, Any]]]:
    if IS_ZARR_2:
        return {}
    from zarr.codecs import numcodecs as wrapped

    return {
        "zstd": (lambda: zarr.codecs.ZstdCodec(level=3), {"id": "zstd", "level": 3}),
        "blosc": (
            lambda: zarr.codecs.BloscCodec(cname="zstd", clevel=3, shuffle="bitshuffle"),
            {"id": "blosc", "cname": "zstd", "clevel": 3, "shuffle": 2},
        ),
        "gzip": (lambda: zarr.codecs.GzipCodec(level=2), {"id": "gzip", "level": 2}),
        "numcodecs.lzma": (lambda: wrapped.LZMA(preset=1), {"id": "lzma", "preset": 1}),
        "numcodecs.bz2": (lambda: wrapped.BZ2(level=1), {"id": "bz2", "level": 1}),
        "numcodecs.zstd": (lambda: wrapped.Zstd(level=3), {"id": "zstd", "level": 3}),
        "dict": (lambda: {"name": "gzip", "configuration": {"level": 2}}, {"id": "gzip", "level": 2}),
    }


def _stored(path: Path, zarr_format: int, **options: Any) -> str:
    data = ZarrDataIO(np.arange(4000, dtype="i4").reshape(40, 100), chunks=(20, 100), **options)
    write_builder(path, root(dataset("x", data)), zarr_format=zarr_format)
    if not (IS_ZARR_2 and zarr_format == 3):
        assert np.array_equal(open_group(path)["x"][...], np.arange(4000).reshape(40, 100))
    return (path / "x" / (".zarray" if zarr_format == 2 else "zarr.json")).read_text()


@pytest.mark.filterwarnings("ignore:Numcodecs codecs are not in the Zarr version 3")
@pytest.mark.parametrize("name", _zarr_codecs())
def test_codecs_of_zarr_are_taken_in_both_formats(name, zarr_format, tmp_path):
    make, wanted = _zarr_codecs()[name]
    document = json.loads(_stored(tmp_path / "a.zarr", zarr_format, compressor=make()))
    if zarr_format == 2:
        assert {key: document["compressor"][key] for key in wanted} == wanted
    else:
        assert document["codecs"][-1]["name"].removeprefix("numcodecs.") == wanted["id"]
    convert(write_hdf5(tmp_path / "a.nwb", plain_nwbfile()), tmp_path / "b.zarr", codec=make(), zarr_format=zarr_format)
    assert verify(tmp_path / "b.zarr").is_sound


@needs_zarr_3
@pytest.mark.filterwarnings("ignore:Numcodecs codecs are not in the Zarr version 3")
def test_filters_of_zarr_are_taken(zarr_format, tmp_path):
    from zarr.codecs import numcodecs as wrapped

    filters = [wrapped.Delta(dtype="<i4")]
    assert "delta" in _stored(tmp_path / "a.zarr", zarr_format, filters=filters, compressor=zarr.codecs.ZstdCodec())


@pytest.mark.parametrize(("name", "codec"), [("blosc", "blosc"), ("zstd", "zstd"), ("zlib", "zlib"), ("none", None)])
def test_data_take_the_names_that_convert_takes(name, codec, tmp_path):
    document = json.loads(_stored(tmp_path / "a.zarr", 2, compressor=name))["compressor"]
    assert (document and document["id"]) == codec


# ---- calls ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("open_hdf5", [False, True])
@pytest.mark.parametrize("target", ["there", "new"])
def test_a_container_that_was_read_is_exported_and_not_written(open_hdf5, target, nwb, tmp_path):
    other = tmp_path / "b.nwb.zarr"
    if target == "there":
        shutil.copytree(nwb, other)
    before = stored_files(other)
    source = NWBHDF5IO(write_hdf5(tmp_path / "a.nwb", plain_nwbfile()), "r") if open_hdf5 else NWBZarrIO(nwb, "r")
    with source as io:
        container = io.read()
        for manager in (None, io.manager):
            with pytest.raises(UsageError, match=r"another file.*export"):
                write_zarr(other, container, manager=manager, herd_path=str(tmp_path / "herd.zip"))
        assert stored_files(other) == before
        assert not (tmp_path / "herd.zip").exists()
        with NWBZarrIO(other, "w") as out:
            out.export(src_io=io, nwbfile=container)
    assert read_zarr(other).identifier == plain_nwbfile().identifier


@pytest.mark.parametrize("how", ["added", "moved"])
def test_a_part_of_another_file_is_not_written(how, nwb, tmp_path):
    with NWBZarrIO(nwb, "r") as io:
        container = io.read()
        series = container.acquisition["trace"] if how == "added" else container.acquisition.pop("trace")
        result = plain_nwbfile()
        result.create_processing_module("module", "x").add(series)
        with pytest.raises(UsageError, match=r"TimeSeries 'trace' was read from .*manager"):
            write_zarr(tmp_path / "b.nwb.zarr", result)
    assert not (tmp_path / "b.nwb.zarr").exists()


def test_links_to_another_file_are_written_with_the_manager_that_has_read_it(nwb, tmp_path):
    """Only that manager knows where in its file an object is."""

    def sharing() -> NWBFile:
        shares = plain_nwbfile()
        shares.add_acquisition(TimeSeries(name="shares", data=series, rate=1.0, unit="m"))
        return shares

    with NWBZarrIO(nwb, "r") as io:
        series = io.read().acquisition["trace"]
        result = plain_nwbfile()
        result.create_processing_module("module", "x").add(series)
        write_zarr(tmp_path / "b.nwb.zarr", result, manager=io.manager)
        write_zarr(tmp_path / "c.nwb.zarr", sharing(), manager=io.manager)
        with pytest.raises(UsageError, match="'trace' was read from or written to another file") as caught:
            write_zarr(tmp_path / "d.nwb.zarr", sharing())
        expected = series.data[:].tolist()
    assert "the manager of the io that has read it" in caught.value.remedy
    assert not (tmp_path / "d.nwb.zarr").exists()
    module = read_zarr(tmp_path / "b.nwb.zarr").processing["module"]
    shares = read_zarr(tmp_path / "c.nwb.zarr").acquisition["shares"]
    assert module["trace"].data[:].tolist() == shares.data[:].tolist() == expected


@pytest.mark.parametrize(("url", "option", "meant"), [
    ("s3://bucket/a.nwb.zarr", "anom=true", "anon"),
    ("s3://bucket/a.nwb.zarr", "endpoint-url=http://host", "endpoint_url"),
    ("s3://bucket/a.nwb.zarr", "regionn=x", "region"),
    ("gs://bucket/a.nwb.zarr", "tokn=anon", "token"),
    ("az://container/a.nwb.zarr", "acount_name=x", "account_name"),
    ("https://127.0.0.1:1/a.nwb.zarr", "header=x", "headers"),
])  # fmt: skip
def test_a_misspelt_storage_option(url, option, meant, zarrio):
    name, _, value = option.partition("=")
    for read in (NWBZarrIO, NWBZarrIO.read_nwb, verify):
        with pytest.raises(UsageError, match=f"no storage option '{name}'") as caught:
            read(url, storage_options={name: value})
        assert (caught.value.store, caught.value.remedy) == (url, f"Did you mean {meant!r}?")
    assert f"Did you mean {meant!r}?" in zarrio("inspect", url, "-O", option, code=2).err


def test_a_storage_option_that_no_installed_library_has(monkeypatch):
    monkeypatch.setitem(sys.modules, "s3fs", None)
    with pytest.raises(UsageError, match="no storage option 'qqq'") as caught:
        NWBZarrIO("s3://bucket/a.nwb.zarr", storage_options={"qqq": 1})
    assert caught.value.remedy == "Check its name. If it is one of s3fs, install that."


_FUNCTIONS = [getattr(hdmf_zarr_backend, name) for name in hdmf_zarr_backend.__all__ if name[0].islower()]


@pytest.mark.parametrize(
    "called", [*_FUNCTIONS, ZarrIO, NWBZarrIO, ZarrDataIO, Limits], ids=lambda called: called.__name__
)
def test_every_function_refuses_an_argument_that_it_does_not_have(called, tmp_path):
    path = write_hdf5(tmp_path / "a.nwb", plain_nwbfile())
    with pytest.raises(UsageError, match=rf"^{called.__name__} .* argument 'qqq'. It takes ") as caught:
        called(*([path] if called is dry_run else []), qqq=1)
    assert isinstance(caught.value, TypeError)


def test_the_argument_that_was_meant(nwb, tmp_path):
    hdf5 = write_hdf5(tmp_path / "a.nwb", plain_nwbfile())
    calls: dict[str, Callable[[], Any]] = {
        "compressor": lambda: ZarrDataIO([1], compression="gzip"),
        "overwrite": lambda: convert(hdf5, tmp_path / "b.nwb.zarr", overwrit=True),
        "max_depth": lambda: Limits(max_dept=3),
        "shards": lambda: dry_run(hdf5, shard="auto"),
        "memory_budget": lambda: WriteOptions(memory_budgt=1),
    }
    with NWBZarrIO(nwb, "r") as source, NWBZarrIO(tmp_path / "c.nwb.zarr", "w") as io:
        calls["link_data"] = lambda: io.write(plain_nwbfile(), linkdata=False)
        calls["clear_cache"] = lambda: io.export(source, clear_cach=True)
        calls["cache_spec"] = lambda: io.export(source, write_args={"cache_specs": False})
        calls["check"] = lambda: source.read(chek=True)
        calls["storage_options"] = lambda: ZarrIO(nwb, storage_option={})
        calls["extensions"] = lambda: NWBZarrIO.read_nwb(nwb, extension=[])
        for meant, call in calls.items():
            with pytest.raises(WrongArgumentError) as caught:
                call()
            assert caught.value.remedy == f"Did you mean {meant!r}?"
    assert not (tmp_path / "b.nwb.zarr").exists()
    assert not (tmp_path / "c.nwb.zarr").exists()
    with pytest.raises(UsageError, match="Use 'zlib', which is the gzip of HDF5"):
        ZarrDataIO([1], compressor="gzip")


OF_HDMF_ZARR = dict.fromkeys(("synchronizer", "object_codec_class", "max_threads_per_process"), "Leave it out.") | {
    "number_of_jobs": "write_options=WriteOptions(executor=...).",
    "consolidate_metadata": "write_options=WriteOptions(consolidate_metadata=...).",
}


@pytest.mark.parametrize("name", OF_HDMF_ZARR)
def test_an_argument_of_hdmf_zarr(tmp_path, nwb, name):
    with NWBZarrIO(nwb, "r") as source, NWBZarrIO(tmp_path / "c.nwb.zarr", "w") as io:
        calls: dict[str, Callable[[], Any]] = {
            "NWBZarrIO does": lambda: NWBZarrIO(nwb, **{name: False}),
            "ZarrIO.write does": lambda: io.write(plain_nwbfile(), **{name: False}),
            "NWBZarrIO.export does": lambda: io.export(source, **{name: False}),
            "write_args of an export": lambda: io.export(source, write_args={name: False}),
        }
        for called, call in calls.items():
            with pytest.raises(WrongArgumentError, match=called) as caught:
                call()
            assert caught.value.remedy.endswith(OF_HDMF_ZARR[name])
    assert not (tmp_path / "c.nwb.zarr").exists()


@pytest.mark.filterwarnings("always::hdmf.backends.warnings.BrokenLinkWarning")
def test_warnings_of_a_conversion_that_are_alike_are_one_line(tmp_path, capsys, zarrio):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for index in range(20):
            file.create_group(f"group{index:02}")["lost"] = h5py.ExternalLink("gone.h5", "/x")
    convert_it = ["convert", str(tmp_path / "a.h5"), str(tmp_path / "a.zarr"), "--overwrite"]
    assert main(convert_it) == 0
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("zarrio: warning: The link /group00/lost ")
    assert line.endswith("(and 19 more like this one; --verbose shows each)")
    assert len(zarrio(*convert_it, "--verbose").err.splitlines()) == 20
    shown = zarrio(*convert_it, "--json")
    assert len(shown.err.splitlines()) == 1
    (document,) = json.loads(shown.out)
    assert len(document["warnings"]) == 20


def test_a_folder_without_files_to_convert(tmp_path, zarrio):
    folder = tmp_path / "recordings"
    (folder / "day1").mkdir(parents=True)
    first, second = zarrio("convert", folder, "-o", tmp_path, code=2).err.splitlines()
    assert first.endswith(f"1 folder in it was not searched; give the paths of folders too, such as {folder}/day1")
    assert f"{folder}: the folder has no files to convert. The names of files in a folder end in .zarr" in second
    write_hdf5(folder / "day1" / "a.nwb", plain_nwbfile())
    assert "the folder has no files to convert" in zarrio("convert", folder / "day1", "--to", "hdf5", code=2).err


@pytest.mark.parametrize("command", ["inspect", "verify", "validate", "repair", "convert"])
def test_what_to_do_about_an_interrupted_conversion_is_a_command(command, tmp_path, zarrio):
    source = write_hdf5(tmp_path / "a.nwb", plain_nwbfile())
    with pytest.raises(KeyboardInterrupt):
        convert(source, tmp_path / "a.nwb.zarr", write_options=WriteOptions(progress=Interrupted()))
    told = zarrio(command, tmp_path / "a.nwb.zarr", code=2).err
    assert "A conversion to it was interrupted: run `zarrio convert --resume` again" in told
    assert "In Python" not in told


@pytest.mark.parametrize("cls", [ZarrIO, NWBZarrIO, ZarrDataIO])
def test_help_of_a_constructor_is_about_its_arguments(cls):
    shown = pydoc.render_doc(cls.__init__, renderer=pydoc.plaintext)
    assert cls.__doc__.splitlines()[0] in shown
    assert all(name in shown.partition("Parameters")[2] for name in inspect.signature(cls).parameters)


# ---- the command line -----------------------------------------------------------------------------------------------
def test_validate_names_its_own_option(nwb, shown):
    (nwb / ".zmetadata").unlink()
    (source,) = (nwb / "specifications/core").glob("*/nwb.base")
    shutil.rmtree(source)
    said = shown("validate", nwb, code=2)
    assert "--installed" in said
    assert "Python" not in said
    assert "load_namespaces" not in said
    assert shown("validate", "--installed", nwb)


def test_a_damaged_chunk_has_one_remedy(nwb, shown):
    chunk = nwb / "acquisition/trace/data/0.0"
    good = chunk.read_bytes()
    chunk.write_bytes(b"short")
    said = shown("verify", nwb, code=1)
    assert "Restore it from a copy, or save the rest" in said
    assert "repair" not in said
    chunk.write_bytes(good)
    (nwb / "identifier/0").write_bytes(b"short")
    said = shown("verify", nwb, code=1)
    assert "/identifier: chunk-damaged" in said
    assert "Run `zarrio repair`" in said
    assert said.count("repair") == 1
    assert "Restore" not in said
    shown("repair", nwb)
    shown("verify", nwb)


def test_findings_and_damage_that_is_left_that_are_alike_are_one_line(nwb, tmp_path, shown):
    path = write_builder(tmp_path / "a.zarr", root(*(dataset(f"x{n:02}", np.arange(9 + n)) for n in range(28))))
    for chunk in path.glob("x*/0"):
        chunk.write_bytes(b"")
    first, last = shown("verify", path, code=1).splitlines()
    assert first.startswith("/x00: chunk-damaged: ")
    assert "and 27 more" in first
    assert "28 problems" in last
    assert len(shown("verify", path, "--verbose", code=1).splitlines()) == 29
    (report,) = json.loads(shown("verify", path, "--json", code=1))
    assert len(report["problems"]) == 28
    for document in ("acquisition/.zattrs", "analysis/.zattrs", "processing/.zattrs"):
        (nwb / document).write_text("{")
    left = [line for line in shown("repair", nwb, code=1).splitlines() if line.startswith("left: ")]
    every = shown("repair", nwb, "--verbose", code=1).splitlines()
    assert len(left) < len([line for line in every if line.startswith("left: ")])


COLOUR = re.compile("\x1b\\[[0-9;]*m")


def on_terminal(width: int, *arguments: object, **environment: str) -> list[str]:
    pytest.importorskip("termios")
    import pty
    import termios

    environ = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    environ |= {"PYTHONIOENCODING": "utf-8", **environment}
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, width))
    command = [*COMMAND_LINE, *map(str, arguments)]
    printed = b""
    with open(ours, "rb", buffering=0) as terminal, subprocess.Popen(command, stdout=theirs, env=environ) as process:
        os.close(theirs)
        with contextlib.suppress(OSError):  # Linux reports the end of a terminal as an error
            while part := terminal.read(4096):
                printed += part
    assert process.returncode == 0
    return [COLOUR.sub("", line) for line in printed.decode().splitlines()]  # a colour takes no columns


@pytest.mark.parametrize("width", [40, 60, 80, 100])
@pytest.mark.parametrize("command", ["inspect", "dry-run"])
def test_trees_fit_the_terminal(command, width, nwb, tmp_path, shown):
    path = nwb if command == "inspect" else write_hdf5(tmp_path / "a.nwb", plain_nwbfile())
    whole = shown(command, path)
    assert max(map(len, whole.splitlines())) > 100
    lines = on_terminal(width, command, path)
    start = lines.index("")
    assert max(map(len, lines[start:])) <= width
    assert len(lines[start:]) == len(whole.splitlines()) - whole.splitlines().index("")
    if width >= 80:
        assert any(re.search(r"── data\b.* int16 .*120 B$", line) for line in lines) or command == "dry-run"
    if command == "inspect":
        heads = [part for part in lines[:start] if str(nwb) not in part]
        assert all(len(part) <= width for part in heads)


def test_columns_overrides_the_width_of_the_terminal_only(nwb):
    lines = on_terminal(200, "inspect", nwb, COLUMNS="70")
    assert max(map(len, lines[lines.index("") :])) == 70
    for columns in ({}, {"COLUMNS": "60"}):  # lines that are piped are whole
        environ = {name: value for name, value in os.environ.items() if name != "COLUMNS"} | columns
        command = [*COMMAND_LINE, "inspect", nwb]
        answer = subprocess.run(command, capture_output=True, encoding="utf-8", check=True, env=environ)
        assert "…" not in answer.stdout
        assert "blosc lz4 5 shuffle" in answer.stdout
