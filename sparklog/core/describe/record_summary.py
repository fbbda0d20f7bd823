"""Short human-readable summaries of the records of the chain."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec import UNSET

from sparklog.core import records
from sparklog.core.describe.readable import amount, counted


def summary(record: records.Record, names: Mapping[int, str]) -> str:
    """A record of the chain in a few words. `names`: the names of topics by id."""

    def place(topic_id: int, partition: int) -> str:
        return f"{names.get(topic_id, f'topic id {topic_id}')}-{partition}"

    match record:
        case records.ClusterCreated():
            return f"cluster {record.chain_id} created"
        case records.ClusterRestored():
            return f"cluster restored as {record.chain_id} from copies of the lost chain, up to its entry {record.last}"
        case records.StoreRegistered():
            return f"store {record.store} registered at {record.url}"
        case records.StoreFenced():
            return f"store {record.store} fenced"
        case records.StoreRemoved():
            return f"store {record.store} removed"
        case records.AgentChanged():
            if record.up is None:
                return f"agent of store {record.store} down, and the store takes writes"
            return f"agent of store {record.store} {'up' if record.up else 'down'}"
        case records.PartitionsChanged():
            return _changed(record, place)
        case records.TopicCreated():
            return f"topic {record.name} created with {counted(len(record.assignment), 'partition')}"
        case records.ClusterAltered():
            return "config of the cluster set"
        case records.TopicAltered():
            return f"config of {names.get(record.topic_id, f'topic id {record.topic_id}')} set"
        case records.PartitionsAdded():
            added = counted(len(record.assignment), "partition")
            return f"{added} added to {names.get(record.topic_id, f'topic id {record.topic_id}')}"
        case records.TopicPromoted():
            return f"{names.get(record.topic_id, f'topic id {record.topic_id}')} promoted: it is no longer mirrored"
        case records.TopicDeleted():
            return f"topic id {record.topic_id} deleted"
        case records.LossReported():
            lost, app_id = record.lost, record.application.app_id
            return (
                f"{app_id} was notified that {', '.join(map(str, lost.records))} of its version {lost.version} was lost"
            )
        case records.Appended(ranges=()) if record.application is not None:
            return f"version {record.application.version} of {record.application.app_id} written, without records"
        case records.Appended(ranges=()):
            return "no records appended"
        case records.Appended() | records.AppendedByReference():
            count = counted(sum(range_.records for range_ in record.ranges), "record")
            first = record.ranges[0]
            more = f" and {len(record.ranges) - 1} more" if len(record.ranges) > 1 else ""
            size = amount(sum(range_.size_bytes for range_ in record.ranges))
            return f"{count}, {size} appended to {place(first.topic_id, first.partition)}{more}"
        case records.SlicesSwapped():
            where = f"{place(record.topic_id, record.partition)} [{record.start}, {record.end})"
            return f"{where} rewritten to {counted(len(record.objects), 'object')}"
        case records.LogStartMoved():
            return f"log start of {place(record.topic_id, record.partition)} moved to {record.to}"
        case records.CleanerMoved():
            return f"{place(record.topic_id, record.partition)} compacted up to {record.cleaner.position}"
        case records.ObjectsDeleted():
            return f"{counted(len(record.numbers), 'object')} deleted"
        case records.FloorRaised():
            return f"FLOOR raised to {record.floor}"
        case records.ApplicationsForgotten():
            return f"{counted(len(record.app_ids), 'application')} forgotten"
        case records.ProducerAllocated():
            return f"producer {record.producer_id} allocated, epoch {record.producer_epoch}"
        case records.CoordinationClaimed():
            return f"coordinated by {record.name} at {record.address}, epoch {record.epoch}"
        case records.RecoveryPointMoved():
            return f"objects below number {record.to} on store {record.store} are whole"
        case records.CoordinationResigned():
            return f"the coordinator of epoch {record.epoch} resigned"
        case records.GroupChanged():
            members = counted(len(record.group.members), "member")
            return f"group {record.group.name} at generation {record.group.generation}, with {members}"
        case records.OffsetsCommitted():
            if not record.offsets:
                return f"member {record.member_id} of group {record.group} is alive"
            return f"{counted(len(record.offsets), 'offset')} of group {record.group} committed"
        case records.OffsetsForgotten():
            return _forgotten(record)
        case records.JobRan():
            return f"job {record.job} ran" + (
                f", {record.failed_partitions} failed" if record.failed_partitions else ""
            )


def _forgotten(record: records.OffsetsForgotten) -> str:
    groups, offsets = len(record.groups), sum(len(forgotten.partitions) for forgotten in record.offsets)
    what = [counted(groups, "group")] if groups else []
    what += [f"{counted(offsets, 'offset')} of groups"] if offsets else []
    return f"{' and '.join(what)} forgotten"


def _changed(record: records.PartitionsChanged, place: Callable[[int, int], str]) -> str:
    """Describe the first partition that the record changes, and count the others.

    The partition is described by its new leader or, if the leader stays, by its new ISR. `place` returns the name of a
    partition for its topic id and number.
    """
    first, *more = record.changes
    what = ""
    if first.leader is not UNSET:
        what = f": led by {first.leader}" if first.leader is not None else ": without a leader"
    elif first.isr is not UNSET:
        what = f": in sync on {', '.join(first.isr) or 'none'}"
    where = f"{place(first.topic_id, first.partition)}{what}"
    return f"replicas of {where}" + (f" and {counted(len(more), 'more partition')}" if more else "")
