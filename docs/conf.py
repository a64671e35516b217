"""Sphinx configuration; `nox -s docs` builds with warnings as errors."""

from __future__ import annotations

import tomllib
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[1]
_PROJECT = tomllib.loads((_ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

project = _PROJECT["name"]
author = _PROJECT["authors"][0]["name"]
project_copyright = f"2026, {author}"
version = release = _PROJECT["version"]

extensions = ["myst_parser", "sphinx_gallery.gen_gallery"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
nitpicky = True
exclude_patterns = ["_build", "sg_execution_times.rst"]
if not (Path(__file__).parent / "explanation/performance-figures.inc").is_file():
    exclude_patterns.append("explanation/performance.md")  # `nox -s bench -- --full` writes its figures

html_theme = "furo"
html_title = project

sphinx_gallery_conf = {
    "examples_dirs": str(_ROOT / "gallery"),
    "gallery_dirs": "auto_gallery",
    "filename_pattern": "/plot_",
    "abort_on_example_error": True,  # an example that fails is no documentation
    "image_scrapers": (),  # no example draws yet: matplotlib is not needed
    "reset_modules": (),
    "remove_config_comments": True,
    "show_memory": False,
    "min_reported_time": 1,
}
