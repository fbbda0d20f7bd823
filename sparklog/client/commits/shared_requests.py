"""Sends the commands of several threads to a coordinator together, in few requests.

A request with many commands costs the coordinator little more than one with few. While requests are under way, new
callers wait. Once at least as many commands wait as are under way, the waiting commands are sent together. So n callers
need about log2(n) requests, and none of them waits for long. There is no extra thread: the caller that has waited
longest, the *carrier*, sends the request for itself and for the others.

A request is answered only once all of its commands are done. Small commands lose little by that: most of them share an
entry of the chain. A large append would delay the others, because its slices are stored before its entry is put. So a
command of more than MAX_BYTES is sent in a request of its own.
"""

from __future__ import annotations

import copy
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence

import msgspec

from sparklog.core.commands import Submission
from sparklog.core.coordination import Coordinator
from sparklog.core.errors import Landed, SparklogError
from sparklog.core.records import CommandResult
from sparklog.storage.http.calls import NoCoordinatorAnswers
from sparklog.wire.messages import MAX_COMMANDS, SubmittedCommand

MAX_BYTES = 64 * 2**10  # size of all commands of a request, unless it has only one: a few hundred small appends

CommandOutcome = CommandResult | SparklogError
# Sends the encoded commands to a coordinator in one request, and waits for the reply for up to this many ms. Returns
# their outcomes in order; raises the error of the request as a whole.
Post = Callable[[Coordinator, Sequence[msgspec.Raw], int], Sequence[CommandOutcome]]

_encoder = msgspec.msgpack.Encoder()


class WaitingCaller:
    """A caller that waits for the outcome of its command. `body`: the encoded command.

    A carrier is a caller that sends a request for itself and for others. Only a carrier has a `request`, until the
    request ends: the list of the callers whose commands it sends, itself included. `sent`: the carrier has begun to
    send.
    """

    __slots__ = ("body", "known", "outcome", "patience_ms", "request", "sent", "woken")

    def __init__(self, known: Coordinator, body: bytes, patience_ms: int) -> None:
        self.known = known
        self.body = body
        self.patience_ms = patience_ms
        self.outcome: CommandOutcome | None = None
        self.request: list[WaitingCaller] | None = None
        self.sent = False
        self.woken = threading.Event()


class SharedRequests:
    """Collects the commands of several threads, and sends them to a coordinator together. Thread-safe.

    The constructor's argument `post` is the function that sends a request.
    """

    def __init__(self, post: Post) -> None:
        self._post = post
        self._turn = threading.Lock()  # held to change the fields below
        self._queue: deque[WaitingCaller] = deque()
        self._under_way: dict[WaitingCaller, int] = {}  # carrier -> commands that were sent and not answered yet

    def submit(self, known: Coordinator, submission: Submission, timeout_ms: int, patience_ms: int) -> CommandResult:
        """Send one command to the coordinator `known`, which may take `timeout_ms` to commit it. Returns the result.

        Raises the command's error, the error of the request, and NoCoordinatorAnswers if no reply comes within
        `patience_ms`. A caller that sends the request itself may wait for up to twice as long.
        """
        body = _encoder.encode(SubmittedCommand(submission, timeout_ms))
        waiting = WaitingCaller(known, body, patience_ms)
        try:
            with self._turn:
                self._queue.append(waiting)
                self._depart()
            if waiting.woken.wait(patience_ms / 1000) and waiting.request is not None:
                self._carry(waiting, waiting.request)
        finally:
            self._leave(waiting)
        match waiting.outcome:
            case CommandResult() as result:
                return result
            case SparklogError() as error:
                raise copy.copy(error)  # several threads may raise it
            case None:
                raise NoCoordinatorAnswers(
                    f"{known.address} did not answer within {patience_ms} ms", landed=Landed.UNKNOWN
                )

    def _depart(self) -> None:
        """Divide the waiting commands into requests, until fewer commands wait than are under way.

        Wakes the first caller of each request, its carrier, which then sends it.
        """
        while self._queue and len(self._queue) >= sum(self._under_way.values()):
            carried = commands_of_a_request(self._queue)
            carrier = carried[0]
            carrier.request = carried
            self._under_way[carrier] = len(carried)
            for _ in carried:
                self._queue.popleft()
            carrier.woken.set()

    def _carry(self, carrier: WaitingCaller, carried: list[WaitingCaller]) -> None:
        """Send the commands of the `carried` callers in one request, and set the outcome of each.

        After an interrupt (such as Ctrl-C), `_leave` sets the outcomes instead.
        """
        bodies = [msgspec.Raw(caller.body) for caller in carried]
        carrier.sent = True
        outcomes: Sequence[CommandOutcome]
        try:
            outcomes = self._post(carrier.known, bodies, carrier.patience_ms)
        except SparklogError as error:
            outcomes = [error] * len(carried)
        self._arrive(carrier, outcomes)

    def _arrive(self, carrier: WaitingCaller, outcomes: Sequence[CommandOutcome]) -> None:
        """End the request that `carrier` sent: set the outcome of each caller in it, and begin the next requests."""
        with self._turn:
            for waiting, outcome in zip(carrier.request or (), outcomes, strict=True):
                if waiting.outcome is None:
                    waiting.outcome = outcome
                waiting.woken.set()
            self._under_way.pop(carrier, None)
            carrier.request = None
            self._depart()

    def _leave(self, waiting: WaitingCaller) -> None:
        """Remove a caller that stops waiting.

        If its command is in no request yet, its outcome is NoCoordinatorAnswers. If it is a carrier that was
        interrupted, each caller in its request gets this error as outcome.
        """
        with self._turn:
            if waiting.outcome is None and waiting in self._queue:
                self._queue.remove(waiting)
                waiting.outcome = NoCoordinatorAnswers(f"no request to {waiting.known.address} could be sent in time")
                self._depart()
        if waiting.request is not None:  # the carrier was interrupted before it handed out the outcomes
            landed = Landed.UNKNOWN if waiting.sent else Landed.NO
            self._arrive(waiting, [_interrupted(landed)] * len(waiting.request))


def commands_of_a_request(queue: Iterable[WaitingCaller]) -> list[WaitingCaller]:
    """The first callers in the queue, whose commands together form one request within its limits.

    All are for the same coordinator. There is at least one caller, however large its command.
    """
    carried: list[WaitingCaller] = []
    size = 0
    for waiting in queue:
        size += len(waiting.body)
        if carried and (size > MAX_BYTES or len(carried) == MAX_COMMANDS or waiting.known != carried[0].known):
            break
        carried.append(waiting)
    return carried


def _interrupted(landed: Landed) -> NoCoordinatorAnswers:
    return NoCoordinatorAnswers("the thread that was to send the command was interrupted", landed=landed)
