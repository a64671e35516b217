"""What the reference takes from the code: the options of each command from its parser, the kinds of findings.

``python docs/_scripts/reference.py`` rewrites them; ``tests/test_docs_reference.py`` holds the pages to them. A command
that has no place on the page yet gets a section of its own at the end.
"""

from __future__ import annotations

import re
from argparse import SUPPRESS, Action, ArgumentParser, _SubParsersAction
from pathlib import Path

from generated import ROOT, code_list, parts, table, with_parts

from hdmf_zarr_backend.check.findings import DAMAGE, REMARKS, REPAIRABLE
from hdmf_zarr_backend.cli.main import COMMANDS, build_parser

COMMAND_LINE = ROOT / "docs" / "reference" / "command-line.md"
FINDINGS = ROOT / "docs" / "how-to" / "verify.md"


_OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")


def parsers() -> dict[str, ArgumentParser]:
    """Return the parser of each command by its name."""
    (commands,) = (action for action in build_parser()._actions if isinstance(action, _SubParsersAction))
    return dict(commands.choices)


def _metavar(action: Action) -> str:
    if action.choices is not None and action.metavar is None:
        return "{" + ",".join(map(str, action.choices)) + "}"
    return str(action.metavar or action.dest.upper())


def _prose(text: str) -> str:
    """Return text with the options in it as code: two hyphens in prose would become a dash."""
    parts = text.split("`")
    return "`".join(part if inside % 2 else _OPTION.sub(r"`\g<0>`", part) for inside, part in enumerate(parts))


def _paragraph(text: str) -> str:
    """Return a paragraph of a description; a list of words and their meanings as a list."""
    if not text.startswith("  "):
        return _prose(" ".join(text.split()))
    rows = (line.split(maxsplit=1) for line in text.splitlines())
    return "\n".join(f"- {_prose(text)}" if word == "-" else f"- `{word}`: {_prose(text)}" for word, text in rows)


def _entry(action: Action, prog: str) -> str:
    """Return an argument or option as an entry of a definition list."""
    text = _prose((action.help or "") % {**vars(action), "prog": prog})
    value = "" if action.nargs == 0 else f" {_metavar(action)}"
    if not action.option_strings:
        return f"`{_metavar(action)}`\n: {text}"
    *short, name = action.option_strings
    also = f" (short: {code_list(short)})" if short else ""
    return f"`{name}{value}`{also}\n: {text}"


def command(name: str, parser: ArgumentParser) -> str:
    """Return what the parser of a command says, as Markdown."""
    entries = []
    for group in parser._action_groups:
        shown = [action for action in group._group_actions if action.help != SUPPRESS]  # else a former name
        actions = [action for action in shown if "--help" not in action.option_strings]
        is_named = actions and group.title not in ("positional arguments", "options")
        entries += [f"*{group.title[0].upper()}{group.title[1:]}*"] if is_named else []
        entries += [_entry(action, parser.prog) for action in actions]
    said = next(command for command in COMMANDS if command.name == name)
    examples = "\n".join(f"$ {line.strip()}" for line in said.examples.strip().splitlines())
    return "\n\n".join(
        [
            *map(_paragraph, said.description.split("\n\n")),
            f"```text\nzarrio {name} {said.usage}\n```",
            f"```console\n{examples}\n```",
            *entries,
        ]
    )


def command_page(page: str) -> str:
    """Return the page of the command line with all commands as they are."""
    texts = {name: command(name, parser) for name, parser in parsers().items()}
    for name in texts.keys() - parts(page).keys():
        heading, marks = f"## `zarrio {name}`\n", f"\n% generated: {name}\n% end: {name}\n"
        page = page if heading in page else f"{page.rstrip()}\n\n{heading}"
        page = page.replace(heading, heading + marks)
    summary = table(["command", "what it does"], [(f"`zarrio {c.name}`", c.summary) for c in COMMANDS])
    return with_parts(page, {"commands": summary, **texts})


def findings_page(page: str) -> str:
    """Return the page about findings with all kinds."""
    whole = {kind: f" Where the consolidated document has it: {remedy}" for kind, remedy in REPAIRABLE.items()}
    rows = [
        (f"`{kind}`", word, _prose(remedy + whole.get(kind, "")))
        for word, kinds in (("problem", DAMAGE), ("remark", REMARKS))
        for kind, remedy in kinds.items()
    ]
    return with_parts(page, {"kinds": table(["kind", "", "what to do"], rows)})


def files() -> dict[Path, str]:
    """Return ``{path: text}`` of the pages as they should be."""
    return {
        COMMAND_LINE: command_page(COMMAND_LINE.read_text(encoding="utf-8")),
        FINDINGS: findings_page(FINDINGS.read_text(encoding="utf-8")),
    }


def main() -> None:
    """Rewrite what is generated on the pages."""
    for path, text in files().items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
