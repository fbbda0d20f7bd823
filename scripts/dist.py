"""Build the files of a release, without a network: they come from the clone, and from the packages installed here.

    sparklog-0.1.0-py3-none-any.whl, sparklog-0.1.0.tar.gz
    sparklog-environment-0.1.0-cp311-linux_x86_64.tar.gz    for Spark's --archives: sparklog and its dependencies,
                                                            without Spark
    sparklog-jobs-0.1.0.zip                                 jobs/*.py, for spark-submit

The same commit and lock file always give the same bytes: files are sorted and have the time of the commit. Changed and
new files would be packed too, so the build fails if there are any that are not committed. --dirty packs them.

python scripts/dist.py [--to FOLDER] [--dirty]
"""

from __future__ import annotations

import argparse
import gzip
import importlib.metadata
import io
import os
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import time
import zipfile
from collections.abc import Iterator
from importlib.metadata import Distribution
from pathlib import Path, PurePosixPath
from typing import Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT: Final = Path(__file__).parents[1]
EXTRAS: Final = ("spark", "s3", "hdfs", "gcs", "azure")  # in the environment: a task may meet each kind of store
COMPRESSION: Final = 6  # of the archive of packages
# In an installed package: what depends on where it was installed, and what no program needs.
_LEFT_OUT_FILES: Final = {"RECORD", "INSTALLER", "REQUESTED", "direct_url.json"}
_LEFT_OUT_FOLDERS: Final = {"__pycache__", "tests", "include"}
_OLDEST_IN_ZIP: Final = 315_532_800  # 1980
_PYTHON: Final = f"python{sys.version_info.major}.{sys.version_info.minor}"
# Python is not in the archive: it can't be moved, and Spark's machines have one.
_START: Final = f"""#!/bin/sh
# The machine's own {_PYTHON}, with the packages of this archive.
here=$(cd "$(dirname "$0")/.." && pwd) || exit
export PYTHONPATH="$here/lib${{PYTHONPATH:+:$PYTHONPATH}}"
exec {_PYTHON} "$@"
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--to", type=Path, default=ROOT / "dist", metavar="FOLDER", help="default: dist")
    parser.add_argument("--dirty", action="store_true", help="also pack changes that are not in a commit")
    given = parser.parse_args()
    if not given.dirty and (changes := uncommitted()):
        parser.error(f"not in the commit (give --dirty to pack them all the same):\n{changes}")
    target: Path = given.to.absolute()
    jar = ROOT / "sparklog" / "spark" / "sparklog.jar"
    built = subprocess.run([sys.executable, str(ROOT / "scripts" / "build_jar.py"), str(jar)], check=False).returncode
    if built not in (0, 3):  # 3: build_jar.NO_JAVAC
        sys.exit(built)
    if built:
        print("the packages have no JAR, so Spark reads by Python: build a release with a JDK", file=sys.stderr)
    wanted = (os.environ.get("SOURCE_DATE_EPOCH") or time_of_commit()).strip()
    if not wanted.isdecimal():
        parser.error(f"SOURCE_DATE_EPOCH: wanted seconds since 1970, found {wanted!r}")
    epoch = int(wanted)
    wheel = build_packages(target, epoch)
    version = wheel.name.split("-")[1]
    jobs = {f"jobs/{job.name}": job.read_bytes() for job in (ROOT / "jobs").glob("*.py")}
    made = target / f"sparklog-jobs-{version}.zip"
    write_zip(made, jobs, epoch)
    platform = f"cp{sys.version_info.major}{sys.version_info.minor}-{sysconfig.get_platform().replace('-', '_')}"
    write_tar(target / f"sparklog-environment-{version}-{platform}.tar.gz", environment(wheel), epoch)
    for file in sorted(target.glob(f"sparklog*-{version}*")):
        print(f"{file.stat().st_size / 1e6:8.1f} MB  {os.path.relpath(file)}")


def uncommitted() -> str:
    """Return the changed and new files, as git lists them; "" if there are none, or if this is not a git clone."""
    if not (ROOT / ".git").exists():
        return ""
    status = ["git", "status", "--porcelain", "--untracked-files=all"]
    return subprocess.run(status, cwd=ROOT, check=True, capture_output=True, text=True).stdout


def time_of_commit() -> str:
    return subprocess.run(
        ["git", "log", "-1", "--format=%ct"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout


def build_packages(target: Path, epoch: int) -> Path:
    """Write the wheel and the source archive. Return the wheel."""
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(target)]
    subprocess.run(
        command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL, env=os.environ | {"SOURCE_DATE_EPOCH": str(epoch)}
    )
    (wheel,) = target.glob(f"sparklog-{importlib.metadata.version('sparklog')}-*.whl")
    return wheel


def environment(wheel: Path) -> dict[str, bytes]:
    """Return the files of the environment's archive: name in the archive -> content. `wheel`: that of sparklog."""
    files = {"bin/python": _START.encode()}
    with zipfile.ZipFile(wheel) as packed:
        files |= {f"lib/{name}": packed.read(name) for name in packed.namelist() if Path(name).name != "RECORD"}
        with tempfile.TemporaryDirectory() as unpacked:
            packed.extractall(unpacked)
            (sparklog,) = importlib.metadata.distributions(path=[unpacked])
            for package in needed(sparklog, EXTRAS):
                files |= {f"lib/{name}": Path(file).read_bytes() for name, file in files_of(package)}
    return files


def needed(package: Distribution, extras: tuple[str, ...]) -> list[Distribution]:
    """Return the direct and indirect dependencies of `package` with these extras, as installed here.

    Without pyspark, because the cluster brings its own Spark.
    """
    found: dict[str, Distribution] = {}
    waiting = [(package, extras)]
    asked = set()
    while waiting:
        package, extras = waiting.pop()
        for text in package.requires or ():
            requirement = Requirement(text)
            name = canonicalize_name(requirement.name)
            wanted = any(
                requirement.marker is None or requirement.marker.evaluate({"extra": extra}) for extra in ("", *extras)
            )
            further = tuple(sorted(requirement.extras))
            if wanted and name != "pyspark" and (name, further) not in asked:
                asked.add((name, further))
                found[name] = importlib.metadata.distribution(name)
                waiting.append((found[name], further))
    return [found[name] for name in sorted(found)]


def files_of(package: Distribution) -> Iterator[tuple[str, str]]:
    """Yield (name below site-packages, path here) of each file of the package that goes into the archive."""
    for file in package.files or ():
        folders = set(file.parts[:-1])
        if not folders & {"..", *_LEFT_OUT_FOLDERS} and file.name not in _LEFT_OUT_FILES:
            yield PurePosixPath(file).as_posix(), str(package.locate_file(file))


def write_zip(path: Path, files: dict[str, bytes], epoch: int) -> None:
    made = time.gmtime(max(epoch, _OLDEST_IN_ZIP))[:6]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(files):
            entry = zipfile.ZipInfo(name, made)
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, files[name], zipfile.ZIP_DEFLATED)


def write_tar(path: Path, files: dict[str, bytes], epoch: int) -> None:
    with (
        path.open("wb") as raw,
        gzip.GzipFile("", "wb", compresslevel=COMPRESSION, fileobj=raw, mtime=epoch) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for name in sorted(files):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mtime = len(files[name]), epoch
            entry.mode = 0o755 if name.startswith("bin/") else 0o644
            archive.addfile(entry, io.BytesIO(files[name]))


if __name__ == "__main__":
    main()
