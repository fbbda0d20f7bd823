"""The pages of a coordinator: what they show, that nothing in them is a script of somebody else, and who may ask."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from importlib.resources import files
from pathlib import Path
from typing import Any

import msgspec
import pytest
from starlette.applications import Starlette

from sparklog.chain.head import Head
from sparklog.coordinator.leading.service import Service
from sparklog.coordinator.page import views, words
from sparklog.coordinator.page.charts import HEIGHT, WIDTH, chart
from sparklog.coordinator.page.rendering import HEADERS
from sparklog.coordinator.watching.sampling import sampling, take_sample
from sparklog.core.coordination import Coordinator
from sparklog.core.records import JobRan
from sparklog.core.state import ClusterState, Store, Topic
from sparklog.core.types import PartitionIndex, StoreId, TopicId, TopicPartition
from sparklog.storage.keys import LOG
from sparklog.wire.messages import SUBMIT
from tests.chain.chain_kit import Member, append, new_chain
from tests.chain.fenced_entry import claim, write_fenced_entry
from tests.coordinator.asgi import Answer, request
from tests.coordinator.http.test_app import served, submit_request
from tests.kit.faulty_store import Fault

PAGES = ("/", "/topics", "/topics/orders", "/topics/orders/messages", "/groups", "/stores", "/chain", "/jobs")
HOSTILE = """'"><script>alert(1)<b><img src=x onerror=alert(2)>&{{ 7 * 7 }}"""


@pytest.fixture
def chain() -> Member:
    return new_chain()


