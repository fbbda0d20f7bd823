"""All the processes of one cluster of a round: writers, agents, a coordinator, and the command lines that it gets.

A cluster that was restored has another crowd; the old one lives on beside it.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.restores.forks import PATIENCE_S, Forked, Forks
from tests.soak.journal import Line, lines_of

LOOK_S = 0.02


@dataclass
class Crowd:
    """The processes that know the cluster at `url`. `name` is part of the names of all."""

    forks: Forks
    folder: Path
    url: str
    name: str
    writers: dict[str, str] = field(default_factory=dict)  # name -> kind
    running: dict[str, Forked] = field(default_factory=dict)
    commands: int = 0

    # ---- begin and end --------------------------------------------------------------------------

    def write(self, kind: str) -> str:
        """Start a writer, or start it again."""
        name = f"{kind}-{self.name}"
        self.writers[name] = kind
        journal = self.folder / f"{name}.journal"
        self.running[name] = self.forks.start("write", self.url, str(journal), name, kind, said=self._said(name))
        return name

    def serve(self, name: str, *argv: str) -> None:
        """Start an agent or a coordinator, or start it again."""
        name = f"{name}-{self.name}"
        self.running[name] = self.forks.start("serve", "--cluster", self.url, *argv, said=self._said(name))

    def command(self, *argv: str) -> tuple[int, str]:
        """Run a command line: its exit code, and what it said."""
        forked = self.begin("command", *argv)
        return forked.wait(), forked.said.read_text()

    def begin(self, actor: str, *argv: object) -> Forked:
        """Start a command line. `actor` is command, or mortal with the step before which it dies."""
        self.commands += 1
        name = f"command-{self.name}-{self.commands}"
        step, argv = (argv[:1], argv[1:]) if actor == "mortal" else ((), argv)
        journal = str(self.folder / f"{name}.journal")
        return self.forks.start(actor, journal, *step, "--cluster", self.url, *argv, said=self._said(name))

    def kill(self, *names: str) -> None:
        """SIGKILL to these, or to all."""
        for name in names or tuple(self.running):
            self.running[name].kill()

    @contextmanager
    def paused(self, *names: str) -> Iterator[None]:
        """These processes, or all, stand still inside the block."""
        for name in names or self.running:
            self.running[name].send(signal.SIGSTOP)
        try:
            yield
        finally:
            for name in names or self.running:
                self.running[name].send(signal.SIGCONT)

    def stop_writers(self) -> None:
        """Stop the writers cleanly."""
        for name in self.writers:
            self.running[name].send(signal.SIGTERM)
        for name in self.writers:
            self.running[name].wait()

    # ---- what they have noted -------------------------------------------------------------------

    def lines(self, name: str) -> list[Line]:
        return list(lines_of(self.folder / f"{name}.journal"))

    def acknowledged(self, name: str) -> int:
        return sum("acked" in line for line in self.lines(name))

    def all_acknowledged(self) -> int:
        return sum(map(self.acknowledged, self.writers))

    def has_tried_since(self, name: str, at: int) -> bool:
        """Whether an append of this writer has begun and ended, or was tried again, since then; or it has ended."""
        later = [line for line in self.lines(name) if line["at"] > at]
        begun = {line["begin"] for line in later if "begin" in line}
        outcomes = [line[kind] for line in later for kind in ("acked", "refused", "unknown") if kind in line]
        tried_again = sum("tried" in line for line in later) > 1
        return tried_again or not begun.isdisjoint(outcomes) or not self.running[name].is_alive

    def until(self, done: Callable[[], bool], what: str) -> None:
        """Wait until this is so. Raises AssertionError if it does not come."""
        with self.forks.changed:
            for _ in range(int(PATIENCE_S / LOOK_S)):
                if done():
                    return
                self.forks.changed.wait(LOOK_S)
        raise AssertionError(f"waited {PATIENCE_S} s until {what}: {self._said_last()}")

    def restored_at(self) -> int | None:
        """When the first restore of all that this crowd's command lines began had succeeded."""
        ended = [
            line["at"]
            for number in range(1, self.commands + 1)
            for line in self.lines(f"command-{self.name}-{number}")
            if line.get("code") == 0 and _is_restore(line["ended"])
        ]
        return min(ended, default=None)

    # ---------------------------------------------------------------------------------------------

    def _said(self, name: str) -> Path:
        return self.folder / "said" / name

    def _said_last(self) -> str:
        return "; ".join(
            f"{name}: {self.lines(name)[-2:]} {self.running[name].said.read_text()[-500:]}" for name in self.writers
        )


def _is_restore(argv: Sequence[str]) -> bool:
    return "restore" in argv and "--dry-run" not in argv
