"""Each failure is seen where docs/failures.md says, and what it says mends it.

With --campaign, and `-s` prints how long each took; `make failures` also writes it into the page. One cluster for all:
each test leaves it healthy.
"""

from __future__ import annotations

import html
import json
import os
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.chaos.chaos_cluster import DISKS, ChaosCluster, Seen
from tests.chaos.failures import FAILURES, Failure
from tests.chaos.page import PAGE, RECORDING, SECONDS, page
from tests.mounts import unmount
from tests.servers.s3_servers import S3Server
from tests.servers.tcp_proxy import TcpProxy

PATIENCE_S = 120


@dataclass
class Clusters:
    """The cluster of these tests. One that a test has left broken is replaced."""

    folder: Path
    s3: S3Server
    made: int = 0
    seconds: dict[str, list[int]] = field(default_factory=dict)
    chaos: ChaosCluster | None = None
    proxy: TcpProxy | None = None

    def healthy(self) -> ChaosCluster:
        if self.chaos is None:
            self.made += 1
            self.proxy = TcpProxy().__enter__()
            host, port = self.s3.endpoint_url.rpartition("//")[2].split(":")
            self.proxy.upstream = (host, int(port))
            folder = self.folder / str(self.made)
            folder.mkdir()
            self.chaos = ChaosCluster(folder, self.proxy)
            os.environ |= {
                **self.s3.variables,
                "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self.proxy.port}",
                "SPARKLOG_TOKEN": self.chaos.token,
                "SPARKLOG_CA": self.chaos.authority.file,
            }
            self.chaos.begin(f"s3://{self.s3.new_bucket()}/c")
            until(self.chaos, is_well)
        return self.chaos

    def end(self) -> None:
        if self.chaos is not None and self.proxy is not None:
            self.chaos.end()
            self.proxy.__exit__(None, None, None)
            for disk in DISKS if self.chaos.has_disks else ():
                unmount(self.chaos.folder / disk)
        self.chaos = None


@pytest.fixture(scope="module")
def clusters(tmp_path_factory: pytest.TempPathFactory, moto: S3Server) -> Iterator[Clusters]:
    with pytest.MonkeyPatch.context() as patch:
        for name in ("SPARKLOG_TOKEN", "SPARKLOG_CA", *moto.variables):
            patch.setenv(name, "")
        running = Clusters(tmp_path_factory.mktemp("chaos"), moto)
        yield running
        running.end()
        if RECORDING in os.environ:
            SECONDS.write_text(json.dumps(json.loads(SECONDS.read_text()) | running.seconds, indent=1) + "\n")


@pytest.mark.campaign
@pytest.mark.timeout(600)
@pytest.mark.parametrize("failure", FAILURES, ids=lambda failure: failure.what.replace(" ", "-"))
def test_a_failure_is_seen_and_mended_as_documented(clusters: Clusters, failure: Failure) -> None:
    try:
        chaos = clusters.healthy()
        if failure.needs_disks and not chaos.has_disks:
            pytest.skip("this machine allows no mounts")
        failure.breaks(chaos)
        in_health_s = until(chaos, lambda seen: shows_in_health(seen, failure))
        on_page_s = until(chaos, lambda seen: shows_on_page(seen, failure))
        failure.mends(chaos)
        mended_s = until(chaos, is_well)
    except BaseException:
        clusters.end()
        raise
    clusters.seconds[failure.what] = [round(each) for each in (in_health_s, on_page_s, mended_s)]
    print(f"{failure.what}: health {in_health_s:.0f} s, page {on_page_s:.0f} s, mended {mended_s:.0f} s")


def test_the_page_of_failures_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run make failures, or make docs if only words differ"


def is_well(seen: Seen) -> bool:
    """Whether nothing is left of a failure: a coordinator looks at stores every half minute."""
    page = html.unescape(seen.page)
    return (seen.code, seen.health) == (0, "") and ("All is well" in page or "late by" in page) and "wrong" not in page


def shows_in_health(seen: Seen, failure: Failure) -> bool:
    return seen.code == failure.code and has(seen.health, failure.health)


def shows_on_page(seen: Seen, failure: Failure) -> bool:
    if failure.no_coordinator:
        return seen.page == ""
    return has(html.unescape(seen.page), failure.page) and failure.metric in seen.metrics


def has(text: str, part: str) -> bool:
    """Whether the text has this part, in which … stands for anything."""
    return re.search(".*".join(map(re.escape, part.split("…"))), text) is not None


def until(chaos: ChaosCluster, holds: Callable[[Seen], bool]) -> float:
    """Wait until this is seen. Returns the seconds that it took."""
    began_s = time.monotonic()
    while not holds(seen := chaos.look()):
        assert time.monotonic() < began_s + PATIENCE_S, seen
        time.sleep(0.2)
    return time.monotonic() - began_s
