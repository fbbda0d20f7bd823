"""How a coordinator sees stores that are lost, exchanged, silent or full: in the words of `sparklog cluster health`."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from starlette.applications import Starlette

import sparklog
from sparklog.client.bootstrap import init_cluster
from sparklog.client.cluster import Cluster
from sparklog.client.stores.store_health import check_stores
from sparklog.client.stores.store_look import StoreLook
from sparklog.coordinator.leading.service import Service, storage_failure
from sparklog.coordinator.watching.store_looks import PATIENCE_MS, StoreLooks
from sparklog.core.config.storage import METADATA_STORE
from sparklog.core.describe.cluster_findings import store_findings
from sparklog.core.errors import InvalidInput, SparklogError, StoreFull
from sparklog.core.state import ClusterState
from sparklog.core.types import EntryNumber, StoreId
from sparklog.log.cluster_stores import Stores
from sparklog.storage.keys import INCARNATION
from sparklog.wire.error_messages import error_reply
from sparklog.wire.messages import Outcome, SubmitReply
from tests.chain.chain_kit import Member, new_chain
from tests.coordinator.http.test_app import served
from tests.coordinator.looks import wait_for_looks
from tests.coordinator.shown_cluster import init_shown
from tests.coordinator.test_pages import Read, of_tag, read
from tests.coordinator.watching.test_metrics import Scraped, scraped

METADATA = StoreId(METADATA_STORE)
A, B, C = StoreId("a"), StoreId("b"), StoreId("c")
GIB = 1 << 30


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    return sparklog.connect(init_shown(tmp_path))


def looked(cluster: Cluster, looks: StoreLooks) -> ClusterState:
    state = cluster.connection.follower.catch_up().state
    looks.begin(state, 0)
    wait_for_looks()
    return state


def test_a_lost_store_and_an_exchanged_one_are_seen_in_the_words_of_health(cluster: Cluster, tmp_path: Path) -> None:
    shutil.rmtree(tmp_path / "zone-b")
    shutil.copy(tmp_path / "zone-a" / INCARNATION, tmp_path / "zone-c" / INCARNATION)
    looks = StoreLooks(cluster.connection.stores, cluster.connection.follower.store)
    state = looked(cluster, looks)
    newest = looks.newest(0)
    assert newest[A].problem == ""
    assert (newest[A].free_bytes or 0) > 0
    assert "no INCARNATION at" in newest[B].problem
    assert "another store: wanted incarnation" in newest[C].problem
    assert all("docs/replication.md, At night" in newest[store].problem for store in (B, C))
    health = {found.store: found.problems for found in check_stores(cluster.connection, state).stores}
    for store in (A, B, C):
        assert ([newest[store].problem] if newest[store].problem else []) == health[store]


def test_a_lost_place_of_the_metadata_is_seen_like_a_store(cluster: Cluster, tmp_path: Path) -> None:
    looks = StoreLooks(cluster.connection.stores, cluster.connection.follower.store)
    looked(cluster, looks)
    assert looks.newest(0)[METADATA].problem == ""
    assert (looks.newest(0)[METADATA].free_bytes or 0) > 0
    state = cluster.connection.follower.state
    (tmp_path / "prod").rename(tmp_path / "elsewhere")
    looks.begin(state, 0)
    wait_for_looks()
    assert "docs/replication.md, When the metadata is lost" in looks.newest(0)[METADATA].problem


def test_a_store_at_the_place_of_the_metadata_is_looked_at_once(tmp_path: Path) -> None:
    init_cluster(str(tmp_path / "single"))
    with sparklog.connect(str(tmp_path / "single")) as cluster:
        looks = StoreLooks(cluster.connection.stores, cluster.connection.follower.store)
        state = looked(cluster, looks)
        assert set(looks.newest(0)) == set(state.stores)


def test_a_store_that_never_answers_is_no_answer_until_it_does(cluster: Cluster) -> None:
    answers, real = threading.Event(), cluster.connection.stores

    def opened(state: ClusterState) -> Stores:
        def get(store: StoreId) -> object:
            assert store != B or answers.wait(60)
            return real(state).get(store)

        return cast(Stores, SimpleNamespace(get=get))

    looks = StoreLooks(opened, cluster.connection.follower.store)
    state = cluster.connection.follower.state
    looks.begin(state, 1_000)
    try:
        assert B not in looks.newest(1_000 + PATIENCE_MS - 1)
        assert looks.newest(1_000 + PATIENCE_MS)[B] == StoreLook("no answer in 20 seconds")
        looks.begin(state, 31_000)  # the first look is still under way: no second one is begun
        assert looks.newest(41_000)[B] == StoreLook("no answer in 40 seconds")
    finally:
        answers.set()
    wait_for_looks()
    assert looks.newest(41_000)[B].problem == ""


def test_a_hanging_check_is_forgotten_once_its_store_is_registered_again(cluster: Cluster, tmp_path: Path) -> None:
    answers, real, threads = threading.Event(), cluster.connection.stores, {}
    before = cluster.connection.follower.state.stores[B].registration

    def opened(state: ClusterState) -> Stores:
        def get(store: StoreId) -> object:
            if store == B:
                registration = state.stores[B].registration
                threads[registration] = threading.current_thread()
                assert registration != before or answers.wait(60)
            return real(state).get(store)

        return cast(Stores, SimpleNamespace(get=get))

    looks = StoreLooks(opened, cluster.connection.follower.store)
    looks.begin(cluster.connection.follower.state, 0)
    try:
        cluster.remove_store("b")
        again = cluster.add_store("b", str(tmp_path / "another"))
        looks.begin(cluster.connection.follower.catch_up().state, PATIENCE_MS)
        while again.registration not in threads:
            pass
        threads[again.registration].join(60)
        assert looks.newest(PATIENCE_MS)[B].problem == ""
    finally:
        answers.set()
    wait_for_looks()
    assert looks.newest(PATIENCE_MS)[B].problem == ""


def test_a_store_that_was_removed_is_not_shown(cluster: Cluster) -> None:
    looks = StoreLooks(cluster.connection.stores, cluster.connection.follower.store)
    looked(cluster, looks)
    assert C in looks.newest(0)
    cluster.remove_store("c")
    looked(cluster, looks)
    assert set(looks.newest(0)) == {A, B, METADATA}


def test_little_space_is_a_remark_and_very_little_is_wrong(cluster: Cluster) -> None:
    state = cluster.connection.follower.state
    assert store_findings(state, A, [], 6 * GIB).remarks == []
    (remark,) = store_findings(state, A, [], 4 * GIB).remarks
    assert remark.startswith("store a: only 4.0 GiB are free: plan for more")
    assert store_findings(state, A, [], None).wrong == store_findings(state, A, [], 4 * GIB).wrong == []
    assert store_findings(state, A, [], 204 * 1024).wrong[0].startswith("store a: only 204.0 KiB are free")
    assert "holds no replica: sparklog store remove a" in store_findings(state, A, [], 204 * 1024).wrong[0]
    cluster.create_topic("three", assignment=["abc"])
    state = cluster.connection.follower.catch_up().state
    assert "continue with the other replicas; deleting records" in store_findings(state, A, [], 204 * 1024).wrong[0]
    cluster.create_topic("alone", assignment=["a"])
    state = cluster.connection.follower.catch_up().state
    assert "but not to 1 partition with no other;" in store_findings(state, A, [], 204 * 1024).wrong[0]
    cluster.fence_store("a")
    state = cluster.connection.follower.catch_up().state
    found = store_findings(state, A, ["broken"], 204 * 1024)
    assert (found.wrong, len(found.remarks)) == ([], 2)  # nobody counts on a fenced store


def test_the_page_and_the_metrics_of_a_coordinator_show_them() -> None:
    async def work(service: Service, app: Starlette) -> tuple[Read, Read, Scraped]:
        before = await read(app, "/")
        service.look_at_stores()
        wait_for_looks()
        return before, await read(app, "/"), await scraped(app)

    chain: Member = new_chain()  # no store of it is marked
    before, page, metrics = served(chain, work)
    assert "All is well" in before.text
    assert "1 thing is wrong" in page.text
    assert "wrong store a: nothing there: no INCARNATION at memory:" in page.text
    assert next(attributes["class"] for attributes in of_tag(page, "section")) == "health bad"
    assert metrics["sparklog_store_up", ("a",)] == 0


def reply(*errors: SparklogError | None) -> SubmitReply:
    outcomes = tuple(Outcome(error=None if error is None else error_reply(error)) for error in errors)
    return SubmitReply(EntryNumber(0), outcomes)


def test_a_write_that_storage_refused_is_shown_until_one_lands() -> None:
    full, wrong, before = StoreFull("no space"), InvalidInput("wrong itself"), "STORE_FULL: before"
    assert storage_failure(reply(full), "") == storage_failure(reply(wrong, full), before) == "STORE_FULL: no space"
    assert storage_failure(reply(full, None), before) == storage_failure(reply(None), before) == ""
    assert storage_failure(reply(wrong), before) == storage_failure(reply(), before) == before

    async def work(service: Service, app: Starlette) -> tuple[Read, Read]:
        service.activity.storage_failure = "STORE_FULL: no space"
        before = await read(app, "/")
        service.activity.storage_failure = ""
        return before, await read(app, "/")

    before, after = served(new_chain(), work)
    assert "the newest write failed: STORE_FULL: no space" in before.text
    assert "All is well" in after.text
