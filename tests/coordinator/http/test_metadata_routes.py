"""The metadata over HTTP: what is served and what is refused, and that it reads as the store itself does."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from urllib.parse import urlencode

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.applications import Starlette

from sparklog.chain.follow.follower import Follower
from sparklog.coordinator.http.metadata_routes import KeptObjects, metadata_routes
from sparklog.coordinator.leading.reader_threads import ReaderThreads
from sparklog.core.config.storage import StorageSettings
from sparklog.core.errors import Damaged, InconsistentClusterId, InvalidInput, KeyNotFound, SparklogError
from sparklog.storage.http.calls import Calls
from sparklog.storage.http.coordinator_addresses import Coordinators
from sparklog.storage.http.store import HttpStore
from sparklog.storage.keys import entry_key, void_key
from sparklog.storage.memory import MemoryStore
from sparklog.wire.error_messages import ErrorReply
from sparklog.wire.metadata_messages import CHAIN_HEADER, METADATA, POSITION_HEADER, MetadataKeys
from tests.chain.chain_kit import Member, let_block_go, member, new_chain, small_blocks
from tests.coordinator.asgi import Answer, request
from tests.coordinator.served_coordinator import served_coordinator
from tests.core.state_contents import contents

ENTRY_1 = entry_key(1)


@pytest.fixture
def chain() -> Member:
    return new_chain()


def app(chain: Member, waiting_max: int = 100) -> Starlette:
    return Starlette(routes=metadata_routes(ReaderThreads(chain.follower, waiting_max)))


def get(chain: Member, path: str, headers: dict[str, str] | None = None, **fields: str) -> Answer:
    return asyncio.run(request(app(chain), "GET", path, headers=headers, query=urlencode(fields)))


def error_in(answer: Answer) -> tuple[int, str]:
    return answer.status, msgspec.msgpack.decode(answer.body, type=ErrorReply).code


def test_an_object_comes_back_with_the_cluster_and_the_position(chain: Member) -> None:
    answer = get(chain, f"/v1/{ENTRY_1}")
    assert (answer.status, answer.body) == (200, bytes(chain.store.inner.get(ENTRY_1)))
    assert (answer.headers[CHAIN_HEADER], answer.headers[POSITION_HEADER]) == ("c" * 32, "1")


def test_a_range_of_bytes(chain: Member) -> None:
    whole = bytes(chain.store.inner.get(ENTRY_1))
    answer = get(chain, f"/v1/{ENTRY_1}", {"range": "bytes=2-5"})
    assert (answer.status, answer.body) == (206, whole[2:6])
    assert answer.headers["content-range"] == f"bytes 2-5/{len(whole)}"
    for wanted, code in (
        ("bytes=5-2", "OFFSET_OUT_OF_RANGE"),
        (f"bytes=0-{len(whole)}", "OFFSET_OUT_OF_RANGE"),
        ("bytes=0-", "INVALID_REQUEST"),
        ("bytes=0-1,3-4", "INVALID_REQUEST"),
        ("bytes=0-" + "9" * 40, "INVALID_REQUEST"),
    ):
        assert error_in(get(chain, f"/v1/{ENTRY_1}", {"range": wanted})) == (400, code)


def test_keys_are_listed_a_page_at_a_time(chain: Member) -> None:
    answer = get(chain, METADATA, prefix="meta/log/", limit="1")
    page = msgspec.msgpack.decode(answer.body, type=MetadataKeys)
    assert ([stored.key for stored in page.keys], page.more, page.chain_id) == ([entry_key(0)], True, "c" * 32)
    answer = get(chain, METADATA, prefix="meta/", after=entry_key(0), limit="2")
    page = msgspec.msgpack.decode(answer.body, type=MetadataKeys)
    assert ([stored.key for stored in page.keys], page.more) == ([ENTRY_1], False)


@pytest.mark.parametrize(
    "path",
    [
        "/v1/meta/../INCARNATION",
        "/v1/meta/..%2FINCARNATION",
        "/v1/meta/%2e%2e/INCARNATION",
        "/v1/meta//log",
        "/v1/meta/log/",
        "/v1/meta/.tmp/x",
        "/v1/meta/log%2F" + ENTRY_1.removeprefix("meta/log/"),
        "/v1/meta/log\\x",
        "/v1/meta/" + "x" * 2_000,
        "/v1/meta/log/\x00",
        "/v1/meta/ä",
    ],
)
def test_other_keys_are_refused(chain: Member, path: str) -> None:
    chain.store.inner.put_if_absent("INCARNATION", b"secret")
    assert error_in(get(chain, path)) == (400, "INVALID_REQUEST")


@pytest.mark.parametrize(
    "fields",
    [
        {"prefix": ""},
        {"prefix": "append/"},
        {"prefix": "met"},
        {"prefix": "meta"},
        {"prefix": "meta/../append/"},
        {"after": "../x"},
        {"limit": "0"},
        {"limit": "1001"},
        {"limit": "-1"},
        {"limit": "1e3"},
        {"limit": "٣"},
        {"limit": "9" * 5_000},
    ],
)
def test_other_listings_are_refused(chain: Member, fields: dict[str, str]) -> None:
    assert error_in(get(chain, METADATA, **fields)) == (400, "INVALID_REQUEST")


def test_a_request_for_another_cluster_is_refused(chain: Member) -> None:
    for path in (f"/v1/{ENTRY_1}", METADATA):
        assert error_in(get(chain, path, {CHAIN_HEADER: "e" * 32})) == (409, "INCONSISTENT_CLUSTER_ID")


def test_more_reads_than_may_wait_are_refused(chain: Member) -> None:
    answer = asyncio.run(request(app(chain, 0), "GET", f"/v1/{ENTRY_1}"))
    assert error_in(answer) == (503, "COORDINATOR_NOT_AVAILABLE")


# ---- what is kept in memory -----------------------------------------------------------------------------


def test_an_entry_is_read_from_the_store_once(chain: Member) -> None:
    async def twice() -> list[bytes]:
        served = app(chain)
        return [(await request(served, "GET", f"/v1/{ENTRY_1}")).body for _ in range(2)]

    chain.store.calls.clear()
    first, second = asyncio.run(twice())
    assert (first, len(chain.store.calls)) == (second, 1)


# M: N-02
@pytest.mark.parametrize("key", [entry_key(2), void_key(0)])
def test_a_key_that_was_absent_is_looked_for_again(chain: Member, key: str) -> None:
    async def before_and_after() -> tuple[Answer, Answer]:
        served = app(chain)
        before = await request(served, "GET", f"/v1/{key}")
        chain.store.inner.put_if_absent(key, b"there")
        return before, await request(served, "GET", f"/v1/{key}")

    before, after = asyncio.run(before_and_after())
    assert error_in(before) == (404, "KEY_NOT_FOUND")
    assert (after.status, after.body) == (200, b"there")


def test_what_may_be_deleted_is_not_kept(chain: Member) -> None:
    store = chain.store.inner
    objects = KeptObjects(store)
    for key in ("meta/snapshot/1", "meta/chunks/1", "meta/log/1"):
        store.put_if_absent(key, b"x")
        objects.get(key)
    assert [objects.kept(key) for key in ("meta/snapshot/1", "meta/chunks/1", "meta/log/1")] == [None, None, b"x"]


def test_the_memory_for_entries_is_bounded(chain: Member) -> None:
    objects = KeptObjects(chain.store.inner, most_bytes=1_000)
    for number in range(10):
        chain.store.inner.put_if_absent(f"meta/log/{number}", bytes(300))
        objects.get(f"meta/log/{number}")
        objects.kept("meta/log/0")  # one that is used stays
    kept = [number for number in range(10) if objects.kept(f"meta/log/{number}") is not None]
    assert kept == [0, 8, 9]
    chain.store.inner.put_if_absent("meta/log/large", bytes(1_001))
    assert (len(objects.get("meta/log/large")), objects.kept("meta/log/large")) == (1_001, None)


# ---- the adapter reads as the store does -----------------------------------------------------------------

_parts = st.text("-.0a_", min_size=1, max_size=3).filter(lambda part: not part.startswith("."))
_keys = st.lists(_parts, min_size=1, max_size=3).map(lambda parts: "/".join(["meta", *parts]))


@pytest.fixture(scope="module")
def stores() -> Iterator[tuple[MemoryStore, HttpStore]]:
    """A store, and the same one through HTTP."""
    chain = new_chain()
    assert isinstance(chain.store.inner, MemoryStore)
    with served_coordinator(chain.store.url, leads=False) as coordinator:
        coordinators = Coordinators(coordinator.address, Calls(StorageSettings))
        coordinators.chain_id = "c" * 32
        yield chain.store.inner, HttpStore(coordinators)


@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.dictionaries(_keys, st.binary(max_size=20), max_size=4), _keys, st.tuples(*[st.integers(0, 25)] * 2))
def test_it_reads_as_the_store_itself(
    stores: tuple[MemoryStore, HttpStore], objects: dict[str, bytes], key: str, ends: tuple[int, int]
) -> None:
    direct, through_http = stores
    for name, body in objects.items():
        direct.put_if_absent(name, body)
    try:
        assert list(through_http.list_keys("meta/")) == list(direct.list_keys("meta/"))
        assert list(through_http.list_keys(key)) == list(direct.list_keys(key))
        for prefix in ("meta/", f"{key}/", f"{key.rpartition('/')[0]}/"):
            assert through_http.first_key_after(prefix, key) == direct.first_key_after(prefix, key)
        for name in (key, *objects):
            for read in (
                lambda store, name=name: bytes(store.get(name)),
                lambda store, name=name: store.size(name),
                lambda store, name=name: [bytes(each) for each in store.get_ranges(name, [(min(ends), max(ends))])],
            ):
                assert came_of(read, through_http) == came_of(read, direct)
    finally:
        for name in objects:
            direct.delete(name)


def came_of(read: object, store: object) -> object:
    try:
        return read(store)  # type: ignore[operator]
    except SparklogError as error:
        return error.code


def test_many_keys_come_in_pages(stores: tuple[MemoryStore, HttpStore], monkeypatch: pytest.MonkeyPatch) -> None:
    direct, through_http = stores
    monkeypatch.setattr("sparklog.storage.http.store.MOST_KEYS", 3)
    for number in range(10):
        direct.put_if_absent(f"meta/pages/{number}", b"")
    assert len(list(through_http.list_keys("meta/pages/"))) == 10


def test_its_errors_are_those_of_the_port(stores: tuple[MemoryStore, HttpStore]) -> None:
    _, store = stores
    with pytest.raises(KeyNotFound):
        store.get("meta/absent")
    with pytest.raises(Damaged):
        store.get_ranges(ENTRY_1, [(0, 1_000_000)])
    with pytest.raises(InvalidInput, match="serve keys that begin with meta/"):
        store.get("INCARNATION")
    with pytest.raises(InvalidInput):
        store.first_key_after("meta/log", "")
    assert store.free_bytes() is None


def test_it_follows_the_chain_of_its_own_cluster_only(stores: tuple[MemoryStore, HttpStore]) -> None:
    _, store = stores
    other = Coordinators(store.url, Calls(StorageSettings))
    other.chain_id = "e" * 32
    with pytest.raises(InconsistentClusterId):
        HttpStore(other).get(ENTRY_1)
    assert member(store).follower.state.chain_id == "c" * 32


# M: S-03 N-02
def test_a_client_far_behind_goes_on_from_a_snapshot_where_entries_were_deleted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    small_blocks(monkeypatch)
    writer = new_chain()
    with served_coordinator(writer.store.url, leads=False) as coordinator:
        coordinators = Coordinators(coordinator.address, Calls(StorageSettings))
        coordinators.chain_id = "c" * 32
        over_http = HttpStore(coordinators)
        client = Follower(over_http)
        client.open()
        let_block_go(writer, 0)
        let_block_go(writer, 1)
        with pytest.raises(KeyNotFound):
            over_http.get(entry_key(client.head.n + 1))
        client.catch_up()
    assert client.head.n == writer.follower.head.n
    assert contents(client.state) == contents(writer.follower.state)
