"""Who may do what: rights, what each command needs, and refusals that give no topic away."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from itertools import product

import msgspec
import pytest
from msgspec.structs import replace

from sparklog.core.access import (
    ANONYMOUS,
    Access,
    Need,
    Principal,
    Verb,
    check_access,
    need_of,
    parse_right,
    topic_names,
    unknown_topics,
)
from sparklog.core.commands import (
    AllocateProducer,
    Append,
    Application,
    Command,
    CommitOffsets,
    CreateTopic,
    DeleteTopic,
    JoinGroup,
    LeaveGroup,
    PartitionEpoch,
)
from sparklog.core.errors import ClusterAuthorizationFailed, InvalidConfig, SparklogError, TopicAuthorizationFailed
from sparklog.core.groups.membership import OffsetToCommit
from sparklog.core.types import EntryNumber, LeaderEpoch, NewSlice, Offset, PartitionIndex, TopicId
from tests.core.decided_log import DecidedLog, span
from tests.core.every_command import ANY, OF_NO_TOPIC, ORDERS, TYPES, UNKNOWN, of_topic

STATE = DecidedLog().state  # topic 1 is `t`
NAME = STATE.topics[ORDERS].name


def principal(*rights: str) -> Principal:
    return Principal("anna", tuple(map(parse_right, rights)))


def refusal(who: Principal, need: Need) -> SparklogError | None:
    try:
        check_access(who, need, STATE)
    except SparklogError as error:
        return error
    return None


def may(who: Principal, command: Command) -> bool:
    return refusal(who, need_of(command)) is None


def test_every_type_of_command_is_in_the_table() -> None:
    assert {type(command) for command, _ in of_topic(ORDERS, NAME)} | {type(row[0]) for row in OF_NO_TOPIC} == TYPES


# M: N-05
@pytest.mark.parametrize(("command", "verb"), of_topic(ORDERS, NAME), ids=lambda each: type(each).__name__)
def test_a_command_of_a_topic_needs_its_verb_on_that_topic(command: Command, verb: Verb) -> None:
    covering = (NAME, f"{NAME}*", f"{NAME[:3]}*", "*")
    for has, pattern in product(Verb, (*covering, NAME[:3], "other", f"{NAME}x", f"{NAME}x*")):
        covers = pattern in covering
        assert may(principal(f"{has}:{pattern}"), command) is (has is verb and covers), (has, pattern)
    assert may(principal(f"{verb}:other", f"{verb}:{NAME}"), command)
    assert not may(principal(), command)
    assert may(ANONYMOUS, command)


@pytest.mark.parametrize(("command", "verb", "scope"), OF_NO_TOPIC, ids=lambda each: type(each).__name__)
def test_a_command_of_the_cluster_needs_its_verb_on_all_topics(command: Command, verb: Verb | None, scope: str) -> None:
    for has, pattern in product(Verb, (NAME, f"{NAME}*", "*")):
        covers = scope == ANY or pattern == "*"
        assert may(principal(f"{has}:{pattern}"), command) is (has is verb and covers), (has, pattern)
    assert may(ANONYMOUS, command) is (verb is not None)


@pytest.mark.parametrize("has", Verb)
def test_whoever_has_any_right_on_a_topic_may_describe_it(has: Verb) -> None:
    describe = Need(Verb.DESCRIBE, (NAME,))
    assert refusal(principal(f"{has}:{NAME}"), describe) is None
    assert refusal(principal(f"{has}:other"), describe) is not None
    assert refusal(principal(f"{has}:{NAME}"), Need(Verb.DESCRIBE)) is not None
    assert refusal(principal(f"{has}:*"), Need(Verb.DESCRIBE)) is None


def test_an_append_needs_the_right_on_every_topic_that_it_names_anywhere() -> None:
    begun = PartitionEpoch(TopicId(2), PartitionIndex(0), LeaderEpoch(0))
    part = msgspec.convert((0, 3, 0, 1, 0, 10, 0, 1, 0, 0), NewSlice)
    append = Append((), (part,), (begun,), keyless=(TopicId(4),))
    assert need_of(append) == Need(Verb.WRITE, (TopicId(2), TopicId(3), TopicId(4)))


def test_an_append_with_offsets_of_a_group_needs_to_read_what_was_consumed() -> None:
    offset = OffsetToCommit(ORDERS, PartitionIndex(0), Offset(0), LeaderEpoch(0))
    consumed = CommitOffsets("c" * 32, "g", (offset,))
    append = Append((), (), (), Application("app", 1), consumed=consumed)
    assert may(principal("write:other", f"read:{NAME}"), append)
    assert not may(principal("write:*"), append)
    assert not may(principal(f"read:{NAME}"), append)
    unknown = replace(consumed, offsets=(replace(offset, topic_id=UNKNOWN),))
    assert unknown_topics(need_of(replace(append, consumed=unknown)), STATE)


# M: N-05
@pytest.mark.parametrize("member_id", ["secret@1", "secret@2"])
@pytest.mark.parametrize(
    "command",
    [
        lambda member_id: LeaveGroup("g", member_id),
        lambda member_id: LeaveGroup("g", member_id, EntryNumber(3)),
        lambda member_id: JoinGroup("g", member_id, ("mine",), 9_000),
        lambda member_id: JoinGroup("g", member_id, ("mine",), 9_000, again=True),
        lambda member_id: CommitOffsets("c" * 32, "g", (), member_id, 1, 1),
        lambda member_id: CommitOffsets("c" * 32, "g", (_IN_ORDERS,), member_id, 1, 1),
        lambda member_id: Append((), (), (), Application("a", 1), consumed=CommitOffsets("c" * 32, "g", (), member_id)),
    ],
)
def test_a_member_is_evicted_replaced_or_renewed_only_with_the_right_on_all_its_topics(
    command: Callable[[str], Command], member_id: str
) -> None:
    """Also by an id of the same instance, which takes the place of the member."""
    log = DecidedLog()
    log.submit(JoinGroup("g", "secret@1", (NAME, "payments"), 9_000))
    need = need_of(command(member_id))
    for rights in (("read:*",), (f"read:{NAME}", "read:payments", "read:mine")):
        check_access(principal(*rights, "write:mine"), need, log.state)
    for rights in (("read:mine", f"read:{NAME}"), ("read:mine", f"read:{NAME}", "describe:*", "alter:*")):
        with pytest.raises(TopicAuthorizationFailed) as raised:
            check_access(principal(*rights, "write:mine"), need, log.state)
        assert f"read all topics that member '{member_id}' of group 'g' reads" in raised.value.message
        assert "payments" not in raised.value.message
    another = command("another")
    if not isinstance(another, JoinGroup):  # a new member is the subject of the next test
        check_access(principal("read:mine", f"read:{NAME}", "write:mine"), need_of(another), log.state)


@pytest.mark.parametrize("member_id", ["", "eve", "other@1"])
def test_a_group_is_joined_only_with_the_right_on_the_topics_of_all_members(member_id: str) -> None:
    """A new member takes partitions from the others, and refuses their commits until they have seen it."""
    log = DecidedLog()
    log.submit(JoinGroup("g", "anna", (NAME,), 9_000))
    log.submit(JoinGroup("g", "secret@1", ("payments",), 9_000))
    eve = principal("read:mine", f"read:{NAME}", "describe:*", "alter:*")
    join = need_of(JoinGroup("g", member_id, ("mine",), 9_000))
    with pytest.raises(TopicAuthorizationFailed) as raised:
        check_access(eve, join, log.state)
    assert "read all topics that the members of group 'g' read" in raised.value.message
    assert "payments" not in raised.value.message
    check_access(principal("read:mine", f"read:{NAME}", "read:payments"), join, log.state)
    check_access(eve, need_of(JoinGroup("new", member_id, ("mine",), 9_000)), log.state)
    log.submit(LeaveGroup("g", "secret@1"))
    check_access(eve, join, log.state)


def test_a_member_renews_itself_beside_one_that_came_later_and_reads_more() -> None:
    log = DecidedLog()
    for member_id, topics in (("anna", (NAME,)), ("berta@1", (NAME,)), ("carla", (NAME, "payments"))):
        log.submit(JoinGroup("g", member_id, topics, 9_000))
    for member_id in ("anna", "berta@1", "berta@2"):
        check_access(principal(f"read:{NAME}"), need_of(JoinGroup("g", member_id, (NAME,), 9_000)), log.state)


@pytest.mark.parametrize("command", ["fences", "appends"])
def test_a_producer_is_fenced_or_used_only_with_the_right_on_all_topics_that_it_wrote_to(command: str) -> None:
    """Ids of producers are numbers from 0, so anyone can name one. Each may ask for a new id."""
    log = DecidedLog()
    log.append(3, producer=span(log.producer(), 0, 0, 2))
    log.submit(CreateTopic("mine"))
    wanted: Command = AllocateProducer(0)
    if command == "appends":  # with a batch in `mine`, the producer's owner would need the right on `mine` too
        part = replace(log.part(3, producer=span(0, 0, 0, 2)), topic_id=log.state.topic_ids["mine"])
        wanted = Append((), (part,), ())
    for rights in (("write:*",), (f"write:{NAME}", "write:mine")):
        check_access(principal(*rights), need_of(wanted), log.state)
    with pytest.raises(TopicAuthorizationFailed) as raised:
        check_access(principal("write:mine", "describe:*", "alter:*"), need_of(wanted), log.state)
    assert "write all topics that producer 0 has written to" in raised.value.message
    check_access(principal("write:mine"), need_of(AllocateProducer()), log.state)
    log.submit(DeleteTopic(ORDERS))
    check_access(principal("write:mine"), need_of(wanted), log.state)


_IN_ORDERS = OffsetToCommit(ORDERS, PartitionIndex(0), Offset(0), LeaderEpoch(0))


def test_a_right_on_topics_with_any_beginning_is_none_on_the_cluster() -> None:
    """Not even on one that is named like the sign for all topics."""
    assert not principal("alter:or*").may(Verb.ALTER, "*")
    assert principal("alter:*").may(Verb.ALTER, "*")


# M: N-05
def test_a_topic_that_may_not_be_seen_is_not_told_apart_from_none() -> None:
    stranger, reader = principal("write:other"), principal(f"read:{NAME}")

    def text(who: Principal, command: Command) -> str:
        return str(refusal(who, need_of(command))).replace(f"#{UNKNOWN}", f"#{ORDERS}")

    assert text(stranger, DeleteTopic(ORDERS)) == text(stranger, DeleteTopic(UNKNOWN))
    assert NAME not in text(stranger, DeleteTopic(ORDERS)).partition(":")[2].partition("wanted")[0].split()
    assert f"'{NAME}'" in text(reader, DeleteTopic(ORDERS))
    assert text(stranger, CreateTopic(NAME)) == text(stranger, CreateTopic("nope")).replace("nope", NAME)


def test_a_refusal_names_principal_verb_topic_and_what_to_do() -> None:
    error = refusal(principal("write:orders-*"), need_of(CreateTopic("x")))
    assert str(error) == (
        "TOPIC_AUTHORIZATION_FAILED: anna has no right to alter topic 'x': wanted a right like alter:TOPIC, found "
        "write:orders-*; rights are granted in the coordinator's access file"
    )
    error = refusal(principal(), Need(Verb.MAINTAIN))
    assert isinstance(error, ClusterAuthorizationFailed)
    assert (error.retriable, error.landed) == (False, "no")
    assert "anna has no right to maintain the cluster: wanted a right like maintain:*, found none" in str(error)
    many = refusal(principal(), Need(Verb.WRITE, ("a", "b", "c", "d", "e")))
    assert isinstance(many, TopicAuthorizationFailed)
    assert "topic 'a', 'b', 'c' and 2 more" in str(many)


def test_topics_of_the_audit_have_names_where_they_are_known() -> None:
    need = Need(Verb.WRITE, (ORDERS, UNKNOWN, "new"))
    assert topic_names(need, STATE) == [NAME, f"#{UNKNOWN}", "new"]
    assert unknown_topics(need, STATE)
    assert not unknown_topics(Need(Verb.WRITE, (ORDERS, "new")), STATE)


@pytest.mark.parametrize(
    "text", ["", "write", "write:", "write:a b", "write:*a", "write:a**", "write:" + "x" * 300, "write:*:*"]
)
def test_what_is_no_right_is_refused(text: str) -> None:
    with pytest.raises(InvalidConfig, match="wanted a right like"):
        parse_right(text)


def test_a_verb_that_is_none_is_refused_and_the_nearest_offered() -> None:
    with pytest.raises(InvalidConfig, match=r"wanted read, write, describe, alter, maintain .* did you mean write\?"):
        parse_right("wirte:orders")


def test_each_of_a_principals_tokens_is_good_and_no_other() -> None:
    hashes = [hashlib.sha256(text.encode()).hexdigest() for text in "abcd"]
    anna, ben = Principal("anna"), Principal("ben")
    access = Access(((anna, (hashes[0], hashes[1])), (ben, (hashes[2],))))
    assert [access.of_token(known) for known in hashes] == [anna, anna, ben, None]
