"""One array whose document is damaged or has something unknown: it fails, and everything else is read."""

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pynwb import TimeSeries

from hdmf_zarr_backend import NWBZarrIO, compare, convert, verify
from hdmf_zarr_backend.cli.main import main
from hdmf_zarr_backend.errors import DamagedMetadataWarning, MetadataError
from tests.places import contents
from tests.samples import plain_nwbfile, read_zarr, write_zarr

ARRAY = "acquisition/bad/data"
BAD = "/acquisition/bad/data"
GOOD = [1.5, 2.5]

pytestmark = pytest.mark.filterwarnings("ignore::hdmf_zarr_backend.errors.DamagedMetadataWarning")

storages = pytest.mark.parametrize("consolidated", [True, False], ids=["consolidated", "listed"])


def unknown_codec(document: dict[str, Any]) -> None:
    if "codecs" in document:
        document["codecs"] = [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "unheard-of"}]
    else:
        document["compressor"] = {"id": "unheard-of"}


def unknown_type(document: dict[str, Any]) -> None:
    document["dtype" if "dtype" in document else "data_type"] = "<q9"


def wrong_shape(document: dict[str, Any]) -> None:
    document["shape"] = "ten"


def unknown_grid(document: dict[str, Any]) -> None:
    if "chunk_grid" in document:
        document["chunk_grid"] = {"name": "unheard-of", "configuration": {}}
    else:
        del document["chunks"]


def not_json(document: dict[str, Any]) -> None:
    """Write half a document."""


DAMAGES = [unknown_codec, unknown_type, wrong_shape, unknown_grid, not_json]
damages = pytest.mark.parametrize("damage", DAMAGES)


def damaged(path: Path, zarr_format: int, damage: Callable[[dict[str, Any]], None], *, consolidated: bool) -> Path:
    nwbfile = plain_nwbfile()
    for name in ("good", "bad"):
        nwbfile.add_acquisition(TimeSeries(name=name, data=np.array(GOOD), unit="V", rate=1.0))
    write_zarr(path, nwbfile, zarr_format=zarr_format)
    own = path / ARRAY / (".zarray" if zarr_format == 2 else "zarr.json")
    root = path / (".zmetadata" if zarr_format == 2 else "zarr.json")
    document, whole = json.loads(own.read_text()), json.loads(root.read_text())
    damage(document)
    own.write_text("{" if damage is not_json else json.dumps(document))
    if consolidated:
        members = whole["metadata"] if zarr_format == 2 else whole["consolidated_metadata"]["metadata"]
        members[f"{ARRAY}/.zarray" if zarr_format == 2 else ARRAY] = [] if damage is not_json else document
        root.write_text(json.dumps(whole))
    elif zarr_format == 2:
        root.unlink()
    else:
        root.write_text(json.dumps({key: value for key, value in whole.items() if key != "consolidated_metadata"}))
    return path


@damages
@storages
@pytest.mark.parametrize("lazy", [True, False])
def test_the_rest_is_read(tmp_path, zarr_format, damage, consolidated, lazy):
    path = damaged(tmp_path / "file.zarr", zarr_format, damage, consolidated=consolidated)
    with NWBZarrIO(path, "r", lazy=lazy) as io:
        nwbfile = io.read()
        assert nwbfile.acquisition["good"].data[:].tolist() == GOOD
        if lazy:
            with pytest.raises(MetadataError) as caught:
                nwbfile.acquisition["bad"].data[:]
            assert (caught.value.store, caught.value.path) == (str(path), BAD)
        elif zarr_format == 2 and damage is unknown_codec:  # the only damage with which an array is known
            assert nwbfile.acquisition["bad"].data.shape == (2,)
            with pytest.raises(MetadataError, match="unheard-of"):
                nwbfile.acquisition["bad"].data[:]
        else:
            assert len(nwbfile.acquisition["bad"].data) == 0


@pytest.mark.parametrize("damage", [unknown_type, not_json])
def test_what_is_left_out_is_named_in_a_warning(tmp_path, zarr_format, damage):
    path = damaged(tmp_path / "file.zarr", zarr_format, damage, consolidated=False)
    with (
        pytest.warns(DamagedMetadataWarning, match=rf"{BAD}.*left out") as caught,
        NWBZarrIO(path, "r", lazy=False) as io,
    ):
        io.read()
    assert len(caught) == 1


