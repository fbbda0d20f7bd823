"""Runs the agent of a store with threads: the shell that performs the requests of the machine in agent.py."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from queue import Empty, SimpleQueue
from typing import Final

import msgspec

from sparklog.agent.agent import Agent
from sparklog.agent.agent_requests import (
    AwaitNews,
    Fetch,
    Follow,
    LookForObject,
    Note,
    PutIncarnation,
    ReadIncarnation,
    Reply,
    Request,
    SendHeartbeat,
    Submit,
)
from sparklog.client.connection import Connection
from sparklog.core.config.cluster_config import effective_cluster
from sparklog.core.errors import KeyExists, SparklogError
from sparklog.core.lookup import registered_store
from sparklog.core.purgatory import ReplicaNews
from sparklog.core.types import StoreId
from sparklog.host.clock import Clock, SystemClock
from sparklog.host.daemon import in_daemon
from sparklog.host.dice import Dice, SystemDice
from sparklog.log.incarnation import Incarnation, read_incarnation
from sparklog.log.objects.object_copy import fetch_in_life
from sparklog.log.objects.object_look import is_there
from sparklog.storage.keys import INCARNATION
from sparklog.storage.object_store import ObjectStore

LOOKS_AT_ONCE: Final = 16
SUBMIT_MS: Final = 20_000  # time-out of a command, then the agent decides again; short, so that it can stop soon
_MOST_COPIES_AT_ONCE: Final = 64


class AgentRun:
    """One run of the agent of `store`: `run` returns when the agent has ended, and `stop` makes it end.

    `say` is called with each note as it comes, in the thread of `run`.
    """

    def __init__(
        self,
        connection: Connection,
        store: StoreId,
        say: Callable[[Note], None],
        *,
        once: bool = False,
        clock: Clock | None = None,
        dice: Dice | None = None,
    ) -> None:
        self._connection = connection
        self._store = store
        self._say = say
        self._clock = clock or SystemClock()
        self._agent = Agent(store, dice or SystemDice(), once=once)
        self._replies: SimpleQueue[tuple[Request, Reply] | None] = SimpleQueue()  # None: stop

    def stop(self) -> None:
        """Stop cleanly: copies under way finish and are reported. Any thread and signal handlers may call it."""
        self._replies.put(None)

    def run(self) -> None:
        """Run the agent until it ends. Raises the error that ended it, if any.

        It ends after a call of `stop`. If `once` was given to the constructor, it also ends as soon as no replica lacks
        anything.
        """
        agent = self._agent
        config = effective_cluster(self._connection.follower.state.config)
        copies = config.num_replica_fetchers * len(self._connection.follower.state.stores)
        with ThreadPoolExecutor(LOOKS_AT_ONCE + min(copies, _MOST_COPIES_AT_ONCE), "sparklog-agent") as pool:
            requests = self._step([])
            while not agent.ended:
                for request in requests:
                    if isinstance(request, AwaitNews):  # not in the pool: its end would wait for the coordinator
                        in_daemon(partial(self._perform, request), "sparklog-news")
                    else:
                        pool.submit(self._perform, request)
                requests = self._step(self._wait())
        if agent.error is not None:
            raise agent.error

    def _step(self, replies: list[tuple[Request, Reply]]) -> list[Request]:
        requests = self._agent.step(self._clock.monotonic_ms(), replies)
        notes, self._agent.notes = self._agent.notes, []
        for note in notes:
            self._say(note)
        return requests

    def _wait(self) -> list[tuple[Request, Reply]]:
        """Wait for a reply, a call of `stop`, or the agent's `wake_ms`. Return all replies received until then."""
        wake_ms = self._agent.wake_ms
        timeout_s = None if wake_ms is None else max(0.0, (wake_ms - self._clock.monotonic_ms()) / 1000)
        came: list[tuple[Request, Reply] | None] = []
        try:
            came.append(self._replies.get(timeout=timeout_s))
            while True:
                came.append(self._replies.get_nowait())
        except Empty:
            pass
        if None in came:
            self._agent.stop()
        return [reply for reply in came if reply is not None]

    def _perform(self, request: Request) -> None:
        self._replies.put((request, perform(request, self._store, self._connection)))


def perform(request: Request, store: StoreId, connection: Connection) -> Reply:
    """Perform a request of the agent of `store`, and return the reply.

    Any error is returned as the reply, because the agent would wait forever without a reply.
    """
    try:
        return _reply(request, store, connection)
    except SparklogError as error:
        return error
    except Exception as error:
        return SparklogError(f"{type(request).__name__} failed: {error!r}")


def _reply(request: Request, store: StoreId, connection: Connection) -> Reply:
    match request:
        case Follow():
            return connection.follower.catch_up().state
        case Submit():
            return connection.submit(request.command, SUBMIT_MS)
        case AwaitNews():
            reply = connection.waiting.at_coordinator(ReplicaNews(store), request.seen, request.longest_ms)
            return None if reply is None else reply.done
    state = connection.follower.state
    stores = connection.stores(state)
    registered = registered_store(state, store)  # raises if the store was removed after the request
    match request:
        case ReadIncarnation():
            return read_incarnation(stores.get(store))
        case PutIncarnation():
            _put_mark(stores.get(store), request.mark)
            return None
        case LookForObject():
            return is_there(stores.get(store), request.held)
        case SendHeartbeat():
            connection.committer.heartbeat(store, request.registration)
            return None
        case Fetch():
            return fetch_in_life(request.wanted, store, stores, registered.incarnation)


def _put_mark(store: ObjectStore, mark: Incarnation) -> None:
    try:
        store.put_if_absent(INCARNATION, msgspec.json.encode(mark))
    except KeyExists:
        return  # the agent reads the existing mark next
