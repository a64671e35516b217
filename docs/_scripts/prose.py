"""Checks the prose of the README, the documentation and the gallery: ``nox -s lint``.

proselint has a list of mistakes of its own; `PHRASES` is that of this project, which the tests check as well.
Code, addresses and generated parts are not looked at. Of the source, docstrings and messages are.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from typing import NamedTuple

from generated import ROOT

PHRASES = {
    r"\b(?:is|are|be) told\b": "is informed, is reported, must be given",
    r"\bsays (?:how|what|which|why)\b": "describes, explains, lists",
    r"\bsays the\b": "put the subject before the verb",
    r"\bstands? (?:in|at|for it|there|beside|under|as)\b": "is, has",
    r"\bheld? against\b": "compare with, check against",
    r"\bshall\b(?! NOT)": "must, will",
    r"(?<!there )(?<!there also )\b(?:is|are) no (?!longer\b)": "is not a, are not, does not have",
    r"\ba door to\b": "say what it is",
    r"\bwithout a word\b": "silently, without a warning",
    r"\bfar (?:file|store|server)s?\b": "remote",
    r"\banew\b": "again",
    r"\bwhoever\b": "name who: a reader, a program",
    r"\bput down in\b": "recorded in",
    r"\bby the way\b": "leave out",
    r"\bas it stands\b": "unchanged",
    r"\ball the same\b": "still, anyway",
    r"\bas Zarr has it\b": "as usual in Zarr",
    r"\bsays of itself\b": "is marked as, records that",
}
"""Patterns that a page must not have, and what to write."""

UNCHECKED = (
    "typography.symbols",
    "lexical_illusions",
    "annotations",
    "spelling",
    "redundancy.garner",
    "typography.diacritical",
)
"""Checks of proselint that do not suit technical text: curly quotes, repeated words in tables, the verb resume."""

GENERATED = {"clients.md"}

_HIDDEN = re.compile(
    r"^(?P<fence>`{3,}|:{3,}).*?^(?P=fence)[^\n]*$"  # blocks of code, and directives
    r"|^% generated:.*?^% end:[^\n]*$|<!-- generated:.*?<!-- end:[^\n]*-->"
    r"|`[^`\n]*`|\]\([^)\s]*\)|https?://\S+|^\|[-| ]+\|$",
    re.DOTALL | re.MULTILINE,
)


class Finding(NamedTuple):
    """A place with a phrase to be rewritten."""

    path: str
    line: int
    text: str

    def __str__(self) -> str:
        """Return the finding as a line that editors can follow."""
        return f"{self.path}:{self.line}: {self.text}"


def visible(page: str) -> str:
    """Return a page with blanks in the place of all that is not prose; lines keep their numbers."""
    return _HIDDEN.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), page)


def gallery_prose(script: str) -> str:
    """Return the texts of an example, with blank lines in place of its code."""
    docstring = script.split('"""')[1].count("\n") + 1
    lines = [
        line.removeprefix("#").removeprefix(" ") if number < docstring or line.startswith("# ") else ""
        for number, line in enumerate(script.splitlines())
    ]
    return re.sub(r"``[^`\n]*``", lambda match: " " * len(match[0]), "\n".join(lines).replace('"""', ""))


def texts(module: str) -> str:
    """Return the docstrings and messages of a module, in their lines."""
    lines = [""] * (module.count("\n") + 2)
    for node in ast.walk(ast.parse(module)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            for number, line in enumerate(node.value.split("\n"), node.lineno - 1):
                lines[number] += f" {line}"
    return re.sub(r"`[^`\n]*`", lambda match: " " * len(match[0]), "\n".join(lines))


def sources() -> dict[str, str]:
    """Return ``{path: docstrings and messages}`` of the package, whose phrases are checked, but not by proselint."""
    paths = sorted((ROOT / "src").rglob("*.py"))
    return {path.relative_to(ROOT).as_posix(): texts(path.read_text(encoding="utf-8")) for path in paths}


def pages() -> dict[str, str]:
    """Return ``{path: prose}`` of what is checked."""
    markdown = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").rglob("*.md")]
    found = {
        path.relative_to(ROOT).as_posix(): visible(path.read_text(encoding="utf-8"))
        for path in sorted(markdown)
        if not {"_build", "auto_gallery"} & set(path.parts) and path.name not in GENERATED
    }
    for path in sorted((ROOT / "gallery").glob("plot_*.py")):
        found[path.relative_to(ROOT).as_posix()] = gallery_prose(path.read_text(encoding="utf-8"))
    return found


def phrases(path: str, prose: str) -> Iterator[Finding]:
    """Yield the phrases of a page that `PHRASES` lists."""
    for pattern, advice in PHRASES.items():
        for match in re.finditer(pattern, prose.replace("\n", " "), re.IGNORECASE):
            line = prose.count("\n", 0, match.start()) + 1
            yield Finding(path, line, f'"{match[0]}": write {advice}')


def proselint_findings(path: str, prose: str) -> Iterator[Finding]:
    """Yield the findings of proselint."""
    from proselint.tools import LintFile

    for result in LintFile(path, prose).lint():
        check = result.check_result
        if not check.check_path.startswith(UNCHECKED):
            yield Finding(path, result.pos[0] - 1, f"{check.message} [{check.check_path}]")


def main() -> int:
    """Print all findings; the exit code is 1 if there are some."""
    from proselint.checks import __register__
    from proselint.registry import CheckRegistry

    CheckRegistry().register_many(__register__)
    found = [
        finding
        for path, prose in pages().items()
        for finding in (*phrases(path, prose), *(proselint_findings(path, prose) if prose.strip() else ()))
    ]
    found += [finding for path, prose in sources().items() for finding in phrases(path, prose)]
    sys.stdout.writelines(f"{finding}\n" for finding in sorted(found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
