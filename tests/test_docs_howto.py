"""The Python of all pages runs as printed, has the output that they show, and raises no warning.

Every line that calls ``zarrio`` is one that the command line takes.
"""

import ast
import io
import re
import runpy
import shlex
import shutil
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest

from hdmf_zarr_backend.cli.main import build_parser, main
from tests.pagerunner import PageRunner
from tests.servers import S3Server

ROOT = Path(__file__).resolve().parents[1]
_GENERATED = {"_build", "auto_gallery"}
ALL_PAGES = {
    path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
    for path in sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])
    if not _GENERATED & set(path.parts)
}
PAGES = [name for name, text in ALL_PAGES.items() if "\n```python\n" in text]
ALONE = {"docs/how-to/move-from-hdmf-zarr.md"}  # changes zarr and the table of modules
README = "README.md"  # works on what its first command has made
EXAMPLE_FILE = "docs/how-to/example-file.md"  # makes what the other guides work on

_BLOCK = re.compile(r"^```(?P<language>[^\n]*)\n(?P<text>.*?)^```$", re.DOTALL | re.MULTILINE)


class Block(NamedTuple):
    """A piece of Python, and the output that the page shows."""

    code: str
    output: str


def blocks(page: str) -> Iterator[Block]:
    result = [match.groupdict() | {"start": match.start(), "end": match.end()} for match in _BLOCK.finditer(page)]
    result.append({"language": "", "start": len(page), "text": ""})
    for block, after in pairwise(result):
        if block["language"] == "python":
            adjacent = after["language"] == "text" and not page[block["end"] : after["start"]].strip()
            yield Block(block["text"], after["text"] if adjacent else "")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the example file of the guides, in Zarr and in HDF5, as its page makes it."""
    result = tmp_path_factory.mktemp("files")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(result)
        for block in blocks(ALL_PAGES[EXAMPLE_FILE]):
            exec(block.code, {})  # noqa: S102 - our own page
    return result


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that the first command of the README leaves, also if it is run again."""
    result = tmp_path_factory.mktemp("first") / "first"
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(io.StringIO()):
        patch.setattr(sys, "argv", ["plot_first_file.py", str(result)])
        for _ in range(2):
            runpy.run_path(str(ROOT / "gallery" / "plot_first_file.py"), run_name="__main__")
    return result


@pytest.fixture(scope="module")
def runner(_s3_session: S3Server) -> Iterator[PageRunner]:
    result = PageRunner(_s3_session.environment)
    yield result
    result.close()


@pytest.fixture
def folder(files: Path, tmp_path: Path) -> Path:
    """A working directory of its own for each page."""
    return Path(shutil.copytree(files, tmp_path / "here"))


_CONVERTED = re.compile(r"""convert(?:\("[^"]+", "| \S+ )(?P<target>[\w./]+)""")


def without_targets(folder: Path, page: str) -> Path:
    """Remove from a folder what a page converts to, as an existing target is refused."""
    for entry in _CONVERTED.finditer(page):
        target = folder / entry["target"]
        if target.is_dir():
            shutil.rmtree(target)
        else:
            target.unlink(missing_ok=True)
    return folder


@pytest.mark.parametrize("name", PAGES)
def test_the_code_of_a_page_runs(name, folder, runner, s3, first, tmp_path):
    s3.make_bucket("my-bucket")
    if name == README:
        folder = Path(shutil.copytree(first, tmp_path / "first"))
    result = list(blocks(ALL_PAGES[name]))
    without_targets(folder, "\n".join(block.code for block in result))
    who = PageRunner(s3.environment) if name in ALONE else runner
    answer = who.run([block.code for block in result], folder)
    if who is not runner:
        who.close()
    assert answer.complaints == ""
    for block, output in zip(result, answer.printed, strict=True):
        assert output == block.output, block.code


COLUMNS = 82
"""What fits beside the sidebars of a page, and what ``ruff.toml`` in the folders of pages asks for."""


