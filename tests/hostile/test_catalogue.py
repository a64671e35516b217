"""Each line of "bad input" is true: the error or warning is the one that the page names, and so is the finding."""

import os
import shutil
import warnings
from pathlib import Path

import pytest

from hdmf_zarr_backend import ZarrBackendError, verify
from tests.hostile.catalogue import PAGE, Case, all_cases, page_parts, write


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole") / "folder"
    folder.mkdir()
    write(folder / "file.zarr")
    return folder


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded")
@pytest.mark.parametrize("case", all_cases(), ids=lambda case: case.given)
def test_a_line(case: Case, whole: Path, tmp_path: Path) -> None:
    if "a pipe" in case.given and not hasattr(os, "mkfifo"):
        pytest.skip("this system has no pipes in folders")
    path = Path(shutil.copytree(whole, tmp_path / "folder")) / "file.zarr"
    case.spoil(path)
    said = ""
    with warnings.catch_warnings(record=True, action="always") as heard:
        warnings.filterwarnings("ignore", message="This process .* is multi-threaded")
        try:
            case.act(path)
            raised = ""
        except ZarrBackendError as error:
            raised, said = type(error).__name__, str(error)
    assert raised == case.raises, said
    kinds = [type(warning.message).__name__ for warning in heard]
    if case.warns:
        assert case.warns in kinds
        said += " ".join(str(warning.message) for warning in heard)
    else:
        assert not kinds
    assert case.says in said
    problems = {problem.kind for problem in verify(path).problems}
    assert case.finds in problems if case.finds else not problems
    assert case.raises in case.happens
    assert not case.warns or case.raises or "warning" in case.happens or "verify" in case.happens


def test_the_page_has_these_lines() -> None:
    import sys

    sys.path.insert(0, str(PAGE.parents[1] / "_scripts"))
    from generated import parts

    repair = "run: python -m tests.hostile.catalogue"
    assert parts(PAGE.read_text(encoding="utf-8")) == page_parts(), repair
