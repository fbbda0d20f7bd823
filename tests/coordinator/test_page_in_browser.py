"""The pages of a running coordinator in a real browser: the numbers are the command line's, and nothing is missing."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa
import pytest
from playwright.sync_api import Browser, Page

import sparklog
from sparklog.cli.main import run
from sparklog.coordinator.access.access_file import token_hash
from tests.coordinator.browser import browser, watched
from tests.coordinator.shown_cluster import append, fill, init_shown
from tests.faults.running_coordinators import RunningCoordinators, running_coordinators

PAGES = ("Topics", "Groups", "Stores", "Chain", "Jobs", "Overview")


@dataclass
class Shown:
    """A coordinator with data, and a browser."""

    coordinators: RunningCoordinators
    browser: Browser

    @property
    def address(self) -> str:
        return self.coordinators.started[0].address

    def cli(self, *arguments: str) -> Any:
        """The JSON that the command line prints."""
        with redirect_stdout(io.StringIO()) as printed:
            run(["--cluster", self.coordinators.url, "--format", "json", *arguments])
        return json.loads(printed.getvalue())


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shown]:
    with browser() as started:  # first: without one the module is skipped at once
        url = init_shown(tmp_path_factory.mktemp("shown"))
        with running_coordinators(url) as coordinators:
            leading = coordinators.start()
            leading.wait_for("leads")
            fill(leading.address)
            yield Shown(coordinators, started)


@pytest.fixture(autouse=True)
def closed_pages(shown: Shown) -> Iterator[None]:
    """Pages refresh themselves for as long as they are open."""
    yield
    for context in shown.browser.contexts:
        context.close()


def number(text: str) -> int:
    return int(text.replace(",", ""))


def cells(page: Page, row: str) -> list[str]:
    return [text.strip() for text in page.locator(f"{row} > *").all_inner_texts()]


def test_the_numbers_are_those_of_the_command_line(shown: Shown) -> None:
    page = watched(shown.browser).page
    page.goto(shown.address)
    for topic in shown.cli("topic", "list"):
        row = cells(page, f"tr[data-topic={topic['topic']}]")
        assert [number(text) for text in row[2:5]] == [
            topic["partitions"],
            topic["replication_factor"],
            topic["records"],
        ]
    for store in shown.cli("store", "list"):
        row = cells(page, f"tr[data-store={store['store']}]")
        assert row[:3] == [store["store"], store["zone"], store["state"]]
        assert [number(text) for text in row[4:6]] == [store["leaders"], store["replicas"]]
        assert row[9] == store["url"]
    for job in shown.cli("job", "status"):
        outcome = f"{job['failed']} failed" if job["failed"] else "done"
        assert cells(page, f"tr[data-job={job['job']}]")[3] == outcome
    page.goto(f"{shown.address}/topics/orders")
    described = shown.cli("topic", "describe", "orders")
    assert number(page.inner_text("#records")) == described["records"]
    lagging = 0
    for partition in described["partitions"]:
        row = cells(page, f"tr[data-partition='{partition['partition']}']")
        assert row[2] == partition["leader"]
        wanted = ["leader_epoch", "log_start", "high_watermark", "log_end", "records"]
        assert [number(text) for text in row[3:8]] == [partition[name] for name in wanted]
        assert row[9] == ", ".join(partition["isr"])
        lags = dict(re.findall(r"(\w+) -?([\d,]+)", row[10]))
        wanted_lags = {replica["store"]: replica["lag_records"] for replica in partition["replicas"]}
        assert {store: number(lag) for store, lag in lags.items()} == wanted_lags
        lagging += any(wanted_lags.values())
    assert lagging == 1
    page.goto(f"{shown.address}/chain")
    newest = shown.cli("chain", "tail", "-n", "1")
    assert int(page.get_attribute("tr[data-entry]:first-child", "data-entry") or "") >= newest["n"] - 1


def test_every_page_is_whole_and_asks_nobody_else(shown: Shown) -> None:
    seen = watched(shown.browser)
    page = seen.page
    page.goto(shown.address)
    for name in PAGES:
        page.click(f"header nav >> text={name}")
        page.locator("header [aria-current]", has_text=name).wait_for()  # a click does not wait for the next page
        page.wait_for_load_state()
        assert page.locator("h1").count() == 1
        assert page.locator("header [aria-current]").inner_text() == name
        headings = [
            tag.lower() for tag in page.eval_on_selector_all("h1, h2, h3", "tags => tags.map(tag => tag.tagName)")
        ]
        assert headings == sorted(headings)
        unlabelled = page.eval_on_selector_all("th", "cells => cells.filter(cell => !cell.scope).length")
        assert unlabelled == 0
    page.click("tr[data-topic] a >> text=orders")
    page.wait_for_url("**/topics/orders")
    assert page.inner_text("h1") == "orders"
    page.goto(f"{shown.address}/jobs")
    assert "STORE_THROTTLED" in page.inner_text("details[open] pre")
    assert seen.problems == []
    assert {urlsplit(url).netloc for url in seen.asked} == {urlsplit(shown.address).netloc}


def test_a_phone_scrolls_down_only(shown: Shown) -> None:
    page = watched(shown.browser, width=360, height=740).page
    shown_only = ("/", "/topics", "/topics/orders", "/topics/orders/messages", "/groups", "/stores", "/chain", "/jobs")
    actions = ("create-topic", "alter-topic?topic=orders", "delete-records?topic=orders&offset=end&plan=1")
    for path in (*shown_only, *(f"/actions/{action}" for action in actions)):
        page.goto(shown.address + path)
        assert page.evaluate("document.documentElement.scrollWidth") <= 360, path


def test_text_is_readable_in_the_light_and_in_the_dark(shown: Shown) -> None:
    for dark in (False, True):
        page = watched(shown.browser, dark=dark).page
        page.goto(shown.address)
        for name, ratio in page.evaluate(CONTRASTS).items():
            assert ratio >= 4.5, (dark, name, ratio)


CONTRASTS = """() => {
  const level = (hex) => {
    const part = (at) => { const v = parseInt(hex.slice(at, at + 2), 16) / 255;
      return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; };
    return 0.2126 * part(1) + 0.7152 * part(3) + 0.0722 * part(5);
  };
  const style = getComputedStyle(document.documentElement);
  const colour = (name) => style.getPropertyValue("--" + name).trim();
  const pairs = [["ink", "paper"], ["quiet", "paper"], ["quiet", "card"], ["quiet", "bad-paper"], ["accent", "paper"],
    ["accent", "card"], ["good", "good-paper"], ["warn", "warn-paper"], ["bad", "bad-paper"], ["bad", "card"]];
  return Object.fromEntries(pairs.map(([front, back]) => {
    const [dark, light] = [level(colour(front)), level(colour(back))].sort((a, b) => a - b);
    return [front + " on " + back, (light + 0.05) / (dark + 0.05)];
  }));
}"""


def test_it_refreshes_in_place_until_it_is_paused(shown: Shown) -> None:
    seen = watched(shown.browser, height=300)
    page = seen.page
    page.clock.install()
    page.goto(shown.address)
    page.evaluate("scrollTo(0, 250)")
    with sparklog.connect(shown.coordinators.url) as cluster:
        append(cluster, "payments", 7)
        records = cluster.describe("payments").records
    payments = "tr[data-topic=payments]"
    assert number(cells(page, payments)[4]) == records - 7
    page.clock.fast_forward(6_000)
    page.wait_for_function(
        "([row, text]) => document.querySelector(row).children[4].textContent === text", arg=[payments, f"{records:,}"]
    )
    assert page.evaluate("scrollY") == 250
    page.click("#pause")
    assert page.inner_text("#live") == "paused"
    asked = len(seen.asked)
    page.clock.fast_forward(20_000)
    assert len(seen.asked) == asked
    assert seen.problems == []


def test_records_are_found_opened_and_paged_with_the_keyboard(shown: Shown) -> None:
    seen = watched(shown.browser)
    page = seen.page
    page.goto(f"{shown.address}/topics/orders")
    page.click("main >> text=Messages")
    page.wait_for_url("**/topics/orders/messages")
    assert page.locator("tr[data-record]").count() == 50
    assert page.locator("#live").is_hidden()
    page.fill("#find", "value 17 of orders")
    page.press("#find", "Enter")
    page.wait_for_url("**find=value**")
    assert page.locator("tr[data-record]").count() == 1
    page.goto(f"{shown.address}/topics/orders/messages?partition=0&order=oldest&count=25")
    page.focus("a[rel=next]")
    page.keyboard.press("Enter")
    page.wait_for_url("**at=0-25**")
    assert page.get_attribute("tr[data-record]:first-child", "data-record") == "0-25"
    assert seen.problems == []


def test_the_live_tail_shows_new_records_and_keeps_opened_ones_open(shown: Shown) -> None:
    seen = watched(shown.browser)
    page = seen.page
    page.clock.install()
    with sparklog.connect(shown.coordinators.url) as cluster:
        cluster.create_topic("tailed")
        cluster.append("tailed", pa.table({"value": ['{"a": 1}']}))
        page.goto(f"{shown.address}/topics/tailed/messages")
        page.click("text=Live tail")
        page.wait_for_url("**live=1")
        page.click("#r-0-0 summary")
        cluster.append("tailed", pa.table({"value": ["new"]}))
    page.clock.fast_forward(6_000)
    page.wait_for_selector("tr[data-record='0-1']")
    assert page.locator("#r-0-0[open]").count() == 1
    page.click("#pause")
    asked = len(seen.asked)
    page.clock.fast_forward(20_000)
    assert len(seen.asked) == asked
    assert seen.problems == []


def test_a_topic_is_made_and_deleted_with_the_keyboard(shown: Shown) -> None:
    """The browser sends its own forms with an Origin that the coordinator takes for its own."""
    seen = watched(shown.browser)
    page = seen.page
    page.goto(f"{shown.address}/topics")
    page.focus("text=Create a topic")
    page.keyboard.press("Enter")
    page.wait_for_url("**/actions/create-topic")
    page.fill("#topic", "by-hand")
    page.fill("#config", "retention.ms=1000")
    page.press("#topic", "Enter")
    page.wait_for_selector("#plan")
    assert "by-hand" not in {topic["topic"] for topic in shown.cli("topic", "list")}
    page.focus("button.confirm")
    page.keyboard.press("Enter")
    assert page.inner_text("#done").startswith("Created topic by-hand with 1 partition.")
    page.reload()  # sends the form again
    assert page.inner_text("#done").startswith("Created topic by-hand with 1 partition.")
    page.goto(f"{shown.address}/topics/by-hand")
    page.click("text=Delete the topic")
    page.dblclick("button.confirm")
    page.wait_for_selector("#done")
    assert "by-hand" not in {topic["topic"] for topic in shown.cli("topic", "list")}
    assert seen.problems == []


def test_a_group_is_reset_as_its_plan_says(shown: Shown) -> None:
    with sparklog.connect(shown.coordinators.url) as cluster:
        cluster.commit_offsets("resettable", {("orders", 0): 5})
    page = watched(shown.browser).page
    page.goto(f"{shown.address}/groups/resettable")
    page.click("text=Reset offsets")
    page.select_option("#to", "to-offset")
    page.fill("#value", "3")
    page.press("#value", "Enter")
    page.wait_for_selector("#plan")
    assert "orders 0 5 3" in " ".join(page.inner_text("[aria-label='The plan'] tbody").split())
    page.click("button.confirm")
    page.wait_for_selector("#done")
    assert shown.cli("group", "describe", "resettable")["partitions"][0]["committed"] == 3


def test_a_form_of_another_site_changes_nothing(shown: Shown, tmp_path: Path) -> None:
    page = watched(shown.browser).page
    other = tmp_path / "form.html"
    action = f"{shown.address}/actions/delete-topic?topic=orders"
    other.write_text(f'<form method="post" action="{action}"><button>win</button></form>', encoding="utf-8")
    page.goto(other.as_uri())
    page.click("text=win")
    page.wait_for_url("**/actions/delete-topic**")
    assert "CLUSTER_AUTHORIZATION_FAILED" in page.inner_text("body")
    assert "orders" in {topic["topic"] for topic in shown.cli("topic", "list")}


def test_a_standby_sends_people_to_the_one_that_leads(shown: Shown) -> None:
    standby = shown.coordinators.start()
    standby.wait_for("stands-by")
    page = watched(shown.browser).page
    page.goto(standby.address)
    page.click("text=Go to the page of the leader")
    assert page.url.rstrip("/") == shown.address
    assert "leads with epoch 1" in page.inner_text(".lead")


def test_a_page_of_another_site_reads_nothing(shown: Shown, tmp_path: Path) -> None:
    page = watched(shown.browser).page
    other = tmp_path / "other.html"
    other.write_text(f'<iframe src="{shown.address}/"></iframe>', encoding="utf-8")
    page.goto(other.as_uri())
    asked = "async (url) => { try { return (await fetch(url)).status } catch (error) { return String(error) } }"
    assert "TypeError" in str(page.evaluate(asked, f"{shown.address}/metrics"))
    assert page.frames[1].url.startswith("chrome-error:")


def test_with_an_access_file_the_browser_asks_for_a_token_once_and_shows_all_pages(
    shown: Shown, tmp_path: Path
) -> None:
    token, file = "sparklog_the-token-of-anna", tmp_path / "access.toml"
    file.write_text(
        f'[principal.anna]\ntoken_sha256 = ["{token_hash(token)}"]\nrights = ["describe:*"]\n', encoding="utf-8"
    )
    with running_coordinators(shown.coordinators.url) as guarded:
        address = guarded.start("--access", str(file)).address
        with shown.browser.new_context(http_credentials={"username": "anna", "password": token}) as context:
            page = context.new_page()
            page.goto(address)
            for name in PAGES:
                page.get_by_role("link", name=name, exact=True).first.click()
                page.wait_for_load_state()
                assert page.locator("header [aria-current]").inner_text() == name
                assert page.locator("h1").count() == 1
        with shown.browser.new_context(http_credentials={"username": "anna", "password": "wrong"}) as context:
            refused = context.new_page().goto(address)
            assert refused is not None
            assert refused.status == 401
