"""The options of streams: what is legal, and that contradictions are errors before anything runs."""

from __future__ import annotations

import pytest

from sparklog.core.errors import InvalidGroupId, InvalidOption
from sparklog.core.reading.trigger_limits import TriggerLimits
from sparklog.options.registry import OPTIONS, Side
from sparklog.options.starting_offsets import Earliest, EveryPartition, Latest
from sparklog.options.streams import parse_stream_read_options, parse_stream_write_options
from sparklog.options.typed import ConsumedByQuery

MINUTE = 60_000


def test_a_stream_begins_at_latest_and_has_no_limits_unless_it_says_so() -> None:
    options = parse_stream_read_options({"cluster": "/c", "subscribe": "t", "checkpointlocation": "/p"})
    assert options.read.start == EveryPartition(Latest())
    assert options.limits == TriggerLimits()
    assert not options.limits.is_limited
    assert options.read.ignored == (), "Spark's own options need no warning"


@pytest.mark.parametrize(
    ("text", "length_ms"),
    [("15m", 15 * MINUTE), ("90", 90), ("2 MIN", 2 * MINUTE), ("1d", 1440 * MINUTE), ("3s", 3000)],
)
def test_a_delay_is_a_duration(text: str, length_ms: int) -> None:
    given = {"cluster": "/c", "subscribe": "t", "minOffsetsPerTrigger": "5", "maxTriggerDelay": text}
    assert parse_stream_read_options(given).limits == TriggerLimits(min_offsets=5, max_delay_ms=length_ms)


@pytest.mark.parametrize(
    ("option", "found", "said"),
    [
        ("maxOffsetsPerTrigger", "0", "maxOffsetsPerTrigger: wanted an integer >= 1, found '0'"),
        ("minOffsetsPerTrigger", "-1", "minOffsetsPerTrigger: wanted an integer >= 1, found '-1'"),
        ("maxBytesPerTrigger", "x", "maxBytesPerTrigger: wanted bytes"),
        ("maxTriggerDelay", "soon", "maxTriggerDelay: wanted a duration like 500ms, 30s, 15m, 1h or 1d"),
        ("maxTriggerDelay", "9" * 19 + "d", "maxTriggerDelay: wanted a duration"),
        ("endingOffsets", "latest", "endingOffsets: a stream has no end: leave it out, and use Trigger.AvailableNow"),
        ("endingTimestamp", "1", "endingTimestamp: a stream has no end"),
        ("metadata", "topics", "metadata: the log's own state is read in a batch, not as a stream"),
        ("startingOffsets", "sometime", "startingOffsets: wanted earliest, latest or offsets by partition"),
        ("maxOffsetPerTrigger", "1", "not an option of a stream read; did you mean maxOffsetsPerTrigger?"),
    ],
)
def test_what_is_not_legal_is_an_error(option: str, found: str, said: str) -> None:
    with pytest.raises(InvalidOption) as raised:
        parse_stream_read_options({"cluster": "/c", "subscribe": "t", option: found})
    assert said in str(raised.value)


def test_a_stream_begins_wherever_its_page_says() -> None:
    words, _, example = OPTIONS["startingOffsets"].legal(Side.STREAM_READ).partition(" or offsets by partition like ")
    assert words == "earliest, latest"
    given = {"cluster": "/c", "subscribe": "topicA,topicB"}
    for text in (*words.split(", "), example):
        parse_stream_read_options({**given, "startingOffsets": text})
    by_partition = parse_stream_read_options({**given, "startingOffsets": example}).read.start
    assert [by_partition.at(*place) for place in (("topicA", 1), ("topicB", 0))] == [Latest(), Earliest()]
    with pytest.raises(InvalidOption, match="startingOffsets: wanted earliest, latest or offsets by partition"):
        parse_stream_read_options({**given, "startingOffsets": ""})


def test_the_least_is_not_above_the_most() -> None:
    given = {"cluster": "/c", "subscribe": "t", "minOffsetsPerTrigger": "6", "maxOffsetsPerTrigger": "5"}
    with pytest.raises(InvalidOption, match=r"wanted at most maxOffsetsPerTrigger \(5\), found 6"):
        parse_stream_read_options(given)


def test_spark_may_not_track_its_progress_on_the_side() -> None:
    given = {"cluster": "/c", "topic": "t", "asyncprogresstrackingenabled": "true"}
    with pytest.raises(InvalidOption, match="asyncProgressTrackingEnabled: with it, Spark may put other records into"):
        parse_stream_write_options(given)
    assert parse_stream_write_options({**given, "asyncprogresstrackingenabled": "false"}).ignored == ()


@pytest.mark.parametrize("option", ["txnAppId", "txnVersion", "txnDigest"])
def test_a_stream_has_an_identity_of_its_own(option: str) -> None:
    with pytest.raises(InvalidOption, match=f"{option}: a micro-batch is identified by its query and its number"):
        parse_stream_write_options({"cluster": "/c", "topic": "t", option: "1"})


def test_a_group_follows_a_stream_that_is_read_and_is_committed_with_one_that_is_written() -> None:
    read = parse_stream_read_options({"cluster": "/c", "subscribe": "t", "groupid": "billing"})
    assert read.group == "billing"
    assert read.read.ignored == ()
    plain = {"cluster": "/c", "topic": "t", "checkpointlocation": "/p"}
    written = parse_stream_write_options({**plain, "groupId": "billing"})
    assert (written.consumed, written.checkpoint) == (ConsumedByQuery("billing"), "/p")
    alone = parse_stream_write_options(plain)
    assert (alone.consumed, alone.checkpoint) == (None, "/p")
    assert parse_stream_write_options({"cluster": "/c", "topic": "t"}).checkpoint is None


def test_a_write_with_a_group_needs_to_know_the_checkpoint() -> None:
    with pytest.raises(InvalidOption, match="checkpointLocation: wanted this option of the query beside groupId"):
        parse_stream_write_options({"cluster": "/c", "topic": "t", "groupId": "billing"})


def test_the_name_of_a_group_is_checked() -> None:
    for parse, more in ((parse_stream_read_options, {"subscribe": "t"}), (parse_stream_write_options, {"topic": "t"})):
        given = {"cluster": "/c", "groupId": "a\nb", "checkpointLocation": "/p", **more}
        with pytest.raises(InvalidGroupId, match="wanted a groupId of 1 to 249 printable characters"):
            parse(given)
