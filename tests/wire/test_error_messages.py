"""Errors on the wire: each arrives as what it was, and one of a newer version keeps its code."""

from __future__ import annotations

import msgspec
import pytest

from sparklog.core import errors
from sparklog.core.errors import Landed, SparklogError
from sparklog.wire.error_messages import ErrorReply, error_reply, http_status, raised

EVERY = [
    each
    for each in vars(errors).values()
    if isinstance(each, type) and issubclass(each, SparklogError) and "code" in vars(each)
]


@pytest.mark.parametrize("kind", EVERY, ids=lambda each: each.__name__)
@pytest.mark.parametrize("landed", Landed)
def test_every_error_arrives_as_what_it_was(kind: type[SparklogError], landed: Landed) -> None:
    error = kind("wanted ä, found b", landed=landed)
    received = raised(msgspec.msgpack.decode(msgspec.msgpack.encode(error_reply(error)), type=ErrorReply))
    assert (type(received), str(received), received.landed) == (kind, str(error), landed)
    assert 400 <= http_status(error) < 600


def test_one_that_is_not_known_here_keeps_its_code() -> None:
    later = raised(ErrorReply("OF_A_LATER_VERSION", "wanted a, found b", retriable=True, landed=Landed.NO))
    assert str(later) == "COORDINATOR_NOT_AVAILABLE: OF_A_LATER_VERSION: wanted a, found b"
    assert later.retriable
    final = raised(ErrorReply("OF_A_LATER_VERSION", "wanted a, found b", retriable=False, landed=Landed.UNKNOWN))
    assert str(final) == "UNKNOWN_SERVER_ERROR: OF_A_LATER_VERSION: wanted a, found b"
    assert (final.retriable, final.landed) == (False, Landed.UNKNOWN)


def test_one_that_derives_from_a_kind_arrives_as_that_kind() -> None:
    class AnotherIncarnation(errors.StoreUnavailable):
        pass

    assert type(raised(error_reply(AnotherIncarnation("x")))) is errors.StoreUnavailable
