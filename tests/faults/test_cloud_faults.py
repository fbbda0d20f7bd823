"""Every request of a store in Google Cloud Storage or Azure fails in every way that a network or server can fail.

A write must succeed, or raise an error that says correctly whether it landed. The emulators stand behind a proxy that
spoils requests.
"""

from __future__ import annotations

import itertools
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass

import pytest

from sparklog.core.errors import (
    InvalidInput,
    KeyExists,
    KeyNotFound,
    Landed,
    OutcomeUnknown,
    SparklogError,
    StoreAccessDenied,
    StoreReadOnly,
    StoreUnavailable,
)
from sparklog.host.dice import new_id
from sparklog.storage.cloud.bodies import PIECE_BYTES, Body
from sparklog.storage.cloud.cloud import ObjectPart
from sparklog.storage.cloud.failures import CloudRequestFailed
from sparklog.storage.cloud.send_once import forget_clients
from sparklog.storage.cloud.store import CloudStore
from sparklog.storage.object_store import ObjectStore
from sparklog.storage.open_store import open_store
from tests.servers.cloud_servers import AzureServer, CloudServer
from tests.servers.fault_proxy import FaultProxy
from tests.servers.fault_proxy_rules import (
    Answer,
    Fault,
    HalfSentBody,
    Hang,
    ReplyLost,
    Request,
    ResetAfterBody,
    ResetBeforeBody,
    TruncatedResponse,
)
from tests.servers.local_server import free_port

pytestmark = pytest.mark.slow

