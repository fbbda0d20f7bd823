"""The plans of actions on topics: create, change the config, delete, delete records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from sparklog.coordinator.page.actions.action import Plan, Planning, command_line
from sparklog.coordinator.page.words import size
from sparklog.core.commands import AlterTopic, CreateTopic, DeleteTopic
from sparklog.core.config.cluster_config import topic_defaults
from sparklog.core.config.key import ConfigValue, text_of
from sparklog.core.config.topic_config import effective, parse_topic_config, topic_values
from sparklog.core.describe.readable import counted, point_in_time
from sparklog.core.describe.topic_rows import topic_row
from sparklog.core.errors import InvalidOption
from sparklog.core.groups.lag import group_lags
from sparklog.core.lookup import topic_of
from sparklog.core.maintenance.record_deletion import plan_record_deletion
from sparklog.core.placement.replica_health import min_isr_warning
from sparklog.core.records import TopicAltered, TopicCreated
from sparklog.options.key_value import key_values

_GROUPS: Final = 100  # that a plan names


def plan_create(planning: Planning) -> Plan:
    """Plan a new topic. Raises the errors of `Cluster.create_topic`, and InvalidOption for a malformed field."""
    name, partitions = planning.wanted("topic"), planning.number("partitions")
    factor = planning.number("replication_factor")
    given = key_values(planning.lines("config"), "config")
    config = parse_topic_config(given)
    command = CreateTopic(name, partitions, factor, config)
    (record, *_) = planning.decided(command)
    assert isinstance(record, TopicCreated)
    options = [] if partitions is None else ["--partitions", str(partitions)]
    options += [] if factor is None else ["--replication-factor", str(factor)]
    options += [word for key, value in config.items() for word in ("--topic-config", f"{key}={value}")]
    values = effective(config, topic_defaults(planning.state.config))
    warning = min_isr_warning(name, values, len(record.assignment[0]))
    what = f"topic {name} with {counted(len(record.assignment), 'partition')}"
    return Plan(
        f"This creates {what}.",
        f"Created {what}.",
        command_line("topic create", name, *options),
        (CreateTopic(name, config=config, assignment=record.assignment),),  # as shown, whatever happens meanwhile
        ("Partition", "Stores, the preferred leader first"),
        tuple((at, ", ".join(stores)) for at, stores in enumerate(record.assignment)),
        () if warning is None else (warning,),
    )


def plan_alter(planning: Planning) -> Plan:
    """Plan a change of a topic's config. Raises the errors of `Cluster.alter`.

    Also raises InvalidOption for a malformed field, if a key is both set and removed, or if nothing is to change.
    """
    state = planning.state
    topic = topic_of(state, planning.wanted("topic"))
    changed = parse_topic_config(key_values(planning.lines("set"), "set"))
    removed = planning.lines("remove")
    if both := sorted(set(changed) & set(removed)):
        raise InvalidOption(f"set and remove: {', '.join(both)} is in both")
    if not changed and not removed:
        raise InvalidOption("nothing to change: give keys to set, or to remove")
    command = AlterTopic(topic.topic_id, changed, tuple(removed))
    records = planning.decided(command)
    config = next((record.config for record in records if isinstance(record, TopicAltered)), topic.config)
    defaults = topic_defaults(state.config)
    before, after = topic_values(topic.config, defaults), topic_values(config, defaults)
    options = [word for key, value in changed.items() for word in ("--set", f"{key}={value}")]
    options += [word for key in removed for word in ("--delete", key)]
    factor = len(state.partitions_of(topic)[0].replication.target)
    warning = min_isr_warning(topic.name, effective(config, defaults), factor)
    rows = tuple((key, _shown(before, key), _shown(after, key)) for key in sorted({*changed, *removed}))
    return Plan(
        f"This changes {counted(len(rows), 'config key')} of topic {topic.name}.",
        f"Changed the config of topic {topic.name}.",
        command_line("topic alter", topic.name, *options),
        (command,),
        ("Key", "Now", "Then"),
        rows,
        () if warning is None else (warning,),
    )


def plan_delete(planning: Planning) -> Plan:
    """Plan the deletion of a topic. Raises InvalidOption (no name), UnknownTopicOrPartition."""
    topic = topic_row(planning.state, topic_of(planning.state, planning.wanted("topic")))
    command = DeleteTopic(topic.topic_id)
    planning.decided(command)
    what = f"topic {topic.topic} with {counted(topic.records, 'record')} ({size(topic.size_bytes)})"
    groups = group_lags(planning.state).in_topic(topic.topic_id, _GROUPS)
    return Plan(
        f"This deletes {what}. Its records are gone at once; a retention run deletes its objects after "
        "file.delete.delay.ms.",
        f"Deleted {what}.",
        command_line("topic delete", topic.topic),
        (command,),
        ("Group that reads it", "Lag, offsets"),
        tuple((lag.group.name, lag.lag_records) for lag in groups),
    )


def plan_delete_records(planning: Planning) -> Plan:
    """Plan to delete the oldest records of partitions, by raising their log starts.

    Raises the errors of `Cluster.delete_records`, and InvalidOption for a malformed field.
    """
    topic, partition = planning.wanted("topic"), planning.number("partition")
    text = planning.wanted("offset")
    to = None if text == "end" else planning.number("offset")
    if to is not None and to < 0:
        raise InvalidOption(f"offset: wanted an offset from 0, or end for the high watermark, found {to}")
    chosen = range(topic_of(planning.state, topic).partitions) if partition is None else [partition]
    deletions = plan_record_deletion(planning.state, topic, dict.fromkeys(chosen, to), planning.now_ms)
    due = [deletion for deletion in deletions if deletion.after > deletion.before]
    records = counted(sum(deletion.records for deletion in due), "record")
    option = ("--all-to", text) if partition is None else ("--partition", f"{partition}={text}")
    delays_ms = [deletion.delete_after_ms for deletion in due if deletion.delete_after_ms is not None]
    objects = counted(sum(deletion.objects for deletion in due), "object")
    later = (
        f" {objects} are deleted by the first job that runs after {point_in_time(max(delays_ms))}." if delays_ms else ""
    )
    return Plan(
        f"This deletes {records} of topic {topic} for ever.{later}",
        f"Deleted {records} of topic {topic}.",
        command_line("topic delete-records", topic, *option, "--yes"),
        tuple(deletion.command for deletion in due),
        ("Partition", "Log start now", "Then", "Records to delete", "Size of the objects to delete"),
        tuple(
            (deletion.command.partition, deletion.before, deletion.after, deletion.records, size(deletion.size_bytes))
            for deletion in deletions
        ),
    )


def _shown(values: Mapping[str, tuple[ConfigValue, str]], key: str) -> str:
    """The effective value of a config key, with its origin in parentheses."""
    value, origin = values[key]
    return f"{text_of(value)} ({origin})"
