"""A command that a client sent: whether its principal may submit it, and what the audit says of it."""

from __future__ import annotations

from sparklog.coordinator.audit import audit_command
from sparklog.coordinator.gate import Caller
from sparklog.coordinator.service import Service
from sparklog.core.access import check_access, need_of, topic_names, unknown_topics
from sparklog.wire.messages import SubmitReply, SubmitRequest


async def submit_for(caller: Caller, service: Service, request: SubmitRequest) -> SubmitReply:
    """As `Service.submit`, for a caller. Raises also TopicAuthorizationFailed, ClusterAuthorizationFailed.

    A command that is refused leaves no trace but a line of the audit.
    """
    need = need_of(request.submission.command)

    def audit(outcome: SubmitReply | BaseException) -> None:
        topics = topic_names(need, service.follower.state)
        result = outcome.result if isinstance(outcome, SubmitReply) else outcome
        audit_command(caller.principal.name, caller.address, need, topics, request.submission, result)

    try:
        if unknown_topics(need, service.follower.state):  # perhaps of a topic that is newer than the state
            await service.read_up_to(request.seen)
        check_access(caller.principal, need, service.follower.state)
        reply = await service.submit(request)
    except BaseException as error:
        audit(error)
        raise
    audit(reply)
    return reply
