"""The artefacts are the same bytes wherever they are built, and complete."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

import sparklog
from tests.clusters.artefacts import ROOT, build

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1_200)]


def digests(folder: Path) -> dict[str, str]:
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in folder.iterdir()}


def test_two_folders_give_the_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The copy lies elsewhere, is a day older, was made under another umask, and is no clone."""
    build(ROOT, tmp_path / "clone", few_packages=True)
    copy = tmp_path / "elsewhere"
    for part in ("sparklog", "pyspark_sparklog", "jobs", "jvm", "conf", "scripts"):
        shutil.copytree(ROOT / part, copy / part, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    for part in ("LICENSE", "README.md", "CHANGELOG.md", "pyproject.toml", ".gitignore"):
        shutil.copy(ROOT / part, copy / part)
    for file in (file for file in copy.rglob("*") if not file.is_symlink()):
        file.chmod(0o700 if file.is_dir() else 0o600)
        os.utime(file, (1_700_000_000, 1_700_000_000))
    made = subprocess.run(["git", "log", "-1", "--format=%ct"], cwd=ROOT, check=True, capture_output=True, text=True)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", made.stdout)
    build(copy, tmp_path / "copy", few_packages=True)
    assert digests(tmp_path / "copy") == digests(tmp_path / "clone")
    assert len(digests(tmp_path / "copy")) == 4


def test_files_that_are_not_in_the_commit_are_refused(tmp_path: Path) -> None:
    (tmp_path / "scripts").mkdir()
    shutil.copy(ROOT / "scripts/dist.py", tmp_path / "scripts")
    (tmp_path / "sparklog").mkdir()
    (tmp_path / "sparklog/.env").write_text("KEY=secret")
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    command = [sys.executable, "scripts/dist.py", "--to", str(tmp_path / "dist")]
    ran = subprocess.run(command, cwd=tmp_path, check=False, capture_output=True, text=True)
    assert ran.returncode == 2
    assert "?? sparklog/.env" in ran.stderr
    assert not (tmp_path / "dist").exists()


def test_a_time_before_zip_files_begin_is_their_first(tmp_path: Path) -> None:
    code = "import sys, pathlib, dist; dist.write_zip(pathlib.Path(sys.argv[1]), {'a': b''}, 0)"
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "a.zip")], cwd=ROOT / "scripts", check=True)
    assert zipfile.ZipFile(tmp_path / "a.zip").getinfo("a").date_time[0] == 1980


def test_the_packages_hold_what_they_should(dist: Path) -> None:
    (wheel,) = dist.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    packages = {name.split("/")[0] for name in names}
    assert packages == {"sparklog", "pyspark_sparklog", f"sparklog-{sparklog.__version__}.dist-info"}
    assert "sparklog/py.typed" in names
    (source,) = dist.glob(f"sparklog-{sparklog.__version__}.tar.gz")
    with tarfile.open(source) as archive:
        inside = {name.split("/")[1] for name in archive.getnames()}
    assert {"sparklog", "pyspark_sparklog", "jobs", "conf", "LICENSE", "README.md", "CHANGELOG.md"} <= inside
    assert "tests" not in inside
    (jobs,) = dist.glob("*.zip")
    assert {f"jobs/{job.name}" for job in (ROOT / "jobs").glob("*.py")} == set(zipfile.ZipFile(jobs).namelist())


def test_the_environment_runs_on_a_python_without_packages(dist: Path, tmp_path: Path) -> None:
    (packed,) = dist.glob("sparklog-environment-*.tar.gz")
    shutil.unpack_archive(packed, tmp_path / "environment", filter="data")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "bare")], check=True)
    variables = {"PATH": f"{tmp_path}/bare/bin:/usr/bin:/bin"}
    program = """if True:
        import importlib.util, pathlib, sys, s3fs, hdfs_native, sparklog.client.cluster
        assert importlib.util.find_spec("pyspark_sparklog") and not importlib.util.find_spec("pyspark")
        places = [module.__file__ for module in sys.modules.values() if getattr(module, "__file__", None)]
        print({place.split("site-packages")[0] for place in places if "site-packages" in place})
        """
    ran = subprocess.run(
        ["environment/bin/python", "-c", program], cwd=tmp_path, env=variables, check=True, stdout=subprocess.PIPE
    )
    assert ran.stdout == b"set()\n"
    subprocess.run(["environment/bin/python", "-m", "sparklog", "--version"], cwd=tmp_path, env=variables, check=True)
