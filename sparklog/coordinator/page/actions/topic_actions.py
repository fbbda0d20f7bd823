"""The plans of actions on topics: create, change the config, delete, delete records."""

from __future__ import annotations

from sparklog.coordinator.page.actions.action import Plan, Planning, command_line
from sparklog.core.commands import AlterTopic, CreateTopic, DeleteTopic
from sparklog.core.config.topic_config import parse_topic_config
from sparklog.core.describe.planned_changes import deletion_of_records
from sparklog.core.errors import InvalidOption
from sparklog.core.lookup import topic_of
from sparklog.core.maintenance.record_deletion import plan_record_deletion
from sparklog.core.records import TopicCreated
from sparklog.options.key_value import config_changes, key_values


def plan_create(planning: Planning) -> Plan:
    """Plan a new topic. Raises the errors of `Cluster.create_topic`, and InvalidOption for a malformed field."""
    name, partitions = planning.wanted("topic"), planning.number("partitions")
    factor = planning.number("replication_factor")
    given = key_values(planning.lines("config"), "config")
    config = parse_topic_config(given)
    (record, *_) = planning.decided(CreateTopic(name, partitions, factor, config))
    assert isinstance(record, TopicCreated)
    options = [] if partitions is None else ["--partitions", str(partitions)]
    options += [] if factor is None else ["--replication-factor", str(factor)]
    options += [word for key, value in config.items() for word in ("--topic-config", f"{key}={value}")]
    as_shown = CreateTopic(name, config=config, assignment=record.assignment)  # whatever happens meanwhile
    return Plan(planning.changed_by(as_shown), command_line("topic create", name, *options))


def plan_alter(planning: Planning) -> Plan:
    """Plan a change of a topic's config. Raises the errors of `Cluster.alter`.

    Also raises InvalidOption for a malformed field, if a key is both set and removed, or if nothing is to change.
    """
    topic = topic_of(planning.state, planning.wanted("topic"))
    removed = planning.lines("remove")
    changed = config_changes(planning.lines("set"), removed, parse_topic_config, ("set", "remove"))
    options = [word for key, value in changed.items() for word in ("--set", f"{key}={value}")]
    options += [word for key in removed for word in ("--delete", key)]
    change = planning.changed_by(AlterTopic(topic.topic_id, changed, tuple(removed)))
    return Plan(change, command_line("topic alter", topic.name, *options))


def plan_delete(planning: Planning) -> Plan:
    """Plan the deletion of a topic. Raises InvalidOption (no name), UnknownTopicOrPartition."""
    topic = topic_of(planning.state, planning.wanted("topic"))
    return Plan(planning.changed_by(DeleteTopic(topic.topic_id)), command_line("topic delete", topic.name))


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
    option = ("--all-to", text) if partition is None else ("--partition", f"{partition}={text}")
    change = deletion_of_records(topic, deletions)
    return Plan(change, command_line("topic delete-records", topic, *option, "--yes"))
