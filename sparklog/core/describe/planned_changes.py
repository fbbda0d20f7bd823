"""Changes in words: a sentence, a table and warnings, the same wherever a change is planned or its result is shown.

The command line (`cli/changing.py`) and the coordinator's pages (`coordinator/page/actions/action.py`) show all of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeVar, assert_never

import msgspec

from sparklog.core.commands import (
    AddPartitions,
    AlterCluster,
    AlterTopic,
    Command,
    CommitOffsets,
    CreateTopic,
    DeleteGroups,
    DeleteTopic,
    PromoteTopic,
)
from sparklog.core.config.cluster_config import cluster_key, topic_defaults
from sparklog.core.config.key import ConfigValue, text_of
from sparklog.core.config.topic_config import effective, topic_values
from sparklog.core.describe.readable import amount, counted, point_in_time
from sparklog.core.describe.replica_findings import min_isr_warning
from sparklog.core.describe.topic_rows import topic_row
from sparklog.core.groups.group_progress import committed_offsets
from sparklog.core.groups.lag import group_lags
from sparklog.core.maintenance.record_deletion import RecordDeletion
from sparklog.core.records import ClusterAltered, PartitionsAdded, Record, TopicAltered, TopicCreated, TopicDeleted
from sparklog.core.state import ClusterState
from sparklog.core.types import PartitionIndex, StoreId, TopicPartition

Row = Mapping[str, object]
Described = (
    CreateTopic | AddPartitions | AlterTopic | AlterCluster | DeleteTopic | PromoteTopic | CommitOffsets | DeleteGroups
)

_DONE: Final = {
    "add": "added",
    "change": "changed",
    "create": "created",
    "delete": "deleted",
    "promote": "promoted",
    "reset": "reset",
    "seal": "sealed",
}
_Kind = TypeVar("_Kind")
_GROUPS: Final = 100  # that the deletion of a topic names


class PlannedChange(msgspec.Struct, frozen=True, kw_only=True):
    """A change that is decided and not committed, in words.

    `commands`: the commands to commit; none if there is nothing to do. `verb` and `what` make its sentence. `rows`: a
    table of the details, with values before and after. All rows have the same keys; a key ends with the unit of its
    values, if they have one. `warnings` are sentences.
    """

    commands: tuple[Command, ...]
    verb: str
    what: str
    rows: tuple[Row, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def would(self) -> str:
        """The sentence before the commit, without a subject: would create topic orders with 3 partitions."""
        return f"would {self.verb} {self.what}"

    @property
    def done(self) -> str:
        """The sentence after the commit, without a subject: created topic orders with 3 partitions."""
        return f"{_DONE[self.verb]} {self.what}"


def planned_change(state: ClusterState, command: Described, records: Sequence[Record]) -> PlannedChange:
    """Describe the change that a command makes. `records`: the records for which `decide` has decided it in `state`.

    A reset of offsets (`CommitOffsets`) needs no records. A reset without offsets is a change with nothing to do.
    """
    match command:
        case CreateTopic():
            return _creation(state, command, _first(records, TopicCreated))
        case AddPartitions():
            return _more_partitions(state, command, _first(records, PartitionsAdded))
        case AlterTopic():
            return _new_config(state, command, _first(records, TopicAltered))
        case AlterCluster():
            return _new_cluster_config(state, command, _first(records, ClusterAltered))
        case DeleteTopic():
            return _topic_deletion(state, command, _first(records, TopicDeleted))
        case PromoteTopic():
            return _promotion(state, command)
        case CommitOffsets():
            return _reset(state, command)
        case DeleteGroups():
            return _group_deletion(state, command)
        case _:
            assert_never(command)


def deletion_of_records(topic: str, deletions: Sequence[RecordDeletion]) -> PlannedChange:
    """Describe the deletion of the oldest records of a topic, with a row for each of `deletions`."""
    records = counted(sum(deletion.records for deletion in deletions), "record")
    delays_ms = [deletion.delete_after_ms for deletion in deletions if deletion.delete_after_ms is not None]
    objects = counted(sum(deletion.objects for deletion in deletions), "object")
    size = amount(sum(deletion.size_bytes for deletion in deletions))
    later = _deleted_later(f"{objects} ({size})", max(delays_ms)) if delays_ms else ""
    return PlannedChange(
        commands=tuple(deletion.command for deletion in deletions if deletion.after > deletion.before),
        verb="delete",
        what=f"{records} of topic {topic}{later}",
        rows=tuple(
            {
                "partition": deletion.command.partition,
                "before": deletion.before,
                "log_start": deletion.after,
                "records": deletion.records,
                "objects": deletion.objects,
                "size_bytes": deletion.size_bytes,
                "delete_after_ms": deletion.delete_after_ms,
            }
            for deletion in deletions
        ),
    )


def _creation(state: ClusterState, command: CreateTopic, created: TopicCreated) -> PlannedChange:
    config = effective(created.config, topic_defaults(state.config))
    return PlannedChange(
        commands=(command,),
        verb="create",
        what=f"topic {command.name} with {counted(len(created.assignment), 'partition')}",
        rows=_assigned(0, created.assignment),
        warnings=_warnings(min_isr_warning(command.name, config, len(created.assignment[0]))),
    )


def _more_partitions(state: ClusterState, command: AddPartitions, added: PartitionsAdded) -> PlannedChange:
    name = state.topics[command.topic_id].name
    return PlannedChange(
        commands=(command,),
        verb="add",
        what=f"{counted(len(added.assignment), 'partition')} to topic {name}, {command.total:,} in total",
        rows=_assigned(added.first, added.assignment),
    )


def _new_config(state: ClusterState, command: AlterTopic, altered: TopicAltered) -> PlannedChange:
    topic = state.topics[command.topic_id]
    defaults = topic_defaults(state.config)
    before, after = topic_values(topic.config, defaults), topic_values(altered.config, defaults)
    factor = len(state.partitions_of(topic)[0].replication.target)
    return _altered(
        command,
        f"topic {topic.name}",
        [(key, _shown(*before[key]), _shown(*after[key])) for key in sorted({*command.changed, *command.removed})],
        min_isr_warning(topic.name, effective(altered.config, defaults), factor),
    )


def _new_cluster_config(state: ClusterState, command: AlterCluster, altered: ClusterAltered) -> PlannedChange:
    keys = sorted({*command.changed, *command.removed})
    values = [(key, _of_cluster(state.config, key), _of_cluster(altered.config, key)) for key in keys]
    return _altered(command, "the cluster", values)


def _altered(
    command: AlterTopic | AlterCluster, of: str, values: Sequence[tuple[str, str, str]], warning: str | None = None
) -> PlannedChange:
    """The change of config keys. `values`: each key with its values before and after."""
    return PlannedChange(
        commands=(command,),
        verb="change",
        what=f"the config of {of}: {', '.join(f'{key}={after}' for key, _, after in values)}",
        rows=tuple({"key": key, "before": before, "after": after} for key, before, after in values),
        warnings=_warnings(warning),
    )


def _topic_deletion(state: ClusterState, command: DeleteTopic, deleted: TopicDeleted) -> PlannedChange:
    topic = topic_row(state, state.topics[command.topic_id])
    size = f"{counted(topic.records, 'record')} ({amount(topic.size_bytes)})"
    later = _deleted_later("its objects", deleted.delete_after_ms) if topic.segments else ""
    return PlannedChange(
        commands=(command,),
        verb="delete",
        what=f"topic {topic.topic} with {size}{later}",
        rows=tuple(
            {"group": lag.group.name, "lag": lag.lag_records}
            for lag in group_lags(state).in_topic(command.topic_id, _GROUPS)
        ),
    )


def _promotion(state: ClusterState, command: PromoteTopic) -> PlannedChange:
    topic = state.topics[command.topic_id]
    partitions = state.partitions_of(topic)
    return PlannedChange(
        commands=(command,),
        verb="promote",
        what=f"topic {topic.name}, the mirror of {topic.mirror_of}, to an ordinary topic",
        rows=tuple(
            {
                "partition": partition.partition,
                "log_end": partition.next_offset,
                "end": end,
                "empty_offsets": end - partition.next_offset,
                "leader_epoch": partition.replication.leader_epoch + 1,
            }
            for partition, end in zip(partitions, command.ends, strict=True)
        ),
    )


def _reset(state: ClusterState, command: CommitOffsets) -> PlannedChange:
    committed = committed_offsets(state, command.group)
    rows = []
    for offset in command.offsets:
        key = TopicPartition(offset.topic_id, offset.partition)
        end, before = state.partitions[key].high_watermark, committed.get(key)
        rows.append(
            {
                "topic": state.topics[offset.topic_id].name,
                "partition": offset.partition,
                "committed": None if before is None else before.offset,
                "new": offset.offset,
                "end": end,
                "lag": end - offset.offset,
            }
        )
    return PlannedChange(
        commands=(command,) if rows else (),
        verb="reset",
        what=f"the offsets of group {command.group} in {counted(len(rows), 'partition')}",
        rows=tuple(rows),
    )


def _group_deletion(state: ClusterState, command: DeleteGroups) -> PlannedChange:
    lags = group_lags(state)
    several = len(command.groups) > 1
    return PlannedChange(
        commands=(command,),
        verb="delete",
        what=f"{'groups' if several else 'group'} {', '.join(command.groups)} with all {'their' if several else 'its'} "
        "offsets",
        rows=tuple(
            {"group": name, "topic": topic.topic, "partitions": topic.partitions, "lag": topic.lag_records}
            for name in command.groups
            for topic in lags.of(state.groups[name]).topics
        ),
    )


def _first(records: Sequence[Record], kind: type[_Kind]) -> _Kind:
    """The first of the records, which is of this kind."""
    assert isinstance(records[0], kind)
    return records[0]


def _assigned(first: PartitionIndex | int, assignment: Iterable[tuple[StoreId, ...]]) -> tuple[Row, ...]:
    """A row for each partition from number `first` on, with its stores, the preferred leader first."""
    return tuple({"partition": number, "stores": stores} for number, stores in enumerate(assignment, first))


def _of_cluster(config: Mapping[str, str], key: str) -> str:
    """The value of a key in the cluster's canonical config; "default" if its default follows from other keys."""
    if key in config:
        return _shown(config[key], "cluster")
    default = cluster_key(key).default
    return "default" if default is None else _shown(default, "default")


def _shown(value: ConfigValue, origin: str) -> str:
    return f"{text_of(value)} ({origin})"


def _warnings(warning: str | None) -> tuple[str, ...]:
    return () if warning is None else (warning,)


def _deleted_later(objects: str, after_ms: int) -> str:
    return f"; the first job that runs after {point_in_time(after_ms)} deletes {objects}"
