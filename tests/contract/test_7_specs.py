"""The contract: cached specifications."""

import shutil
import subprocess
import sys

import numpy as np
import pytest
from pynwb import NWBHDF5IO, validate

from hdmf_zarr_backend import NWBZarrIO, ZarrIO
from hdmf_zarr_backend.errors import MissingNamespacesWarning
from tests import samples
from tests.documents import document, forget_consolidated
from tests.extensions import catalog, extension, type_name, write_with
from tests.places import Place, contents, keys_of, put
from tests.test_io import read

NAMES = ("ndx-first", "ndx-second")


@pytest.fixture(scope="module")
def extended(shared_folder: Place, tmp_path_factory: pytest.TempPathFactory) -> Place:
    """A file that alone knows its two extensions."""
    folder = tmp_path_factory.mktemp("specs")
    path = write_with(shared_folder / "file.nwb.zarr", *(extension(folder / "schema", name) for name in NAMES))
    shutil.rmtree(folder / "schema")
    return path


def check(path: Place) -> None:
    with NWBZarrIO(path) as io:
        acquisition = io.read().acquisition
        for name in NAMES:
            assert type(acquisition[name]).__name__ == type_name(name)
            assert (acquisition[name].knob, acquisition[name].knob.dtype) == (7, np.uint8)
        assert validate(io=io) == []


def test_extensions_that_only_the_file_knows(extended):
    check(extended)
    wanted = {"core", "hdmf-common", "hdmf-experimental", *NAMES}
    assert ZarrIO.get_namespaces(extended).keys() == wanted
    assert set(ZarrIO.load_namespaces(catalog(), extended)) == wanted
    loaded = catalog()
    ZarrIO.load_namespaces(loaded, extended, namespaces=["hdmf-common"])
    assert set(loaded.namespaces) == {"hdmf-common"}
    ZarrIO.load_namespaces(loaded, extended, namespaces=["hdmf-experimental", "core"])
    ZarrIO.load_namespaces(loaded, extended, namespaces=["ndx-first"])
    assert set(loaded.namespaces) == {"hdmf-common", "hdmf-experimental", "core", "ndx-first"}


@pytest.mark.needs("processes")
def test_in_another_process(extended):
    """Nothing of this one helps: the schema is gone, and the types were never registered there."""
    code = (
        "import sys; from hdmf_zarr_backend import NWBZarrIO; nwbfile = NWBZarrIO(sys.argv[1]).read();"
        "print(type(nwbfile.acquisition['ndx-first']).__name__, nwbfile.acquisition['ndx-second'].knob)"
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code, str(extended)], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["FirstSeries", "7"]


def test_load_namespaces_returns_the_same_as_hdf5io(folder, tmp_path):
    """Namespaces, what each depends on, and the types that it takes from there."""
    first, second = samples.write_hdf5(tmp_path / "a.nwb", samples.plain_nwbfile()), folder / "a.zarr"
    samples.write_zarr(second, samples.plain_nwbfile())
    one = NWBHDF5IO.load_namespaces(catalog(), path=str(first))
    other = ZarrIO.load_namespaces(catalog(), second)
    plain = [
        {name: {dependency: sorted(types) for dependency, types in found.items()} for name, found in loaded.items()}
        for loaded in (one, other)
    ]
    assert plain[0] == plain[1]
    with ZarrIO(second) as io:
        assert io.load_namespaces_io(catalog()) == other


