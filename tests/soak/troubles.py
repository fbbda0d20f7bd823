"""What happens to the cluster of a soak, at random from a seed: each trouble begins, lasts for a while, and ends."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field

import sparklog
from sparklog.core.commands import ResignCoordination
from sparklog.core.errors import SparklogError
from tests.faults.mixed_stores import MixedStores
from tests.servers.tcp_proxy import Mode
from tests.soak.processes import Processes, Running

WRITERS = ("plain", "application", "producer", "embedded")
STORES = "stores"  # one of the three is in trouble at a time: two of them have everything that is acknowledged

Happening = AbstractContextManager[None]


@dataclass(frozen=True)
class Kind:
    """A kind of trouble: which process it takes (or STORES), for how many sessions, and what it does."""

    name: str
    target: Callable[[Troubles], str | None]
    sessions: tuple[float, float]
    happens: Callable[[Troubles, str], Happening]


@dataclass
class Troubles:
    """Draws what happens next. `session_s`: after so long without an entry, another coordinator leads."""

    processes: Processes
    mixed: MixedStores
    dice: random.Random
    session_s: float
    counts: Counter[str] = field(default_factory=Counter)
    _busy: set[str] = field(default_factory=set)

    def next(self) -> tuple[Kind, str, float] | None:
        """A kind of trouble, what it takes, and how long it lasts in seconds. None if that is in trouble already."""
        fewest = min(self.counts[kind.name] for kind in KINDS)  # none is left out for long, and first comes each once
        most = fewest + 1 if fewest else 0
        kind = self.dice.choice([kind for kind in KINDS if self.counts[kind.name] <= most])
        target = kind.target(self)
        if target is None or target in self._busy:
            return None
        return kind, target, self.session_s * self.dice.uniform(*kind.sessions)

    @property
    def all_came(self) -> bool:
        """True if each kind of trouble has come."""
        return all(self.counts[kind.name] for kind in KINDS)

    @contextmanager
    def happening(self, kind: Kind, target: str) -> Iterator[None]:
        """The trouble, from the beginning of the block to its end."""
        self.counts[kind.name] += 1
        self._busy.add(target)
        with kind.happens(self, target):
            yield
        self._busy.discard(target)

    # ---- what it takes --------------------------------------------------------------------------

    def leader(self) -> str | None:
        """The coordinator in force, if its process runs."""
        with sparklog.connect(self.processes.url) as cluster:
            address = cluster.connection.follower.state.coordinator.address
        for name, proxy in self.processes.proxies.items():
            if address == f"http://127.0.0.1:{proxy.port}":
                return name if self.processes.all[name].is_alive else None
        return None

    def one_of(self, *kinds: str) -> str:
        return self.dice.choice(self.processes.named(*kinds)).name

    # ---- what happens ---------------------------------------------------------------------------

    @contextmanager
    def killed(self, name: str) -> Iterator[None]:
        """SIGKILL; started again at the end."""
        self._process(name).kill()
        yield
        self._process(name).start()

    @contextmanager
    def stopped(self, name: str) -> Iterator[None]:
        """SIGTERM; started again at the end."""
        self._process(name).ask_to_stop()
        yield
        self._process(name).stopped()
        self._process(name).start()

    @contextmanager
    def paused(self, name: str) -> Iterator[None]:
        """SIGSTOP; SIGCONT at the end."""
        self._process(name).pause()
        yield
        self._process(name).wake()

    @contextmanager
    def spoilt(self, name: str, mode: Mode) -> Iterator[None]:
        """What happens to all connections of a coordinator."""
        proxy = self.processes.proxies[name]
        proxy.mode = mode
        yield
        proxy.mode = Mode.OPEN

    @contextmanager
    def forced_resignation(self) -> Iterator[None]:
        """An operator at the metadata location ends the term of a coordinator that is alive."""
        with sparklog.connect(self.processes.url) as cluster, suppress(SparklogError):
            committer = cluster.connection.committer
            known = cluster.connection.follower.state.coordinator
            committer.commit_here(committer.begin(ResignCoordination(known.epoch)), 5_000)
        yield

    def _process(self, name: str) -> Running:
        return self.processes.all[name]


def _any(*kinds: str) -> Callable[[Troubles], str]:
    return lambda troubles: troubles.one_of(*kinds)


def _stores(troubles: Troubles) -> str:
    return STORES


def _spoilt(mode: Mode) -> Callable[[Troubles, str], Happening]:
    return lambda troubles, name: troubles.spoilt(name, mode)


KINDS = (
    Kind("kill the leading coordinator", Troubles.leader, (0, 2), Troubles.killed),
    Kind("kill a coordinator", _any("coordinator"), (0, 2), Troubles.killed),
    Kind("pause the leading coordinator", Troubles.leader, (0.3, 2.5), Troubles.paused),
    Kind("duel", Troubles.leader, (1.2, 1.5), Troubles.paused),  # it wakes just when another one has begun to lead
    Kind("resign --force", Troubles.leader, (0, 0.1), lambda troubles, name: troubles.forced_resignation()),
    Kind("stop the leading coordinator cleanly", Troubles.leader, (0, 1), Troubles.stopped),
    Kind("connections cut", Troubles.leader, (0.2, 2), _spoilt(Mode.CUT)),
    Kind("connections silent", Troubles.leader, (0.2, 2), _spoilt(Mode.SILENT)),
    Kind("connections slow", _any("coordinator"), (0.5, 2), _spoilt(Mode.DELAYED)),
    Kind("replies lost", Troubles.leader, (0.2, 1), _spoilt(Mode.REPLY_LOST)),
    Kind("kill an agent", _any("agent"), (0, 2), Troubles.killed),
    Kind("pause an agent", _any("agent"), (0.5, 3), Troubles.paused),
    Kind("kill a writer", _any(*WRITERS), (0, 1), Troubles.killed),
    Kind("pause a writer", _any(*WRITERS), (0.5, 3), Troubles.paused),
    Kind("kill a reader", _any("reader"), (0, 1), Troubles.killed),
    Kind("S3 dead", _stores, (0.3, 2), lambda troubles, _: troubles.mixed.dead_s3()),
    Kind("S3 read-only", _stores, (0.3, 2), lambda troubles, _: troubles.mixed.read_only_s3()),
    Kind("HDFS hangs", _stores, (0.3, 2), lambda troubles, _: troubles.mixed.hanging_hdfs()),
    Kind("HDFS without data nodes", _stores, (0.3, 2), lambda troubles, _: troubles.mixed.hdfs_without_data_nodes()),
    Kind("disk gone", _stores, (0.3, 2), lambda troubles, _: troubles.mixed.lost_disk()),
)
