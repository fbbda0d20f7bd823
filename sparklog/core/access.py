"""Access control: principals with rights per topic and verb, and the right that each command needs.

A right is `verb:topic`, as in `write:orders`, `read:orders-*` or `maintain:*`. A principal with any right on a topic
may also describe it. Requests about the cluster as a whole need the verb on all topics, `verb:*`.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import Final, assert_never

import msgspec

from sparklog.core import commands
from sparklog.core.config.key import did_you_mean, shown
from sparklog.core.errors import ClusterAuthorizationFailed, InvalidConfig, TopicAuthorizationFailed
from sparklog.core.groups.membership import instance_of
from sparklog.core.names.topic_names import MAX_LENGTH
from sparklog.core.state import ClusterState
from sparklog.core.types import ProducerId, TopicId

ALL: Final = "*"
_PATTERN: Final = re.compile(r"[a-zA-Z0-9._-]*\*?")
_SHOWN: Final = 3  # topics in an error


class Verb(StrEnum):
    """An action that a right allows. Every right includes DESCRIBE on its topics."""

    READ = "read"
    WRITE = "write"
    DESCRIBE = "describe"
    ALTER = "alter"
    MAINTAIN = "maintain"


class Right(msgspec.Struct, frozen=True):
    """A right to do `verb` on a topic. If `topics` ends with `*`, the right is on every topic whose name begins with
    the text before the `*`.
    """

    verb: Verb
    topics: str

    def covers(self, verb: Verb, topic: str) -> bool:
        """True if the right allows `verb` on the topic of this name, or on the cluster if `topic` is `*`."""
        if verb is not self.verb and verb is not Verb.DESCRIBE:
            return False
        if self.topics.endswith(ALL):
            return topic.startswith(self.topics[:-1])
        return topic == self.topics

    def __str__(self) -> str:
        return f"{self.verb}:{self.topics}"


def parse_right(text: str) -> Right:
    """Parse a right, a text such as `write:orders-*`. Raises InvalidConfig if the text is not a right."""
    verb, colon, topics = text.partition(":")
    if not colon:  # the text may be a token in the wrong place, so the error does not show it
        raise InvalidConfig("wanted a right like write:orders, read:orders-* or alter:*, found a text without ':'")
    if not topics or len(topics) > MAX_LENGTH or _PATTERN.fullmatch(topics) is None:
        raise InvalidConfig(f"wanted a right like write:orders, read:orders-* or alter:*, found {text[:80]!r}")
    if verb not in list(Verb):
        raise InvalidConfig(f"wanted {', '.join(Verb)} before the ':', found {text[:80]!r}{did_you_mean(verb, Verb)}")
    return Right(Verb(verb), topics)


class Principal(msgspec.Struct, frozen=True):
    """A sender of requests: a person, a job, an agent."""

    name: str
    rights: tuple[Right, ...] = ()

    def may(self, verb: Verb, topic: str) -> bool:
        """True if the principal has a right to do `verb` on this topic, or on the cluster if `topic` is `*`."""
        return any(right.covers(verb, topic) for right in self.rights)


# The jobs that a coordinator starts itself. Only that coordinator knows their token.
JOBS_PRINCIPAL: Final = Principal("sparklog-jobs", (Right(Verb.MAINTAIN, ALL),))
# Any client of a coordinator that listens on its own machine only and has no access file.
ANONYMOUS: Final = Principal("anonymous", tuple(Right(verb, ALL) for verb in Verb))


class Access(msgspec.Struct, frozen=True):
    """The principals, each with the SHA-256 hashes of its tokens in hexadecimal digits."""

    principals: tuple[tuple[Principal, tuple[str, ...]], ...]

    def joined(self, principal: Principal, sha256: str) -> Access:
        """The same principals, and one more, whose only token has this SHA-256 hash."""
        return Access((*self.principals, (principal, (sha256,))))

    def of_token(self, sha256: str) -> Principal | None:
        """Return the principal that has a token with this SHA-256 hash, or None. Each hash is compared in constant
        time.
        """
        match = None
        for principal, hashes in self.principals:
            for known in hashes:
                if hmac.compare_digest(known, sha256):
                    match = principal
        return match


class Need(msgspec.Struct, frozen=True):
    """The right that a request needs: `verb` on all of `topics` (names or ids), or on the cluster if `topics` is empty.

    With `any_topic`, a right to do `verb` on any one topic is enough, and `topics` is ignored. If `verb` is None, every
    principal is refused. `also` is a second need, which must be met as well. `of_member`: a group and a member id. If
    the group has this member, or another one of the same instance, `verb` is also needed on all topics of that member.
    With `joins`, a member that is new to the group needs `verb` on the topics of all members, because it takes
    partitions from them. `of_producers`: ids of producers. `verb` is also needed on all topics that they wrote to.
    """

    verb: Verb | None
    topics: tuple[str | TopicId, ...] = ()
    any_topic: bool = False
    also: Need | None = None
    of_member: tuple[str, str] | None = None
    joins: bool = False
    of_producers: tuple[ProducerId, ...] = ()


def need_of(command: commands.Command) -> Need:
    """Return the right that a command needs. The type checker reports a kind of command that has no case here."""
    match command:
        case commands.Append():
            topics = _topics_of(command)
            also = None if command.consumed is None else need_of(command.consumed)
            producers = {slice_.producer.producer_id for slice_ in command.slices if slice_.producer is not None}
            return Need(Verb.WRITE, topics, any_topic=not topics, also=also, of_producers=tuple(sorted(producers)))
        case commands.AllocateProducer():
            fenced = () if command.producer_id is None else (ProducerId(command.producer_id),)
            return Need(Verb.WRITE, any_topic=True, of_producers=fenced)
        case commands.CreateTopic():
            return Need(Verb.ALTER, (command.name,))
        case commands.CommitOffsets():
            of = tuple(sorted({offset.topic_id for offset in command.offsets}))
            member = None if command.member_id is None else (command.group, command.member_id)
            return Need(Verb.READ, of, any_topic=not of, of_member=member)
        case commands.JoinGroup():
            member = (command.group, command.member_id)
            return Need(Verb.READ, command.topics, any_topic=not command.topics, of_member=member, joins=True)
        case commands.LeaveGroup():
            return Need(Verb.READ, any_topic=True, of_member=(command.group, command.member_id))
        case commands.DeleteGroups():
            return Need(Verb.ALTER)
        case commands.AlterTopic() | commands.AddPartitions() | commands.DeleteTopic() | commands.PromoteTopic():
            return Need(Verb.ALTER, (command.topic_id,))
        case commands.Swap() | commands.MoveLogStart() | commands.MoveCleaner():
            return Need(Verb.MAINTAIN, (command.topic_id,))
        case commands.ReportJob():
            return Need(Verb.MAINTAIN, any_topic=True)
        case commands.ConfirmDeleted() | commands.RaiseFloor() | commands.ForgetApplications():
            return Need(Verb.MAINTAIN)
        case (
            commands.AgentUp()
            | commands.AgentDown()
            | commands.ReportLoss()
            | commands.ReportReplicas()
            | commands.DropLagging()
            | commands.MoveRecoveryPoint()
        ):
            return Need(Verb.MAINTAIN)
        case (
            commands.RegisterStore()
            | commands.FenceStore()
            | commands.RemoveStore()
            | commands.ElectLeaders()
            | commands.MoveReplicas()
        ):
            return Need(Verb.ALTER)
        case commands.CreateCluster() | commands.AlterCluster() | commands.ResignCoordination():
            return Need(Verb.ALTER)
        case commands.ClaimCoordination():
            return Need(None)
        case _:
            assert_never(command)


def unknown_topics(need: Need, state: ClusterState) -> bool:
    """True if the need, or its `also`, names a topic id that the state doesn't know.

    Such a topic was deleted, was created after the state's newest entry, or never existed.
    """
    return any(isinstance(topic, int) and topic not in state.topics for topic in need.topics) or (
        need.also is not None and unknown_topics(need.also, state)
    )


def topic_names(need: Need, state: ClusterState) -> list[str]:
    """Return the names of a need's topics, for the audit log. An id that the state doesn't know becomes a text like
    `#5`.
    """
    return [name if name is not None else f"#{topic}" for topic, name in _named(need, state)]


def check_access(principal: Principal, need: Need, state: ClusterState) -> None:
    """Raise TopicAuthorizationFailed or ClusterAuthorizationFailed if the principal lacks a right that `need` asks for.

    The error does not reveal whether a topic exists: a topic that the principal may not describe is shown only as the
    request named it, by name or id.
    """
    if need.also is not None:
        check_access(principal, need.also, state)
    if need.verb is None:
        raise ClusterAuthorizationFailed(
            f"{principal.name} has no right to claim: a coordinator claims directly at the metadata location"
        )
    if need.of_member is not None:
        _check_member(principal, need.verb, *need.of_member, state)
        if need.joins:
            _check_group(principal, need.verb, *need.of_member, state)
    for producer_id in need.of_producers:
        _check_producer(principal, need.verb, producer_id, state)
    if need.any_topic:
        if not any(right.covers(need.verb, right.topics) for right in principal.rights):
            raise TopicAuthorizationFailed(_refusal(principal, need.verb, "any topic", f"{need.verb}:TOPIC"))
        return
    if not need.topics:
        if not principal.may(need.verb, ALL):
            raise ClusterAuthorizationFailed(_refusal(principal, need.verb, "the cluster", f"{need.verb}:*"))
        return
    refused = [
        name if name is not None and (isinstance(topic, str) or principal.may(Verb.DESCRIBE, name)) else f"#{topic}"
        for topic, name in _named(need, state)
        if not principal.may(need.verb, ALL if name is None else name)
    ]
    if refused:
        listed = ", ".join(f"{name[:MAX_LENGTH]!r}" for name in refused[:_SHOWN])
        more = f" and {len(refused) - _SHOWN} more" if len(refused) > _SHOWN else ""
        raise TopicAuthorizationFailed(_refusal(principal, need.verb, f"topic {listed}{more}", f"{need.verb}:TOPIC"))


def _check_member(principal: Principal, verb: Verb, group: str, member_id: str, state: ClusterState) -> None:
    """Check the right on all topics of a member of a group, without naming the topics in the error."""
    known = state.groups.get(group)
    member = None if known is None else known.member(member_id) or known.holder(instance_of(member_id))
    if member is not None and not all(principal.may(verb, topic) for topic in member.topics):
        what = f"all topics that member {shown(member_id)} of group {shown(group)} reads"
        raise TopicAuthorizationFailed(_refusal(principal, verb, what, f"{verb}:TOPIC for each of them"))


def _check_group(principal: Principal, verb: Verb, group: str, member_id: str, state: ClusterState) -> None:
    """Check the right on the topics of all members of a group that a new member joins, without naming the topics.

    Each new member begins a new generation, which refuses the commits of the others until they have seen it. A member
    of the group, or its next instance, was checked when it joined.
    """
    known = state.groups.get(group)
    if known is None or known.member(member_id) or known.holder(instance_of(member_id)):
        return
    if not all(principal.may(verb, topic) for topic in {topic for member in known.members for topic in member.topics}):
        what = f"all topics that the members of group {shown(group)} read"
        raise TopicAuthorizationFailed(_refusal(principal, verb, what, f"{verb}:TOPIC for each of them"))


def _check_producer(principal: Principal, verb: Verb, producer_id: ProducerId, state: ClusterState) -> None:
    """Check the right on all topics that an idempotent producer wrote to, without naming the topics in the error.

    The next epoch of a producer fences it. A batch under its id adds a topic to those that its author needs a right on.
    """
    known = state.producers.get(producer_id)
    topic_ids = set() if known is None else {key.topic_id for key in known.batches}
    if not all(principal.may(verb, state.topics[topic_id].name) for topic_id in topic_ids):
        what = f"all topics that producer {producer_id} has written to"
        raise TopicAuthorizationFailed(_refusal(principal, verb, what, f"{verb}:TOPIC for each of them"))


def _refusal(principal: Principal, verb: Verb, what: str, wanted: str) -> str:
    has = ", ".join(map(str, principal.rights)) or "none"
    return (
        f"{principal.name} has no right to {verb} {what}: wanted a right like {wanted}, found {has}; "
        "rights are granted in the coordinator's access file"
    )


def _named(need: Need, state: ClusterState) -> Iterator[tuple[str | TopicId, str | None]]:
    """Yield each topic of the need as a pair: the name or id by which the need gives it, and its name.

    The name is None if the state doesn't know the id.
    """
    for topic in need.topics:
        if isinstance(topic, str):
            yield topic, topic
        else:
            known = state.topics.get(topic)
            yield topic, None if known is None else known.name


def _topics_of(command: commands.Append) -> tuple[TopicId, ...]:
    """Return the ids of all topics in the slices, epochs and `keyless` of an append, ascending."""
    named: Iterable[TopicId] = (slice_.topic_id for slice_ in command.slices)
    return tuple(sorted({*named, *(epoch.topic_id for epoch in command.epochs), *command.keyless}))
