"""`zarrio convert`: which file becomes which, what is said, how it ends."""

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from hdmf_zarr_backend import ZarrDataIO
from hdmf_zarr_backend.cli.main import main
from hdmf_zarr_backend.errors import UnsupportedFileError
from hdmf_zarr_backend.options import CODECS, ReadOptions, WriteOptions
from hdmf_zarr_backend.progress import SILENT
from tests import trees
from tests.smallfiles import hdf5_file

DEFAULTS = {
    "to": None, "overwrite": False, "check": True, "zarr_format": None, "link_data": True, "codec": "keep",
    "chunks": None, "resume": False, "shards": None, "settings": None, "read_options": ReadOptions(),
    "storage_options": {},
    "write_options": WriteOptions(executor="threads", progress=SILENT),
}  # fmt: skip


@dataclass
class Report:
    groups: int
    remarks: tuple[str, ...] = ()

    def lines(self, *, name: str) -> list[str]:
        return [f"{name}: {self.groups} groups", *(f"  {remark}" for remark in self.remarks)]


class Calls(list[tuple[str, str, dict[str, Any]]]):
    """Stands for `hdmf_zarr_backend.conversion` and keeps what it was asked; files named ``bad`` fail."""

    def convert(self, source: str, target: str, **options: Any) -> Report:
        self.append((source, target, options))
        if "bad" in source:
            raise UnsupportedFileError("NWB 1.x is not supported", store=source, remedy="Upgrade it.")
        if "lost" in source:
            raise PermissionError(13, "Permission denied")
        return Report(7)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Iterator[Calls]:
    result = Calls()
    module = ModuleType("hdmf_zarr_backend.conversion")
    module.convert = result.convert  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return result


def test_each_option_has_one_spelling_and_a_source_and_a_target_are_enough(calls, capsys, zarrio):
    assert main(["convert", "--external-links", "copy", "a.nwb", "b.zarr"]) == 2
    assert "did you mean --overwrite?" in zarrio("convert", "--over", "a.nwb", "b.zarr", code=2).err
    assert calls == []
    shown = zarrio("convert", "--help").out
    assert "--no-link-data" in shown
    assert "--external-links {follow,within,never}" in shown
    assert main(["convert", "a.nwb", "b.zarr"]) == 0
    assert calls == [("a.nwb", "b.zarr", DEFAULTS)]
    captured = capsys.readouterr()
    assert captured.out.startswith("a.nwb -> b.zarr: 7 groups in 0.0 s")
    assert captured.err == ""


def test_the_options_are_passed_on(calls):
    given = (
        "--overwrite --no-check --to zarr --no-link-data --codec zstd --jobs 3 --chunks keep --resume -O anon=true "
        "-O key=a=b --chunk-key-encoding v2 --external-links never --nczarr --shards 40000,64 --missing-chunks fill "
        "--strict-json"
    )
    settings = ["--set", "a/*: chunks=9,8 codec=zstd", "--set=b:c/**: shards=auto"]
    assert main(["convert", *given.split(), *settings, "a.nwb", "b"]) == 0
    write_options = WriteOptions(executor=3, nczarr=True, chunk_key_encoding="v2", strict_json=True, progress=SILENT)
    assert calls[0][2] == {
        "to": "zarr", "overwrite": True, "check": False, "zarr_format": None, "link_data": False, "codec": "zstd",
        "chunks": "keep", "resume": True, "shards": (40000, 64), "storage_options": {"anon": True, "key": "a=b"},
        "settings": [("a/*", {"chunks": (9, 8), "codec": "zstd"}), ("b:c/**", {"shards": "auto"})],
        "read_options": ReadOptions(missing_chunks="fill", external_links="never"), "write_options": write_options,
    }  # fmt: skip


@pytest.mark.parametrize(("given", "address"), [("host:8786", "tcp://host:8786"), ("tls://host:1", "tls://host:1")])
def test_a_scheduler_is_passed_on_by_its_address(calls, given, address):
    assert main(["convert", "--scheduler", given, "a.nwb", "b.zarr"]) == 0
    assert calls[0][2]["write_options"].executor == address


