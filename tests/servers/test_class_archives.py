"""An archive of classes is read by the JVMs that may, and nobody else notices it."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.servers import class_archives
from tests.servers.class_archives import new_archive, short_lived
from tests.servers.maven import ivy_jar, java

MAIN = "org.apache.ivy.Main"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr(class_archives, "CACHE", tmp_path / "cache")
    class_archives._archive.cache_clear()
    yield tmp_path / "cache"
    class_archives._archive.cache_clear()


def ran(options: Sequence[str], *class_path: Path) -> str:
    """The stdout of a JVM with these options."""
    command = [java(), *options, "-cp", ":".join(map(str, class_path)), MAIN, "-version"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def test_an_archive_is_read_once_it_is_written_but_for_a_folder_before_its_jars(cache: Path, tmp_path: Path) -> None:
    jars = [ivy_jar()]
    without = ran(short_lived("ivy", jars), *jars)
    with new_archive("ivy", jars) as options:
        assert options is not None
        assert ran(options, *jars) == without
    with new_archive("ivy", jars) as options:
        assert options is None
    assert [file.suffix for file in sorted(cache.iterdir())] == [".lock", ".jsa"]

    loud = [*short_lived("ivy", jars), "-Xlog:class+load"]
    assert f"{MAIN} source: shared objects file (top)" in ran(loud, *jars)
    assert f"{MAIN} source: shared objects file (top)" in ran(loud, *jars, tmp_path)
    assert f"{MAIN} source: file:" in ran(loud, tmp_path, *jars)
    assert ran(short_lived("ivy", jars), tmp_path, *jars) == without


def test_a_jvm_that_writes_none_leaves_nothing(cache: Path) -> None:
    jars = [ivy_jar()]
    with new_archive("ivy", jars):
        pass
    assert [file.suffix for file in cache.iterdir()] == [".lock"]
    assert short_lived("ivy", jars) == list(class_archives.SHORT_LIVED_JVM)


def test_other_jars_have_another_archive(cache: Path, tmp_path: Path) -> None:
    jar = tmp_path / "a.jar"
    jar.write_bytes(b"one")
    with new_archive("a", [jar]):
        pass
    jar.write_bytes(b"another")
    class_archives._archive.cache_clear()  # a process looks once
    with new_archive("a", [jar]):
        pass
    assert len(list(cache.iterdir())) == 2
