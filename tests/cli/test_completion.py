"""`zarrio completion`: real shells take the scripts and complete with them."""

import shutil
import subprocess

import pytest

from hdmf_zarr_backend.cli.main import COMMANDS, main

pytest.importorskip("shtab", reason="shtab of the extra cli is not installed")


def script(shell: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["completion", shell]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("shell", ["bash", "zsh", "tcsh"])
def test_each_command_is_in_the_script(shell, capsys):
    text = script(shell, capsys)
    for command in COMMANDS:
        assert command.name in text


def test_an_unknown_shell_is_told(zarrio):
    assert "bash" in zarrio("completion", "cmd", code=2).err


@pytest.mark.parametrize(("words", "wanted"), [
    (["zarrio", "ver"], "verify"), (["zarrio", "convert", "--res"], "--resume"),
    (["zarrio", "inspect", "--dep"], "--depth"),
])  # fmt: skip
def test_bash_completes(words, wanted, tmp_path, capsys):
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("there is no bash on this machine")
    path = tmp_path / "zarrio.bash"
    path.write_text(script("bash", capsys), encoding="utf-8")
    asked = f"COMP_WORDS=({' '.join(words)}); COMP_CWORD={len(words) - 1}"
    call = "$(complete -p zarrio | sed 's/.*-F \\([^ ]*\\).*/\\1/') zarrio"
    lines = f'. "{path}"; {asked}; {call}; printf "%s\\n" "${{COMPREPLY[@]}}"'
    told = subprocess.run([bash, "-c", lines], capture_output=True, text=True, check=True, timeout=600)
    assert wanted in told.stdout.split()
