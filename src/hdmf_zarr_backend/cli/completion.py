"""`zarrio completion`: commands and options at the press of the tabulator, in bash, zsh and tcsh."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from hdmf_zarr_backend.cli.command import Command, Exit

_SHELLS = ("bash", "zsh", "tcsh")


def _configure(parser: ArgumentParser) -> None:
    parser.add_argument("shell", choices=_SHELLS, help="the shell that the script is for")


def _run(arguments: Namespace) -> Exit:
    import shtab

    from hdmf_zarr_backend.cli.main import build_parser  # on use: it imports all commands, this one too

    print(shtab.complete(build_parser(), shell=arguments.shell))
    return Exit.OK


COMMAND = Command(
    name="completion",
    summary="print a script that completes commands and options",
    description=(
        "Print a script that lets a shell complete the commands and options of zarrio. Needs the extra cli.\n"
        "bash: put its output into ~/.local/share/bash-completion/completions/zarrio. zsh: into a file _zarrio\n"
        "in one of the folders of $fpath. tcsh: into a file that ~/.tcshrc sources."
    ),
    examples="""\
  zarrio completion bash
  zarrio completion zsh
""",
    configure=_configure,
    run=_run,
)
