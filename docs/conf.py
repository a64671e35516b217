"""Sphinx configuration; `nox -s docs` builds with warnings as errors."""

from __future__ import annotations

import re
import tomllib
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx_gallery.sorting import ExplicitOrder

_ROOT = Path(__file__).resolve().parents[1]
_PROJECT = tomllib.loads((_ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

project = _PROJECT["name"]
author = _PROJECT["authors"][0]["name"]
project_copyright = f"2026, {author}"
version = release = _PROJECT["version"]

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
nitpicky = True

# The docstrings say the types, in words; a signature with all annotations would be no easier to read.
autodoc_typehints = "none"
autodoc_preserve_defaults = True
autodoc_member_order = "bysource"
toc_object_entries_show_parents = "hide"
templates_path = ["_templates"]
_CALLED_BY_HDMF = (  # is on the page of ZarrIO
    "export_io, generate_dataset_html, get_builder, get_container, get_written, load_namespaces_io, read_builder, "
    "write_builder"
)
autosummary_context = {
    # Of a `zarr.Array`, what the reference describes; without a row: all that the class itself defines.
    "chosen": {
        "LazyArray": "shape, maxshape, ndim, size, dtype, nbytes, chunks, nchunks, nbytes_stored, compressor, filters, "
        "fill_value, attrs, location, path, name, basename, astype, tolist, to_dask, to_xarray",
        "EditableArray": "append, extend, resize",
        "RegionReference": "selection, read",
    },
    # Their attributes are all that users need.
    "without_members": [
        "ReadOptions",
        "WriteOptions",
        "ConversionReport",
        "UpgradeReport",
        "PlannedStorage",
        "Repairs",
        "Difference",
        "FilterStep",
    ],
    "more": {
        "NWBZarrIO": [":inherited-members: HDMFIO", f":exclude-members: {_CALLED_BY_HDMF}"],
        "ZarrIO": [":inherited-members: HDMFIO"],
    },
}
napoleon_google_docstring = False
# Types are words as well, not names of Python objects to be looked up.
napoleon_use_param = False
napoleon_use_rtype = False
napoleon_custom_sections = [("Attributes", "params_style")]
exclude_patterns = ["_build", "format/vectors", "sg_execution_times.rst", "auto_gallery/sg_execution_times.rst"]

copybutton_prompt_text = r"\$ |>>> |\.\.\. "
copybutton_prompt_is_regexp = True
copybutton_selector = "div:not(.highlight-text):not(.highlight-none) > div.highlight > pre"  # no output

html_theme = "furo"
html_title = project
html_static_path = ["_static"]
html_css_files = ["custom.css"]

_EXAMPLES = (
    "first_file",
    "write",
    "read_lazily",
    "convert_and_compare",
    "chunks_and_shards",
    "append",
    "parallel",
    "remote",
    "links",
    "object_model",
    "verify_and_repair",
    "other_tools",
    "lfp",
    "psth",
    "pynapple",
    "spikeinterface",
)
"""In the order in which one may want to read them."""

sphinx_gallery_conf = {
    "examples_dirs": str(_ROOT / "gallery"),
    "gallery_dirs": "auto_gallery",
    "filename_pattern": "/plot_",
    # nox -s docs installs it; before Python 3.14, pip does not install it beside zarr-python 3
    "ignore_pattern": "__init__" if find_spec("spikeinterface") else "plot_spikeinterface",
    "abort_on_example_error": True,  # documentation must not show an example that fails
    "image_scrapers": ("matplotlib",),
    "capture_repr": ("_repr_html_",),  # else the last line of a plot shows a list of its texts
    "default_thumb_file": str(_ROOT / "docs" / "_static" / "report.png"),
    "reset_modules": ("matplotlib",),
    "within_subsection_order": ExplicitOrder([f"plot_{name}.py" for name in _EXAMPLES] + ["*"]),
    "remove_config_comments": True,
    "show_memory": False,
    "min_reported_time": 1,
}


def _sources_as_notes(_: Sphinx, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Let the sentence that says where a rule comes from be no part of the section before it."""
    for index, line in enumerate(lines):
        if line.startswith("Source: "):
            lines[index:index] = ["Notes", "-----"]
            return


def _defaults_in_words(*arguments: Any) -> tuple[str, str] | None:
    """Show a default that is an object of this package as the call that creates one."""
    signature, returned = arguments[-2:]
    shown = re.sub(r"<hdmf_zarr_backend[\w.]*\.(\w+) object[^>]*>", r"\1()", signature or "")
    return (shown, returned) if shown != (signature or "") else None


INTERNAL = {
    "explanation/architecture",
    "explanation/bad-input",
    "explanation/data-flow",
    "explanation/performance-method",
    "format/test-vectors",
    "reference/changes-in-detail",
    "reference/clients",
    "reference/features",
}
"""Pages for developers, which would hide the guides among the results of a search."""


def _without_search(app: Sphinx, _: Any) -> None:
    """Leave internal pages out of the search; the sidebar has them."""
    if app.env.docname in INTERNAL:
        app.env.metadata[app.env.docname]["nosearch"] = "true"


def _with_alternative_text(_: Sphinx, doctree: nodes.document) -> None:
    """Describe the pictures of the gallery's first page, which have no text, by the title that follows."""
    for picture in doctree.findall(nodes.image):
        title = picture.next_node(nodes.raw, ascend=True)
        if not picture.get("alt") and title is not None:
            picture["alt"] = re.sub("<[^>]*>", "", title.astext()).strip()


def setup(app: Sphinx) -> None:
    """Read docstrings before napoleon does, whose priority is 500."""
    app.connect("autodoc-process-docstring", _sources_as_notes, priority=400)
    app.connect("autodoc-process-signature", _defaults_in_words)
    app.connect("doctree-read", _without_search)
    app.connect("doctree-read", _with_alternative_text)
