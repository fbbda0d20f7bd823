"""Errors cross process borders whole, and say whether a repeat may help and what became of the write."""

from __future__ import annotations

import pickle

import pytest

from sparklog.core import errors
from sparklog.core.errors import Landed, OutcomeUnknown, SparklogError, TryAgain

EVERY = [each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, SparklogError)]


@pytest.mark.parametrize("kind", EVERY)
def test_an_error_is_the_same_in_another_process(kind: type[SparklogError]) -> None:
    for landed in Landed:
        before = kind("wanted a, found b, in c", landed=landed)
        after = pickle.loads(pickle.dumps(before))
        assert (type(after), after.message, after.landed) == (kind, "wanted a, found b, in c", landed)
        assert str(after) == str(before) == f"{kind.code}: wanted a, found b, in c"


def test_codes_are_kafkas_or_look_like_them_and_none_is_given_twice() -> None:
    codes = [each.code for each in EVERY]
    assert all(code.replace("_", "").isalpha() and code.isupper() for code in codes)
    assert len(set(codes)) == len(codes)


def test_an_unknown_outcome_says_so_unless_told_otherwise() -> None:
    assert OutcomeUnknown("x").landed is Landed.UNKNOWN
    assert TryAgain("x").landed is Landed.NO
    assert TryAgain("x").retriable
    assert not OutcomeUnknown("x").retriable