@pytest.mark.parametrize("codec", ["keep", *CODECS])
def test_each_name_of_a_codec_is_a_choice(calls, codec):
    assert main(["convert", "--codec", codec, "a.nwb", "b.zarr"]) == 0
    assert calls[0][2]["codec"] == codec


def test_a_batch_names_its_targets(calls, tmp_path, capsys):
    out = tmp_path / "new/out"
    (tmp_path / "folder").mkdir()
    sources = ["x/a.nwb", "b.h5", "c.nwb.zarr", "d.zarr", "e.nwb.zarr/", str(tmp_path / "folder")]
    assert main(["convert", *sources, "-o", str(out)]) == 0
    assert out.is_dir()
    names = [str(Path(target).relative_to(out)) for _, target, _ in calls]
    assert names == ["a.nwb.zarr", "b.h5.zarr", "c.nwb", "d.nwb", "e.nwb", "folder.nwb"]
    assert capsys.readouterr().out.splitlines()[-1] == "6 of 6 files converted"


def test_a_batch_goes_on_past_bad_files_and_tells_at_the_end(calls, tmp_path, capsys):
    assert main(["convert", "a.nwb", "bad.nwb", "lost.nwb", "c.nwb", "--output", str(tmp_path)]) == 2
    assert [source for source, *_ in calls] == ["a.nwb", "bad.nwb", "lost.nwb", "c.nwb"]
    captured = capsys.readouterr()
    assert captured.err.splitlines() == [
        "zarrio: bad.nwb: NWB 1.x is not supported. Upgrade it.",
        "zarrio: lost.nwb: [Errno 13] Permission denied",
    ]
    assert captured.out.splitlines()[-3:] == [
        "2 of 4 files converted",
        "  not converted: bad.nwb: NWB 1.x is not supported",
        "  not converted: lost.nwb: Permission denied",
    ]


@pytest.mark.parametrize(("arguments", "said"), [
    *(([f"--shards={shards}", "a.nwb", "b"], "invalid shards value") for shards in ("", "0", "4,", "all", "-1,2")),
    *(([f"--set={text}", "a.nwb", "b"], "argument --set: invalid") for text in (
        "", "a/b", "a/b:", ": codec=zstd", "a: chunk=3", "a: chunks=3,b", "a: codec",
    )),
    (["--set", "a chunks=1,2", "a.nwb", "b"], "'a chunks=1,2'; the colon after the pattern is missing; write"),
    (["--set", "a: codec=zstd:3", "a.nwb", "b"], "'a: codec=zstd:3'; codecs have no level here; write"),
    (["--scheduler", "host:8786", "--jobs", "2", "a.nwb", "b.zarr"], "not allowed with"),
    (["a.nwb", "b.nwb", "c.nwb"], "3 paths are given, and the last one, c.nwb, is not a folder"),
    (["x/a.nwb", "y/a.nwb", "-o", "{}"], "would both become"),
])  # fmt: skip
def test_nothing_is_converted_if_the_arguments_make_no_sense(calls, tmp_path, zarrio, arguments, said):
    assert said in zarrio("convert", *[argument.format(tmp_path / "out") for argument in arguments], code=2).err
    assert calls == []
    assert not (tmp_path / "out").exists()


def test_there_and_back_and_nothing_differs(nwb, zarrio):
    zarr, back = nwb.with_name("a.nwb.zarr"), nwb.with_name("b.nwb")
    assert main(["convert", str(nwb), str(zarr)]) == 0
    shown = zarrio("convert", zarr, back)
    assert " groups, " in shown.out
    assert shown.err == ""
    for pair in ((nwb, zarr), (zarr, nwb), (nwb, back)):
        assert zarrio("compare", *pair).out.startswith("no differences (")


