"""Colours: on terminals, and as NO_COLOR and FORCE_COLOR demand."""

import io
import re
import sys

import pytest

from hdmf_zarr_backend.cli.main import main
from tests.cli.conftest import Terminal

COLOUR = re.compile("\x1b\\[[0-9;]*m")
VARIABLES = ("NO_COLOR", "FORCE_COLOR", "TERM")


def output(monkeypatch: pytest.MonkeyPatch, stream: io.StringIO, *arguments: object, **environment: str) -> str:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    for name, value in {"TERM": "xterm", **environment}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "stdout", stream)
    monkeypatch.setattr(sys, "stderr", stream)
    main(list(map(str, arguments)))
    return stream.getvalue()


@pytest.mark.parametrize(("stream", "environment", "coloured"), [
    (io.StringIO, {}, False), (io.StringIO, {"FORCE_COLOR": "1"}, True), (io.StringIO, {"FORCE_COLOR": ""}, False),
    (Terminal, {}, True), (Terminal, {"NO_COLOR": "1"}, False), (Terminal, {"NO_COLOR": ""}, True),
    (Terminal, {"NO_COLOR": "1", "FORCE_COLOR": "1"}, False), (Terminal, {"TERM": "dumb"}, False),
])  # fmt: skip
@pytest.mark.parametrize("command", ["", "inspect", "verify --level structure", "inspect gone.zarr", "nonsense"])
def test_which_output_has_colours(command, stream, environment, coloured, small, monkeypatch):
    monkeypatch.chdir(small.parent)
    files = [small] if command.startswith(("inspect", "verify")) else []
    if not command:  # the help is argparse's, which has colours since Python 3.14, by the same rules
        coloured = coloured and sys.version_info >= (3, 14)
    assert bool(COLOUR.search(output(monkeypatch, stream(), *command.split(), *files, **environment))) == coloured


def test_colours_change_no_text_and_json_never_has_some(small, monkeypatch):
    plain = output(monkeypatch, io.StringIO(), "inspect", "--attributes", small)
    painted = output(monkeypatch, io.StringIO(), "inspect", "--attributes", small, FORCE_COLOR="1")
    assert COLOUR.sub("", painted) == plain
    assert "\x1b[36mlink\x1b[0m" in painted
    assert "\x1b[1m/\x1b[0m" in painted
    assert not COLOUR.search(output(monkeypatch, Terminal(), "inspect", "--json", small))
