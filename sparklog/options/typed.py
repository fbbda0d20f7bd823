"""The options of one read or write of `format("sparklog")`, checked and typed. They are pickled between processes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from sparklog.core.config.key import did_you_mean, shown
from sparklog.core.config.storage import StorageSettings
from sparklog.core.errors import InvalidOption
from sparklog.core.groups.membership import check_name
from sparklog.core.names.topic_names import check_topic_name
from sparklog.core.names.write_names import check_write_name
from sparklog.core.replication.replica_append import Acks
from sparklog.core.types import Offset, PartitionIndex
from sparklog.options.given import GivenOptions, Ignored
from sparklog.options.registry import OPTIONS, READ_COLUMNS, Side
from sparklog.options.starting_offsets import (
    ANY_WORD,
    FROM_EARLIEST,
    TO_LATEST,
    AtOffset,
    Earliest,
    EveryPartition,
    Latest,
    OffsetSpec,
    PerPartition,
    check_batch_range,
    parse_offsets,
    parse_partitions,
    parse_timestamp,
    parse_timestamps,
)

ONLY_APPENDS: Final = 'a log can only be appended to: use mode("append")'  # a write that would replace rows is refused
_STRATEGIES: Final = ("assign", "subscribe", "subscribePattern")
_START: Final = ("startingTimestamp", "startingOffsetsByTimestamp", "startingOffsets")  # the first one given is used
_END: Final = ("endingTimestamp", "endingOffsetsByTimestamp", "endingOffsets")
_BESIDE_METADATA: Final = frozenset({"metadata", "cluster", "cluster.token", "cluster.ca", "zone"})


class SubscribeTopics(msgspec.Struct, frozen=True, tag="topics"):
    """All partitions of these topics, each of which must exist."""

    topics: tuple[str, ...]


class SubscribePattern(msgspec.Struct, frozen=True, tag="pattern"):
    """All partitions of all topics whose whole name matches this regular expression (`re.fullmatch`)."""

    pattern: str


class AssignPartitions(msgspec.Struct, frozen=True, tag="assign"):
    """Partitions by topic, in ascending order. Each of them must exist."""

    partitions: Mapping[str, tuple[PartitionIndex, ...]]


Subscription = SubscribeTopics | SubscribePattern | AssignPartitions


class ReadOptions(msgspec.Struct, frozen=True):
    """The options of a batch read, or the part of a stream's options that batches also have.

    A read is either of records (`subscription`) or of a table that shows the state of the cluster (`metadata`, its
    name); the other one is None. `columns` are the columns of the DataFrame, in order; empty for such a table.
    `start_option` and `end_option` name the options that give `start` and `end`, for error messages.
    `start_at_latest_if_none`: if no record matches the starting timestamp, start at latest instead of failing.
    `topic_id`: id of the only topic that may be read; None if any may be read. `zone`: the zone of the tasks, or "".
    `reader`: auto, columns or rows.
    """

    cluster: str
    storage: StorageSettings
    subscription: Subscription | None
    metadata: str | None
    start: OffsetSpec
    start_option: str
    end: OffsetSpec
    end_option: str
    start_at_latest_if_none: bool
    fail_on_data_loss: bool
    min_partitions: int | None
    max_records_per_partition: int
    max_bytes_per_partition: int
    columns: tuple[str, ...]
    ignored: tuple[Ignored, ...]
    topic_id: int | None = None
    zone: str = ""
    reader: str = "auto"

    def for_tasks(self) -> ReadOptions:
        """The same options without secrets, to be pickled for tasks."""
        return msgspec.structs.replace(self, storage=self.storage.without_secrets())


class ApplicationVersion(msgspec.Struct, frozen=True):
    """An application's id (`txnAppId`) and version (`txnVersion`) for one write: each version is written at most once.

    For a stream, `app_id`, `version` and `run` are the ids of the query, of the micro-batch and of the run, and
    `made_of` is a digest of the micro-batch's input offsets, "" if they could not be read. For a batch, `run` is "",
    and `made_of` is the option `txnDigest`, "" if it was not given.
    """

    app_id: str
    version: int
    run: str = ""
    made_of: str = ""


class ConsumedOffsets(msgspec.Struct, frozen=True):
    """The offsets that a batch write commits for `group`: its rows were made from the records below these offsets."""

    group: str
    offsets: Mapping[str, Mapping[PartitionIndex, Offset]]


class ConsumedByQuery(msgspec.Struct, frozen=True):
    """The group for which a stream write commits each micro-batch's input offsets, read from the checkpoint."""

    group: str


class WriteOptions(msgspec.Struct, frozen=True):
    """The options of a batch or stream write.

    The topic's `compression.type` takes precedence over `compression`; without both, zstd is used. If `topic` is None,
    a column names it. With `pull`, tasks upload to the leaders' stores only. `consumed`: the offsets committed together
    with the rows. `checkpoint`: the address of the query's checkpoint; None for a batch, or if the query has no option
    `checkpointLocation`.
    """

    cluster: str
    storage: StorageSettings
    topic: str | None
    acks: Acks
    pull: bool
    compression: str | None
    timeout_ms: int
    write_id: str | None
    transaction: ApplicationVersion | None
    ignored: tuple[Ignored, ...]
    consumed: ConsumedOffsets | ConsumedByQuery | None = None
    checkpoint: str | None = None

    def for_tasks(self) -> WriteOptions:
        """The same options without secrets, to be pickled for tasks."""
        return msgspec.structs.replace(self, storage=self.storage.without_secrets())


