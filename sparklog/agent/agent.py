"""The agent of one store, as a state machine: replies and the time go in, requests come out.

    follow the chain -> check that this is the store (INCARNATION, samples) -> AgentUp
      -> follow -> plan, copy in batches -> INCARNATION -> ReportReplicas -> follow …

The control flow is a machine that takes one step after the other, while copies run in parallel (`fetchers.py`). Every
decision is made on the newest state that the agent has read, and names the store's registration in that state. If
another change came first, the chain refuses the command, and the agent plans again. After a kill, the next agent
continues: it checks objects that are already on the store, instead of copying them again. While no coordinator is in
force, the agent also takes lagging followers out of the ISR of the partitions that its store leads, as Kafka's leading
broker does.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any, Final

from sparklog.agent.agent_requests import (
    AgentMachine,
    AwaitNews,
    Fetch,
    Follow,
    Note,
    PutIncarnation,
    ReadIncarnation,
    Reply,
    Request,
    SendHeartbeat,
    Submit,
    Wait,
)
from sparklog.agent.backoff import Backoff
from sparklog.agent.conversation import Conversation
from sparklog.agent.fetchers import Fetchers
from sparklog.agent.heartbeats import Heartbeats
from sparklog.agent.losses import is_another_incarnation, searched
from sparklog.agent.news import News
from sparklog.agent.progress import Progress, notes_of_dropped
from sparklog.core.commands import (
    AgentDown,
    AgentUp,
    Command,
    DropLagging,
    LaggingReplicas,
    ReportLoss,
    ReportReplicas,
)
from sparklog.core.config.cluster_config import ClusterConfig, effective_cluster
from sparklog.core.describe.readable import counted
from sparklog.core.errors import (
    AccessRefused,
    Conflict,
    NotFound,
    NotLeaderOrFollower,
    OutcomeUnknown,
    SparklogError,
    StaleBrokerEpoch,
    StoreAccessDenied,
    StoreFull,
    StoreReadOnly,
    StoreUnavailable,
    TryAgain,
    WriteExpired,
)
from sparklog.core.lookup import registered_store
from sparklog.core.placement.held_objects import held_partitions, is_still_held
from sparklog.core.placement.lag_clock import LagClock
from sparklog.core.placement.loss_search import held_ends, missing_of_sample
from sparklog.core.placement.replica_fetch import UnfinishedReplicas, replica_reports, unfinished_replicas
from sparklog.core.state import ClusterState, Store
from sparklog.core.types import StoreId, TopicPartition
from sparklog.host.dice import Dice
from sparklog.log.incarnation import Incarnation
from sparklog.storage.keys import INCARNATION

EXAMINE_EVERY_MS: Final = 300_000
NEWEST_OBJECTS: Final = 256  # of a periodic sample; the first sample has the newest object of every partition

_PASSES: Final = (  # errors that pass, or that an administrator can fix: try again
    TryAgain,
    OutcomeUnknown,
    AccessRefused,
    StoreAccessDenied,
    StoreFull,
    StoreReadOnly,
)
_OVERTAKEN: Final = (Conflict, NotFound, NotLeaderOrFollower, WriteExpired)  # the state has changed: decide again


class Agent:
    """The agent of `store`. Call `step` with replies as they come, and at `wake_ms` if none come, until `ended`.

    If `once` is true, the agent ends as soon as no replica lacks anything. It also ends at the first error after which
    it would otherwise pause, except that it tries failed copies a few times. Such an agent does not submit AgentUp,
    because no agent will be running after its end. The caller shows the `notes`, and then empties the list.
    """

    def __init__(self, store: StoreId, dice: Dice, *, once: bool = False) -> None:
        self.store = store
        self.notes: list[Note] = []
        self._dice = dice
        self._once = once
        self._stopping = False
        self._now_ms = 0
        self._control = Conversation(self._run())
        self._config: ClusterConfig = effective_cluster({})
        self._pause = Backoff()
        self._registration: int | None = None
        self._fetchers = Fetchers(store, dice)
        self._examine_at_ms = 0
        self._examined_to: TopicPartition | None = None
        self._progress = Progress(store)
        self._lag_clock = LagClock(store)
        self._heartbeats = Heartbeats(store)
        self._news = News()

    @property
    def ended(self) -> bool:
        """True once the agent has ended: it makes no more requests."""
        return self._control.ended

    @property
    def error(self) -> SparklogError | None:
        """Return the error that ended the agent; None while it runs, or if it ended without an error."""
        return self._control.error

    @property
    def wake_ms(self) -> float | None:
        """Time for the next call of `step` if no reply comes earlier, on its clock (ms). None: wait for a reply."""
        wait = self._control.wait
        times = (None if wait is None else self._until_ms(wait), self._heartbeats.wake_ms)
        return min((time for time in times if time is not None), default=None)

    def stop(self) -> None:
        """Make the agent end. Its next steps finish and report the copies under way, and begin no others."""
        self._stopping = True
        self._fetchers.stop()

    def step(self, now_ms: int, replies: Iterable[tuple[Request, Reply]] = ()) -> list[Request]:
        """Take replies and the time (ms of a monotonic clock). Returns the requests to perform now."""
        self._now_ms = now_ms
        for request, reply in replies:
            if isinstance(request, SendHeartbeat):
                self._heartbeats.answered()
            elif isinstance(request, AwaitNews):
                self._news.answered(reply)
            elif isinstance(request, Fetch):
                self.notes += self._fetchers.fetched(request, reply, now_ms)
            else:
                self._control.answer(request, reply)
        requests: list[Request] = []
        while not self.ended and self._is_ready():
            requests += self._control.resume()
        if self.ended:
            return []
        return [*requests, *self._news.due(now_ms), *self._fetchers.start(), *self._heartbeats.due(now_ms)]

    def _is_ready(self) -> bool:
        wait = self._control.wait
        if wait is None:
            return self._control.is_answered
        if self._now_ms >= self._until_ms(wait):
            return True
        if not wait.for_copies:
            return self._stopping
        copied = bool(self._fetchers.unreported) or (self._stopping and not self._fetchers.active)
        return copied or self._news.arrived

    def _until_ms(self, wait: Wait) -> float:
        return self._news.postponed(wait.until_ms) if wait.for_copies else wait.until_ms

    # ---- the control ----------------------------------------------------------------------------

    def _run(self) -> AgentMachine[None]:
        state = yield from self._examined((yield from self._follow()), thorough=True)
        while True:
            registered = self._registered(state)
            if not self._once and not self._stopping and not registered.agent_up:
                state = yield from self._said_up(state)
                continue
            if self._now_ms >= self._examine_at_ms or self._fetchers.lost_something:
                state = yield from self._examined(state)
                continue
            lagging = self._lagging(state)
            if lagging:
                state = yield from self._dropped(state, lagging)
                continue
            at = unfinished_replicas(state, self.store)
            if not self._stopping:
                self._fetchers.plan(state, at.behind, self._now_ms)
            self.notes += self._progress.notes(state, at, self._now_ms)
            if self._fetchers.unreported or (at.joinable and not self._stopping):
                state = yield from self._reported(state, at)
            elif self._is_done(at):
                break
            else:
                self._news.begin(state, is_idle=not at.behind)
                yield Wait(self._now_ms + self._config.replica_fetch_wait_max_ms, for_copies=True)
                state = yield from self._follow()
        yield from self._said_down(state)

    def _is_done(self, at: UnfinishedReplicas) -> bool:
        """True if the agent can end: it is to stop, or `once` was given and no replica lacks anything.

        False while a copy is under way. With `once`, raises StoreUnavailable if missing objects can't be fetched.
        """
        if self._fetchers.active or not (self._stopping or self._once):
            return False
        if at.behind and not self._stopping:
            if not self._fetchers.is_hopeless:
                return False
            lacking = counted(len(at.behind), "replica")
            raise StoreUnavailable(
                f"store {self.store}: {lacking} could not be caught up; last error: "
                f"{self._fetchers.last_error or 'no store that holds the missing objects is available'}"
            )
        return True

    def _registered(self, state: ClusterState) -> Store:
        """Return the agent's store in `state`. If the store has a new registration, all fetching starts again.

        Raises BrokerIdNotRegistered if the store is not registered, and StaleBrokerEpoch if it is fenced.
        """
        store = registered_store(state, self.store)
        if store.fenced:
            raise StaleBrokerEpoch(
                f"store {self.store} is fenced, so its agent stops: `sparklog store add` with the same id and address "
                "registers it again, then start the agent"
            )
        if self._registration != store.registration:
            # The objects fetched so far may have been on an earlier incarnation of the store only.
            self._registration, self._fetchers = store.registration, Fetchers(self.store, self._dice)
        return store

    def _reported(self, state: ClusterState, at: UnfinishedReplicas) -> AgentMachine[ClusterState]:
        """Report the fetched objects, and the replicas that may join the ISR. Return the newest state.

        First read the store's INCARNATION. If it is not the registered one, report nothing, and examine the store: it
        may have lost the objects. INCARNATION is also read after each copy, because only that read notices a disk that
        was not mounted during the copy, but is mounted now.
        """
        store = self._registered(state)
        fetchers, numbers = self._fetchers, set(self._fetchers.unreported)
        reports = replica_reports(state, self.store, at, fetchers.checked())
        if reports:
            mark = yield from self._patiently(ReadIncarnation)
            if mark is None or mark.incarnation != store.incarnation:
                return (yield from self._examined(state))
            refused = yield from self._submitted(ReportReplicas(self.store, store.registration, reports))
            if refused is not None:
                return (yield from self._refused(refused, state))
        fetchers.reported(numbers)
        self._pause = Backoff()
        return (yield from self._follow())

    def _lagging(self, state: ClusterState) -> tuple[LaggingReplicas, ...]:
        """Return the followers to take out of the ISR now, by partition.

        Return () while the agent stops, and while a coordinator is in force, because then the coordinator watches the
        followers. Return () also if `once` was given to the constructor, because such an agent runs too briefly to
        judge followers.
        """
        if self._once or self._stopping or state.coordinator.in_force:
            return ()
        return self._lag_clock.check(self._now_ms)

    def _dropped(self, state: ClusterState, lagging: tuple[LaggingReplicas, ...]) -> AgentMachine[ClusterState]:
        """Take the lagging followers out of the ISR, so that the high watermark can rise. Return the newest state."""
        refused = yield from self._submitted(DropLagging(lagging))
        if refused is not None:
            return (yield from self._refused(refused, state))
        state = yield from self._follow()
        self.notes += notes_of_dropped(lagging, state)
        self._pause = Backoff()
        return state

    def _said_up(self, state: ClusterState) -> AgentMachine[ClusterState]:
        store = self._registered(state)
        refused = yield from self._submitted(AgentUp(self.store, store.registration))
        if refused is not None:
            return (yield from self._refused(refused, state))
        self._note("up", f"the agent of store {self.store} is up, registration {store.registration}")
        self._pause = Backoff()
        return (yield from self._follow())

    def _said_down(self, state: ClusterState) -> AgentMachine[None]:
        if self._once or not state.stores[self.store].agent_up:
            return
        refused = yield from self._submitted(AgentDown(self.store, self._registered(state).registration, stopped=True))
        if refused is None:
            self._note("down", f"the agent of store {self.store} has stopped")
        elif not isinstance(refused, _OVERTAKEN):
            raise refused

    # ---- losses ---------------------------------------------------------------------------------

    def _examined(self, state: ClusterState, *, thorough: bool = False) -> AgentMachine[ClusterState]:
        """Check that the store is the registered one and still has a sample of its objects. If not, report a loss.

        The sample: the newest object of each of the next NEWEST_OBJECTS partitions (if `thorough`, of every partition),
        and some random objects. Returns the newest state that was read.
        """
        self._examine_at_ms = self._now_ms + EXAMINE_EVERY_MS
        self._registered(state)
        self._fetchers.lost_something = False
        mark = yield from self._patiently(ReadIncarnation)
        if is_another_incarnation(self._registered(state), mark, state):
            state = yield from self._follow()  # another process may have reported the loss meanwhile
            mark = yield from self._patiently(ReadIncarnation)  # or the disk was not mounted for a moment
        if is_another_incarnation(self._registered(state), mark, state):
            return (yield from self._lost(state, mark, held_partitions(state, self.store)))
        held = held_partitions(state, self.store)
        chosen = held if thorough else self._next_of(held)
        below = self._dice.below
        try:
            missing = yield from searched(missing_of_sample(state, self.store, chosen, held, below), self._follow)
            if not missing:
                return state
            if not thorough:  # the same may have happened to objects of any partition
                missing |= yield from searched(missing_of_sample(state, self.store, held, held, below), self._follow)
        except _PASSES as error:
            return (yield from self._examined_later(error))
        newer = yield from self._follow()
        if not any(is_still_held(newer, self.store, object_) for object_ in missing.values()):
            return newer  # retention or a rewrite removed the objects before they were looked up
        return (yield from self._lost(newer, mark, [key for key in missing if key in newer.partitions]))

    def _lost(
        self, state: ClusterState, mark: Incarnation | None, damaged: Collection[TopicPartition]
    ) -> AgentMachine[ClusterState]:
        """Find the offset up to which the store still has each damaged log, and report the loss in one command.

        Reports nothing if another process has done so meanwhile. `mark`: the INCARNATION that the store has. If it is
        None, the store has none, and gets a new one before the report. Returns the newest state that was read.
        """
        store = self._registered(state)
        wiped = mark is None or mark.incarnation != store.incarnation
        which = "no" if mark is None else "another"
        what = f"{which} {INCARNATION} is there: it was wiped or swapped" if wiped else "objects are missing"
        self._note("loss", f"store {self.store} at {store.url}: {what}; searching for the objects that are left")
        try:
            search = held_ends(state, self.store, damaged, whole_too=wiped)
            state, ends = yield from searched(search, self._follow)
        except _PASSES as error:
            return (yield from self._examined_later(error))
        if mark is None:
            mark = yield from self._marked(state)
            state = yield from self._follow()
        now = self._registered(state)
        if now.registration != store.registration or is_another_incarnation(now, mark, state) != wiped:
            self._examine_at_ms = 0  # another process has reported the loss
            return state
        if not ends and not wiped:
            return state
        held = tuple(end for key, end in ends.items() if key in state.partitions)
        refused = yield from self._submitted(ReportLoss(self.store, store.registration, mark.incarnation, held))
        self._examine_at_ms = 0
        if refused is not None:
            return (yield from self._refused(refused, state))
        self._note("loss", f"store {self.store}: the loss is reported, and missing objects will be fetched again")
        return (yield from self._follow())

    def _marked(self, state: ClusterState) -> AgentMachine[Incarnation]:
        """Put a new INCARNATION, unless the store has one by now. Returns the INCARNATION that the store then has."""
        new = Incarnation(self._dice.new_id(), state.chain_id)
        self._note("loss", f"store {self.store}: putting a new {INCARNATION}, {new.incarnation}")
        yield from self._patiently(lambda: PutIncarnation(new))
        mark: Incarnation | None = yield from self._patiently(ReadIncarnation)
        if mark is None:
            raise StoreUnavailable(f"store {self.store}: its new {INCARNATION} was put, but is not there")
        return mark

    def _next_of(self, held: list[TopicPartition]) -> list[TopicPartition]:
        """Return the next partitions of `held` to sample, at most NEWEST_OBJECTS, after those of the previous call."""
        after = self._examined_to
        rest = held if after is None else [key for key in held if key > after]
        chosen = rest[:NEWEST_OBJECTS]
        self._examined_to = chosen[-1] if len(rest) > NEWEST_OBJECTS else None
        return chosen

    def _examined_later(self, error: SparklogError) -> AgentMachine[ClusterState]:
        yield from self._paused(error, self._pause)
        self._examine_at_ms = 0
        return (yield from self._follow())

    # ---- asking ---------------------------------------------------------------------------------

    def _follow(self) -> AgentMachine[ClusterState]:
        asked_ms = self._now_ms
        state: ClusterState = yield from self._patiently(Follow)
        self._lag_clock.observe(state, asked_ms, self._now_ms)
        self._heartbeats.observe(state)
        self._config = effective_cluster(state.config)
        return state

    def _patiently(self, request: Callable[[], Request]) -> AgentMachine[Any]:
        """Repeat a request until it succeeds, and return the reply. Raises errors that a retry can't fix.

        Raises any error, without a retry, if the agent is to stop or if `once` was given to the constructor.
        """
        pause = Backoff()
        while True:
            reply = yield request()
            if not isinstance(reply, SparklogError):
                return reply
            if not isinstance(reply, _PASSES):
                raise reply
            yield from self._paused(reply, pause)

    def _submitted(self, command: Command) -> AgentMachine[SparklogError | None]:
        """Submit a command, and return None if it was applied.

        Return the error if it is temporary, or if another change came first. The caller must then decide again on the
        next state, which shows whether the command was applied. Raises all other errors.
        """
        reply = yield Submit(command)
        if not isinstance(reply, SparklogError):
            return None
        if not isinstance(reply, (*_PASSES, *_OVERTAKEN)):
            raise reply
        return reply

    def _refused(self, error: SparklogError, state: ClusterState) -> AgentMachine[ClusterState]:
        """Return the state on which to decide again after `error`.

        If the error means that another change came first, and a state newer than `state` can be read, return the newer
        state at once. Otherwise pause, then return the newest state.
        """
        if isinstance(error, _OVERTAKEN):
            newer = yield from self._follow()
            if newer.n > state.n:
                return newer
        yield from self._paused(error, self._pause)
        return (yield from self._follow())

    def _paused(self, error: SparklogError, pause: Backoff) -> AgentMachine[None]:
        """Wait after `error`, longer after each further one. `pause` counts the errors.

        Raises the error, without a wait, if the agent is to stop or if `once` was given to the constructor.
        """
        if self._once or self._stopping:
            raise error
        if not pause.failures:
            self._note("error", str(error))
        pause.failed(self._now_ms, self._config, self._dice)
        yield Wait(pause.until_ms, for_copies=False)

    def _note(self, event: str, text: str) -> None:
        self.notes.append(Note(event, text))
