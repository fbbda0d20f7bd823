"""What a producer makes of each error."""

from __future__ import annotations

import pytest

from sparklog.core import errors
from sparklog.core.errors import (
    NotEnoughReplicas,
    OutcomeUnknown,
    OutOfOrderSequence,
    SparklogError,
    StaleBrokerEpoch,
    StoreFull,
    TopicAuthorizationFailed,
    UnknownProducerId,
    WriteLost,
)
from sparklog.core.producing.flush_errors import Scope, is_of_stores, rule_of

KINDS = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, SparklogError)]
# Not the same command again, but a new one: after the next epoch, a look-up, or an earlier flush.
ANOTHER_WAY = {StaleBrokerEpoch, OutcomeUnknown, OutOfOrderSequence, UnknownProducerId}


@pytest.mark.parametrize("kind", KINDS)
def test_an_error_is_retried_if_it_says_so_or_the_producer_knows_a_way(kind: type[SparklogError]) -> None:
    assert rule_of(kind("no")).retry == (kind in ANOTHER_WAY or (kind.retriable and kind is not WriteLost))


def test_a_rule_holds_for_subclasses_and_unknown_errors_concern_the_whole_flush() -> None:
    assert rule_of(TopicAuthorizationFailed("no")).scope is Scope.RECORDS
    assert rule_of(NotEnoughReplicas("no")).scope is Scope.PARTITIONS
    assert rule_of(StoreFull("no")).scope is Scope.FLUSH


def test_errors_of_stores_and_partitions_may_stay_for_long() -> None:
    assert [
        is_of_stores(error) for error in (None, StaleBrokerEpoch("no"), NotEnoughReplicas("no"), StoreFull("no"))
    ] == [
        False,
        True,
        True,
        False,
    ]