@pytest.mark.parametrize("is_newer_first", [True, False])
@pytest.mark.parametrize(("older", "newest"), [
    ("0.9.0", "0.10.0"), ("1.0.0-alpha", "1.0.0"), ("2.0.0", "10.0.0"), ("1.0.0-beta.2", "1.0.0-beta.11"),
    ("1.0a1", "1.0b2"), ("1.0rc1", "1.0"), ("1.0", "1.0.post1"), ("latest", "0.0.1"), ("v0.2", "0.10"),
    ("2.0.0-beta", "2.0"), ("1.0rc1.dev2", "1.0rc1"), ("1.0.dev1", "1.0a1"),
])  # fmt: skip
def test_the_newest_by_version_and_not_the_last_by_name(folder, tmp_path, older, newest, is_newer_first):
    versions = (newest, older) if is_newer_first else (older, newest)
    paths = []
    for version in versions:
        namespace = extension(tmp_path / f"schema {version}", "ndx-first", version=version, doc=f"as of {version}")
        paths.append(write_with(folder / f"{version}.nwb.zarr", namespace))
    for key, value in contents(paths[1]).items():
        if key.startswith(f"specifications/ndx-first/{versions[1]}/"):
            put(paths[0], key, value)
    forget_consolidated(paths[0])
    assert ZarrIO.get_namespaces(paths[0])["ndx-first"] == newest
    loaded = catalog()
    ZarrIO.load_namespaces(loaded, paths[0])
    assert loaded.get_spec("ndx-first", "FirstSeries").doc == f"as of {newest}"


@pytest.mark.needs("append")
def test_a_newer_version_is_added_by_an_append(folder, tmp_path):
    old = extension(tmp_path / "old", "ndx-first", version="0.1.0")
    new = extension(tmp_path / "new", "ndx-first", version="0.2.0")
    path = write_with(folder / "file.nwb.zarr", old)
    with samples.edit_zarr(path, extensions=new) as nwbfile:
        nwbfile.acquisition["ndx-first"].fields["comments"] = "changed"
        nwbfile.acquisition["ndx-first"].set_modified()
    cached = {key.split("/")[2] for key in keys_of(path) if key.startswith("specifications/ndx-first/0")}
    assert cached == {"0.1.0", "0.2.0"}
    assert ZarrIO.get_namespaces(path)["ndx-first"] == "0.2.0"
    assert read(path).acquisition["ndx-first"].comments == "changed"


@pytest.mark.parametrize("way", ["Zarr", "HDF5 and back"])
def test_they_travel_with_an_export(extended, folder, tmp_path, way):
    source, args = extended, {}
    if way != "Zarr":
        source = tmp_path / "file.nwb"
        with NWBZarrIO(extended) as src, NWBHDF5IO(str(source), "w") as io:
            io.export(src, write_args={"link_data": False})
    opened = NWBZarrIO(source) if way == "Zarr" else NWBHDF5IO(str(source), "r")
    with opened as src, NWBZarrIO(folder / "copy.nwb.zarr", "w") as io:
        io.export(src, **args)
    check(folder / "copy.nwb.zarr")


def test_specifications_are_not_cached_on_request(extended, folder):
    path = folder / "file.nwb.zarr"
    with NWBZarrIO(path, "w") as io:
        io.write(samples.plain_nwbfile(), cache_spec=False)
    assert ".specloc" not in document(path, ".zattrs")
    with pytest.warns(MissingNamespacesWarning, match="file.nwb.zarr"):
        assert ZarrIO.load_namespaces(catalog(), path) == {}
    assert ZarrIO.get_namespaces(path) == {}
    assert read(path, load_namespaces=False).identifier == "plain"
    with NWBZarrIO(extended) as source, NWBZarrIO(folder / "copy.nwb.zarr", "w") as io:
        io.export(source, cache_spec=False)
    assert not any(key.startswith("specifications") for key in keys_of(folder / "copy.nwb.zarr"))


@pytest.mark.needs("append")
def test_an_append_caches_them_in_a_file_that_had_none(folder):
    path = folder / "file.nwb.zarr"
    with NWBZarrIO(path, "w") as io:
        io.write(samples.plain_nwbfile(), cache_spec=False)
    with samples.edit_zarr(path, load_namespaces=False) as nwbfile:
        nwbfile.add_trial(start_time=0.0, stop_time=1.0)
    assert {"core", "hdmf-common"} <= ZarrIO.get_namespaces(path).keys()
    assert len(read(path).trials) == 1
