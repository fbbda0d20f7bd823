"""Java servers for tests, as JAR files from Maven Central, on a machine that has only Python and Java.

The Apache Ivy that comes with pyspark resolves and downloads them; neither Maven nor ~/.m2 is asked. They
are kept in the project's ignored cache, one folder for each list of coordinates.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final
from xml.sax.saxutils import quoteattr

CACHE = Path(__file__).parents[2] / ".cache" / "servers"
_FETCH_TIMEOUT_S = 240


class CannotFetch(Exception):
    """This machine does not get a server's JARs: offline, or without Java. Fixtures make a skip of it."""


# For what ends after a minute or so: C2 and a parallel collector would take more time than they save.
SHORT_LIVED_JVM: Final = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")


def java() -> str:
    """The command that starts Java: that of JAVA_HOME, or of PATH. Raises CannotFetch."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=f"{home}/bin") if home else shutil.which("java")
    if found is None:
        raise CannotFetch("wanted Java to start a server, found none in JAVA_HOME or PATH")
    return found


def fetch_jars(name: str, coordinates: Sequence[str], without: Sequence[str] = ()) -> list[Path]:
    """The JARs of Maven coordinates, sorted by name; downloaded once, then found in `.cache/servers/<name>-<hash>/`.

    A coordinate is `group:artifact:version`, which brings what it needs at run time, except what is named in
    `without` as `group:artifact`, or `group:artifact:version:classifier`, which is that one file. Several processes
    may ask at once. Raises CannotFetch.
    """
    digest = hashlib.sha256("\n".join([*sorted(coordinates), *sorted(without)]).encode()).hexdigest()[:12]
    folder = CACHE / f"{name}-{digest}"
    if not folder.is_dir():
        CACHE.mkdir(parents=True, exist_ok=True)
        with alone(CACHE / f".{name}.lock"):
            if not folder.is_dir():
                _download(coordinates, without, folder)
    return sorted(folder.glob("*.jar"))


def _download(coordinates: Sequence[str], without: Sequence[str], folder: Path) -> None:
    """Everything of one fetch lies in a folder of its own until it is complete: a killed run leaves no half cache."""
    with work_folder(folder.parent, folder.name) as work:
        ivy_file = Path(work, "ivy.xml")
        ivy_file.write_text(_ivy_file(coordinates, without))
        command = [
            *(java(), "-Xmx256m", *SHORT_LIVED_JVM, f"-Duser.home={work}/home", "-jar", str(ivy_jar())),
            *("-cache", f"{work}/cache", "-ivy", str(ivy_file), "-types", "jar", "bundle"),
            *("-retrieve", f"{work}/jars/[artifact]-[revision](-[classifier]).[ext]"),
        ]
        try:
            done = subprocess.run(
                command, check=False, cwd=work, capture_output=True, text=True, timeout=_FETCH_TIMEOUT_S
            )
        except subprocess.TimeoutExpired as error:
            raise CannotFetch(f"wanted {', '.join(coordinates)}, not here after {_FETCH_TIMEOUT_S} s") from error
        jars = Path(work, "jars")
        if done.returncode != 0 or not any(jars.glob("*.jar")):
            raise CannotFetch(f"wanted {', '.join(coordinates)}, Ivy said: {_complaint(done.stdout + done.stderr)}")
        jars.rename(folder)


def _ivy_file(coordinates: Sequence[str], without: Sequence[str]) -> str:
    return "\n".join(
        [
            '<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">',
            '<info organisation="sparklog" module="test-server"/>',
            '<configurations><conf name="default"/></configurations>',
            "<dependencies>",
            *map(_dependency, coordinates),
            *map(_exclusion, without),
            "</dependencies>",
            "</ivy-module>",
        ]
    )


def _dependency(coordinate: str) -> str:
    group, artifact, version, *classifier = coordinate.split(":")
    named = f"<dependency org={quoteattr(group)} name={quoteattr(artifact)} rev={quoteattr(version)}"
    if not classifier:
        return f'{named} conf="default->default,runtime"/>'
    file = f'<artifact name={quoteattr(artifact)} type="jar" ext="jar" m:classifier={quoteattr(classifier[0])}/>'
    return f'{named} conf="default->*" transitive="false">{file}</dependency>'


def _exclusion(module: str) -> str:
    group, artifact = module.split(":")
    return f"<exclude org={quoteattr(group)} module={quoteattr(artifact)}/>"


def ivy_jar() -> Path:
    """That which came with pyspark. Raises CannotFetch."""
    pyspark = importlib.util.find_spec("pyspark")
    folders = pyspark.submodule_search_locations if pyspark else None
    found = sorted(Path(folders[0], "jars").glob("ivy-*.jar")) if folders else []
    if not found:
        raise CannotFetch("wanted the Ivy that comes with pyspark, found no jars/ivy-*.jar")
    return found[-1]


def _complaint(output: str) -> str:
    """The lines of Ivy that say what is missing."""
    lines = [line.strip(" \t:") for line in output.splitlines()]
    wrong = [line for line in lines if any(word in line.lower() for word in ("not found", "exception", "unresolved"))]
    return "; ".join((wrong or lines)[-5:])[-600:]


@contextmanager
def alone(lock: Path, wait_s: float = float("inf")) -> Iterator[None]:
    """Between processes that name the same file one is inside at a time. Raises CannotFetch after `wait_s`."""
    until = time.monotonic() + wait_s
    with lock.open("w") as file:
        while not _locked(file):
            if time.monotonic() > until:
                raise CannotFetch(f"another process still fetches what belongs to {lock.name}, after {wait_s} s")
            time.sleep(0.1)
        yield


def _locked(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextmanager
def work_folder(parent: Path, name: str) -> Iterator[str]:
    """A folder for what is not complete yet. Removes those that killed runs left: be `alone` with this name."""
    for left in parent.glob(f".{name}-*"):
        shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=f".{name}-", dir=parent) as work:
        yield work
