"""A process of a simulated cluster: tasks that wait for replies, and a machine of its own that commits to the chain.

A task is a generator. It yields what it waits for, and gets the answer back; an error is raised where it waits:

    Call                 one operation on a store -> its value
    list[Call]           several at once -> a list of values and errors
    Submission           a command, handed to the machine -> its CommandResult
    chain Request        what `caught_up` and the like ask for -> the reply, errors as values
    CommitAs             the same, under this author
    Ask                  a request to a coordinator -> its reply
    int                  so many milliseconds of its own clock -> None
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sparklog.chain.chain_requests import Get, GetMany, LoadSnapshot, Now, Pause, Put, Request
from sparklog.chain.commit.command_group import Ticket
from sparklog.chain.commit.group_commit import GroupCommit
from sparklog.chain.follow.catch_up import caught_up
from sparklog.chain.head import Head
from sparklog.chain.snapshot import snapshot
from sparklog.core.commands import Command, Submission
from sparklog.core.coordination import Author
from sparklog.core.errors import KeyNotFound, SparklogError
from sparklog.core.records import CommandResult
from sparklog.core.replication.lost_records import version_lost
from sparklog.core.state import ClusterState
from sparklog.core.types import CommandId, EntryNumber, StoreId
from tests.chain.driven import Driven
from tests.kit.kernel import own_dice
from tests.sim.exchanges import Ask, Exchange, ask
from tests.sim.network import send
from tests.sim.stores import META, Call, OpenStores, View

if TYPE_CHECKING:
    from sparklog.coordinator.leading.control import CoordinatorControl
    from tests.sim.world import World

URL = f"memory://{META}"
COMMIT_MS = (300, 1_500, 8_000)  # how long a command tries to win a slot: one of these

Steps = Generator[Any, Any, Any]


@dataclass(frozen=True, slots=True)
class CommitAs:
    """A command, to be committed by this process itself."""

    author: Author
    submission: Submission
    timeout_ms: int


@dataclass(eq=False, slots=True)
class Task:
    """A generator under way."""

    steps: Steps
    name: str


class Process:
    """Everything in it is lost when it crashes; `begin` makes the tasks of a new life."""

    def __init__(self, world: World, name: str, begin: Callable[[Process], list[Steps]]) -> None:
        self.world = world
        self.name = name
        self.dice = own_dice(world.seed, name)
        self.life = 0
        self.is_up = False
        self.is_paused = False
        self.held: list[Callable[[], object]] = []  # what happens to it once it wakes
        self.wall_offset_ms = 0
        self.stall = ""  # where a writer is to be held up next
        self.is_to_stop = False  # an agent: in good order
        self.rate = 1.0  # how fast its monotonic clock is
        self.ahead_ms = 0  # by how much that has jumped
        self.exchanges: set[Exchange] = set()  # requests to it, without an answer yet
        self._begin = begin

    # ---- life -----------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin a life: nothing is known of the one before."""
        self.is_up, self.life = True, self.life + 1
        for exchange in self._exchanges():
            exchange.expect_nothing()  # it was for the life before
        self.head = Head()
        self.stores = OpenStores(self.world, self)
        self.commits = GroupCommit(Author("client", self.name), URL, self.head, self.world.now_ms)
        self._waiting: dict[Ticket, Task] = {}
        self.serve: Callable[[Any, Callable[[object], None]], None] | None = None  # a coordinator: takes a request
        self.control: CoordinatorControl | None = None
        self.woke_ms = self.paused_ms = self.monotonic_ms()
        self.tasks = [Task(steps, f"{self.name}.{number}") for number, steps in enumerate(self._begin(self))]
        for task in self.tasks:
            self._in(self.dice.randint(0, 50), lambda task=task: self._go_on(task, None))

    def restart(self) -> None:
        """Begin a life after a crash, unless somebody has begun one."""
        if not (self.world.is_led and self.is_up):
            self.start()

    def crash(self) -> None:
        """Die at once. What is on its way may still arrive."""
        self.is_up, self.is_paused, self.life = False, False, self.life + 1
        self.held.clear()
        for task in self.tasks:
            task.steps.close()
        self.tasks, self._waiting = [], {}
        for exchange in self._exchanges():
            exchange.expect_nothing(self.dice.choice((3, 1 << 30)))

    def pause(self) -> None:
        """Do nothing more, and notice nothing, until `wake`."""
        self.is_paused = True
        self.paused_ms = self.monotonic_ms()
        for exchange in self._exchanges():
            exchange.expect_nothing()

    def _exchanges(self) -> list[Exchange]:
        return sorted(self.exchanges, key=lambda exchange: exchange.number)

    def wake(self) -> None:
        """Go on after a pause, as if no time had passed."""
        self.is_paused = False
        self.woke_ms = self.monotonic_ms()
        held, self.held = self.held, []
        for act in held:
            self._in(0, act)

    def _in(self, delay_ms: int, act: Callable[[], object]) -> None:
        self.world.at(delay_ms, act, self)

    # ---- what tasks use -------------------------------------------------------------------------

    @property
    def state(self) -> ClusterState:
        """The newest state that this process has read."""
        return self.head.state

    @property
    def position(self) -> EntryNumber:
        """The chain position for what begins now."""
        return self.state.n0

    def now_ms(self) -> int:
        """What its wall clock says."""
        return self.world.now_ms + self.wall_offset_ms

    def monotonic_ms(self) -> int:
        """What its monotonic clock says."""
        return int(self.world.now_ms * self.rate) + self.ahead_ms

    def new_id(self) -> str:
        """An id, and where it is drawn does not matter."""
        return f"{self.dice.getrandbits(128):032x}"

    def catch_up(self) -> Generator[Any, Any, ClusterState]:
        """Read the chain up to its present end."""
        machine = Driven(caught_up(self.head, URL))
        step = machine.start()
        while isinstance(step, Request):
            step = machine.reply((yield step))
        if isinstance(step, SparklogError):
            raise step
        self._learn(step)
        return self.head.state

    def begin(self, command: Command) -> Submission:
        """Give a command its identity."""
        return Submission(CommandId(self.new_id()), self.position, command)

    def submit(self, command: Command) -> Generator[Any, Any, CommandResult]:
        """Commit a command that is begun now."""
        return (yield from self.commit(self.begin(command)))  # type: ignore[no-any-return]

    def commit(self, submission: Submission) -> Steps:
        """Commit a command: by the coordinator in force, or by this process."""
        if not self.world.is_led:
            return (yield submission)
        return (yield from self.world.deliver(self, submission))

    def view(self, store: StoreId) -> View:
        """A store, for code that works through it in one go."""
        return View(self.world.stores[store], self)

    def refused(self, error: SparklogError) -> None:
        """Note that something was refused, or could not be done: the task goes on with something else."""
        self.world.refusals[error.code] += 1
        self.world.note(self.name, "refused", error.code, error.message[:240])

    def _learn(self, head: Head) -> None:
        if head.n > self.head.n:
            self.head = head

    def spawn(self, steps: Steps) -> None:
        """Begin another task of this life."""
        task = Task(steps, f"{self.name}.{len(self.tasks)}")
        self.tasks.append(task)
        self._in(0, lambda: self._go_on(task, None))

    def after(self, delay_ms: int, act: Callable[[], None]) -> None:
        """Do it after so long, unless the process has died."""
        self._in(delay_ms, act)

    # ---- tasks ----------------------------------------------------------------------------------

    def _go_on(self, task: Task, answer: object) -> None:
        """Let a task go on with this answer, up to the next thing it waits for."""
        try:
            wanted = task.steps.throw(answer) if isinstance(answer, SparklogError) else task.steps.send(answer)
        except StopIteration:
            self.tasks.remove(task)
            return
        self._wait_for(task, wanted)

    def _wait_for(self, task: Task, wanted: object) -> None:
        match wanted:
            case int():
                self._in(int(wanted / self.rate), lambda: self._go_on(task, None))
            case Call():
                send(self.world, self, wanted, _once(lambda reply: self._go_on(task, reply)))
            case list():
                self._send_all(task, wanted)
            case Submission():
                self._commit(task, wanted, self.dice.choice(COMMIT_MS))
            case CommitAs():
                self._take_office(wanted.author)
                self._commit(task, wanted.submission, wanted.timeout_ms)
            case Ask():
                ask(self.world, self, wanted, _once(lambda reply: self._go_on(task, reply)))
            case Request():
                self._perform(wanted, _once(lambda reply: self._resume(task, reply)))
            case _:
                raise TypeError(f"task {task.name} waits for {wanted!r}")

    def _resume(self, task: Task, reply: object) -> None:
        """Go on with a reply as a value, even if it is an error."""
        try:
            wanted = task.steps.send(reply)
        except StopIteration:
            self.tasks.remove(task)
            return
        self._wait_for(task, wanted)

    def _send_all(self, task: Task, calls: list[Call]) -> None:
        replies: list[object] = [None] * len(calls)
        left = [len(calls)]

        def of(index: int) -> Callable[[object], None]:
            def reply(value: object) -> None:
                replies[index] = value
                left[0] -= 1
                if not left[0]:
                    self._resume(task, replies)

            return _once(reply)

        for index, call in enumerate(calls):
            send(self.world, self, call, of(index))
        if not calls:
            self._in(0, lambda: self._resume(task, replies))

    # ---- the machine ----------------------------------------------------------------------------

    def _now(self) -> Now:
        return Now(self.now_ms(), self.monotonic_ms(), self.new_id())

    def _take_office(self, author: Author) -> None:
        """As `Service._loop`: a machine of its own for each author."""
        if self.commits.author.epoch < author.epoch:
            self.commits = GroupCommit(author, URL, self.head, self.monotonic_ms())

    def _commit(self, task: Task, submission: Submission, timeout_ms: int) -> None:
        machine = self.commits
        ticket = Ticket(submission, self.monotonic_ms() + timeout_ms, timeout_ms)
        self._waiting[ticket] = task
        machine.learn(self.head)
        machine.submit(ticket, self._now())
        self._serve(machine)

    def _serve(self, machine: GroupCommit) -> None:
        """Send what the machine asks for, and let the tasks go on whose commands are done."""
        while machine.requests:
            request = machine.requests.popleft()
            self._perform(request, lambda reply, request=request: self._reply(machine, request, reply))
        while machine.ended:
            ticket = machine.ended.popleft()
            task = self._waiting.pop(ticket)
            answer = _answer(ticket)
            self._in(0, lambda task=task, answer=answer: self._go_on(task, answer))

    def _reply(self, machine: GroupCommit, request: Request, reply: object) -> None:
        machine.reply(request, reply, self._now())
        self._learn(machine.head)
        self._serve(machine)

    def _perform(self, request: Request, reply: Callable[[object], None]) -> None:
        """Do what a machine of the chain asks for."""
        match request:
            case Put():
                send(self.world, self, Call(META, "put", request.key, bytes(request.body)), reply)
            case Get():
                send(self.world, self, Call(META, "get", request.key), reply)
            case GetMany():
                self._get_many(request, reply)
            case LoadSnapshot():
                self._in(self.dice.randint(5, 40), lambda: reply(self._load_snapshot()))
            case Pause():
                self._in(int(self.dice.uniform(request.longest_ms / 2, request.longest_ms)), lambda: reply(None))
            case _:
                raise TypeError(request)

    def _get_many(self, request: GetMany, reply: Callable[[object], None]) -> None:
        bodies: list[bytes | None] = [None] * len(request.keys)
        left, errors = [len(request.keys)], list[SparklogError]()

        def of(index: int) -> Callable[[object], None]:
            def got(value: object) -> None:
                if isinstance(value, SparklogError) and not isinstance(value, KeyNotFound):
                    errors.append(value)
                elif isinstance(value, bytes):
                    bodies[index] = value
                left[0] -= 1
                if not left[0]:
                    reply(errors[0] if errors else bodies)

            return _once(got)

        for index, key in enumerate(request.keys):
            send(self.world, self, Call(META, "get", key), of(index))

    def _load_snapshot(self) -> object:
        try:
            loaded = snapshot.load_newest(self.view(META))
        except SparklogError as error:
            return error
        return None if loaded is None else Head(loaded[1], loaded[0].entry_hash)


def _once(reply: Callable[[object], None]) -> Callable[[object], None]:
    """Take the first of several replies: for tasks, which wait for one."""
    taken = [False]

    def first(value: object) -> None:
        if not taken[0]:
            taken[0] = True
            reply(value)

    return first


def _answer(ticket: Ticket) -> object:
    """What `Committer.submit` returns or raises."""
    result = ticket.result
    if result is not None and result.application is not None and result.lost is not None:
        return version_lost(result.application, result.lost)
    return result if ticket.error is None else ticket.error


def retried(process: Process, steps: Callable[[], Steps], rest_ms: int) -> Steps:
    """Do it again and again, with pauses. A store that does not answer, or a conflict, only costs a round."""
    while True:
        try:
            yield from steps()
        except SparklogError as error:
            process.refused(error)
        yield process.dice.randint(rest_ms // 2, rest_ms)
