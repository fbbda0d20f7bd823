"""Restores: with which arguments, from where, and what is checked when one ends."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sparklog.client.restoring.restore_cluster import Restored, restore_cluster
from sparklog.core.errors import SparklogError
from sparklog.storage.keys import OWNERS, PROBES
from tests.sim.restores.scheduler import Fiber, Process
from tests.sim.restores.world import where

if TYPE_CHECKING:
    from tests.sim.restores.world import World

OPTIONS = frozenset(inspect.signature(restore_cluster).parameters)  # take_over and accept_loss, where supported


@dataclass(eq=False)
class Attempt:
    """The arguments of a restore. It may be run several times.

    `unknown`: stores that were to be left out, until a refusal said that the copies do not know them. Nobody expects
    anything of them either.
    """

    url: str
    sources: dict[str, str]
    without: tuple[str, ...] = ()
    options: dict[str, bool] = field(default_factory=dict)
    unknown: tuple[str, ...] = ()

    def __str__(self) -> str:
        words = [f"to {self.url}", f"from {','.join(self.sources)}"]
        words += [f"without {','.join(self.without)}"] if self.without else []
        return " ".join([*words, *(name for name, on in self.options.items() if on)])


@dataclass(eq=False)
class Run:
    """One run of a restore, and how it ended."""

    attempt: Attempt
    process: Process
    fiber: Fiber
    result: Restored | None = None
    error: SparklogError | None = None


def begin(
    world: World,
    attempt: Attempt,
    *,
    dies_at: int | None = None,
    dies_at_put: int | None = None,
    dies_once_begun: bool = False,
    dry_run: bool = False,
) -> Run:
    """Start a restore."""
    process = Process(f"restorer{world.next_number()}", dies_at, dies_at_put, dies_once_begun)
    left_out = (*attempt.without, *attempt.unknown)
    process.without = frozenset(world.known[name].url for name in left_out if name in world.known)
    process.loss_accepted = attempt.options.get("accept_loss", False)
    world.note(process.name, "begins", "a dry run" if dry_run else "", attempt)
    run = Run(attempt, process, None)  # type: ignore[arg-type]
    run.fiber = world.scheduler.spawn(process.name, process, lambda: _run(world, run, dry_run=dry_run))
    return run


def _run(world: World, run: Run, *, dry_run: bool) -> None:
    attempt, process = run.attempt, run.process
    options: dict[str, Any] = dict(attempt.options)
    begun = world.scheduler.steps
    world.count("restore")
    try:
        run.result = restore_cluster(attempt.url, attempt.sources, without=attempt.without, dry_run=dry_run, **options)
    except SparklogError as error:
        run.error = error
        world.refused(process, error)
        world.count("restore-refused")
        world.history.refused(error, attempt.sources.values(), process.without, begun)
        written = [key for _, key in process.wrote if not key.startswith(PROBES)]
        if written and not process.marked and not _is_marked(world, attempt.url):
            world.broken(f"P4: {process.name} was refused before its first mark, and wrote {written}: {error}")
    except Exception as error:
        world.broken(f"P5: {process.name} ended with {type(error).__name__}: {error} ({where(error)})")
    else:
        if dry_run:
            world.count("dry-run")
            if process.wrote:
                world.broken(f"P4: {process.name} made a dry run, and wrote {process.wrote}")
            return
        world.count("restore-succeeded")
        result = run.result
        world.note(
            process.name, "has restored", f"{result.previous[:8]}/{result.last} as {result.chain_id}", attempt.url
        )
        world.history.restored(result)


def _is_marked(world: World, url: str) -> bool:
    """Whether a store has the mark of a restore to this place."""
    return any(url.encode() in store.bodies[key] for store in world.stores.values() for key in store.keys(OWNERS))


def advised(attempt: Attempt, message: str, address_of: Callable[[str], str | None]) -> Attempt:
    """The arguments that a refusal asks for. A store that is there is left out only if its address did not help."""
    sources, without, options = dict(attempt.sources), set(attempt.without), dict(attempt.options)
    for name in re.findall(r"--without ([\w-]+)", message):
        if address_of(name) is None or sources.get(name) == address_of(name):
            without.add(name)
            sources.pop(name, None)
    for name in re.findall(r"--from ([\w-]+)=", message):
        address = address_of(name)
        if address is not None and name not in without:
            sources[name] = address
    named = re.search(r"wanted stores of the cluster .*, found ([^:]*)", message)
    not_known = set(named[1].split(", ")) if named else set()
    unknown = {*attempt.unknown, *(without & not_known)}
    without -= not_known
    sources = {name: address for name, address in sources.items() if name not in not_known}
    for option in ("take_over", "accept_loss"):
        if f"--{option.replace('_', '-')}" in message and option in OPTIONS and option in attempt.options:
            options[option] = True
    url = re.search(r"--cluster ([^\s;]+)", message)
    sources = sources or attempt.sources
    has_begun_there = url is not None and ("take_over" not in OPTIONS or attempt.options.get("take_over"))
    place = url[1] if url is not None and has_begun_there else attempt.url
    return Attempt(place, sources, tuple(sorted(without)), options, tuple(sorted(unknown)))
