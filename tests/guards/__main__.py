"""Removes the guards listed in this folder, one at a time, in a copy of the project; their tests should notice.

    make guards                          all of them (about an hour)
    make guards ARGS="--only hash-link"  one, or --only core/ by a part of the file's path
    make guards ARGS="--list"            show the guards

stdout: a line per guard. Exit code 0 if every guard was caught; 1 if one was not, if its text is not found exactly
once, or if one of its tests does not pass (or is skipped) on the code as it is.
"""

from __future__ import annotations

import argparse
import os
import queue
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.guards.guard import Guard
from tests.guards.guards import GUARDS

PROJECT: Final = Path(__file__).parents[2]
SHARED: Final = (".cache/servers",)  # what tests fetch: linked, not copied
_PASSED, _FAILED = 0, 1  # exit codes of pytest; others (nothing collected, a syntax error, …) are no verdict


def main() -> int:
    parser = argparse.ArgumentParser(prog="make guards", description="whether tests notice each guard that is gone")
    parser.add_argument("--only", action="append", metavar="NAME", help="this guard, or those of a part of a path")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="guards at a time (default 1)")
    parser.add_argument("--list", action="store_true", help="show the guards and run nothing")
    given = parser.parse_args()
    for name in given.only or ():
        if not any(_is_meant(each, name) for each in GUARDS):
            print(f"wanted a guard, found none that is called {name}: see --list", file=sys.stderr)
            return 2
    chosen = [each for each in GUARDS if not given.only or any(_is_meant(each, name) for name in given.only)]
    if given.list:
        for each in chosen:
            print(f"{each.name:24} {each.file}\n    {each.guards}")
        return 0
    return _run(chosen, given.jobs)


def _is_meant(guard: Guard, name: str) -> bool:
    return guard.name == name or ("/" in name and f"/{name}" in f"/{guard.file}")


def _run(chosen: Sequence[Guard], jobs: int) -> int:
    width = max(len(each.name) for each in chosen)
    caught = 0
    with tempfile.TemporaryDirectory(prefix="sparklog-guards-") as work:
        trees: queue.Queue[Path] = queue.Queue()
        for number in range(jobs):
            trees.put(_copy(Path(work) / f"{number}"))
        pass_as_is = _passing_as_is(chosen, trees.queue[0], jobs)

        def judged(guard: Guard) -> tuple[str, float]:
            tree, began = trees.get(), time.monotonic()
            try:
                return _verdict(guard, tree, guard in pass_as_is), time.monotonic() - began
            finally:
                trees.put(tree)

        with ThreadPoolExecutor(jobs) as pool:
            for guard, (verdict, seconds) in zip(chosen, pool.map(judged, chosen), strict=True):
                caught += verdict == "caught"
                print(f"{guard.name:{width}}  {seconds:5.1f} s  {verdict}", flush=True)
    print(f"{caught} of {len(chosen)} guards caught")
    return 0 if caught == len(chosen) else 1


def _passing_as_is(chosen: Sequence[Guard], tree: Path, jobs: int) -> list[Guard]:
    """The guards whose tests all pass on the code as it is. The others run theirs once more, each by itself.

    The tests of all guards share a run, so that servers and Spark start only once.
    """
    tests = list(dict.fromkeys(test for each in chosen for test in each.tests))
    done = _pytest(["-rA", "--show-capture=no", "-n", f"{jobs if jobs > 1 else 0}"], tests, "", tree)
    outcomes = re.findall(r"^(PASSED|FAILED|ERROR|SKIPPED) (?:\[\d+\] )?(.+?)(?: - .*)?$", done.stdout, re.M)
    return [each for each in chosen if all(_has_passed(test, outcomes) for test in each.tests)]


def _has_passed(test: str, outcomes: Sequence[tuple[str, str]]) -> bool:
    """Whether this test has passed with all its parameters, and nothing in its file was skipped."""
    file = test.partition("::")[0]
    own = [result for result, name in outcomes if name == test or name.startswith((f"{test}[", f"{test}::"))]
    skipped = any(result == "SKIPPED" and name.startswith(f"{file}:") for result, name in outcomes)
    return "PASSED" in own and set(own) == {"PASSED"} and not skipped


def _verdict(guard: Guard, tree: Path, pass_as_is: bool) -> str:
    found = (tree / guard.file).read_text().count(guard.text)
    if found != 1:
        return f"NOT CAUGHT: its text is {found} times in {guard.file}, wanted once: mend its entry in tests/guards/"
    if not pass_as_is:
        code, why = _tests(guard.tests, guard.choose, tree)
        if code != _PASSED or why:
            return f"NOT CAUGHT: its tests do not pass on the code as it is: {why}"
    with _taken_away(guard, tree):
        code, why = _tests(guard.tests, guard.choose, tree)
    if code == _FAILED and re.search(r"\b\d+ failed\b", why):  # an error in a fixture is no verdict
        return "caught"
    return f"NOT CAUGHT: {guard.guards} {why}".rstrip()


def _tests(tests: Sequence[str], choose: str, tree: Path) -> tuple[int, str]:
    """pytest's exit code, and its last line unless all tests passed. Stops at the first failure."""
    done = _pytest(["-x", "-n", "0"], tests, choose, tree)
    last = (done.stdout.strip() or done.stderr.strip()).rpartition("\n")[2]  # on stderr may be warnings of the exit
    return done.returncode, "" if re.fullmatch(r"\d+ passed(, \d+ deselected)? in .*", last) else last


def _pytest(options: Sequence[str], tests: Sequence[str], choose: str, tree: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *options, *(["-k", choose] if choose else []), *tests],
        cwd=tree,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},  # a .pyc from the same second would hide the change
        capture_output=True,
        text=True,
        check=False,
    )


@contextmanager
def _taken_away(guard: Guard, tree: Path) -> Iterator[None]:
    file = tree / guard.file
    whole = file.read_text()
    file.write_text(whole.replace(guard.text, guard.without))
    try:
        yield
    finally:
        file.write_text(whole)


def _copy(tree: Path) -> Path:
    """The project as it is in the working directory, without what git ignores."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=PROJECT,
        stdout=subprocess.PIPE,
        check=True,
    )
    for name in filter(None, listed.stdout.decode().split("\0")):
        if (PROJECT / name).is_file():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(PROJECT / name, tree / name)
    for name in SHARED:
        (PROJECT / name).mkdir(parents=True, exist_ok=True)
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).symlink_to(PROJECT / name)
    found = subprocess.run(
        [sys.executable, "-c", "import sparklog; print(sparklog.__file__)"],
        cwd=tree,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    assert Path(found.stdout.strip()).is_relative_to(tree), f"tests in {tree} would import {found.stdout}"
    return tree


if __name__ == "__main__":
    sys.exit(main())
