"""Screenshots of ``zarrio report`` and of the notebook views, as PNG files in ``docs/_static``.

``python docs/_scripts/screenshots.py`` needs Chromium (Debian's ``chromium`` or ``chromium-headless-shell``, or the
program that the variable ``CHROMIUM`` names) and the extra ``all``. Run it after these pages have changed.
"""

from __future__ import annotations

import os
import runpy
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from generated import ROOT

STATIC = ROOT / "docs" / "_static"
_NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
_PAGE = """<!doctype html><meta charset="utf-8">
<body style="font: 15px system-ui, sans-serif; margin: 24px; width: 760px">
<code>data</code><br>{data}<br><code>io</code>{io}</body>"""


def chromium() -> str:
    """Return the path of Chromium."""
    found = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, _NAMES)), None)
    if found is None:
        raise SystemExit("Chromium is needed: apt install chromium, or set CHROMIUM to its path")
    return found


def take(page: Path, target: Path, width: int, height: int) -> None:
    """Store the first screen of a page.

    Parameters
    ----------
    page : Path
        The HTML file.
    target : Path
        The PNG file.
    width, height : int
        Size of the window in pixels.
    """
    options = ["--no-sandbox", "--hide-scrollbars", "--force-device-scale-factor=1", f"--window-size={width},{height}"]
    options += [f"--default-tile-width={width}", f"--default-tile-height={height}"]  # letters are cut between tiles
    command = [chromium(), "--headless", *options, f"--screenshot={target}", page.as_uri()]
    subprocess.run(command, check=True, capture_output=True)  # noqa: S603 - of this machine


def main() -> None:
    """Make all of them, from the files of the first example."""
    from hdmf_zarr_backend import NWBZarrIO, report

    STATIC.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sys.argv = ["plot_first_file.py", str(folder)]
        runpy.run_path(str(ROOT / "gallery" / "plot_first_file.py"), run_name="__main__")
        os.chdir(folder)
        shown = report("example.nwb.zarr").replace(name, "/data")
        (folder / "report.html").write_text(shown, encoding="utf-8")
        take(folder / "report.html", STATIC / "report.png", 1000, 1220)
        with NWBZarrIO("example.nwb.zarr", mode="r") as io:
            data = io.read().acquisition["raw"].data
            views = _PAGE.format(data=data._repr_html_(), io=io._repr_html_())
        (folder / "notebook.html").write_text(views.replace(name, "/data"), encoding="utf-8")
        take(folder / "notebook.html", STATIC / "notebook.png", 820, 620)


if __name__ == "__main__":
    main()
