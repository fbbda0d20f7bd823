"""Coordinators, and the way of a command to the one in force: the real `CoordinatorControl` and `Delivery` at work."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sparklog.client.commits.delivery import Delivery
from sparklog.coordinator.leading.control import (
    CommitAll,
    CommitOwn,
    CoordinatorControl,
    ReadChain,
    Rest,
    StateNow,
    Step,
)
from sparklog.coordinator.leading.leadership import Leadership
from sparklog.core.commands import AgentDown, Append, Submission
from sparklog.core.config.cluster_config import effective_cluster
from sparklog.core.errors import NotController, SparklogError, TryAgain
from sparklog.core.machine import Ended, resume
from sparklog.core.types import EntryNumber
from sparklog.wire.error_messages import error_reply, raised
from sparklog.wire.messages import ClusterReply, Heartbeat, Outcome, SubmitRequest, SubmittedCommand
from tests.sim.exchanges import HEARTBEAT_MS, Ask
from tests.sim.process import COMMIT_MS, URL, CommitAs, Process, Steps

SESSION_MS = 1_200
QUEUED_MAX = 6
BESIDE = 0.04  # the share of commands that their authors commit past the coordinator: the chain takes them


def coordinator(process: Process, starts_ms: int) -> Steps:
    """Run a coordinator, again and again: it ends when it is to stop."""
    yield starts_ms
    while True:
        life = _Life(process)
        while process.head.n < 0:
            yield from _opening(process)
        process.serve = life.serve
        yield from life.performed(life.control.run(life.moment()))
        process.serve = None
        yield process.dice.choice((100, 2_500))


def _opening(process: Process) -> Steps:
    try:
        yield from process.catch_up()
    except SparklogError as error:
        process.refused(error)
        yield 100


class _Life:
    """One coordinator process from its start to its end."""

    def __init__(self, process: Process) -> None:
        self.process = process
        name = f"{process.name}-{process.new_id()[:6]}"
        self.control = CoordinatorControl(Leadership(name, f"http://{process.name}", SESSION_MS), QUEUED_MAX, self._say)
        process.control = self.control

    def moment(self) -> StateNow:
        """What the process knows now."""
        return StateNow(self.process.state, self.process.monotonic_ms())

    def performed(self, steps: Any) -> Steps:
        """Do what the control asks for, up to its end."""
        reply: object = None
        try:
            while True:
                step = resume(steps, reply)
                if isinstance(step, Ended):
                    return step.outcome
                try:
                    reply = yield from self._perform(step)
                except SparklogError as error:
                    reply = error
        finally:
            steps.close()

    def _perform(self, step: Step) -> Steps:
        process = self.process
        match step:
            case ReadChain():
                yield from process.catch_up()
            case Rest():
                yield max(1, step.longest_ms)
            case CommitOwn():
                if isinstance(step.command, AgentDown):
                    process.world.terms.taken_for_silent(process, step.command)
                yield CommitAs(step.author, process.begin(step.command), step.timeout_ms)
            case CommitAll():
                outcomes = []
                for sent in step.commands:  # one, or none if too many wait
                    try:
                        outcomes.append(Outcome((yield CommitAs(step.author, sent.submission, sent.timeout_ms))))
                    except SparklogError as error:
                        outcomes.append(Outcome(error=error_reply(error)))
                return self.moment(), outcomes
        return self.moment()

    def serve(self, request: SubmitRequest | Heartbeat, answer: Callable[[object], None]) -> None:
        """A request has arrived."""
        self.process.spawn(self._served(request, answer))

    def _served(self, request: SubmitRequest | Heartbeat, answer: Callable[[object], None]) -> Steps:
        process = self.process
        try:
            if isinstance(request, Heartbeat):
                self.control.heartbeat(request, self.moment())
                process.world.terms.heard(process, request.store, request.registration)
                answer(ClusterReply(process.state.chain_id, URL, process.position, process.state.coordinator))
                return
            if self.control.leads and process.head.n < request.seen:
                process.world.faults.count("behind-its-client")
            reply = yield from self.performed(self.control.submit(request, self.moment()))
            process.world.terms.answers(process, request, reply)
            (sent,), (outcome,) = request.commands, reply.outcomes
            if outcome.error is not None and outcome.error.code == TryAgain.code:
                process.world.faults.count("too-busy")
            if outcome.result is not None and isinstance(sent.submission.command, Append):
                for named in sent.submission.command.objects:
                    for holder in named.holders:
                        process.world.terms.heard(process, holder.store, holder.registration)
            answer(reply)
        except SparklogError as error:
            process.world.note(process.name, "answers", error.code)
            if error.code == NotController.code:
                process.world.faults.count("sent-away")
            answer(error)

    def _say(self, event: str, text: str) -> None:
        self.process.world.note(self.process.name, "coordinator", event, text[:200])
        if "no longer leads" in text:
            self.process.world.faults.count("stepped-down")


def delivered(process: Process, submission: Submission) -> Steps:
    """Send a command where `ClientCommitter.submit` sends it, until there is an answer for its author."""
    timeout_ms = process.dice.choice(COMMIT_MS)
    if process.dice.random() < BESIDE:
        process.world.faults.count("embedded-beside")
        return (yield CommitAs(process.commits.author, submission, timeout_ms))
    began_ms = process.world.now_ms
    delivery = Delivery(submission, timeout_ms, process.monotonic_ms())
    while True:
        known = process.state.coordinator
        now_ms = process.monotonic_ms()
        if not known.in_force:
            return (yield CommitAs(process.commits.author, delivery.submission, delivery.left_ms(now_ms)))
        session_ms = effective_cluster(process.state.config).broker_session_timeout_ms
        patience_ms = delivery.patience_ms(known, session_ms, now_ms)
        try:
            seen = EntryNumber(process.state.n)
            sent = SubmittedCommand(delivery.submission, delivery.attempt_ms(session_ms, now_ms))
            request = SubmitRequest(process.state.chain_id, seen, (sent,))
            reply = yield Ask(known.address, request, patience_ms)
            (outcome,) = reply.outcomes
            if outcome.result is None:
                raise raised(outcome.error)
        except SparklogError as error:
            pause_ms = delivery.failed(error, known, process.monotonic_ms())
            yield from _follow_on(process, delivery, known, pause_ms)
        else:
            process.world.terms.answered(process, delivery.submission, seen, reply, began_ms)
            return outcome.result


def _follow_on(process: Process, delivery: Delivery, known: Any, pause_ms: float) -> Steps:
    """As `ClientCommitter._follow_on`."""
    while True:
        yield int(process.dice.uniform(pause_ms / 2, pause_ms)) + 1
        try:
            yield from process.catch_up()
            return
        except SparklogError as error:
            pause_ms = delivery.not_followed(error, known, process.monotonic_ms())


def heartbeat(process: Process, store: Any, registration: int) -> Steps:
    """As `ClientCommitter.heartbeat`."""
    state = process.state
    if state.coordinator.in_force:
        yield Ask(state.coordinator.address, Heartbeat(state.chain_id, store, registration), HEARTBEAT_MS)