def parse_read_options(raw: Mapping[str, str], default_cluster: str | None = None) -> ReadOptions:
    """Parse the options of a batch read. `default_cluster` (SPARKLOG_CLUSTER) is used if there is no option `cluster`.

    Raises `InvalidOption` with the option, the legal values and the value found, also for an unknown option.
    """
    options = read_options(GivenOptions(raw, Side.BATCH_READ), default_cluster)
    check_batch_range(options.start_option, options.start, options.end_option, options.end)
    return options


def read_options(given: GivenOptions, default_cluster: str | None) -> ReadOptions:
    """Return the options that batch and stream reads share. By default, streams start at latest, batches at earliest.

    Raises InvalidOption.
    """
    is_stream = given.side.is_stream
    metadata = _metadata(given)
    subscription = None if metadata is not None else _subscription(given)
    words = ANY_WORD if is_stream else FROM_EARLIEST
    start_option, start = _bound(given, _START, EveryPartition(Latest() if is_stream else Earliest()), words)
    end_option, end = _bound(given, _END, EveryPartition(Latest()), TO_LATEST)
    return ReadOptions(
        cluster=given.cluster(default_cluster),
        storage=given.storage(),
        subscription=subscription,
        metadata=metadata,
        start=start,
        start_option=start_option,
        end=end,
        end_option=end_option,
        start_at_latest_if_none=given.optional_text("startingOffsetsByTimestampStrategy") == "latest",
        fail_on_data_loss=given.flag("failOnDataLoss"),
        min_partitions=given.optional_integer("minPartitions"),
        max_records_per_partition=given.integer("maxRecordsPerPartition"),
        max_bytes_per_partition=given.integer("maxBytesPerPartition"),
        columns=_columns(given) if metadata is None else (),
        ignored=given.ignored(),
        topic_id=given.optional_integer("topicId"),
        zone=given.optional_text("zone") or "",
        reader=given.optional_text("reader") or "auto",
    )


def parse_write_options(raw: Mapping[str, str], default_cluster: str | None = None) -> WriteOptions:
    """Parse the options of a batch write. `default_cluster` (SPARKLOG_CLUSTER) is used if there is no option `cluster`.

    Raises InvalidOption, also for an unknown option, InvalidTopic and InvalidGroupId.
    """
    given = GivenOptions(raw, Side.BATCH_WRITE)
    return write_options(given, default_cluster, _consumed(given))


def write_options(
    given: GivenOptions, default_cluster: str | None, consumed: ConsumedOffsets | ConsumedByQuery | None
) -> WriteOptions:
    """Return the options of a batch write, or of a stream write except for its checkpoint.

    `consumed`: the offsets to commit with the rows, or None. For a stream, the options that exist only for batches get
    their defaults. Raises InvalidOption, InvalidTopic.
    """
    topic = given.optional_text("topic")
    if topic is not None:
        check_topic_name(topic)
    transaction = _transaction(given)
    return WriteOptions(
        cluster=given.cluster(default_cluster),
        storage=given.storage(),
        topic=topic,
        acks=_acks(given, transaction),
        pull=_is_pull(given, transaction),
        compression=given.optional_text("compression"),
        timeout_ms=given.integer("timeoutMs"),
        write_id=_write_name(given, "writeId"),
        transaction=transaction,
        ignored=given.ignored(),
        consumed=consumed,
    )


def group_name(given: GivenOptions) -> str | None:
    """The option `groupId`, or None if it was not given. Raises InvalidGroupId."""
    group = given.optional_text("groupId")
    if group is not None:
        check_name("a groupId", group)
    return group


def _metadata(given: GivenOptions) -> str | None:
    if "metadata" not in given:
        return None
    table = given.text("metadata")
    others = [name for name in given.names() if name not in _BESIDE_METADATA]
    if others:
        raise InvalidOption(
            f"metadata: {table!r} shows the whole cluster and can't be combined with options that choose records, "
            f"found {', '.join(others)}: filter the DataFrame instead"
        )
    given.ignore("zone", "the log's own state is read from the metadata chain")
    return table


