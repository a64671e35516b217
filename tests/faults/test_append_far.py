"""An append on an S3 server that is killed at any of its requests leaves the file as it was, or as it is after.

Issue "Nothing lost, nobody let in", part 2, and the part of its fault tests that is about appending.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.faults.appendchecks import Checks
from tests.faults.appending import append, is_marked, said, spread, write_before
from tests.faults.killing import killed
from tests.places import stored_files
from tests.servers import S3Server

FORMATS = pytest.mark.parametrize("zarr_format", [2, 3])


@pytest.fixture
def far(s3: S3Server, tmp_path: Path) -> Callable[[int], tuple[S3Server, dict[str, bytes]]]:
    """Makes the file that is appended to, on a server; gives its keys."""

    def make(zarr_format: int) -> tuple[S3Server, dict[str, bytes]]:
        write_before(tmp_path / "before", zarr_format)
        contents = stored_files(tmp_path / "before")
        for name in ("before", "0"):
            s3.put(name, contents)
        return s3, contents

    return make


def check_killed_far(server: S3Server, contents: dict[str, bytes], variant: str, points: int) -> tuple[int, list[str]]:
    options = {"storage_options": server.direct_options}
    with killed(variant, server.url("{}"), 0, options, "far", points) as (count, kills):
        steps = spread(count, points)
        for step in steps:
            server.put(str(step), contents)
            assert next(kills) == step
    checks = Checks(variant, server.url("before"), server.url("0"), **options)
    for number, step in enumerate(steps):
        far_place = server.url(str(step))
        checks.first_reader(far_place)
        if checks.repaired(far_place, by_opening=bool(number % 2)) == "before":
            found = {key: value for key, value in server.contents(str(step)).items() if not key.endswith(".lock")}
            assert found == contents
            if number % 5 == 0:
                append(far_place, variant, **options)
                assert said(far_place, **options) == checks.after
    return len(steps), checks.seen


def test_an_append_on_a_server_that_is_killed_is_undone_or_done(far):
    check_killed_far(*far(3), "rows", points=4)


@pytest.mark.slow
@FORMATS
@pytest.mark.parametrize("variant", ["rows", "wider", "sharded"])
def test_an_append_on_a_server_that_is_killed_anywhere_is_undone_or_done(far, zarr_format, variant):
    count, seen = check_killed_far(*far(zarr_format), variant, points=0)
    assert count > 50
    assert {"before", "after"} <= set(seen)
    assert ("changing" in seen) == is_marked(variant, zarr_format)
