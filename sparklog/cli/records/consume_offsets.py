"""Parses --offset of `sparklog consume` into the range of offsets to print from each partition."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from sparklog.cli.times import time_us
from sparklog.core.errors import InvalidOption, OffsetOutOfRange

if TYPE_CHECKING:
    from sparklog.client.cluster import Cluster
    from sparklog.core.state import Partition

_NUMBER = re.compile(r"-?[0-9]{1,40}")  # int() also accepts 1_0 and the digits of other scripts


def offsets_to_print(cluster: Cluster, topic: str, partition: Partition, offset: str) -> tuple[int, int | None]:
    """Return the offsets [start, end) of a partition to print; `end` is None unless `offset` is @A:B.

    `offset` is the option --offset. Raises InvalidOption if it is malformed, OffsetOutOfRange for an offset N below the
    log start or above the high watermark, and the errors of `Cluster.offset_for_time`.
    """
    low, high = partition.log_start, partition.high_watermark
    if offset == "start":
        return low, None
    if offset == "end":
        return high, None
    if offset.startswith("@"):
        offsets = [cluster.offset_for_time(topic, partition.partition, at_us) for at_us in times_of(offset[1:])]
        bounds = [high if at is None else at for at in offsets]
        return bounds[0], bounds[1] if len(bounds) > 1 else None
    if _NUMBER.fullmatch(offset) is None:
        raise InvalidOption(f"--offset: wanted start, end, N, -N or @TIME[:TIME], found {offset!r}")
    number = int(offset)
    if offset.startswith("-"):
        return cluster.offset_of_last(topic, partition.partition, -number), None
    if not low <= number <= high:
        raise OffsetOutOfRange(
            f"{topic}-{partition.partition}: wanted offset {number}, the readable range is [{low}, {high}); "
            "--partition chooses a partition"
        )
    return number, None


def times_of(text: str) -> list[int]:
    """Parse the text A or A:B of --offset @A:B into one or two times, in microseconds since the epoch.

    ISO times contain colons, so the text is split at the first colon that has a valid time on each side. Raises
    InvalidOption for an invalid time, or if B is before A.
    """
    colons = [index for index, character in enumerate(text) if character == ":"]
    for times in ([text], *([text[:at], text[at + 1 :]] for at in colons)):
        try:
            parsed = [time_us("--offset", time) for time in times]
        except InvalidOption:
            continue
        if parsed[0] > parsed[-1]:
            raise InvalidOption(f"--offset: wanted @A:B with A not after B, found {text!r}")
        return parsed
    return [time_us("--offset @TIME[:TIME]", text)]