def _subscription(given: GivenOptions) -> Subscription:
    strategies = [name for name in _STRATEGIES if name in given]
    if len(strategies) != 1:
        given_ones = " and ".join(strategies) or "none of them"
        hint = "; topic is an option of a write: a read names it with subscribe" if given.has_ignored("topic") else ""
        raise InvalidOption(
            f"wanted exactly one of the options {', '.join(_STRATEGIES)} (or metadata), found {given_ones}{hint}"
        )
    if "assign" in given:
        return AssignPartitions(parse_partitions("assign", given.raw("assign")))
    if "subscribePattern" in given:
        pattern = given.text("subscribePattern")
        try:
            re.compile(pattern)
        except re.error as error:
            wanted = OPTIONS["subscribePattern"].legal()
            raise InvalidOption(f"subscribePattern: wanted {wanted}, found {shown(pattern)}: {error}") from None
        return SubscribePattern(pattern)
    topics = dict.fromkeys(topic.strip() for topic in given.raw("subscribe").split(","))
    topics.pop("", None)
    if not topics:
        raise InvalidOption(f"subscribe: wanted {OPTIONS['subscribe'].legal()}, found {shown(given.raw('subscribe'))}")
    return SubscribeTopics(tuple(topics))


def _bound(
    given: GivenOptions, names: tuple[str, str, str], default: OffsetSpec, words: Sequence[str]
) -> tuple[str, OffsetSpec]:
    """Return the name of the option that gives the start or end of a range, and the start or end itself.

    `names`: the options for one timestamp, for timestamps by partition, and for offsets by partition. The first of the
    three that the user gave is used. If the user gave none of the three, returns the last name and `default`. `words`:
    the words, like `earliest`, that the last option allows.
    """
    chosen = next((name for name in names if name in given), None)
    if chosen is None:
        return names[2], default
    for shadowed in names[names.index(chosen) + 1 :]:
        given.ignore(shadowed, f"{chosen} takes precedence")
    if chosen == names[0]:
        return chosen, parse_timestamp(chosen, given.raw(chosen))
    if chosen == names[1]:
        return chosen, parse_timestamps(chosen, given.raw(chosen))
    return chosen, parse_offsets(chosen, given.raw(chosen), words)


def _columns(given: GivenOptions) -> tuple[str, ...]:
    with_headers = given.flag("includeHeaders")
    if "columns" not in given:
        return READ_COLUMNS if with_headers else READ_COLUMNS[:-1]
    known = {column.lower() for column in READ_COLUMNS}
    for column in given.raw("columns").split(","):
        if column.strip().lower() not in known:
            raise InvalidOption(
                f"columns: wanted some of {', '.join(READ_COLUMNS)}, found {column.strip()!r}"
                f"{did_you_mean(column.strip(), READ_COLUMNS)}"
            )
    columns = given.elements("columns")
    assert columns is not None
    if with_headers and "headers" not in columns:
        raise InvalidOption(
            f"columns: includeHeaders is true, but headers is not among {','.join(columns)}: add it, or leave "
            "includeHeaders out"
        )
    return columns


def _consumed(given: GivenOptions) -> ConsumedOffsets | None:
    if "consumedOffsets" not in given:
        given.ignore("groupId", "a batch commits to a group only what consumedOffsets says")
        return None
    group = group_name(given)
    if group is None:
        raise InvalidOption("groupId: wanted groupId and consumedOffsets together, found only consumedOffsets")
    text = given.raw("consumedOffsets")
    spec = parse_offsets("consumedOffsets", text)
    bounds = spec.bounds if isinstance(spec, PerPartition) else {}
    offsets = {
        topic: {partition: at.offset for partition, at in by_partition.items() if isinstance(at, AtOffset)}
        for topic, by_partition in bounds.items()
    }
    if not offsets or any(len(offsets[topic]) < len(bounds[topic]) for topic in offsets):
        raise InvalidOption(
            f"consumedOffsets: wanted {OPTIONS['consumedOffsets'].legal()}, found {shown(text)}: rows can't be made "
            "from earliest or latest, only from offsets"
        )
    return ConsumedOffsets(group, offsets)


def _write_name(given: GivenOptions, option: str) -> str | None:
    name = given.optional_text(option)
    if name is not None:
        check_write_name(option, name, InvalidOption)
    return name


def _transaction(given: GivenOptions) -> ApplicationVersion | None:
    app_id, version = _write_name(given, "txnAppId"), given.optional_integer("txnVersion")
    made_of = _write_name(given, "txnDigest")
    if app_id is None and version is None and made_of is None:
        return None
    if app_id is None or version is None:
        missing = "txnAppId" if app_id is None else "txnVersion"
        present = "txnAppId" if app_id is not None else "txnDigest" if version is None else "txnVersion"
        raise InvalidOption(f"{missing}: wanted txnAppId and txnVersion together, found only {present}")
    return ApplicationVersion(app_id, version, made_of=made_of or "")


def _acks(given: GivenOptions, transaction: ApplicationVersion | None) -> Acks:
    acks = Acks.of(given.optional_text("acks") or "all")
    if acks is not Acks.ALL and transaction is not None:
        raise InvalidOption(
            f"acks: wanted all beside txnAppId, found '{int(acks)}': a version may only count once it is replicated"
        )
    return acks


def _is_pull(given: GivenOptions, transaction: ApplicationVersion | None) -> bool:
    pull = given.optional_text("replication") == "pull"
    if pull and transaction is not None:
        raise InvalidOption(
            "replication: wanted push beside txnAppId, found 'pull': a version may only count once it is replicated"
        )
    return pull
