"""Java servers for tests, as JAR files from Maven Central, on a machine that has only Python and Java.

The Apache Ivy that comes with pyspark resolves and downloads them; neither Maven nor ~/.m2 is asked.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final
from xml.sax.saxutils import quoteattr

from tests.servers.made_once import CACHE, FETCH_S, CannotFetch, made_once

# By default Ivy waits for ever on a connection that says nothing any more. It also takes three times as long, mostly to
# ask for the SHA-1 and MD5 of each file: HTTPS and the length already show that a file arrived whole.
_SETTINGS: Final = """
<ivysettings>
  <property name="ivy.maven.lookup.sources" value="false"/>
  <property name="ivy.maven.lookup.javadoc" value="false"/>
  <settings defaultResolver="central"/>
  <timeout-constraints>
    <timeout-constraint name="patient" connectionTimeout="20000" readTimeout="30000"/>
  </timeout-constraints>
  <resolvers><ibiblio name="central" m2compatible="true" checksums="" timeoutConstraint="patient"/></resolvers>
</ivysettings>
"""
_PAUSES_S: Final = (1, 5)  # between attempts

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
    folder = made_once(CACHE / f"{name}-{digest}", lambda work: _download(coordinates, without, work))
    return sorted(folder.glob("*.jar"))


def _download(coordinates: Sequence[str], without: Sequence[str], work: Path) -> Path:
    (work / "settings.xml").write_text(_SETTINGS)
    (work / "ivy.xml").write_text(_ivy_file(coordinates, without))
    command = [
        *(java(), "-Xmx256m", *SHORT_LIVED_JVM, f"-Duser.home={work}/home", "-jar", str(ivy_jar())),
        *("-settings", f"{work}/settings.xml", "-ivy", f"{work}/ivy.xml", "-cache", f"{work}/cache"),
        *("-types", "jar", "bundle"),
        *("-retrieve", f"{work}/jars/[artifact]-[revision](-[classifier]).[ext]"),
    ]
    until = time.monotonic() + FETCH_S
    for pause_s in (*_PAUSES_S, None):
        left_s = max(1.0, until - time.monotonic())
        try:
            done = subprocess.run(command, check=False, cwd=work, capture_output=True, text=True, timeout=left_s)
        except subprocess.TimeoutExpired as error:
            raise CannotFetch(f"wanted {', '.join(coordinates)}, not here after {FETCH_S} s") from error
        jars = work / "jars"
        if done.returncode == 0 and any(jars.glob("*.jar")):
            break
        if pause_s is None:
            raise CannotFetch(f"wanted {', '.join(coordinates)}, Ivy said: {_complaint(done.stdout + done.stderr)}")
        time.sleep(pause_s)
    return jars


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
    lines = [line for text in output.splitlines() if (line := text.strip(" \t:"))]
    words = ("not found", "exception", "unresolved", "failed")
    wrong = [line for line in lines if any(word in line.lower() for word in words)]
    return "; ".join((wrong or lines)[-5:])[-600:]