HASTY_MS = 3_000  # a hang lasts a third of that, then another try follows
SMALL, LARGE = b"small", bytes(range(256)) * (PIECE_BYTES // 256) + b"more"  # one request; from a file, in blocks
BODIES = pytest.mark.parametrize("body", [SMALL, LARGE], ids=["small", "large"])

NOT_APPLIED: list[Fault] = [
    ResetBeforeBody(),
    ResetAfterBody(),
    HalfSentBody(),
    Hang(),
    *(Answer(status) for status in (500, 503, 409, 404, 429)),
    *(Answer(status) for status in (200, 201)),  # of something in between
]
APPLIED: list[Fault] = [
    ReplyLost(),
    ReplyLost(reset=True),
    TruncatedResponse(),
    Hang(applied=True),
    *(Answer(status, applied=True) for status in (500, 503, 409, 404, 412)),
]


@dataclass(frozen=True)
class Behind:
    """A store behind a proxy. `writes` tells the requests that decide whether a write lands."""

    proxy: FaultProxy
    url: str
    settings: dict[str, str]
    writes: Callable[[Request], bool]

    def store(self, **settings: str) -> ObjectStore:
        return open_store(self.url, {**self.settings, **settings})


@pytest.fixture(params=["fake_gcs", "azurite"])
def behind(request: pytest.FixtureRequest) -> Iterator[Behind]:
    server: CloudServer = request.getfixturevalue(request.param)
    with FaultProxy(server.endpoint_url) as proxy:
        if isinstance(server, AzureServer):
            settings = server.settings | {"endpoint_url": proxy.url}
            yield Behind(proxy, server.new_url(), settings, lambda each: each.method == "PUT" and not _is_block(each))
        else:
            yield Behind(proxy, server.new_url(), {"endpoint_url": proxy.url}, lambda each: each.method == "POST")
        forget_clients()


def _is_block(request: Request) -> bool:
    return "comp=block&" in f"{request.query}&"


def put(store: ObjectStore, body: bytes) -> None:
    if body is SMALL:
        store.put_if_absent("a", body)
        return
    with store.upload("a") as upload:
        upload.write(body)
        upload.publish()


def is_there(store: ObjectStore, body: bytes) -> bool:
    try:
        return bytes(store.get("a")) == body
    except KeyNotFound:
        return False


# M: F-01
@BODIES
def test_a_write_is_one_conditional_request(behind: Behind, body: bytes) -> None:
    put(behind.store(), body)
    (request,) = [each for each in behind.proxy.requests if behind.writes(each)]
    assert "ifGenerationMatch=0" in request.query or request.headers["if-none-match"] == "*"


# M: F-01
@pytest.mark.parametrize("fault", [*NOT_APPLIED, *APPLIED], ids=str)
@BODIES
def test_a_write_whose_request_is_spoilt_once_succeeds(behind: Behind, body: bytes, fault: Fault) -> None:
    behind.proxy.plan(fault, behind.writes)
    store = behind.store(timeout_ms=str(HASTY_MS if isinstance(fault, Hang) else 30_000))
    put(store, body)
    assert is_there(store, body)


# M: F-01
@pytest.mark.parametrize("fault", [*NOT_APPLIED, *APPLIED, Answer(403), Answer(403, applied=True)], ids=str)
def test_a_write_whose_requests_are_all_spoilt_says_whether_it_landed(behind: Behind, fault: Fault) -> None:
    behind.proxy.plan(fault, behind.writes, times=None)
    store = behind.store(timeout_ms="900")
    try:
        put(store, SMALL)
        landed = Landed.YES
    except SparklogError as error:
        landed = error.landed
    behind.proxy.clear()
    if landed is not Landed.UNKNOWN and not isinstance(fault, Answer):
        assert is_there(store, SMALL) == (landed is Landed.YES)
    if fault in APPLIED:
        assert landed is not Landed.NO


@pytest.mark.parametrize("lost", [ReplyLost(), Answer(503), ResetAfterBody()], ids=str)
def test_after_a_lost_answer_anothers_object_is_a_taken_key(behind: Behind, lost: Fault) -> None:
    store = behind.store()
    store.put_if_absent("a", b"another's")
    behind.proxy.plan(lost, behind.writes)
    with pytest.raises(KeyExists):
        store.put_if_absent("a", b"body")
    assert bytes(store.get("a")) == b"another's"


def test_a_refusal_after_a_lost_answer_leaves_the_outcome_unknown(behind: Behind) -> None:
    behind.proxy.plan(ReplyLost(), behind.writes)
    behind.proxy.plan(Answer(403), behind.writes, times=None)
    with pytest.raises(OutcomeUnknown):
        behind.store().put_if_absent("a", b"body")


def test_writers_and_readers_without_the_right_are_told_so(behind: Behind) -> None:
    store = behind.store()
    store.put_if_absent("a", b"body")
    behind.proxy.plan(Answer(403), times=None)
    with pytest.raises(StoreReadOnly, match="HTTP 403"):
        store.put_if_absent("b", b"body")
    for read in (store.get, store.size, lambda prefix: list(store.list_keys(prefix))):
        with pytest.raises(StoreAccessDenied, match="HTTP 403"):
            read("a")


@pytest.mark.parametrize(
    "fault",
    [ResetBeforeBody(), ReplyLost(), TruncatedResponse(), Hang(), *map(Answer, (200, 404, 429, 500, 503))],
    ids=str,
)
def test_a_read_whose_request_is_spoilt_once_gives_the_object(behind: Behind, fault: Fault) -> None:
    behind.store().put_if_absent("a/b", LARGE)
    store = behind.store(timeout_ms=str(HASTY_MS if isinstance(fault, Hang) else 30_000))
    reads: list[Callable[[], object]] = [
        lambda: bytes(store.get("a/b")) == LARGE,
        lambda: (
            [bytes(part) for part in store.get_ranges("a/b", [(3, 9), (300_000, 300_010)])]
            == [LARGE[3:9], LARGE[300_000:300_010]]
        ),
        lambda: store.size("a/b") == len(LARGE),
        lambda: [each.key for each in store.list_keys("a/")] == ["a/b"],
        lambda: store.first_key_after("a/", "a/a") == "a/b",
    ]
    for read in reads:
        behind.proxy.plan(fault, lambda request: request.method in ("GET", "HEAD"))
        assert read()


def test_an_object_that_is_replaced_during_a_read_is_not_mixed_with_the_new_one(
    behind: Behind, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = behind.store()
    put(store, LARGE)
    read, reads = store._read, itertools.count()

    def replaced(key: str, start: int, end: int) -> ObjectPart:
        if next(reads) == 1:
            store.delete("a")
            put(store, LARGE[::-1])
        return read(key, start, end)

    monkeypatch.setattr(store, "_read", replaced)
    with pytest.raises(StoreUnavailable, match="another object took its place"):
        store.get("a")


def test_a_delete_whose_answer_is_lost_is_sent_again(behind: Behind) -> None:
    store = behind.store()
    store.put_if_absent("a", b"body")
    behind.proxy.plan(ReplyLost(), lambda request: request.method == "DELETE")
    store.delete("a")
    assert list(store.list_keys("")) == []


@pytest.mark.parametrize("fault", [*NOT_APPLIED, *APPLIED, Answer(408), Answer(403), Answer(416)], ids=str)
def test_no_library_repeats_a_request(behind: Behind, fault: Fault) -> None:
    """`conditional_write.py` alone does that. A read that found nothing may look at the metadata, which is another."""
    store = behind.store(timeout_ms=str(HASTY_MS))
    assert isinstance(store, CloudStore)
    store.put_if_absent("a", SMALL)
    cloud, name = store._cloud, store._full("a")
    behind.proxy.plan(fault, times=None)
    for call in (
        lambda: cloud.put(name, new_id(), Body.of(SMALL), 1),
        lambda: cloud.read(name, 0, 100, 1),
        lambda: cloud.size(name, 1),
        lambda: cloud.list_page("cluster/", 1, token=None),
        lambda: cloud.delete(name, 1),
    ):
        before = len(behind.proxy.requests)
        with suppress(CloudRequestFailed):
            call()
        sent = [(each.method, each.path, each.query) for each in behind.proxy.requests[before:]]
        assert 1 <= len(sent) == len(set(sent))


def test_a_write_whose_blocks_are_all_spoilt_certainly_did_not_land(azurite: AzureServer) -> None:
    with FaultProxy(azurite.endpoint_url) as proxy:
        proxy.plan(ReplyLost(), _is_block, times=None)
        store = open_store(azurite.new_url(), {**azurite.settings, "endpoint_url": proxy.url, "timeout_ms": "300"})
        with pytest.raises(StoreUnavailable) as failed:
            put(store, LARGE)
    assert failed.value.landed is Landed.NO
    forget_clients()


def test_an_entry_of_the_chain_leaves_no_blocks_behind(azurite: AzureServer) -> None:
    with FaultProxy(azurite.endpoint_url) as proxy:
        store = open_store(azurite.new_url(), {**azurite.settings, "endpoint_url": proxy.url})
        put(store, LARGE[: 5 << 20])  # more than the largest commit of offsets
        assert not any(map(_is_block, proxy.requests))
    forget_clients()


def test_a_server_that_answers_nothing_ends_each_call_at_its_deadline(behind: Behind) -> None:
    behind.proxy.plan(Hang(), times=None)
    store = behind.store(timeout_ms="600")
    with pytest.raises(OutcomeUnknown):
        store.put_if_absent("a", b"body")
    for read in (store.get, store.size, lambda prefix: list(store.list_keys(prefix))):
        with pytest.raises(StoreUnavailable):
            read("a")


def test_a_server_that_is_not_there_was_certainly_not_written_to(behind: Behind) -> None:
    gone = f"http://127.0.0.1:{free_port()}"
    settings = {name: value.replace(behind.proxy.url, gone) for name, value in behind.settings.items()}
    store = open_store(behind.url, {**settings, "timeout_ms": "20000"})
    with pytest.raises(StoreUnavailable, match="Connection refused") as failed:
        store.put_if_absent("a", b"body")
    assert failed.value.landed is Landed.NO


def test_a_bucket_that_is_not_there_is_named(behind: Behind) -> None:
    scheme = behind.url.partition("://")[0]
    store = open_store(f"{scheme}://no-such-{uuid.uuid4().hex}/cluster", behind.settings)
    for call in (lambda: store.put_if_absent("a", b"body"), lambda: list(store.list_keys(""))):
        with pytest.raises(InvalidInput, match=r"did not find the .* 'no-such-"):
            call()


def test_a_body_may_hold_the_lines_by_which_libraries_separate_parts(behind: Behind) -> None:
    store = behind.store()
    for key, body in (("a", b"begin\n--==0==--\nend"), ("b", b"begin\r\n--==0==\r\n\r\nend")):
        store.put_if_absent(key, body)
        assert bytes(store.get(key)) == body


FORKING = """
import os, sys
from sparklog.storage.open_store import open_store
store = open_store(sys.argv[1], dict(each.split("=", 1) for each in sys.argv[2:]))
store.put_if_absent("a", b"parent's")
child = os.fork()
if not child:
    connected = []
    sys.addaudithook(lambda event, _: connected.append(event) if event == "socket.connect" else None)
    assert bytes(store.get("a")) == b"parent's"
    assert connected, "it used a connection of its parent"
    store.put_if_absent("b", b"child's")
    sys.exit()  # and so close what is open
assert os.waitpid(child, 0)[1] == 0
assert bytes(store.get("b")) == b"child's"
"""


def test_a_forked_process_reads_and_writes_with_connections_of_its_own_and_ends(behind: Behind) -> None:
    settings = [f"{name}={value}" for name, value in behind.settings.items()]
    subprocess.run([sys.executable, "-c", FORKING, behind.url, *settings], check=True, timeout=60)
