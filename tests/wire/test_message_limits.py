"""Names in requests: the decoders refuse what no check should have to work on. What is in the chain can be read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from msgspec import inspect

from sparklog.coordinator.http.exchange import Decoders
from sparklog.core.commands import CreateTopic, Submission
from sparklog.core.errors import InvalidInput, SparklogError
from sparklog.core.records import Record
from sparklog.core.types import CommandId, EntryNumber
from sparklog.wire.error_messages import MOST_ERROR_CHARACTERS, error_reply
from sparklog.wire.messages import JSON, Heartbeat, MemberHeartbeat, SubmitRequest, SubmittedCommand, WaitRequest
from sparklog.wire.topic_messages import OffsetsRequest, PlanRequest

REQUESTS = (SubmitRequest, Heartbeat, MemberHeartbeat, WaitRequest, PlanRequest, OffsetsRequest)
# Also in records of the chain, so that `decide` alone checks them.
IN_RECORDS = {
    ("NewObject", "upload_id"),
    ("Holder", "store"),
    ("Application", "app_id"),
    ("Application", "run"),
    ("Application", "made_of"),
    ("OffsetToCommit", "metadata"),
    ("KafkaTopic", "cluster_id"),
    ("KafkaTopic", "topic"),
    ("KafkaTopic", "topic_id"),
}
MIB = 2**20


def texts(
    kind: Any, seen: set[type], place: tuple[str, str] = ("", "")
) -> Iterator[tuple[tuple[str, str], int | None]]:
    """The texts of a type, each with the struct and field that has it, and its limit."""
    match kind:
        case inspect.StrType():
            yield place, kind.max_length
        case inspect.StructType() if kind.cls not in seen:
            seen.add(kind.cls)
            for field in kind.fields:
                yield from texts(field.type, seen, (kind.cls.__name__, field.name))
        case inspect.UnionType():
            for each in kind.types:
                yield from texts(each, seen, place)
        case inspect.DictType():
            yield from texts(kind.key_type, seen, place)
            yield from texts(kind.value_type, seen, place)
        case inspect.VarTupleType() | inspect.ListType():
            yield from texts(kind.item_type, seen, place)
        case inspect.TupleType():
            for each in kind.item_types:
                yield from texts(each, seen, place)


def test_every_text_of_a_request_has_a_limit() -> None:
    seen: set[type] = set()
    found = [pair for kind in REQUESTS for pair in texts(inspect.type_info(kind), seen)]
    assert len(found) > 50
    assert {place for place, limit in found if limit is None} == IN_RECORDS


def test_no_text_of_a_record_has_one() -> None:
    assert [place for place, limit in texts(inspect.type_info(Record), set()) if limit is not None] == []


@pytest.mark.parametrize("form", ["msgpack", "json"])
def test_a_name_of_millions_of_characters_is_refused_by_the_decoder(form: str) -> None:
    submission = Submission(CommandId("0" * 32), EntryNumber(0), CreateTopic("x" * 40 * MIB))
    request = SubmitRequest("c" * 32, EntryNumber(0), (SubmittedCommand(submission, 1_000),))
    encode = msgspec.msgpack.encode if form == "msgpack" else msgspec.json.encode
    content_type = "application/msgpack" if form == "msgpack" else JSON
    with pytest.raises(InvalidInput, match="Expected `str` of length <= 1000"):
        Decoders(SubmitRequest).decode(encode(request), content_type, "/v1/submit")


def test_the_text_of_an_error_is_cut() -> None:
    assert error_reply(SparklogError("x" * 4_000)).message == "x" * 4_000
    long = error_reply(SparklogError("x" * 40 * MIB)).message
    assert long.endswith("xx… (41,943,040 characters)")
    assert len(long) < MOST_ERROR_CHARACTERS + 100
