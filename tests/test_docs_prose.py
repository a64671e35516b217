"""Pages have none of the phrases that the project avoids; links of the README and the like lead to files."""

import importlib

import pytest

SCRIPT = "prose"


def test_pages_have_no_phrase_to_be_rewritten(script):
    checked = script.pages()
    assert {"README.md", "docs/index.md", "gallery/plot_write.py"} <= checked.keys()
    assert [str(entry) for path, prose in checked.items() for entry in script.phrases(path, prose)] == []


TRANSLATED = (
    "As of another class.",
    "An object is made when it is touched.",
    "Rows are taken from the file, shards are asked for, and a value is put into it.",
    "It takes the time of what you use, not of what is in it.",
    "A guide tells what is loaded when.",
    "A member is loaded with all that it links to.",
    "The same on the command line, to another file:",
    "The first file changes that you make.",
    "Tables get the type that they have by now.",
    "Changes are dropped, since a row may be in some columns only.",
    "A new file is not in its place.",
    "The shapes, measured on the data of the table of codecs below:",
    "Choose a shape in the way of TensorStore.",
    "zarr reads all of it, which is not the case for one format.",
    "Import the others from the module in front of them.",
    "Both must contain the same, file by file.",
    "`consolidate` does not either.",
    "Times are the smallest of the rounds.",
    "It opens 2 times as fast, writes 3 times as fast and converts 4 times as fast.",
    "Then come the plans.",
)
"""One sentence for each kind that reads as translated."""


@pytest.mark.parametrize("sentence", TRANSLATED)
def test_a_sentence_that_reads_as_translated_is_found_on_a_page_only(script, sentence):
    assert list(script.phrases("docs/page.md", script.visible(sentence)))
    assert list(script.phrases("src/module.py", sentence)) == []


def test_docstrings_and_messages_have_no_phrase_to_be_rewritten(script):
    checked = script.sources()
    assert "src/hdmf_zarr_backend/errors.py" in checked
    assert [str(entry) for path, prose in checked.items() for entry in script.phrases(path, prose)] == []


def test_links_of_the_markdown_files_at_the_root_lead_to_files(script):
    assert importlib.import_module("links").broken_in_markdown() == []
