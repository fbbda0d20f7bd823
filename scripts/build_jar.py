"""Compile jvm/src into one JAR, against the JARs of the installed pyspark. The same sources give the same bytes.

python scripts/build_jar.py FILE
"""

from __future__ import annotations

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
NO_JAVAC: Final = 3  # the exit code without a compiler: sparklog then works without the JAR
_RELEASE: Final = "17"  # the oldest Java of Spark 4
_TIME: Final = (1980, 1, 1, 0, 0, 0)


def build_jar(target: Path) -> None:
    """Compile the sources and write the JAR.

    Raises SystemExit with the code NO_JAVAC if there is no compiler, or with javac's output if javac fails.
    """
    import pyspark

    jars = Path(pyspark.__file__).parent / "jars"
    with tempfile.TemporaryDirectory() as folder:
        sources = sorted(str(file) for file in SOURCES.rglob("*.java"))
        compiler = javac()
        if compiler is None:
            wanted = "wanted javac (a JDK 17 or newer: openjdk-17-jdk-headless)"
            print(f"{wanted}, found only a Java runtime", file=sys.stderr)
            raise SystemExit(NO_JAVAC)
        command = [compiler, "--release", _RELEASE, "-Xlint:all,-classfile,-path,-processing,-serial", "-Werror"]
        done = subprocess.run([*command, "-cp", f"{jars}/*", "-d", folder, *sources], capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(done.stdout + done.stderr)
        files = [(file, file.relative_to(folder)) for file in Path(folder).rglob("*.class")]
        files += [(file, file.relative_to(RESOURCES)) for file in RESOURCES.rglob("*") if file.is_file()]
        target.parent.mkdir(parents=True, exist_ok=True)
        with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as jar:
            for file, name in sorted(files, key=lambda pair: str(pair[1])):
                jar.writestr(zipfile.ZipInfo(name.as_posix(), _TIME), file.read_bytes(), zipfile.ZIP_DEFLATED)


def javac() -> str | None:
    """Return the path of the Java compiler: in JAVA_HOME if that is set, else on the PATH. None if there is none."""
    home = os.environ.get("JAVA_HOME")
    return shutil.which(str(Path(home, "bin", "javac"))) if home else shutil.which("javac")


if __name__ == "__main__":
    build_jar(Path(sys.argv[1]))