def test_python_on_pages_and_in_examples_fits_beside_the_sidebars():
    shown = {
        name: [
            line
            for block in _BLOCK.finditer(text)
            if block["language"] in ("python", "py")
            for line in block["text"].splitlines()
        ]
        for name, text in ALL_PAGES.items()
    }
    for path in (ROOT / "gallery").glob("*.py"):
        code = path.read_text(encoding="utf-8").split('"""', 2)[2]
        shown[path.name] = [line for line in code.splitlines() if not line.startswith("#")]
    too_wide = {name: [line for line in lines if len(line) > COLUMNS] for name, lines in shown.items()}
    assert {name: lines for name, lines in too_wide.items() if lines} == {}


_CONSOLE = re.compile(r"^```console\n(?P<text>.*?)^```$", re.DOTALL | re.MULTILINE)


def calls(page: str) -> Iterator[list[str]]:
    for block in _CONSOLE.finditer(page):
        for line in block["text"].splitlines():
            if line.startswith("$ zarrio "):  # else the output of one, or another program
                words = shlex.split(line.removeprefix("$ "), comments=True)
                stops = [index for index, word in enumerate(words) if word in ("|", "&&", ">")]
                yield words[1 : min(stops, default=len(words))]


CALLS = sorted({tuple(call) for page in ALL_PAGES.values() for call in calls(page)})


@pytest.mark.parametrize("call", CALLS, ids=" ".join)
def test_a_call_is_one_that_the_command_line_takes(call, capsys):
    try:
        build_parser().parse_args(call)
    except SystemExit as stop:
        assert stop.code == 0, capsys.readouterr().err  # --help


def texts(tree: ast.AST) -> Iterator[str]:
    """Yield every text of a module; ``…`` stands for what is put into it when it runs."""
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


@pytest.fixture(scope="module")
def raised() -> str:
    source = ROOT / "src" / "hdmf_zarr_backend"
    return "\n".join(text for path in source.rglob("*.py") for text in texts(ast.parse(path.read_text("utf-8"))))


TROUBLES = re.findall(r"^\| `([^`]+)` \|", ALL_PAGES["docs/how-to/troubleshooting.md"], re.MULTILINE)


@pytest.mark.parametrize("message", TROUBLES)
def test_a_message_of_the_page_on_troubles_is_one_of_this_package(message, raised):
    """Each part of it between two ``…`` is in one text, in this order."""
    parts = [re.escape(part) for part in message.split("…") if part.strip()]
    assert re.search("[^\n]*".join(parts), raised) is not None


_SECONDS = re.compile(r"\bin \d+\.\d s\b")


def sessions(page: str) -> Iterator[tuple[str, list[str]]]:
    """Yield each command with a prompt in the blocks of console of a page, and the lines below it."""
    for block in _CONSOLE.finditer(page):
        for part in re.split(r"^\$ ", block["text"], flags=re.MULTILINE)[1:]:
            command, *shown = part.splitlines()
            yield command, shown


def is_shown(shown: list[str], printed: str) -> bool:
    """Tell whether a page shows what was printed: ``...`` matches any lines, and seconds may be others."""
    lines = [_SECONDS.sub("in 0.0 s", line.rstrip()) for line in printed.splitlines()]
    parts = [r"(?:.*\n)*" if line == "..." else re.escape(_SECONDS.sub("in 0.0 s", line)) + r"\n" for line in shown]
    return re.fullmatch("".join(parts), "".join(f"{line}\n" for line in lines)) is not None


def test_the_commands_of_the_readme_print_what_it_shows(first, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(without_targets(Path(shutil.copytree(first, tmp_path / "first")), ALL_PAGES[README]))
    result = list(sessions(ALL_PAGES[README]))
    assert [command.split()[:2] for command, _ in result] == [
        ["zarrio", name] for name in ("convert", "inspect", "convert", "compare")
    ]
    for command, shown in result:
        call, _, then = command.partition(" && ")
        code = main(shlex.split(call)[1:])
        said = capsys.readouterr()
        assert (code, said.err) == (0, ""), command
        assert is_shown(shown, said.out + (f"{then.removeprefix('echo ')}\n" if then else "")), said.out
