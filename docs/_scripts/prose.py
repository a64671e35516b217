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
"""Patterns that neither pages nor docstrings and messages may have, and what to write."""

PAGE_PHRASES = {
    # passives with a verb that says little
    r"\b(?:is|are|was|were|be|been|being) made\b(?! up)": "say who does what: creates, writes, generates",
    r"\b(?:is|are|was|were|be|been|being) taken\b": "uses, reads, accepts, measures",
    r"\b(?:is|are|was|were|be|been|being) asked\b": "requests, refuses, reports",
    r"\b(?:is|are|was|were|be|been) (?:wanted|meant)\b": "requires, refers to",
    r"\b(?:is|are|was|were|be|been) put\b": "writes, stores, places",
    # words of another language
    r"\bas of\b": "since, in; or repeat the description of the other page",
    r"\bby now\b": "now, meanwhile, in newer versions",
    r"\btells? (?:what|which|where|when|how|whether|who)\b": "shows, explains, lists",
    r"\bin the (?:way|manner) of\b": "as in, like",
    r"\bis not the case\b": "say what holds",
    r"\bin (?:its|their|the) places?\b(?! of)": "at its path, there, instead",
    r"\bbeside (?:its|their) places?\b": "next to its path",
    r"\bleads? (?:to nothing|nowhere)\b": "has no target, is broken",
    r"\ball that\b": "everything that, all",
    r"\b(?:all|both) of it\b": "the whole file, both",
    r"\bin spite of\b": "despite",
    r"\bfor certain\b": "certainly; or say how one knows",
    r"\bbesides\b(?=[.;])": "also",
    r"\bwhat (?:is|was) (?:in it|new in it)\b": "its content",
    r",\s+since\b": "because",
    r"\bfor (?:anybody|somebody) who\b": "for everyone who; or address the reader: if you",
    r"\bthat you make\b": "that you create; or name it",
    r"\bthe module in front of\b": "the module shown",
    r"\bcontains? the same\b(?! \w)": "is equal; or name what is equal",
    r"\b(?:its|their) own affair\b": "say who controls it",
    r"\bthe smallest of\b": "the best of, the minimum of",
    r"\bmeans? nothing\b": "is noise",
    r"\bmakes? [^.;]{0,40}\bthose of\b": "say what it does: activates, replaces",
    r"\bof the \w+ of \w+ (?:above|below)\b": "as in the table above, below",
    # the subject after the verb, and clauses in foreign order
    r"(?:^|[.;:] )(?:then|with [^.,;:]{3,40}|to [^.,;:]{3,40}|in [^.,;:]{3,40}) (?:comes?|goes?|go|stands?|lies?) ": (
        "put the subject first"
    ),
    r"(?:^|[.:] )the same (?:on|in|with|from|to) ": "begin with the verb: Or convert on the command line",
    r"\b(?:does|do|is|are|has|have) not either\b": "neither ... nor",
    r"\bso (?:it|they) (?:is|are|does|do) (?:in|for|with)\b": "repeat the verb",
    # several numbers in a clause
    r"\btimes\b[^.;:|]{0,90}\btimes\b[^.;:|]{0,90}\btimes\b": "a bullet for each number",
}
"""Patterns that read as translated. Pages must not have them; docstrings and messages are not checked for them."""

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
    """Yield the phrases of a page, or of a module of the package, that are listed for it."""
    patterns = PHRASES if path.startswith("src/") else PHRASES | PAGE_PHRASES
    for pattern, advice in patterns.items():
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
