"""`zarrio` as a whole: help, exit codes, one line for an error, a quick start."""

import json
import re
import shlex
import subprocess
import sys
import warnings
from argparse import Namespace
from dataclasses import replace
from pathlib import Path

import pytest

from hdmf_zarr_backend import __version__
from hdmf_zarr_backend.cli import main as cli
from hdmf_zarr_backend.cli.command import Exit, print_json
from hdmf_zarr_backend.cli.main import COMMANDS, build_parser, main
from hdmf_zarr_backend.errors import StoreNotFoundError
from hdmf_zarr_backend.extras import install_command

DOCUMENTATION = Path(__file__).resolve().parents[2] / "docs/reference/command-line.md"


def test_help_is_a_command(capsys, zarrio):
    for given, same in (([], ["--help"]), (["help"], ["--help"]), (["help", "compare"], ["compare", "--help"])):
        assert main(given) == main(same) == 0
        shown = capsys.readouterr().out
        assert shown[: len(shown) // 2] == shown[len(shown) // 2 :]
    assert "'compar' is not a command; did you mean compare?" in zarrio("help", "compar", code=2).err
    shown = zarrio("--help").out
    assert all(command.name in shown and command.summary in shown for command in COMMANDS)
    assert __version__ in zarrio("--version").out


@pytest.mark.parametrize(("given", "meant"), [
    ("conver", "convert"), ("insepct", "inspect"), ("repot", "report"), ("val", "validate"),
    ("convert --ovewrite", "--overwrite"), ("convert --codek=zstd", "--codec"),
    ("verify --leval links", "--level"), ("upgrade --dryrun", "--dry-run"),
])  # fmt: skip
def test_a_mistyped_command_or_option_is_suggested(given, meant, zarrio):
    shown = zarrio(*given.split(), "a.zarr", code=2).err
    assert f"did you mean {meant}?" in shown
    command, _, options = given.partition(" ")
    assert f"Run `zarrio help{options and f' {command}'}` " in shown
    assert options or f"{command!r} is not a command; did you mean" in shown


def test_nothing_is_suggested_for_a_word_that_resembles_nothing(capsys):
    assert main(["xylophone"]) == main(["compare", "a", "b", "--xylophone"]) == 2
    assert "did you mean" not in capsys.readouterr().err


def test_the_help_fits_the_terminal(monkeypatch, capsys):
    for columns in (60, 100):
        monkeypatch.setenv("COLUMNS", str(columns))
        assert main(["help", "convert"]) == 0
        text, _, _ = capsys.readouterr().out.partition("\nexamples:")
        assert columns - 20 < max(map(len, text.splitlines())) < columns


def test_options_are_spelled_the_same_in_all_commands():
    """Options of the same name take values of the same form and have the same short name."""
    forms: dict[str, set[object]] = {}
    (commands,) = [action.choices for action in build_parser()._actions if action.choices]
    for parser in commands.values():  # type: ignore[attr-defined]
        for action in parser._actions:
            for option in action.option_strings:
                forms.setdefault(option, set()).add((tuple(action.option_strings), action.nargs == 0))
    assert {option: entry for option, entry in forms.items() if len(entry) > 1} == {}


@pytest.mark.parametrize(("arguments", "said"), [
    ("bogus", ""), ("inspect", ""), ("inspect a --depth -1", ""), ("compare a", ""),
    ("convert a.nwb b.zarr --nonsense", "unrecognized arguments: --nonsense"),
])  # fmt: skip
def test_a_wrong_call_is_told_with_the_usage_of_its_command_and_ends_with_2(arguments, said, zarrio):
    command = "" if arguments == "bogus" else arguments.split()[0]
    captured = zarrio(*arguments.split(), code=2)
    assert captured.out == ""
    assert captured.err.startswith(f"usage: zarrio {command}")
    assert said in captured.err


@pytest.mark.parametrize(("arguments", "said"), [
    (["-o", "gone/a.html"], "the folder gone does not exist. Create it first"),
    (["-o", "."], "is a folder. Name a file in it"),
    (["-o", "s3://bucket/a.html"], "written to a local path. Upload it afterwards"),
    (["b.html"], "b.html: a second path is a file to compare with. Name the page with -o b.html."),
    (["--structure"], "--structure is about two files. Name a second file"),
    (["b.zarr", "--level", "chunks"], "--level is about one file"),
    (["b.zarr", "--no-check"], "--no-check is about one file"),
    (["--no-check", "--level", "chunks"], "not allowed with argument"),
])  # fmt: skip
def test_a_report_that_cannot_be_made_is_told_at_once(arguments, said, tmp_path, monkeypatch, zarrio):
    monkeypatch.chdir(tmp_path)
    assert said in zarrio("report", "a.zarr", *arguments, code=2).err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_each_command_explains_itself_with_an_example_and_its_exit_codes(command, zarrio):
    shown = zarrio(command.name, "--help").out
    assert f"\n  zarrio {command.name} " in shown
    for code in Exit:
        assert re.search(rf"^  {int(code)}  \w", shown, re.MULTILINE)
    for line in command.examples.splitlines():
        assert build_parser().parse_args(shlex.split(line.partition("|")[0])[1:]).command is command


def test_the_documentation_names_each_kind_of_difference():
    from hdmf_zarr_backend.comparison import KINDS

    _, _, table = DOCUMENTATION.read_text(encoding="utf-8").partition("| kind |")
    rows = [row.split("|")[1] for row in table.splitlines() if row.startswith("| `")]
    assert {kind for row in rows for kind in re.findall(r"`([a-z_-]+)`", row)} == KINDS


def run_with(monkeypatch: pytest.MonkeyPatch, behaviour: object) -> int:
    def run(_: Namespace) -> Exit:
        if isinstance(behaviour, BaseException):
            raise behaviour
        return behaviour()  # type: ignore[operator,no-any-return]

    inspect = next(command for command in COMMANDS if command.name == "inspect")
    monkeypatch.setattr(cli, "COMMANDS", (replace(inspect, run=run),))
    return main(["inspect", "x"])


@pytest.mark.parametrize(("error", "told"), [
    (
        StoreNotFoundError("the file\ndoes not exist", store="/a/b", remedy="Check the path."),
        "/a/b: the file does not exist. Check the path.",
    ),
    (
        PermissionError(13, "Permission denied", "/a"),
        "the operating system refuses: [Errno 13] Permission denied: '/a'. Check the permissions",
    ),
    (KeyboardInterrupt(), "interrupted"),
], ids=["ours", "the system's", "an interruption"])  # fmt: skip
def test_an_error_is_one_line(error, told, monkeypatch, capsys):
    assert run_with(monkeypatch, error) == (130 if isinstance(error, KeyboardInterrupt) else 2)
    assert capsys.readouterr() == ("", f"zarrio: {told}\n")


def test_a_missing_library_is_named_and_a_mistake_of_ours_is_not_hidden(monkeypatch, capsys):
    assert run_with(monkeypatch, ModuleNotFoundError("No module named 'h5py'", name="h5py")) == 2
    assert f"install it with: {install_command('hdf5')}" in capsys.readouterr().err
    with pytest.raises(ModuleNotFoundError):
        run_with(monkeypatch, ModuleNotFoundError("No module named 'abc'", name="abc"))
    with pytest.raises(ZeroDivisionError):
        run_with(monkeypatch, ZeroDivisionError())


def test_warnings_are_lines_without_the_place_in_the_code(monkeypatch, capsys):
    def run() -> Exit:
        warnings.simplefilter("default")  # pytest makes errors of them
        warnings.warn("the link 'x'\nis broken", stacklevel=1)
        return Exit.OK

    before = warnings.showwarning
    assert run_with(monkeypatch, run) == 0
    assert capsys.readouterr().err == "zarrio: warning: the link 'x' is broken\n"
    assert warnings.showwarning is before


def test_json_is_strict_and_ascii(capsys):
    print_json({"ä": [float("nan"), float("inf"), 1.5, True, None, b"\xff"], "path": Path("a")})
    shown = capsys.readouterr().out
    assert shown.isascii()
    document = json.loads(shown, parse_constant=pytest.fail)
    assert document == {"ä": ["nan", "inf", 1.5, True, None, "\\xff"], "path": "a"}


def test_the_installed_command_runs():
    result = Path(sys.executable).with_name("zarrio")
    if not result.exists():
        pytest.skip("the package is not installed with its commands")
    answer = subprocess.run([result, "--version"], capture_output=True, text=True, check=False)
    assert answer.stdout == f"zarrio {__version__}\n"


@pytest.mark.skipif(sys.platform == "win32", reason="a shell of POSIX closes the streams")
@pytest.mark.parametrize(("call", "code"), [("verify $1/missing.zarr 2>&-", 2), ("inspect $1 >&-", 0)])
def test_a_stream_that_is_closed_changes_no_exit_code(tmp_path, call, code):
    (tmp_path / ".zgroup").write_text('{"zarr_format": 2}')
    command = ["sh", "-c", f'"$0" -m hdmf_zarr_backend {call}', sys.executable, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (code, "", "")


def test_a_reader_that_has_seen_enough_is_no_error(tmp_path):
    (tmp_path / ".zgroup").write_text('{"zarr_format": 2}')
    for index in range(3000):
        (tmp_path / f"{index:x}{'x' * (index % 7)}{index}").mkdir()
        (tmp_path / f"{index:x}{'x' * (index % 7)}{index}" / ".zgroup").write_text('{"zarr_format": 2}')
    command = [sys.executable, "-m", "hdmf_zarr_backend.cli.main", "inspect", "--all", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode == 0


HEAVY = ("hdmf", "zarr", "pynwb", "h5py", "pandas", "tqdm", "numcodecs", "dask", "fsspec")


def loaded_by(*arguments: str) -> set[str]:
    code = (
        "import sys; from hdmf_zarr_backend.cli.main import main; "
        f"code = main({list(arguments)!r}); print(code, *sorted(set(sys.modules)), file=sys.stderr)"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    code_text, *modules = answer.stderr.splitlines()[-1].split()
    assert code_text == "0", answer.stderr
    return set(modules)


def test_inspect_diff_of_the_structure_and_unchecked_conversions_do_not_load_hdmf(small, nwb, tmp_path):
    path = str(small)
    assert not loaded_by("--help") & {*HEAVY, "numpy"}
    assert not loaded_by("inspect", path) & {*HEAVY, "numpy"}
    assert not loaded_by("inspect", path, "--json", "--sizes", "--attributes", "--specs") & set(HEAVY)
    assert not loaded_by("compare", path, path, "--structure") & (set(HEAVY) - {"numcodecs"})
    modules = loaded_by("convert", "--no-check", str(nwb), str(tmp_path / "b.zarr"))
    assert not modules & {"hdmf", "pynwb", "zarr"}
