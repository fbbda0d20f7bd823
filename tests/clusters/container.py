"""The image of conf/kubernetes/Dockerfile, built from an empty root and run, without Docker and its registry.

The base can't be fetched here, so debootstrap makes one: Debian with its Python. buildah runs the same Dockerfile on
it, and `Container` runs a command as the image says: its user, its variables, its entry point. The root is read-only.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.clusters.artefacts import ROOT
from tests.servers.made_once import CACHE, CannotFetch, made_once

DOCKERFILE: Final = ROOT / "conf" / "kubernetes" / "Dockerfile"
_SUITE: Final = "bookworm"  # that of the image which the file names
_PACKAGES: Final = "ca-certificates,python3,python3-venv"
_BASE, _IMAGE = "localhost/base", "localhost/sparklog"
_MAKE_BASE_TIMEOUT_S = 1_200
# What a runtime of containers mounts: /dev, /proc, names of hosts, and a /tmp, the only place to write to.
_RUN: Final = """
mount --bind "$ROOT" "$ROOT"
mount --bind /etc/hosts "$ROOT/etc/hosts"
mount -o remount,bind,ro "$ROOT"
mount --bind "$SCRATCH" "$ROOT/tmp"
mount -t proc none "$ROOT/proc"
mount --rbind /dev "$ROOT/dev"
exec setpriv --no-new-privs --bounding-set=-all,+setuid,+setgid,+sys_chroot \\
    chroot --userspec="$USER" --groups= "$ROOT" "$@"
"""


class CannotBuild(CannotFetch):
    """This machine has no means to build and run an image. Fixtures make a skip of it."""


def missing_here() -> str | None:
    """The reason why this machine can't build images; None if it can."""
    if os.getuid() != 0:
        return "building an image from an empty root needs root"
    for program in ("buildah", "debootstrap", "unshare", "setpriv", "chroot"):
        if shutil.which(program) is None:
            return f"this machine has no {program} (apt-get install --yes buildah debootstrap)"
    tried = subprocess.run(
        ["unshare", "--mount", "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True, text=True, check=False
    )
    return f"this machine lets root mount nothing: {tried.stderr.strip()}" if tried.returncode else None


@dataclass(frozen=True)
class Container:
    """The image: its files in `root`, and what its Dockerfile says of the user, the variables and the program."""

    root: Path
    config: Mapping[str, Any]

    def command(self, arguments: Sequence[str], variables: Mapping[str, str], scratch: Path) -> list[str]:
        """What starts the image's program with these arguments, as `Popen` takes it. `scratch` is its /tmp."""
        user = self.config["User"]
        os.chmod(scratch, 0o1777)
        own = {"ROOT": str(self.root), "SCRATCH": str(scratch), "USER": user}
        inside = ["/usr/bin/env", "-i", *self.config["Env"], *(f"{name}={value}" for name, value in variables.items())]
        outside = [f"{name}={value}" for name, value in own.items()]
        run = ["env", *outside, "unshare", "--mount", "--propagation", "private", "sh", "-euc", _RUN, "sh"]
        return [*run, *inside, *self.config["Entrypoint"], *arguments]


@contextmanager
def built(dist: Path, folder: Path) -> Iterator[Container]:
    """The image, built from what `make dist` wrote into `dist`. It takes 5 GB in `folder`, until the block ends.

    Raises CannotBuild before the Dockerfile is tried. What the Dockerfile itself does wrong is an AssertionError.
    """
    buildah = Buildah(folder)
    try:
        buildah.make_base(debian())
        buildah.try_base()
        wheels = wheelhouse(dist, folder)
        offline = folder / "pip.conf"
        offline.write_text("[global]\nno-index = true\nfind-links = /wheels\n")
        buildah("bud", "--isolation", "chroot", "--build-arg", f"BASE={_BASE}", "--file", str(DOCKERFILE),
                "--volume", f"{wheels}:/wheels:ro", "--volume", f"{offline}:/etc/pip.conf:ro",
                "--tag", _IMAGE, str(dist))  # fmt: skip
        config = json.loads(buildah("inspect", "--type", "image", _IMAGE))["OCIv1"]["config"]
        root = Path(buildah("mount", buildah("from", _IMAGE)))
        yield Container(root, config)
    finally:
        buildah.remove_all()


@dataclass(frozen=True)
class Buildah:
    """buildah with a store of its own, which no other one sees."""

    folder: Path

    def __call__(self, *arguments: str) -> str:
        own = ["--root", f"{self.folder}/storage", "--runroot", f"{self.folder}/run", "--storage-driver", "vfs"]
        done = subprocess.run(
            ["buildah", *own, *arguments],
            env=os.environ | {"TMPDIR": str(self.folder)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"buildah {arguments[0]}: {done.stdout[-2000:]}{done.stderr[-3000:]}"
        return done.stdout.strip()

    def make_base(self, root: Path) -> None:
        """The image that holds these files, and nothing else."""
        empty = self("from", "scratch")
        self("add", "--quiet", empty, str(root), "/")
        self("commit", "--quiet", "--rm", empty, _BASE)

    def try_base(self) -> None:
        """Raise CannotBuild if this machine can't run a step of a build, or if Debian's packages are out of reach."""
        tried = self("from", _BASE)
        try:
            self("run", "--isolation", "chroot", tried, "--", "apt-get", "update")
        except AssertionError as error:
            raise CannotBuild(str(error)) from error
        self("rm", tried)

    def remove_all(self) -> None:
        for what in (["umount", "--all"], ["rm", "--all"], ["rmi", "--all", "--force"]):
            self(*what)
        for part in ("storage", "run"):
            shutil.rmtree(self.folder / part, ignore_errors=True)


def debian() -> Path:
    """A Debian with its own Python, made once: 280 MB in the ignored cache. Raises CannotBuild."""
    return made_once(CACHE / f"debian-{_SUITE}-python", _debootstrap)


def _debootstrap(work: Path) -> Path:
    made = work / "root"
    command = ["debootstrap", "--variant=minbase", f"--include={_PACKAGES}", _SUITE, str(made)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_MAKE_BASE_TIMEOUT_S)
    except subprocess.TimeoutExpired as error:
        raise CannotBuild(f"debootstrap: not done after {_MAKE_BASE_TIMEOUT_S} s") from error
    if done.returncode:
        raise CannotBuild(f"debootstrap: {(done.stdout + done.stderr)[-1000:]}")
    return made


def wheelhouse(dist: Path, folder: Path) -> Path:
    """The wheels that the image needs, in the versions of the lock files: no package index is asked in the build."""
    (wheel,) = dist.glob("sparklog-*.whl")
    extras = re.findall(r'"\$wheel\[([\w,]+)\]"', DOCKERFILE.read_text(encoding="utf-8"))
    pins = folder / "pins.txt"
    locks = [(ROOT / "requirements" / name).read_text(encoding="utf-8") for name in ("dev.lock", "build.lock")]
    pins.write_text(re.sub(r" \\\n +--hash=\S+", "", "".join(locks)))
    wheels = folder / "wheels"
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--wheel-dir", str(wheels)]
    subprocess.run(
        [*command, f"sparklog[{extras[0]}] @ {wheel.as_uri()}"],
        check=True,
        env=os.environ | {"PIP_CONSTRAINT": str(pins)},
    )
    return wheels
