"""The attributes of NCZarr and hdmf-zarr 0.13: it takes no notice of them, and its own files get them."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hdmf_zarr_backend.comparison import compare
from hdmf_zarr_backend.files.parser import parse
from hdmf_zarr_backend.formats.reserved import DTYPE
from hdmf_zarr_backend.interop import add_nczarr
from hdmf_zarr_backend.model.nodes import Dataset
from hdmf_zarr_backend.stores.local import LocalStore
from tests.interop.conftest import CANNOT_BUILD
from tests.interop.exchange import assert_only, failures, used
from tests.interop.test_nczarr import assert_equal_values, netcdf, numbers_of
from tests.interop.test_peer013 import CANNOT_READ
from tests.peers import Peer

pytestmark = [pytest.mark.peer, pytest.mark.filterwarnings("ignore")]

EVERY = bool(os.environ.get("HDMF_ZARR_BACKEND_EVERY_FILE"))
NAMED = ("rich", "rich_as_written", "ndxpose__test_pose", "pynapple__sub-4_ses-4_ecephys+image")
STEPS = ("read", "validate", "export")
CANNOT_VALIDATE = {"pynapple__sub-4_ses-4_ecephys+image": "KeyError: 'experimental.yaml'"}
WITH, WITHOUT = "with.nwb.zarr", "without.nwb.zarr"


def holds_references_in_rows(path: Path) -> bool:
    """Tell whether a compound with references is in the file: hdmf-zarr 0.13 does not validate those."""
    words = [
        node.attributes.get(DTYPE)
        for _, node in parse(LocalStore(str(path))).hierarchy.walk()
        if isinstance(node, Dataset)
    ]
    fields = [field for word in words if isinstance(word, list) for field in word]
    return any(field["dtype"] in ("object", "region") or isinstance(field["dtype"], dict) for field in fields)


@pytest.fixture(scope="module")
def reported(ours: dict[str, Path], peer013: Peer, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Any, Path]:
    """Return what 0.13 says of files with the attributes, and of the same without, and where its exports are."""
    folder = tmp_path_factory.mktemp("nczarr_peer")
    taken = [name for number, name in enumerate(ours) if EVERY or number % 3 == 0 or name in NAMED]
    answers, listed = [], 0
    for kind in (WITH, WITHOUT):
        files = {name: folder / name / kind for name in taken}
        for name, path in files.items():
            shutil.copytree(ours[name], path)
            if kind == WITH:
                listed += len(add_nczarr(path))
        (folder / f"{kind} exported").mkdir()
        answers.append(used(peer013, files, folder / f"{kind} exported", *STEPS))
    assert listed > 300
    return answers[0], answers[1], folder


def test_it_finds_the_same_wrong_with_a_file(reported):
    found, expected, _ = reported
    assert {name: answer["errors"] for name, answer in found.items()} == {
        name: answer["errors"] for name, answer in expected.items()
    }
    for step in STEPS:  # what it says begins with the builder and all of its attributes
        ends = [{name: text[-80:] for name, text in failures(reported, step).items()} for reported in (found, expected)]
        assert ends[0] == ends[1]


def test_what_it_cannot_do_is_not_for_them(reported, ours):
    found, _, _ = reported
    assert_only(failures(found, "read"), CANNOT_READ, found)
    assert_only(failures(found, "export"), CANNOT_READ | CANNOT_BUILD, found)
    rows = {name for name in found if holds_references_in_rows(ours[name])}
    assert "rich" in rows
    wrong = failures(found, "validate")
    assert_only({name: text for name, text in wrong.items() if name not in rows}, CANNOT_VALIDATE, found)
    assert found.keys() - wrong.keys()


def test_its_exports_are_equal(reported):
    found, _, folder = reported
    exported = found.keys() - failures(found, "export").keys()
    assert exported
    for name in exported:
        pair = [folder / f"{kind} exported" / f"{name}.nwb" for kind in (WITH, WITHOUT)]
        has_ids = "object_id" in json.loads((folder / name / WITH / ".zattrs").read_text())
        ignored = set() if has_ids else {"object_id"}  # each export makes up its own
        assert [str(difference) for difference in compare(*pair, ignore=ignored)] == [], name


def test_netcdf_opens_a_file_that_hdmf_zarr_013_wrote(theirs, tmp_path):
    """Columns that are ragged have one label, and other lengths."""
    path = Path(shutil.copytree(theirs["rich_without_positions"], tmp_path / "a.nwb.zarr"))
    listed = add_nczarr(path)
    answer = netcdf(path)
    assert set(listed) == numbers_of(path) == answer["arrays"].keys()
    assert_equal_values(answer, path)
    renamed = [name for name, array in answer["arrays"].items() if array["dims"] != labels_of(path, name)]
    assert renamed
    for name, array in answer["arrays"].items():
        _, dimensions = answer["groups"][name.rpartition("/")[0]]
        assert [dimensions[dimension][0] for dimension in array["dims"]] == array["shape"]
        assert np.prod(array["shape"], dtype=int) == np.asarray(array["values"]).size or len(array["shape"]) > 1


def labels_of(path: Path, name: str) -> Any:
    return json.loads((path / name.strip("/") / ".zattrs").read_text()).get("_ARRAY_DIMENSIONS")
