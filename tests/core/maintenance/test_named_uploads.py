"""What the chain names is never taken for an orphan (F-09)."""

from __future__ import annotations

import numpy as np

from sparklog.core.commands import MoveLogStart
from sparklog.core.maintenance.named_uploads import NamedUploads
from sparklog.core.maintenance.retired_objects import due_for_deletion, needed_by_others
from sparklog.core.types import NamedObject, ObjectNumber, Offset, TopicId
from tests.core.planned_log import PlannedLog


def highs(log: PlannedLog) -> dict[int, int]:
    return {each.number: int(each.object.upload_id[:16], 16) for each in log.state.objects}


def test_every_named_upload_is_in_its_own_place_and_no_other() -> None:  # M: F-09
    log = PlannedLog({})
    for _ in range(40):
        log.append_slice(1, 100)
    log.state.objects.seal()
    log.append_slice(1, 100)
    log.seal(3, 5)
    named = NamedUploads(log.state)
    parts = [named.of_appends(digits) for digits in named.append_digits()]
    appended = sorted(high for number, high in highs(log).items() if number < 41)
    assert sorted(np.concatenate(parts).tolist()) == appended
    for digits, part in zip(named.append_digits(), parts, strict=True):
        assert all(f"{high:016x}".startswith(digits) for high in part.tolist())
    assert named.of_topic(log.topic.topic_id).tolist() == [highs(log)[41]]
    assert named.of_topic(TopicId(99)).tolist() == []


def test_retired_objects_are_named_until_they_were_deleted() -> None:  # M: F-09
    log = PlannedLog({})
    log.append_slice(1, 100)
    before = NamedUploads(log.state).objects
    log.submit(MoveLogStart(log.topic.topic_id, log.partition().partition, Offset(1)))
    assert len(log.state.retired) == 1
    assert NamedUploads(log.state).objects == before == 1


def test_a_state_without_objects_names_nothing() -> None:
    named = NamedUploads(PlannedLog({}).state)
    assert named.objects == 0
    assert all(not len(named.of_appends(digits)) for digits in named.append_digits())


def test_asking_changes_nothing() -> None:
    log = PlannedLog({})
    log.append_slice(1, 100)
    blocks = log.state.objects.blocks
    NamedUploads(log.state)
    assert log.state.objects.blocks is blocks
    assert not blocks
    assert len(log.state.objects) == 1


def test_bytes_that_another_object_needs_are_never_due_whatever_is_retired() -> None:
    """No command leads to this; an author that does not check its uploads might write it into the chain."""
    log = PlannedLog({})
    log.append_slice(1, 100)
    log.append_slice(1, 100)
    log.submit(MoveLogStart(log.topic.topic_id, log.partition().partition, Offset(2)))
    assert due_for_deletion(log.state, 1 << 60).tolist() == [0, 1]
    needed = log.state.objects.get(ObjectNumber(0))
    assert needed is not None
    log.state.objects.add(NamedObject(ObjectNumber(7), needed), 1)
    assert needed_by_others(log.state, np.array([0, 1])) == [0]
    assert needed_by_others(log.state, np.array([1])) in ([], [0])
    assert due_for_deletion(log.state, 1 << 60).tolist() == [1]
    log.state.retired.add_all(np.array([7]), 0, "orders")
    assert due_for_deletion(log.state, 1 << 60).tolist() == [0, 1, 7]
