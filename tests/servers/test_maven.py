"""JARs of test servers come once, or it is said why not."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.servers import maven
from tests.servers.maven import CannotFetch, fetch_jars

COORDINATES = ["group:server:1.0", "group:other:2.0:all"]


@pytest.fixture
def downloads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Sequence[str]]:
    """The downloads that are asked for; each brings one JAR."""
    asked: list[Sequence[str]] = []

    def download(coordinates: Sequence[str], without: Sequence[str], folder: Path) -> None:
        asked.append(coordinates)
        whole = folder.with_suffix(".whole")  # as the real one: the folder is there when it is complete
        whole.mkdir()
        (whole / "server.jar").touch()
        whole.rename(folder)

    monkeypatch.setattr(maven, "CACHE", tmp_path / "cache")
    monkeypatch.setattr(maven, "_download", download)
    return asked


def test_what_is_wanted_by_several_at_once_is_downloaded_once(downloads: list[Sequence[str]]) -> None:
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: fetch_jars("server", COORDINATES), range(16)))
    assert [[jar.name for jar in jars] for jars in found] == [["server.jar"]] * 16
    assert downloads == [COORDINATES]


def test_other_coordinates_are_another_download(downloads: list[Sequence[str]]) -> None:
    fetch_jars("server", COORDINATES)
    fetch_jars("server", COORDINATES[::-1])
    fetch_jars("server", COORDINATES[:1])
    assert downloads == [COORDINATES, COORDINATES[:1]]


def test_a_machine_without_java_is_told_so_and_keeps_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maven, "CACHE", tmp_path)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(CannotFetch, match="Java"):
        fetch_jars("server", COORDINATES)
    assert [path.name for path in tmp_path.iterdir()] == [".server.lock"]


def test_a_classifier_asks_for_one_file_and_none_brings_what_is_needed() -> None:
    whole, alone = (maven._dependency(coordinate) for coordinate in COORDINATES)
    assert 'rev="1.0"' in whole
    assert "transitive" not in whole
    assert 'm:classifier="all"' in alone
    assert 'transitive="false"' in alone
