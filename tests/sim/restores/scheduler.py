"""Runs the actors of a simulated run one at a time: at each call to a store the dice say who goes on.

An actor is a greenlet. It belongs to a process, which may be killed: its actors end at their next call. Time is
virtual; it passes with the steps, and jumps ahead when everybody sleeps.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from greenlet import getcurrent, greenlet

from tests.kit.hand_clock import START_MS


class Killed(BaseException):
    """The process of this actor ends here."""


class Broken(BaseException):
    """A promise is broken. Not an Exception: no code under test may swallow it."""


@dataclass(eq=False)
class Process:
    """One simulated process. `dies_at`: the call at which it dies, if any, and `dies_at_put`: the put.

    `dies_once_begun`: it dies at the first call after its restore has begun.
    `wrote`: the places and keys of objects that it created.
    """

    name: str
    dies_at: int | None = None
    dies_at_put: int | None = None
    dies_once_begun: bool = False
    calls: int = 0
    puts: int = 0
    dead: bool = False
    marked: bool = False  # it has put the mark of a restore
    without: frozenset[str] = frozenset()  # the addresses that its restore leaves out
    loss_accepted: bool = False  # by its restore
    wrote: list[tuple[str, str]] = field(default_factory=list)


class Fiber:
    """One actor, or a thread of one."""

    def __init__(self, name: str, process: Process, work: Callable[[], None], hub: greenlet) -> None:
        self.name = name
        self.process = process
        self.until: Callable[[], bool] | None = None  # it waits for this
        self.wake_ms: int | None = None  # and not longer than this
        self.stalled_to = 0  # step
        self.done = False
        self._work = work
        self.greenlet = greenlet(self._run, parent=hub)

    def _run(self) -> None:
        try:
            if not self.process.dead:
                self._work()
        except Killed:
            pass
        finally:
            self.done = True

    def may_run(self, step: int, now_ms: int) -> bool:
        """Whether there is something to do for it."""
        if self.process.dead:
            return True
        if self.stalled_to > step:
            return False
        if self.until is None and self.wake_ms is None:
            return True
        return (self.wake_ms is not None and self.wake_ms <= now_ms) or (self.until is not None and self.until())


class Scheduler:
    """Chooses who runs. `keenness`: how likely an actor goes on after a call, without letting another one go first."""

    def __init__(self, dice: random.Random, *, keenness: float, step_ms: int, stalls: float) -> None:
        self.now_ms = START_MS
        self.steps = 0
        self.stalled = 0
        self.fibers: list[Fiber] = []
        self.failure: BaseException | None = None
        self._dice = dice
        self._keenness, self._step_ms, self._stalls = keenness, step_ms, stalls
        self._hub = getcurrent()
        self._current: Fiber | None = None

    @property
    def current(self) -> Fiber | None:
        """The actor that runs; None for the simulation itself."""
        return self._current if self._current is not None and self._current.greenlet is getcurrent() else None

    def spawn(self, name: str, process: Process, work: Callable[[], None]) -> Fiber:
        """Start an actor."""
        fiber = Fiber(name, process, work, self._hub)
        self.fibers.append(fiber)
        return fiber

    def run(self, until: Callable[[], bool], most_steps: int) -> None:
        """Let the actors go on until this holds, or for so many steps. Raises what an actor raises."""
        end = self.steps + most_steps
        while self.steps < end and not until():
            fiber = self._next()
            if fiber is None:
                return
            fiber.until = fiber.wake_ms = None
            self._current = fiber
            fiber.greenlet.switch()
            self._current = None
            self.steps += 1
            self.now_ms += self._step_ms
            if fiber.done:
                self.fibers.remove(fiber)
            if self.failure is not None:
                raise self.failure

    def point(self) -> None:
        """A call to a store begins here: others may go first."""
        fiber = self.current
        if fiber is None:
            return
        roll = self._dice.random()
        if roll < self._stalls:
            self.stalled += 1
            fiber.stalled_to = self.steps + int(10 ** self._dice.uniform(0.5, 3.0))
            self._switch(fiber)
        elif roll > self._keenness:
            self._switch(fiber)
        else:
            self.steps += 1
            self.now_ms += self._step_ms
        if fiber.process.dead:
            raise Killed

    def wait(self, until: Callable[[], bool] | None, longest_ms: float | None = None) -> bool:
        """Wait until this holds, but not longer; whether it does."""
        fiber = self.current
        if fiber is None:
            return until is None or until()
        if fiber.process.dead:
            raise Killed
        fiber.until = until
        fiber.wake_ms = None if longest_ms is None else self.now_ms + max(1, int(longest_ms))
        self._switch(fiber)
        if fiber.process.dead:
            raise Killed
        return until is None or until()

    def sleep(self, ms: float) -> None:
        """Wait so long."""
        self.wait(None, ms)

    def broken(self, message: str) -> None:
        """End the run: a promise is broken."""
        self.failure = self.failure or Broken(message)
        if self.current is not None:
            self._hub.switch()
        raise self.failure

    def end(self) -> None:
        """Unwind everybody who is left."""
        for fiber in self.fibers:
            fiber.process.dead = True
        for fiber in list(self.fibers):
            self._current = fiber
            for _ in range(100):
                if fiber.greenlet.dead:
                    break
                with suppress(Killed):  # it had not begun
                    fiber.greenlet.throw(Killed)
        self.fibers.clear()
        self._current = None

    def _switch(self, fiber: Fiber) -> None:
        self._hub.switch()
        self._current = fiber

    def _next(self) -> Fiber | None:
        if not self.fibers:
            return None
        while True:
            able = [fiber for fiber in self.fibers if fiber.may_run(self.steps, self.now_ms)]
            if able:
                return able[self._dice.randrange(len(able))] if len(able) > 1 else able[0]
            stalled = [fiber.stalled_to for fiber in self.fibers if fiber.stalled_to > self.steps]
            asleep = [
                fiber.wake_ms for fiber in self.fibers if fiber.wake_ms is not None and fiber.stalled_to <= self.steps
            ]
            if asleep:
                self.now_ms = max(self.now_ms, min(asleep))
            elif stalled:
                self.steps = min(stalled)
            else:
                names = ", ".join(fiber.name for fiber in self.fibers)
                raise Broken(f"P5: everybody waits for ever: {names}")