@damages
@storages
@pytest.mark.parametrize("lazy", [True, False])
def test_a_copy_is_refused(tmp_path, zarr_format, damage, consolidated, lazy):
    path = damaged(tmp_path / "file.zarr", zarr_format, damage, consolidated=consolidated)
    for target in ("file.nwb", "copy.zarr"):
        with pytest.raises(MetadataError) as caught:
            convert(path, tmp_path / target)
        assert caught.value.path == BAD
        assert not (tmp_path / target).exists()
    with (
        NWBZarrIO(path, "r", lazy=lazy) as source,
        NWBZarrIO(tmp_path / "export.zarr", "w") as io,
        pytest.raises(MetadataError) as caught,
    ):
        source.read()
        io.export(source)
    assert caught.value.path == BAD
    assert not (tmp_path / "export.zarr").exists()


@damages
@storages
def test_a_change_keeps_the_document_or_is_refused(tmp_path, zarr_format, damage, consolidated):
    path = damaged(tmp_path / "file.zarr", zarr_format, damage, consolidated=consolidated)
    own = path / ARRAY / (".zarray" if zarr_format == 2 else "zarr.json")
    before, files = own.read_bytes(), contents(path)
    if zarr_format == 2 and damage is unknown_codec:
        with NWBZarrIO(path, "r+") as io:
            io.read().acquisition["good"].data[0] = 7.0
        assert own.read_bytes() == before
        assert not consolidated or "unheard-of" in (path / ".zmetadata").read_text()
        return
    with pytest.raises(MetadataError) as caught, NWBZarrIO(path, "r+") as io:
        io.read()
    assert caught.value.path == BAD
    assert contents(path) == files


@damages
def test_it_is_reported(tmp_path, zarr_format, damage, capsys):
    path = damaged(tmp_path / "file.zarr", zarr_format, damage, consolidated=False)
    kind = "library-missing" if damage is unknown_codec else "document-damaged"
    assert [problem.kind for problem in verify(path).problems if problem.path == BAD] == [kind]
    with warnings.catch_warnings(record=True, action="always") as caught:
        assert main(["inspect", str(path)]) == 0
    out, err = capsys.readouterr()
    assert "good" in out
    is_parsed = zarr_format == 2 and damage in (unknown_codec, unknown_type)
    assert is_parsed or BAD in err + "".join(str(warning.message) for warning in caught)


@damages
@storages
def test_all_others_are_compared(tmp_path, zarr_format, damage, consolidated):
    path = damaged(tmp_path / "file.zarr", zarr_format, damage, consolidated=consolidated)
    (difference,) = compare(path, path)
    assert (difference.path, difference.kind) == (BAD, "unreadable")
    whole = damaged(tmp_path / "whole.zarr", zarr_format, lambda document: None, consolidated=False)
    found = {each.kind: each for each in compare(whole, path) if each.path == BAD}
    assert found["unreadable"].a is None
    assert found["unreadable"].b


@pytest.mark.parametrize("text", ["[", "[1]"])
def test_attributes_that_are_no_json_object(tmp_path, text):
    path = damaged(tmp_path / "file.zarr", 2, lambda document: None, consolidated=False)
    (path / ARRAY / ".zattrs").write_text(text)
    with NWBZarrIO(path, "r") as io:
        nwbfile = io.read()
        assert nwbfile.acquisition["good"].data[:].tolist() == GOOD
        with pytest.raises(MetadataError, match="zattrs"):
            _ = nwbfile.acquisition["bad"]


def test_the_document_of_a_group_with_members_is_needed(tmp_path, zarr_format):
    path = damaged(tmp_path / "file.zarr", zarr_format, lambda document: None, consolidated=False)
    (path / "acquisition/bad" / (".zgroup" if zarr_format == 2 else "zarr.json")).write_text("{")
    with pytest.raises(MetadataError) as caught:
        NWBZarrIO(path, "r")
    assert caught.value.path == "/acquisition/bad"


def test_an_array_is_read_by_its_own_document_if_all_else_is_damaged(tmp_path, zarr_format):
    """The consolidated document is damaged where it describes the array, and where it has chunks."""
    path = damaged(tmp_path / "file.zarr", zarr_format, lambda document: None, consolidated=True)
    root = path / (".zmetadata" if zarr_format == 2 else "zarr.json")
    whole = json.loads(root.read_text())
    block = whole if zarr_format == 2 else whole["consolidated_metadata"]
    block["metadata"]["acquisition/good/data/.zarray" if zarr_format == 2 else "acquisition/good/data"]["shape"] = "ten"
    chunks = block["hdmf_inline"]["chunks"]
    chunks[next(iter(chunks))] = "no Base64"
    root.write_text(json.dumps(whole))
    assert read_zarr(path).acquisition["good"].data[:].tolist() == GOOD
