"""A store's server is killed (SIGKILL) in the middle of a commit and started again: the commit lands once.

With --campaign S3 dies at every request of an append, not only at that of its commit, and before it has carried it out.

`tests/spark/test_on_stores.py` has Spark writes during such a death.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator

import pytest

from sparklog.client.cluster import connect
from sparklog.core.errors import Landed
from sparklog.storage.hdfs.store import HdfsStore
from sparklog.storage.s3.client import forget_clients
from tests.faults.modelled_log import ModelledLog
from tests.servers.fault_proxy import FaultProxy
from tests.servers.fault_proxy_rules import Fault, ReplyLost, Request
from tests.servers.hadoop import DATA_NODES, NAME_NODE, Hadoop
from tests.servers.s3_servers import S3Server

pytestmark = pytest.mark.slow

PATIENT_MS = 120_000
ENTRY = "/meta/log/"


class Death:
    """Kills a server once, in the calling thread, and starts it again in another thread."""

    def __init__(self, kill: Callable[[], None], restart: Callable[[], None]) -> None:
        self._kill = kill
        self._restarting = threading.Thread(target=restart)
        self.came = False

    def __call__(self) -> None:
        if not self.came:
            self.came = True
            self._kill()
            self._restarting.start()

    def is_over(self) -> None:
        """Return when the server is back."""
        assert self.came
        self._restarting.join()


# ---- S3 -------------------------------------------------------------------------------------------


@pytest.fixture
def proxy(s3proxy: S3Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultProxy]:
    with FaultProxy(s3proxy.endpoint_url) as found:
        for name, value in {**s3proxy.variables, "AWS_ENDPOINT_URL": found.url}.items():
            monkeypatch.setenv(name, value)
        yield found
        forget_clients()


# M: F-01 (kills)
@pytest.mark.parametrize(
    "applied",
    [pytest.param(False, marks=pytest.mark.campaign), True],
    ids=["before it is answered", "once it was applied"],
)
def test_an_append_during_which_the_s3_server_dies_is_there_once(
    s3proxy: S3Server, proxy: FaultProxy, applied: bool, request: pytest.FixtureRequest
) -> None:
    log = ModelledLog.create(f"s3://{s3proxy.new_bucket()}/log")
    with connect(log.url) as writer:
        proxy.forget()
        assert log.append(writer, PATIENT_MS) is None
        kinds = [(each.method, ENTRY in each.path) for each in proxy.requests]
        every = range(len(kinds)) if request.config.getoption("--campaign") else [kinds.index(("PUT", True))]
        for at in every:
            death = Death(s3proxy.kill, s3proxy.restart)
            proxy.forget()
            if applied:
                proxy.plan(ReplyLost(), skip=at)
            proxy.plan(Fault(), lambda asked, at=at, death=death: _dies(death, asked, at + 1 + applied))
            error = log.append(writer, PATIENT_MS)
            death.is_over()
            proxy.clear()
            if error is not None:  # a read gives up sooner than a commit; nothing of the commit has been sent by then
                assert kinds[at] != ("PUT", True), f"{error!r}\n" + "\n".join(map(str, proxy.requests))
                assert (error.landed, error.retriable) == (Landed.NO, True)
            log.check()
            assert log.append(writer, PATIENT_MS) is None
    with connect(log.url) as anew:
        log.check_all(anew)


def _dies(death: Death, asked: Request, number: int) -> bool:
    """The server dies when request `number` arrives; the proxy itself spoils nothing."""
    if asked.number == number:
        death()
    return False


# ---- HDFS -----------------------------------------------------------------------------------------


@pytest.fixture
def mended(hadoop: Hadoop) -> Iterator[Hadoop]:
    yield hadoop
    hadoop.mend()


# M: F-01 (kills)
@pytest.mark.parametrize(
    ("moment", "node"),
    [
        ("before", NAME_NODE),
        pytest.param("after", DATA_NODES[0], marks=pytest.mark.campaign),
        pytest.param("after", NAME_NODE, marks=pytest.mark.campaign),
        pytest.param("before", DATA_NODES[0], marks=pytest.mark.campaign),
    ],
)
def test_an_append_during_which_a_node_of_hdfs_dies_is_there_once(
    mended: Hadoop, node: str, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = ModelledLog.create(f"{mended.url}/{uuid.uuid4().hex}")
    death = Death(lambda: mended.kill(node), lambda: mended.restart(node))
    put = HdfsStore.put_if_absent

    def put_around(self: HdfsStore, key: str, body: bytes) -> None:
        if key.startswith(ENTRY.lstrip("/")) and moment == "before":
            death()
        put(self, key, body)
        if key.startswith(ENTRY.lstrip("/")) and moment == "after":
            death()

    with connect(log.url) as writer:
        assert log.append(writer, PATIENT_MS) is None
        monkeypatch.setattr(HdfsStore, "put_if_absent", put_around)
        error = log.append(writer, PATIENT_MS)
        death.is_over()
        assert error is None
        log.check()
        assert log.append(writer, PATIENT_MS) is None
    with connect(log.url) as anew:
        log.check_all(anew)
