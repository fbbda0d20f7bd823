"""JARs of test servers come once, or it is said why not."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest

from tests.servers import maven
from tests.servers.made_once import CannotFetch
from tests.servers.maven import fetch_jars

COORDINATES = ["group:server:1.0", "group:other:2.0:all"]


@pytest.fixture
def downloads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Sequence[str]]:
    """The downloads that are asked for; each brings one JAR."""
    asked: list[Sequence[str]] = []

    def download(coordinates: Sequence[str], without: Sequence[str], work: Path) -> Path:
        asked.append(coordinates)
        jars = work / "jars"
        jars.mkdir()
        (jars / "server.jar").touch()
        return jars

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
    assert {path.suffix for path in tmp_path.iterdir()} == {".lock", ".failed"}


def test_a_classifier_asks_for_one_file_and_none_brings_what_is_needed() -> None:
    whole, alone = (maven._dependency(coordinate) for coordinate in COORDINATES)
    assert 'rev="1.0"' in whole
    assert "transitive" not in whole
    assert 'm:classifier="all"' in alone
    assert 'transitive="false"' in alone


class _StalledOnce(BaseHTTPRequestHandler):
    """Modules without a need; the first time that a JAR is asked for, half of it comes and then nothing."""

    asked: ClassVar[list[str]]

    def do_GET(self) -> None:
        artifact = self.path.split("/")[2]
        body = b"x" * 100_000
        if self.path.endswith(".pom"):
            named = f"<groupId>group</groupId><artifactId>{artifact}</artifactId><version>1.0</version>"
            body = f"<project><modelVersion>4.0.0</modelVersion>{named}</project>".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "HEAD":
            return
        self.asked.append(self.path)
        if self.path.endswith("stalled-1.0.jar") and self.asked.count(self.path) == 1:
            self.wfile.write(body[:50_000])
            self.rfile.read()  # until the client gives up
        else:
            self.wfile.write(body)

    def do_HEAD(self) -> None:
        self.do_GET()

    def log_message(self, format: str, *args: object) -> None:
        pass


def test_a_connection_that_says_nothing_any_more_is_given_up_and_what_came_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    handler = type("Handler", (_StalledOnce,), {"asked": asked})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever).start()
        here = f'<ibiblio root="http://127.0.0.1:{server.server_port}/"'
        settings = maven._SETTINGS.replace("<ibiblio", here).replace('readTimeout="30000"', 'readTimeout="2000"')
        monkeypatch.setattr(maven, "CACHE", tmp_path)
        monkeypatch.setattr(maven, "_SETTINGS", settings)
        try:
            jars = fetch_jars("server", ["group:stalled:1.0", "group:whole:1.0"])
        finally:
            server.shutdown()
    assert [(jar.name, jar.stat().st_size) for jar in jars] == [
        ("stalled-1.0.jar", 100_000),
        ("whole-1.0.jar", 100_000),
    ]
    assert [asked.count(f"/group/{name}/1.0/{name}-1.0.jar") for name in ("stalled", "whole")] == [2, 1]
