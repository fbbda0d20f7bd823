"""Compile jvm/src into one JAR, against the JARs of the installed pyspark. Each Spark from 3.5 on gives the same bytes,
with Scala 2.12 and 2.13: tests/jvm/test_one_jar.py.

python scripts/build_jar.py FILE

It is compiled once for these sources and this Spark, and kept in .cache/jvm.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
SOURCES: Final = ROOT / "jvm" / "src"
RESOURCES: Final = ROOT / "jvm" / "resources"
STUBS: Final = ROOT / "jvm" / "stubs"  # of classes that Spark gets with --packages; they are not in the JAR
_KEPT: Final = ROOT / ".cache" / "jvm"
NO_JAVAC: Final = 3  # the exit code without a compiler: sparklog then works without the JAR
_RELEASE: Final = "17"  # the oldest Java of Spark 4; that of Spark 3.5 may be older
_TIME: Final = (1980, 1, 1, 0, 0, 0)


def built_jar() -> Path:
    """Return the JAR, built if it is not there.

    Raises SystemExit with the code NO_JAVAC if there is no compiler, or with javac's output if javac fails.
    """
    import pyspark

    digest = hashlib.sha256(pyspark.__version__.encode())
    for file in sorted([*SOURCES.rglob("*.java"), *STUBS.rglob("*.java"), *RESOURCES.rglob("*")]):
        if file.is_file():
            digest.update(str(file.relative_to(ROOT)).encode() + file.read_bytes())
    built = _KEPT / f"sparklog-{digest.hexdigest()[:16]}.jar"
    if not built.exists():
        _KEPT.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=_KEPT) as folder:
            build(Path(folder, "new.jar"), f"{Path(pyspark.__file__).parent}/jars/*")
            os.replace(Path(folder, "new.jar"), built)
    return built


def build(target: Path, class_path: str) -> None:
    """Compile the JAR against these JARs of a Spark. Raises SystemExit as `built_jar` does."""
    with tempfile.TemporaryDirectory() as folder:
        sources = sorted(str(file) for file in SOURCES.rglob("*.java"))
        compiler = javac()
        if compiler is None:
            wanted = "wanted javac (a JDK 17 or newer: openjdk-17-jdk-headless)"
            print(f"{wanted}, found only a Java runtime", file=sys.stderr)
            raise SystemExit(NO_JAVAC)
        command = [compiler, "--release", _RELEASE, "-Xlint:all,-classfile,-path,-processing,-serial", "-Werror"]
        command += ["-cp", class_path, "-sourcepath", str(STUBS), "-implicit:none", "-d", folder]
        done = subprocess.run([*command, *sources], capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(done.stdout + done.stderr)
        files = [(file, file.relative_to(folder)) for file in Path(folder).rglob("*.class")]
        files += [(file, file.relative_to(RESOURCES)) for file in RESOURCES.rglob("*") if file.is_file()]
        with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as jar:
            for file, name in sorted(files, key=lambda pair: str(pair[1])):
                jar.writestr(zipfile.ZipInfo(name.as_posix(), _TIME), file.read_bytes(), zipfile.ZIP_DEFLATED)


def javac() -> str | None:
    """Return the path of the Java compiler: in JAVA_HOME if that is set, else on the PATH. None if there is none."""
    home = os.environ.get("JAVA_HOME")
    return shutil.which(str(Path(home, "bin", "javac"))) if home else shutil.which("javac")


if __name__ == "__main__":
    shutil.copyfile(built_jar(), sys.argv[1])
