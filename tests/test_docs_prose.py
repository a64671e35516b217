"""Pages have none of the phrases that the project avoids; links of the README and the like lead to files."""

import importlib

SCRIPT = "prose"


def test_pages_have_no_phrase_to_be_rewritten(script):
    checked = script.pages()
    assert {"README.md", "docs/index.md", "gallery/plot_write.py"} <= checked.keys()
    assert [str(entry) for path, prose in checked.items() for entry in script.phrases(path, prose)] == []


def test_docstrings_and_messages_have_no_phrase_to_be_rewritten(script):
    checked = script.sources()
    assert "src/hdmf_zarr_backend/errors.py" in checked
    assert [str(entry) for path, prose in checked.items() for entry in script.phrases(path, prose)] == []


def test_links_of_the_markdown_files_at_the_root_lead_to_files(script):
    assert importlib.import_module("links").broken_in_markdown() == []
