"""Checks the rights for commands that a client sent, submits the allowed ones, and audits all of them."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from sparklog.coordinator.access.audit import audit_command, is_audited
from sparklog.coordinator.access.gate import Caller
from sparklog.coordinator.leading.service import Service
from sparklog.core.access import ALL, Need, Principal, Verb, check_access, need_of, topic_names, unknown_topics
from sparklog.core.errors import AccessRefused, SparklogError
from sparklog.core.state import ClusterState
from sparklog.core.types import EntryNumber
from sparklog.wire.error_messages import error_reply
from sparklog.wire.messages import Outcome, SubmitReply, SubmitRequest


async def submit_for(caller: Caller, service: Service, request: SubmitRequest) -> SubmitReply:
    """Submit a caller's commands by `Service.submit`, and audit all of them. Raises the errors of `Service.submit`.

    A command for which the caller lacks the right is not submitted, and its outcome is an error.
    """
    needs = [need_of(sent.submission.command) for sent in request.commands]
    if any(unknown_topics(need, service.follower.state) for need in needs):  # the topics may be newer than the state
        await service.read_up_to(request.seen)
    state = service.follower.state
    refusals = [refusal_of(caller.principal, need, state) for need in needs]
    allowed = tuple(sent for sent, refusal in zip(request.commands, refusals, strict=True) if refusal is None)
    try:
        if allowed or not refusals:
            reply = await service.submit(replace(request, commands=allowed))
        else:
            reply = SubmitReply(EntryNumber(state.n), ())
    except BaseException as error:
        _audit(caller, service, request, needs, [error if refusal is None else refusal for refusal in refusals])
        raise
    done = iter(reply.outcomes)
    state = service.follower.state
    outcomes = tuple(
        seen_by(caller.principal, next(done), need, state) if refusal is None else Outcome(error=error_reply(refusal))
        for need, refusal in zip(needs, refusals, strict=True)
    )
    _audit(caller, service, request, needs, outcomes)
    return replace(reply, outcomes=outcomes)


def seen_by(principal: Principal, outcome: Outcome, need: Need, state: ClusterState) -> Outcome:
    """Return the outcome with only those ranges whose topics the principal may describe.

    The result of a known write may be that of another author: any principal may use any application id. `need`: that of
    the command. Its topics were checked, and one of them may have been deleted since.
    """
    if outcome.result is None:
        return outcome
    others = {range_.topic_id for range_ in outcome.result.ranges}.difference(need.topics)
    named = {topic_id: state.topics.get(topic_id) for topic_id in others}
    hidden = {
        topic_id
        for topic_id, topic in named.items()
        if not principal.may(Verb.DESCRIBE, ALL if topic is None else topic.name)
    }
    if not hidden:
        return outcome
    ranges = tuple(range_ for range_ in outcome.result.ranges if range_.topic_id not in hidden)
    return Outcome(replace(outcome.result, ranges=ranges, records=sum(range_.records for range_ in ranges)))


def refusal_of(principal: Principal, need: Need, state: ClusterState) -> SparklogError | None:
    """Return the error that `check_access` raises for these arguments; None if the principal has the right."""
    try:
        check_access(principal, need, state)
    except AccessRefused as error:
        return error
    return None


def _audit(
    caller: Caller,
    service: Service,
    request: SubmitRequest,
    needs: Sequence[Need],
    outcomes: Sequence[Outcome | BaseException],
) -> None:
    if not is_audited():
        return
    state = service.follower.state
    for sent, need, outcome in zip(request.commands, needs, outcomes, strict=True):
        audit_command(caller.principal.name, caller.address, need, topic_names(need, state), sent.submission, outcome)
