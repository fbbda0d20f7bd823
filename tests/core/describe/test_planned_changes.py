"""A change in words: what it would do, what it has done, and the values before and after."""

from __future__ import annotations

import pytest

from sparklog.core.commands import (
    AddPartitions,
    AlterCluster,
    AlterTopic,
    CommitOffsets,
    CreateTopic,
    DeleteGroups,
    DeleteTopic,
    PromoteTopic,
)
from sparklog.core.describe.planned_changes import Described, PlannedChange, deletion_of_records, planned_change
from sparklog.core.groups.membership import OffsetToCommit
from sparklog.core.maintenance.record_deletion import plan_record_deletion
from sparklog.core.types import LeaderEpoch, Offset, PartitionIndex
from tests.core.decided_log import TOPIC, A, B, DecidedLog
from tests.core.mirrored_log import MirroredLog
from tests.core.state_contents import contents

LATER = "the first job that runs after 1970-01-01T00:01:01.000Z deletes"


@pytest.fixture
def log() -> DecidedLog:
    """Two records in partition 0, of which the group billing has consumed one."""
    made = DecidedLog()
    made.append(2)
    made.submit(reset(made, 1))
    return made


def reset(log: DecidedLog, *offsets: int) -> CommitOffsets:
    rows = tuple(
        OffsetToCommit(TOPIC, PartitionIndex(at), Offset(offset), LeaderEpoch(0)) for at, offset in enumerate(offsets)
    )
    return CommitOffsets(log.state.chain_id, "billing", rows)


def planned(log: DecidedLog, command: Described) -> PlannedChange:
    before = contents(log.state)
    change = planned_change(log.state, command, log.decide(command).records)
    assert contents(log.state) == before
    assert change.commands == (command,)
    return change


def test_a_topic_is_created_on_these_stores(log: DecidedLog) -> None:
    change = planned(log, CreateTopic("new", config={"min.insync.replicas": "3"}, assignment=((A, B), (B, A))))
    assert change.would == "would create topic new with 2 partitions"
    assert change.done == "created topic new with 2 partitions"
    assert change.rows == ({"partition": 0, "stores": (A, B)}, {"partition": 1, "stores": (B, A)})
    (warning,) = change.warnings
    assert warning.startswith("topic new: min.insync.replicas=3 is more than its 2 replicas")


def test_partitions_are_added_behind_those_that_exist(log: DecidedLog) -> None:
    change = planned(log, AddPartitions(TOPIC, 3, ((B,),)))
    assert change.done == "added 1 partition to topic orders, 3 in total"
    assert change.rows == ({"partition": 2, "stores": (B,)},)


def test_a_config_has_values_before_and_after_with_their_origin(log: DecidedLog) -> None:
    log.submit(AlterTopic(TOPIC, {"segment.bytes": "7"}))
    change = planned(log, AlterTopic(TOPIC, {"retention.ms": "5", "min.insync.replicas": "2"}, ("segment.bytes",)))
    assert change.would == (
        "would change the config of topic orders: min.insync.replicas=2 (topic), retention.ms=5 (topic), "
        "segment.bytes=1073741824 (default)"
    )
    assert change.rows == (
        {"key": "min.insync.replicas", "before": "1 (default)", "after": "2 (topic)"},
        {"key": "retention.ms", "before": "604800000 (default)", "after": "5 (topic)"},
        {"key": "segment.bytes", "before": "7 (topic)", "after": "1073741824 (default)"},
    )
    assert len(change.warnings) == 1


def test_the_config_of_the_cluster_too_and_a_default_may_follow_from_other_keys(log: DecidedLog) -> None:
    log.submit(AlterCluster({"metadata.copies": "1"}))
    change = planned(log, AlterCluster({"page.writes": "true"}, ("metadata.copies",)))
    assert change.done == "changed the config of the cluster: metadata.copies=default, page.writes=true (cluster)"
    assert change.rows == (
        {"key": "metadata.copies", "before": "1 (cluster)", "after": "default"},
        {"key": "page.writes", "before": "false (default)", "after": "true (cluster)"},
    )


def test_a_topic_goes_with_its_records_and_its_objects_later(log: DecidedLog) -> None:
    change = planned(log, DeleteTopic(TOPIC))
    assert change.done == f"deleted topic orders with 2 records (20 B); {LATER} its objects"
    assert change.rows == ({"group": "billing", "lag": 1},)


def test_a_topic_without_objects_says_nothing_of_them() -> None:
    assert planned(DecidedLog(), DeleteTopic(TOPIC)).would == "would delete topic orders with 0 records (0 B)"


def test_a_mirror_becomes_an_ordinary_topic_at_these_ends() -> None:
    log = MirroredLog()
    log.submit(log.named(2, 0, 5))
    change = planned(log, PromoteTopic(TOPIC, (Offset(8), Offset(0))))
    assert change.would == (
        "would promote topic orders, the mirror of orders in Kafka cluster kafka-1 (topic id "
        "0c5f1f4e-8a55-4b53-9d0c-6c4b2b1b7a10), to an ordinary topic"
    )
    assert change.done.startswith("promoted topic orders")
    assert change.rows == (
        {"partition": 0, "log_end": 5, "end": 8, "empty_offsets": 3, "leader_epoch": 1},
        {"partition": 1, "log_end": 0, "end": 0, "empty_offsets": 0, "leader_epoch": 1},
    )


def test_records_go_below_the_new_log_starts(log: DecidedLog) -> None:
    deletions = plan_record_deletion(log.state, "orders", {0: 2, 1: 0}, log.now_ms)
    change = deletion_of_records("orders", deletions)
    assert change.commands == (deletions[0].command,), "partition 1 has nothing to delete"
    assert change.would == f"would delete 2 records of topic orders; {LATER} 1 object (70 B)"
    nothing = {"records": 0, "objects": 0, "size_bytes": 0, "delete_after_ms": None}
    assert change.rows == (
        {
            "partition": 0,
            "before": 0,
            "log_start": 2,
            "records": 2,
            "objects": 1,
            "size_bytes": 70,
            "delete_after_ms": 61_000,
        },
        {"partition": 1, "before": 0, "log_start": 0, **nothing},
    )
    assert deletion_of_records("orders", deletions[1:]).done == "deleted 0 records of topic orders"


def test_a_reset_has_the_offsets_before_and_after(log: DecidedLog) -> None:
    change = planned(log, reset(log, 2, 0))
    assert change.done == "reset the offsets of group billing in 2 partitions"
    assert change.rows == (
        {"topic": "orders", "partition": 0, "committed": 1, "new": 2, "end": 2, "lag": 0},
        {"topic": "orders", "partition": 1, "committed": None, "new": 0, "end": 0, "lag": 0},
    )


def test_a_reset_without_offsets_has_nothing_to_do(log: DecidedLog) -> None:
    change = planned_change(log.state, reset(log), ())
    assert (change.commands, change.would) == ((), "would reset the offsets of group billing in 0 partitions")


def test_groups_go_with_all_their_offsets(log: DecidedLog) -> None:
    assert planned(log, DeleteGroups(("billing",))).would == "would delete group billing with all its offsets"
    rows = OffsetToCommit(TOPIC, PartitionIndex(1), Offset(0), LeaderEpoch(0))
    log.submit(CommitOffsets(log.state.chain_id, "audit", (rows,)))
    change = planned(log, DeleteGroups(("billing", "audit")))
    assert change.done == "deleted groups billing, audit with all their offsets"
    assert change.rows == (
        {"group": "billing", "topic": "orders", "partitions": 1, "lag": 1},
        {"group": "audit", "topic": "orders", "partitions": 1, "lag": 0},
    )
