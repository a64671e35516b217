"""The pictures of the report: areas in proportion, nothing outside, nothing twice; grids that fit their arrays."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hdmf_zarr_backend.reporting.pictures import Area, Rectangle, chunk_grid_svg, lay_out, treemap_svg

PLACE = Rectangle(10, 20, 300, 120)
PIXEL = 0.001  # of no account


@given(st.lists(st.floats(1, 1e9), min_size=1, max_size=60))
def test_areas_are_in_proportion_and_fill_the_place(sizes: list[float]) -> None:
    sizes = sorted(sizes, reverse=True)
    found = lay_out(sizes, PLACE)
    whole = PLACE.width * PLACE.height
    for size, one in zip(sizes, found, strict=True):
        assert one.width * one.height == pytest.approx(whole * size / sum(sizes), rel=1e-6, abs=PIXEL)
        assert one.x >= PLACE.x - PIXEL
        assert one.y >= PLACE.y - PIXEL
        assert one.x + one.width <= PLACE.x + PLACE.width + PIXEL
        assert one.y + one.height <= PLACE.y + PLACE.height + PIXEL


@given(st.lists(st.floats(1, 1e6), min_size=2, max_size=25))
def test_no_two_overlap(sizes: list[float]) -> None:
    found = lay_out(sorted(sizes, reverse=True), PLACE)
    for number, a in enumerate(found):
        for b in found[number + 1 :]:
            across = min(a.x + a.width, b.x + b.width) - max(a.x, b.x)
            down = min(a.y + a.height, b.y + b.height) - max(a.y, b.y)
            assert min(across, down) < PIXEL


def test_equal_sizes_become_nearly_squares() -> None:
    for one in lay_out([1.0] * 16, Rectangle(0, 0, 400, 400)):
        assert 0.5 < one.width / one.height < 2


def test_thousands_of_small_ones_are_drawn_as_one() -> None:
    many = [Area(f"n{number}", f"/many/n{number}", 1.0) for number in range(5000)]
    root = Area("/", "/", 105_000.0, [Area("big", "/big", 100_000.0), Area("many", "/many", 5000.0, many)])
    picture = treemap_svg(root)
    assert picture.count("<rect") < 100
    assert "5,000 smaller ones" in picture


def test_names_are_escaped() -> None:
    root = Area("/", "/", 1.0, [Area("<script>alert(1)</script>", "/<script>", 1.0)])
    assert "<script" not in treemap_svg(root)


def test_nothing_is_drawn_of_nothing() -> None:
    assert treemap_svg(Area("/", "/", 0.0)) == ""


@pytest.mark.parametrize(
    ("shape", "chunks", "across", "down"),
    [
        ((100, 10), (50, 10), 0, 1),
        ((100, 10), (50, 4), 2, 1),
        ((100,), (25,), 0, 3),
        ((10, 7, 9), (10, 7, 3), 2, 0),
        ((1_000_000, 384), (100, 384), 0, 29),
    ],
)
def test_a_grid_has_the_cuts_of_its_array(
    shape: tuple[int, ...], chunks: tuple[int, ...], across: int, down: int
) -> None:
    picture = chunk_grid_svg(shape, chunks)
    assert len(re.findall(r'd="M[\d.]+ 0V', picture)) == across
    assert len(re.findall(r'd="M0 [\d.]+H', picture)) == down


@pytest.mark.parametrize("shape", [(), (0, 4)])
def test_scalars_and_empty_arrays_have_no_grid(shape: tuple[int, ...]) -> None:
    assert chunk_grid_svg(shape, shape) == ""