def test_a_file_of_nwb_1_ends_with_one_line_and_leaves_nothing(tmp_path, zarrio):
    hdf5_file(tmp_path / "old.nwb", nwb_version="NWB-1.0.6")
    captured = zarrio("convert", tmp_path / "old.nwb", tmp_path / "old.zarr", code=2)
    assert captured.err.count("\n") == 1
    assert "--no-check" in captured.err
    assert [path.name for path in tmp_path.iterdir()] == ["old.nwb"]
    zarrio("convert", tmp_path / "old.nwb", tmp_path / "old.zarr", "--no-check")


def test_the_name_of_the_target_says_the_format_unless_told(nwb, zarrio):
    said = zarrio("convert", nwb, nwb.with_name("b.nwb"), code=2).err  # as `zarrio convert *.nwb` of two files
    assert "use --to zarr; for several sources, name a folder with --output." in said
    zarrio("convert", nwb, nwb.with_name("folder"), "--to", "zarr")
    zarrio("compare", nwb, nwb.with_name("folder"))


@pytest.mark.parametrize(("options", "said"), [
    (["--codec", "zstd"], "codec does not apply here: it is for conversions from HDF5 to Zarr. Leave --codec out."),
    (["--shards", "auto"], "shards does not apply here: it is for conversions to Zarr. Leave --shards out."),
    (["--resume"], "Leave --resume out"),
    (["--zarr-format", "3"], "3 is not a Zarr format of the target. Leave --zarr-format 3 out"),
])  # fmt: skip
def test_an_option_without_effect_is_told_by_its_name(nwb, options, said, zarrio):
    assert main(["convert", str(nwb), str(nwb.with_name("a.zarr"))]) == 0
    shown = zarrio("convert", *options, nwb.with_name("a.zarr"), nwb.with_name("b.nwb"), code=2).err
    assert said in shown
    assert "=" not in shown


def test_limits_without_effect_are_told_by_their_option(nwb, zarrio):
    call = ("convert", nwb, nwb.with_name("a.zarr.json"), "--to", "virtual", "--no-plug-in-codecs")
    assert "Leave --no-plug-in-codecs out." in zarrio(*call, code=2).err


def test_links_between_zarr_files_are_copied_by_an_export(nwb, zarrio):
    assert main(["convert", str(nwb), str(nwb.with_name("a.zarr"))]) == 0
    shown = zarrio("convert", "--no-link-data", nwb.with_name("a.zarr"), nwb.with_name("b.zarr"), code=2).err
    assert 'Leave --no-link-data out. From Zarr to Zarr, io.export(source, write_args={"link_data": False})' in shown


def test_the_help_is_in_groups(capsys):
    assert main(["convert", "--help"]) == 0
    titles = (
        "what is converted:", "where it is written:", "how it is stored:", "how it runs:", "options:", "examples:",
    )  # fmt: skip
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line in titles] == list(titles)
    place = {title: lines.index(title) for title in titles}
    for option, title, after in (
        ("  SOURCE ", "what is converted:", "where it is written:"),
        ("  --overwrite ", "where it is written:", "how it is stored:"),
        ("  --codec ", "how it is stored:", "how it runs:"),
        (("  -j, --jobs ", "  -j N, --jobs "), "how it runs:", "options:"),
        ("  -h, --help ", "options:", "examples:"),
    ):
        (number,) = (number for number, line in enumerate(lines) if line.startswith(option))
        assert place[title] < number < place[after]


def test_the_chunks_that_were_filled_are_named(tmp_path, zarrio):
    array = trees.dataset("a", ZarrDataIO(np.ones((4, 2)), chunks=(1, 2)))
    path = trees.write_builder(tmp_path / "a.zarr", trees.root(array))
    (path / "a" / "3.0").unlink()
    (path / "a" / "1.0").write_bytes(b"damaged")
    call = ["convert", "--missing-chunks", "fill", path, tmp_path / "b.zarr", "--overwrite"]
    remark = "2 of 4 chunks of /a were filled: 3.0 [3:4, 0:2], 1.0 [1:2, 0:2]"
    assert f"\n  {remark}\n" in zarrio(*call).out
    (done,) = json.loads(zarrio(*call, "--json").out)
    assert done["remarks"] == [remark]
