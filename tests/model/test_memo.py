"""Results are computed once, and values that only look alike are kept apart."""

from __future__ import annotations

import math
from typing import Any

import pytest

from hdmf_zarr_backend.model.memo import Memo


class Counting:
    """A function that counts its calls."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, *arguments: Any) -> tuple[Any, ...]:
        self.calls += 1
        return arguments


def test_the_same_is_worked_out_once():
    made = Counting()
    memo = Memo(made)
    first = memo({"a": [1, "b"]}, None)
    assert first == ({"a": [1, "b"]}, None)
    assert memo({"a": [1, "".join(["b"])]}, None) is first
    assert made.calls == 1


@pytest.mark.parametrize("others", [[0, 0.0, -0.0, False, None, "", []], [1, 1.0, True, "1"], [[1], [1.0], [[1]]]])
def test_values_that_are_equal_or_look_alike_are_kept_apart(others):
    memo = Memo(lambda value: (value, type(value)))
    for _ in range(2):
        for value in others:
            found, kind = memo(value)
            assert kind is type(value)
            assert repr(found) == repr(value)


def test_nan_is_found_again():
    made = Counting()
    memo = Memo(made)
    assert memo(float("nan")) is memo(math.nan)
    assert made.calls == 1


def test_what_fails_is_tried_again():
    answers: list[Any] = [KeyError("first"), "second"]

    def make(value: Any) -> Any:
        answer = answers.pop(0)
        if isinstance(answer, KeyError):
            raise answer
        return answer

    memo = Memo(make)
    with pytest.raises(KeyError):
        memo(1)
    assert memo(1) == "second"


def test_what_has_no_key_is_made_each_time():
    made = Counting()
    memo = Memo(made)
    deep: list[Any] = []
    for _ in range(10_000):
        deep = [deep]
    for odd in (object(), deep):
        assert memo(odd)[0] is odd
        assert memo(odd)[0] is odd
    assert made.calls == 4


def test_memory_is_bounded():
    made = Counting()
    memo = Memo(made, most=3)
    for value in (1, 2, 3, 4, 4):
        memo(value)
    assert made.calls == 4
    memo(1)  # was forgotten
    assert made.calls == 5