class Read(HTMLParser):
    """The tags of a page with their attributes, and its text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.words += data.split()

    @property
    def text(self) -> str:
        return " ".join(self.words)


async def got(app: Starlette, path: str, **headers: str) -> Answer:
    return await request(app, "GET", path, headers={name.replace("_", "-"): value for name, value in headers.items()})


async def read(app: Starlette, path: str) -> Read:
    answer = await got(app, path)
    assert answer.status == 200, answer
    return Read(answer.body.decode())


def changed(service: Service, **changes: Any) -> ClusterState:
    """Let the service see another state, as if it had read it from the chain."""
    follower = service.follower
    state = follower.state.fork()
    state.n += 1
    for name, value in changes.items():
        setattr(state, name, value)
    follower.publish(Head(state, follower.head.entry_hash))
    return state


def of_tag(page: Read, tag: str) -> Iterator[dict[str, str | None]]:
    return (attributes for name, attributes in page.tags if name == tag)


def test_each_page_says_who_leads_and_shows_the_same_as_the_state(chain: Member) -> None:
    async def work(service: Service, app: Starlette) -> dict[str, Read]:
        await request(app, "POST", SUBMIT, [submit_request(chain, append(3))])
        return {path: await read(app, path) for path in PAGES}

    pages = served(chain, work)
    for path, page in pages.items():
        assert re.search(r"This process, \S+, leads with epoch 1\.", page.text), path
        assert [tag for tag, _ in page.tags].count("h1") == 1, path
    assert "All is well 2 partitions" not in pages["/"].text
    assert "All is well" in pages["/"].text
    assert "orders in sync 2 1 3 10 B" in pages["/"].text
    assert "0 in sync a 0 0 3 3 3 10 B a a 0" in pages["/topics/orders"].text
    assert "a - new" in pages["/stores"].text
    assert "3 records, 10 B appended to orders-0 coordinator" in pages["/chain"].text
    assert "No job has run yet." in pages["/jobs"].text


def test_pages_load_nothing_from_elsewhere_and_their_parts_are_there(chain: Member) -> None:
    async def work(service: Service, app: Starlette) -> None:
        for path in PAGES:
            answer = await got(app, path)
            assert {**answer.headers, **HEADERS} == answer.headers
            page = Read(answer.body.decode())
            assert not [attributes for _, attributes in page.tags if "style" in attributes]
            assert not [name for _, attributes in page.tags for name in attributes if name.startswith("on")]
            sources = [attributes.get("src") for attributes in of_tag(page, "script")]
            assert len(sources) == 1
            for part in [*sources, *(attributes["href"] for attributes in of_tag(page, "link"))]:
                assert part is not None
                assert part.startswith("/page/")
                answer = await got(app, part.partition("?")[0])
                assert (answer.status, answer.headers["x-content-type-options"]) == (200, "nosniff")
            for attributes in of_tag(page, "a"):
                link = str(attributes["href"])
                assert link.startswith(("/", "#")), link
                if not link.startswith("#"):
                    assert (await got(app, link.partition("?")[0].partition("#")[0])).status == 200, link

    served(chain, work)
    policy = HEADERS["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy


def test_names_and_values_of_others_are_text(chain: Member) -> None:
    async def work(service: Service, app: Starlette) -> list[tuple[str, bytes]]:
        state = changed(service)
        orders = state.topics[TopicId(1)]
        state.topics[TopicId(1)] = Topic(TopicId(1), HOSTILE, orders.partitions, {"cleanup.policy": "delete"}, 0)
        state.topic_ids[HOSTILE] = TopicId(1)
        store = state.stores[StoreId("a")]
        state.stores[StoreId("a")] = msgspec.structs.replace(store, zone=HOSTILE, url=f"file:///{HOSTILE}")
        state.jobs[HOSTILE] = JobRan(HOSTILE, 1, 2, 1, msgspec.json.encode({HOSTILE: HOSTILE}).decode())
        state.jobs["torn"] = JobRan("torn", 1, 2, 1, HOSTILE)
        state.coordinator = Coordinator(7, HOSTILE, "javascript:alert(3)")
        found = []
        for path in ("/", "/topics", f"/topics/{HOSTILE}", "/stores", "/chain", "/jobs", f"/topics/no{HOSTILE[:40]}"):
            answer = await got(app, path)
            found.append((path, answer.body))
        found.append(("find", (await asked(app, "/topics", f"find={HOSTILE}")).body))
        return found

    for path, body in served(chain, work, leads=False):
        page = Read(body.decode())
        assert "alert(1)" in body.decode(), path
        assert "{{ 7 * 7 }}" in body.decode() or path == "find" or "/topics/no" in path, path
        assert [attributes.get("src", "") for attributes in of_tag(page, "script")][1:] == [], path
        assert not list(of_tag(page, "img")), path
        assert not [
            link for attributes in of_tag(page, "a") if (link := attributes["href"] or "").startswith("javascript")
        ]


async def asked(app: Starlette, path: str, query: str) -> Answer:
    async def with_query(scope: Any, receive: Any, send: Any) -> None:
        await app({**scope, "query_string": query.encode()}, receive, send)

    return await request(with_query, "GET", path)


def test_a_standby_says_so_and_links_to_the_one_that_leads(chain: Member) -> None:
    async def work(service: Service, app: Starlette) -> tuple[Read, Read]:
        embedded = await read(app, "/")
        changed(service, coordinator=Coordinator(3, "b:1", "http://b:7400"))
        return embedded, await read(app, "/stores")

    embedded, standby = served(chain, work, leads=False)
    assert "No process coordinates the cluster at the moment" in embedded.text
    assert "This process stands by: b:1 leads with epoch 3." in standby.text
    assert "http://b:7400" in [attributes["href"] for attributes in of_tag(standby, "a")]


@pytest.mark.parametrize("url", ["~no-such-user/z", "file:///z%ff"])
def test_a_store_whose_address_can_not_be_opened_is_shown_as_it_is_registered(chain: Member, url: str) -> None:
    async def work(service: Service, app: Starlette) -> dict[str, Read]:
        state = changed(service)
        state.stores[StoreId("z")] = Store(StoreId("z"), state.next_registration, url, "f" * 32, "")
        return {path: await read(app, path) for path in PAGES}

    assert url in served(chain, work)["/stores"].text


def test_what_is_wrong_comes_first_in_words(chain: Member) -> None:
    async def work(service: Service, app: Starlette) -> tuple[Read, Read]:
        state = changed(service)
        state.jobs["roll"] = JobRan("roll", 1, 2, 3, "{}")
        for key, partition in list(state.partitions.items()):
            replication = msgspec.structs.replace(partition.replication, leader=None, isr=())
            state.partitions[key] = msgspec.structs.replace(partition, replication=replication)
        service.control.queued = service.control.queued_max
        return await read(app, "/"), await read(app, "/topics/orders")

    page, topic = served(chain, work)
    assert "3 things are wrong" in page.text
    assert (
        "topic orders: partitions 0, 1 have no leader: sparklog replica list --offline shows which stores could lead"
        in page.text
    )
    assert "job roll: 3 failed, see sparklog job status" in page.text
    assert "10 commands wait, which is queued.max.requests: further ones are refused" in page.text
    assert "orders offline 2" in page.text
    assert "0 offline none" in topic.text


def test_what_a_fenced_coordinator_wrote_is_shown_as_ignored(chain: Member) -> None:
    write_fenced_entry(chain.follower)
    text = served(chain, lambda service, app: read(app, "/chain"), leads=False).text
    assert "ignored its coordinator was fenced: FLOOR raised to 1 coordinator c1 epoch 1" in text
    assert text.count("ignored") == 1


def test_heartbeats_in_a_row_are_one_row_of_the_chain_unless_all_are_wanted(chain: Member) -> None:
    claim(chain.follower, 1, times=4)

    async def work(service: Service, app: Starlette) -> tuple[Read, Read]:
        return await read(app, "/chain"), Read((await asked(app, "/chain", "all=1")).body.decode())

    folded, every = served(chain, work, leads=False)
    assert "3 heartbeats of the coordinator coordinator c1" in folded.text
    rows = [sum("data-entry" in attributes for attributes in of_tag(page, "tr")) for page in (folded, every)]
    assert rows[1] == rows[0] + 2


def test_entries_that_were_read_once_are_not_read_again(chain: Member) -> None:
    async def work(service: Service, app: Starlette) -> list[int]:
        store, gets = service.follower.store, []
        for path in ("/chain", "/chain", "/"):
            store.calls.clear()  # type: ignore[attr-defined]
            await read(app, path)
            gets.append(sum(key.startswith(LOG) for _, key in store.calls))  # type: ignore[attr-defined]
        return gets

    first, again, overview = served(chain, work, leads=False)
    assert (first > 0, again, overview) == (True, 0, 0)


def test_a_store_that_does_not_answer_hides_only_the_entries(chain: Member) -> None:
    async def work(service: Service, app: Starlette) -> Read:
        service.follower.store.plan(Fault.UNAVAILABLE, times=1_000)  # type: ignore[attr-defined]
        page = await read(app, "/")
        service.follower.store.planned.clear()  # type: ignore[attr-defined]
        return page

    page = served(chain, work, leads=False)
    assert "The entries can't be read: " in page.text
    assert "orders in sync 2" in page.text


def test_long_lists_are_cut_into_pages(chain: Member) -> None:
    async def work(service: Service, app: Starlette) -> tuple[Read, Read, Read, Read]:
        state = changed(service)
        for at in range(2, 252):
            topic = Topic(TopicId(at), f"t{at:03}", 1, {}, 0)
            state.topics[topic.topic_id], state.topic_ids[topic.name] = topic, topic.topic_id
            for partition in list(state.partitions.values())[:1]:
                moved = msgspec.structs.replace(partition, topic_id=topic.topic_id)
                state.partitions[TopicPartition(topic.topic_id, PartitionIndex(0))] = moved
        queries = ("", "page=3", "page=x", "find=T25")
        pages = [Read((await asked(app, "/topics", query)).body.decode()) for query in queries]
        return pages[0], pages[1], pages[2], pages[3]

    first, last, wrong, some = served(chain, work, leads=False)
    assert "1 to 100 of 251 Next" in first.text
    assert "Previous 201 to 251 of 251" in last.text
    assert first.text.split("rendered")[0] == wrong.text.split("rendered")[0]
    assert [attributes["data-topic"] for attributes in of_tag(some, "tr") if "data-topic" in attributes] == [
        "t250",
        "t251",
    ]


def test_an_unknown_topic_is_not_found(chain: Member) -> None:
    answer = served(chain, lambda service, app: got(app, "/topics/nothing"), leads=False)
    assert (answer.status, HEADERS.items() <= answer.headers.items()) == (404, True)
    assert "nothing" in Read(answer.body.decode()).text
    assert served(chain, lambda service, app: got(app, "/page/nothing"), leads=False).status == 404


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
def test_pages_only_show(chain: Member, method: str) -> None:
    async def work(service: Service, app: Starlette) -> set[int]:
        return {(await request(app, method, path)).status for path in (*PAGES, "/metrics")}

    assert served(chain, work, leads=False) == {405}


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:7400", 200),
        ("localhost", 200),
        ("LOCALHOST:80", 200),
        ("[::1]:7400", 200),
        ("me:7400", 200),
        ("evil.example:7400", 403),
        ("127.0.0.1.evil.example", 403),
        ("localhost.evil.example:7400", 403),
        ("", 403),
        ("[::2]", 403),
        ("ü", 403),
    ],
)
def test_only_requests_under_a_name_of_this_coordinator_are_answered(chain: Member, host: str, status: int) -> None:
    async def work(service: Service, app: Starlette) -> list[int]:
        body = submit_request(chain, append())
        return [
            (await got(app, "/", host=host)).status,
            (await got(app, "/metrics", host=host)).status,
            (await request(app, "POST", SUBMIT, [body], {"host": host})).status,
            (await got(app, "/healthz", host=host)).status,
        ]

    assert served(chain, work) == [status, status, status, 200]


def test_charts_show_what_was_committed(chain: Member) -> None:
    async def work(service: Service, app: Starlette) -> Read:
        take_sample(service, 1_000, 0)
        await asyncio.gather(*(request(app, "POST", SUBMIT, [submit_request(chain, append())]) for _ in range(4)))
        take_sample(service, 3_000, 2_500)
        return await read(app, "/")

    page = served(chain, work)
    label = next(str(attributes["aria-label"]) for attributes in of_tag(page, "svg"))
    assert re.fullmatch(r"Commits, entries per second, in the last 1 min: [0-9.]+ now, at most [0-9.]+", label)
    assert "Commands per second 2 now, at most 2" in page.text
    assert "Nothing is wrong, but there is 1 remark" in page.text
    assert "the event loop of this process was late by 2.5 s in the last minute" in page.text


def test_points_of_a_chart_stay_inside_it() -> None:
    shown = chart("t", "u", "c", [0.0, 5.0, 2.5], 5, 60)
    points = [tuple(map(float, point.split(","))) for point in shown.line.split()]
    assert [x for x, _ in points] == [300, 450, WIDTH]
    assert [y for _, y in points] == [HEIGHT - 1, 3, (HEIGHT - 1 + 3) / 2]
    assert (shown.latest, shown.top) == (2.5, 5)
    assert chart("t", "u", "c", [], 5, 60).line == chart("t", "u", "c", [1.0], 5, 60).line == ""
    assert "nan" not in chart("t", "u", "c", [0.0, 0.0], 5, 60).line


def test_numbers_and_times_in_words() -> None:
    assert [words.number(value) for value in (None, 0, 1234567, 12.34, 0.025, 3.0)] == [
        "-",
        "0",
        "1,234,567",
        "12.3",
        "0.025",
        "3",
    ]
    assert [words.ago(at, 100_000_000) for at in (100_000_000, 99_999_001, 99_995_000, 99_000_000, 1, 100_007_000)] == [
        "now",
        "now",
        "5 s ago",
        "16 min ago",
        "1 d ago",
        "in 7 s",
    ]


def test_a_long_report_is_cut(chain: Member) -> None:
    state = chain.follower.state.fork()
    state.jobs["roll"] = JobRan("roll", 1, 2, 0, "x" * 30_000)
    assert views.job_rows(state)[0].report.endswith("… and 10,000 more characters")


def test_samples_are_taken_until_it_is_cancelled(chain: Member) -> None:
    async def work(service: Service, app: Starlette) -> int:
        task = asyncio.create_task(sampling(service))
        while not service.activity.samples:
            await asyncio.sleep(0)
        task.cancel()
        return len(service.activity.samples)

    assert served(chain, work, leads=False) == 1


def test_the_wheel_has_the_templates_and_the_style() -> None:
    from hatchling.builders.wheel import WheelBuilder

    root = Path(__file__).parents[2]
    packed = {included.distribution_path for included in WheelBuilder(str(root)).recurse_included_files()}
    page = files("sparklog.coordinator.page")
    parts = [f"{folder}/{part.name}" for folder in ("templates", "static") for part in (page / folder).iterdir()]
    assert len(parts) >= 10
    assert {f"sparklog/coordinator/page/{part}" for part in parts} <= packed
