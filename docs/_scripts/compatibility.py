"""Which program opens which of the files: the table of the page on versions, and some of its rows in the README.

``python docs/_scripts/compatibility.py`` makes it. The rows of programs that `nox -s clients` runs are taken from
``docs/reference/clients.md``; each of the others names the test that shows it (``tests/test_docs_figures.py``).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from generated import ROOT, table, with_part, with_parts

README = ROOT / "README.md"
PAGE = ROOT / "docs" / "reference" / "versions.md"
CLIENTS = ROOT / "docs" / "reference" / "clients.md"

FILES = ("format 2", "format 3", "both formats")


@dataclass(frozen=True)
class Reader:
    """A program that opens files of this package.

    Attributes
    ----------
    name : str
        What a user calls it.
    opens : tuple of str
        What it does with files of format 2, format 3 and both; empty if `client` says it.
    shown : str
        The test that shows it, as path of the module and name.
    client : str
        Its name on the page of clients.
    """

    name: str
    opens: tuple[str, str, str] = ("", "", "")
    shown: str = ""
    client: str = ""


_HDMF = "tests/interop/test_compatibility.py:test_hdmf_zarr_opens_what_the_table_says"
_NCZARR = "numbers, with `WriteOptions(nczarr=True)`"
_MATRIX = "tests/interop/test_matrix.py:test_a_reader_reads_all_that_it_has_types_for"

_ALONE = "tests/interop/test_both_formats.py:test_zarr_without_this_package_and_one_format"
_ZARR_2 = "tests/interop/test_peer013.py:test_what_013_reads_is_what_zarr_2_reads"

READERS = (
    Reader("hdmf-zarr 0.13, `NWBZarrIO`", ("yes", "no", "yes"), _HDMF),
    Reader("hdmf-zarr 0.14, `NWBZarrIO`", ("no", "yes", "yes"), _HDMF),
    Reader("hdmf-zarr 0.14, `NWBZarrV2IO`", ("without references", "yes", "without references"), _HDMF),
    Reader("`pynwb.read_nwb` with hdmf-zarr 0.13", ("yes", "no", "yes"), _HDMF),
    Reader("`pynwb.read_nwb` with hdmf-zarr 0.14", ("no", "yes", "yes"), _HDMF),
    Reader("`pynwb.read_nwb` with the alias", client="pynwb"),
    Reader("neuroconv, with its own hdmf-zarr 0.13", client="neuroconv, with its own hdmf-zarr"),
    Reader("neuroconv, with the alias", client="neuroconv, with the alias"),
    Reader("SpikeInterface, with its own hdmf-zarr 0.13", client="spikeinterface, with its own hdmf-zarr"),
    Reader("SpikeInterface, with the alias", client="spikeinterface, with the alias"),
    Reader("dandi", client="dandi"),
    Reader("nwbinspector, with the alias", client="nwbinspector"),
    Reader("pynapple", client="pynapple"),
    Reader("zarr-python 2", ("yes", "no", "yes"), _ZARR_2),
    Reader("zarr-python 3, xarray, with this package installed", ("yes", "yes", "yes"), _MATRIX),
    Reader("zarr-python 3, xarray, alone", ("single arrays of numbers and text", "with zarr 3.2", "yes"), _ALONE),
    Reader("TensorStore", ("numbers", "numbers", "numbers"), _MATRIX),
    Reader("zarrita (JavaScript)", ("with `WriteOptions(strict_json=True)`",) * 3, _MATRIX),
    Reader("netCDF 4.10 (C, Python)", (_NCZARR, "no", _NCZARR), _MATRIX),
    Reader("MATLAB", ("not tested", "not tested", "not tested")),
)  # fmt: skip


IN_README = (
    "hdmf-zarr 0.13, `NWBZarrIO`",
    "hdmf-zarr 0.14, `NWBZarrIO`",
    "`pynwb.read_nwb` with the alias",
    "neuroconv, with the alias",
    "SpikeInterface, with the alias",
    "zarr-python 3, xarray, alone",
)
"""What most users ask for first."""

FEW = 2
"""Failed tasks that are named."""


def results() -> dict[tuple[str, str], dict[str, bool]]:
    """Return ``{(client, file): {task: whether it worked}}`` of the page of clients."""
    found: dict[tuple[str, str], dict[str, bool]] = {}
    for line in CLIENTS.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if len(cells) == 4 and cells[2] in FILES:
            client, task, file, result = cells
            found.setdefault((client, file), {})[task] = result == "works"
    return found


def _of_client(client: str) -> tuple[str, ...]:
    found = results()
    cells = []
    for file in FILES:
        tasks = found[client, file]
        failed = [task for task, works in tasks.items() if not works]
        if not failed:
            cells.append("yes")
        elif len(failed) == len(tasks):
            cells.append("no")
        elif len(failed) > FEW:
            cells.append(f"{len(tasks) - len(failed)} of {len(tasks)} tasks")
        else:
            cells.append("all but " + ", ".join(f"`{task}`" for task in failed))
    return tuple(cells)


def compatibility(readers: Iterable[Reader] = READERS) -> str:
    """Return the table."""
    rows = [(reader.name, *(reader.opens if not reader.client else _of_client(reader.client))) for reader in readers]
    return table(["program", *FILES], rows)


def files() -> dict[Path, str]:
    """Return ``{path: text}`` of the pages as they should be."""
    readme, page = (path.read_text(encoding="utf-8") for path in (README, PAGE))
    return {
        README: with_part(
            readme, "compatibility", compatibility(reader for reader in READERS if reader.name in IN_README)
        ),
        PAGE: with_parts(page, {"compatibility": compatibility()}),
    }


def main() -> None:
    """Rewrite what is generated."""
    for path, text in files().items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
