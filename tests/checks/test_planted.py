"""`validate` agrees with pynwb on planted defects: the verdict, and where and what is wrong."""

from __future__ import annotations

from typing import Any

import pytest
from jsonschema import Draft202012Validator

from hdmf_zarr_backend import validate
from hdmf_zarr_backend.checks.json_schema import describe, json_schema_for
from tests import samples
from tests.checks import oracle
from tests.checks.drafts import Draft
from tests.checks.drafts3 import Draft3
from tests.checks.oracle import Oracle
from tests.checks.planted import DEFECTS, HARMLESS


@pytest.fixture(scope="module", params=[2, 3], ids=["format2", "format3"])
def sound(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Draft:
    path = tmp_path_factory.mktemp("validation") / "sound.zarr"
    kind = {2: Draft, 3: Draft3}[request.param]
    return kind.of(samples.write_zarr(path, samples.rich_nwbfile(), zarr_format=request.param))


@pytest.fixture(scope="module")
def pynwb_says(sound: Draft) -> Oracle:
    return Oracle(sound.keys())


@pytest.fixture(scope="module")
def schema(sound: Draft) -> Any:
    return Draft202012Validator(json_schema_for(sound.keys()))


def planted(sound: Draft, name: str) -> dict[str, bytes]:
    draft = sound.copy()
    {**DEFECTS, **HARMLESS}[name](draft)
    return draft.keys()


def half(names: Any) -> list[Any]:
    """Leave every second one to the slow tests."""
    return [pytest.param(name, marks=pytest.mark.slow) if index % 2 else name for index, name in enumerate(names)]


def test_there_are_enough_defects() -> None:
    assert len(DEFECTS) >= 60


# pynwb says nothing of links and references to nothing, and these leave some
WITHOUT_TARGET = ("required group", "one or more", "link to nothing", "reference to nothing")


@pytest.mark.parametrize("name", half(DEFECTS))
def test_a_defect(name: str, sound: Draft, pynwb_says: Oracle) -> None:
    keys = planted(sound, name)
    expected = pynwb_says.of(keys)
    assert not expected.is_valid
    found = validate(keys)
    assert not found.is_valid
    if expected.places is not None:  # else hdmf gave up, and we go on
        dangling = [one for one in found.findings if one.kind == "target"]
        assert bool(dangling) == (name in WITHOUT_TARGET)
        assert oracle.of(found).places == expected.places | oracle.places_of(dangling)


@pytest.mark.parametrize("name", half(HARMLESS))
def test_what_is_allowed(name: str, sound: Draft, pynwb_says: Oracle) -> None:
    keys = planted(sound, name)
    assert pynwb_says.of(keys).places == frozenset()
    assert validate(keys).findings == []


# jsonschema takes seconds for each
SOME = ("a link for an object", "required link", "no time")


@pytest.mark.parametrize(
    "name", [name if name in SOME else pytest.param(name, marks=pytest.mark.slow) for name in (*DEFECTS, *HARMLESS)]
)
def test_the_json_schema_gives_the_same_verdict(name: str, sound: Draft, schema: Any) -> None:
    keys = planted(sound, name)
    assert schema.is_valid(describe(keys)) == validate(keys).is_valid


@pytest.mark.slow
def test_the_schema_is_a_schema(sound: Draft) -> None:
    Draft202012Validator.check_schema(json_schema_for(sound.keys()))
