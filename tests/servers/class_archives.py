"""Archives of a Java program's classes, parsed and verified once: with its own it starts in half the processor time.

Java calls this class data sharing. A JVM takes an archive only if its class path begins as that of the JVM which wrote
it: the same files in the same order, up to the last one that held a class, and no folder among them that holds
anything. Otherwise it starts without.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.servers.made_once import CACHE, CannotFetch, alone, work_folder
from tests.servers.maven import SHORT_LIVED_JVM, java

_SILENT = "-Xlog:disable"  # about an archive that it does not take, Java would speak on stdout


def short_lived(program: str, jars: Sequence[Path]) -> list[str]:
    """Options for a JVM that ends after a minute or so: it reads the program's archive if that was written."""
    archive = _archive(program, tuple(jars))
    return [*SHORT_LIVED_JVM, *([f"-XX:SharedArchiveFile={archive}", _SILENT] if archive.is_file() else [])]


@contextmanager
def new_archive(program: str, jars: Sequence[Path]) -> Iterator[list[str] | None]:
    """Gives the options for a JVM that writes the archive when it exits; it must do so inside. None: it is written.

    Several processes may ask at once. The JVM may exit by SIGTERM, but not by SIGKILL.
    """
    archive = _archive(program, tuple(jars))
    with alone(archive):
        if archive.is_file():
            yield None
            return
        with work_folder(archive) as work:
            written = work / archive.name
            yield [*SHORT_LIVED_JVM, f"-XX:ArchiveClassesAtExit={written}", _SILENT]
            if written.is_file():  # not every Java can write one
                written.rename(archive)


@functools.cache
def _archive(program: str, jars: tuple[Path, ...]) -> Path:
    """Its name changes with each JAR and with Java."""
    try:
        parts = [Path(java()).resolve(), *jars]
    except CannotFetch:
        return CACHE / f"{program}-without-java.jsa"
    seen = repr([(str(part), (now := part.stat()).st_size, now.st_mtime_ns) for part in parts])
    return CACHE / f"{program}-{hashlib.sha256(seen.encode()).hexdigest()[:12]}.jsa"
