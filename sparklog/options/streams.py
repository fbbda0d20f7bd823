"""The options of a streaming query that reads or writes `format("sparklog")`, checked and typed."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping
from typing import Final

import msgspec

from sparklog.core.config.key import LONG_MAX, shown
from sparklog.core.errors import InvalidOption
from sparklog.core.reading.trigger_limits import TriggerLimits
from sparklog.options.given import GivenOptions
from sparklog.options.registry import OPTIONS, Side
from sparklog.options.typed import (
    ConsumedByQuery,
    ReadOptions,
    WriteOptions,
    group_name,
    parse_read_options,
    read_options,
    write_options,
)

_DURATION: Final = re.compile(r"([0-9]+) *(ms|s|m|min|h|d|)", re.IGNORECASE)
_UNIT_MS: Final = {"": 1, "ms": 1, "s": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
_ENDS: Final = ("endingTimestamp", "endingOffsetsByTimestamp", "endingOffsets")
_ASYNC_PROGRESS: Final = "asyncProgressTrackingEnabled"
_CHECKPOINT: Final = "checkpointLocation"
_IDENTITY: Final = ("txnAppId", "txnVersion", "txnDigest")


class StreamReadOptions(msgspec.Struct, frozen=True):
    """The options of a streaming read.

    `read` has the topics and the start of the first run. `limits` bounds each micro-batch. `group` is the consumer
    group to which the stream commits its position, or None.
    """

    read: ReadOptions
    limits: TriggerLimits
    group: str | None = None

    def for_tasks(self) -> StreamReadOptions:
        """The same options without secrets, to be pickled for tasks."""
        return msgspec.structs.replace(self, read=self.read.for_tasks())


def parse_stream_read_options(raw: Mapping[str, str], default_cluster: str | None = None) -> StreamReadOptions:
    """Parse the options of a stream read. `default_cluster` is used if there is no option `cluster`.

    Raises InvalidOption, also for an unknown option, an end or `metadata`, which a stream can't have, and
    InvalidGroupId.
    """
    given = GivenOptions(raw, Side.STREAM_READ)
    for name in _ENDS:
        if given.has_ignored(name):
            raise InvalidOption(
                f"{name}: a stream has no end: leave it out, and use Trigger.AvailableNow to stop at the present end"
            )
    if given.has_ignored("metadata"):
        raise InvalidOption("metadata: the log's own state is read in a batch, not as a stream")
    limits = trigger_limits(given)
    if limits.min_offsets is None:
        given.ignore("maxTriggerDelay", "it limits how long minOffsetsPerTrigger waits")
    group = group_name(given)
    return StreamReadOptions(read_options(given, default_cluster), limits, group)


def read_options_of_any(raw: Mapping[str, str], default_cluster: str | None) -> ReadOptions:
    """Parse the options of a read that may be a batch or a stream: Spark does not say which of the two it wants.

    Raises InvalidOption if the options are valid for neither, or if a limit of micro-batches has an illegal value.
    Raises InvalidGroupId if only a stream could have these options, and its `groupId` is illegal.
    """
    try:
        options = parse_read_options(raw, default_cluster)
    except InvalidOption:
        with contextlib.suppress(InvalidOption):
            return parse_stream_read_options(raw, default_cluster).read
        raise
    trigger_limits(GivenOptions(raw, Side.STREAM_READ))
    return options


def trigger_limits(given: GivenOptions) -> TriggerLimits:
    """Return the limits of a micro-batch: its minimum and maximum size, and how long it waits for the minimum.

    Raises InvalidOption, also if the minimum exceeds the maximum.
    """
    limits = TriggerLimits(
        given.optional_integer("maxOffsetsPerTrigger"),
        given.optional_integer("minOffsetsPerTrigger"),
        given.optional_integer("maxBytesPerTrigger"),
        _duration_ms(given, "maxTriggerDelay"),
    )
    least, most = limits.min_offsets, limits.max_offsets
    if least is not None and most is not None and least > most:
        raise InvalidOption(
            f"minOffsetsPerTrigger: wanted at most maxOffsetsPerTrigger ({most}), found {least}: a micro-batch would "
            "wait for more than it may take"
        )
    return limits


def parse_stream_write_options(raw: Mapping[str, str], default_cluster: str | None = None) -> WriteOptions:
    """Parse the options of a stream write, which always has acks=all and uploads to all in-sync stores (push).

    `default_cluster` is used if there is no option `cluster`. Raises InvalidOption (also for a `groupId` without
    `checkpointLocation`), InvalidTopic, InvalidGroupId.
    """
    given = GivenOptions(raw, Side.STREAM_WRITE)
    for name in _IDENTITY:
        if given.has_ignored(name):
            raise InvalidOption(
                f"{name}: a micro-batch is identified by its query and its number: leave {', '.join(_IDENTITY)} out"
            )
    folded = {name.lower(): text for name, text in raw.items()}
    tracked = folded.get(_ASYNC_PROGRESS.lower(), "false")
    if tracked.strip().lower() != "false":
        raise InvalidOption(
            f"{_ASYNC_PROGRESS}: with it, Spark may put other records into a micro-batch that it repeats, so nothing "
            "can be written exactly once: leave it out"
        )
    checkpoint = folded.get(_CHECKPOINT.lower())
    options = write_options(given, default_cluster, _consumed(given, checkpoint))
    return msgspec.structs.replace(options, checkpoint=checkpoint)


def _consumed(given: GivenOptions, checkpoint: str | None) -> ConsumedByQuery | None:
    group = group_name(given)
    if group is None:
        return None
    if checkpoint is None:
        raise InvalidOption(
            f"{_CHECKPOINT}: wanted this option of the query beside groupId, found none: the offsets that a "
            "micro-batch was made from are in its checkpoint"
        )
    return ConsumedByQuery(group)


def _duration_ms(given: GivenOptions, name: str) -> int:
    text = given.optional_text(name) or ""
    match = _DURATION.fullmatch(text.strip())
    length_ms = int(match[1]) * _UNIT_MS[match[2].lower()] if match is not None else LONG_MAX + 1
    if length_ms > LONG_MAX:
        raise InvalidOption(f"{name}: wanted {OPTIONS[name].legal()}, found {shown(text)}")
    return length_ms
