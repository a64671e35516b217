"""Pages have none of the phrases that the project avoids; `nox -s lint` adds the checks of proselint."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

SCRIPTS = Path(__file__).resolve().parents[1] / "docs" / "_scripts"


@pytest.fixture(scope="module")
def script() -> Iterator[ModuleType]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(SCRIPTS)
        yield importlib.import_module("prose")


def test_pages_have_no_phrase_to_be_rewritten(script):
    checked = script.pages()
    assert {"README.md", "docs/index.md", "gallery/plot_write.py"} <= checked.keys()
    assert [str(found) for path, prose in checked.items() for found in script.phrases(path, prose)] == []


def test_docstrings_and_messages_have_no_phrase_to_be_rewritten(script):
    checked = script.sources()
    assert "src/hdmf_zarr_backend/errors.py" in checked
    assert [str(found) for path, prose in checked.items() for found in script.phrases(path, prose)] == []
    module = 'shall = 1\nraise ValueError(f"{shall} is\\n"\n    "told anew")\n'
    assert [found.line for found in script.phrases("a.py", script.texts(module))] == [3]


def test_a_phrase_is_found_with_its_line(script):
    (found,) = script.phrases("a.md", script.visible("# A\n\nThe reader is\ntold.\n"))
    assert str(found).startswith('a.md:3: "is told"')


def test_code_is_not_prose(script):
    page = "`is told`\n\n```python\nshall = 1\n```\n\n[x](anew.md)\n% generated: a\n\nanew\n\n% end: a\n"
    assert list(script.phrases("a.md", script.visible(page))) == []
    example = '"""\nA shall\n"""\n\n# %%\n# b is told\nshall = 1\n'
    assert [found.line for found in script.phrases("a.py", script.gallery_prose(example))] == [6, 2]
