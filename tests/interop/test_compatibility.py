"""What hdmf-zarr and pynwb open, by the table of the README and of the page on versions."""

import importlib
import sys
from pathlib import Path

import pytest

from hdmf_zarr_backend import convert
from tests import samples
from tests.interop.exchange import ask

pytestmark = [pytest.mark.peer, pytest.mark.filterwarnings("ignore")]

ROOT = Path(__file__).resolve().parents[2]

_OPEN = """
import json, sys, warnings
warnings.simplefilter("ignore")
import hdmf_zarr, pynwb

def opens(way, path):
    try:
        if way == "read_nwb":
            return len(pynwb.read_nwb(path).objects) > 0
        with getattr(hdmf_zarr, way)(path, "r") as io:
            return len(io.read().objects) > 0
    except Exception:
        return False

reported = {}
for way, paths in json.load(open(sys.argv[1])):
    reported[way] = [opens(way, path) for path in paths]
print(json.dumps(reported))
"""
_KINDS = (2, 3, "both")
_WAYS = {"013": ("NWBZarrIO", "read_nwb"), "014": ("NWBZarrIO", "NWBZarrV2IO", "read_nwb")}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Path]]:
    """Files of each format, without references in tables and with them."""
    folder = tmp_path_factory.mktemp("compatibility")
    result = {"plain": samples.plain_nwbfile(), "rich": samples.rich_nwbfile(positions=False)}
    for name, nwbfile in result.items():
        samples.write_hdf5(folder / f"{name}.nwb", nwbfile)
        for kind in _KINDS:
            convert(folder / f"{name}.nwb", folder / f"{name}-{kind}.nwb.zarr", zarr_format=kind)
    return {name: [folder / f"{name}-{kind}.nwb.zarr" for kind in _KINDS] for name in result}


@pytest.mark.parametrize("release", ["013", "014"])
def test_hdmf_zarr_opens_what_the_table_says(release, files, request, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "docs" / "_scripts")
    rows = {reader.name: reader.opens for reader in importlib.import_module("compatibility").READERS}
    sys.modules.pop("compatibility")
    peer = request.getfixturevalue(f"peer{release}")
    version = f"0.{release[1:]}"
    opened = {
        name: ask(peer, _OPEN, [[way, paths] for way in _WAYS[release]], tmp_path) for name, paths in files.items()
    }
    for way in _WAYS[release]:
        row = f"`pynwb.read_nwb` with hdmf-zarr {version}" if way == "read_nwb" else f"hdmf-zarr {version}, `{way}`"
        told = {"yes": (True, True), "no": (False, False), "without references": (True, False)}
        expected = [told[cell] for cell in rows[row]]
        assert list(zip(opened["plain"][way], opened["rich"][way], strict=True)) == expected, row
