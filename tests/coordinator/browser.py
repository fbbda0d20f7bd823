"""A headless browser that is installed on this machine, and what it saw of a page."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, Request, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
ARGUMENTS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@dataclass
class Watched:
    """A page, the addresses it asked for, and what went wrong in it."""

    page: Page
    asked: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


@contextmanager
def browser() -> Iterator[Browser]:
    """The first browser of NAMES; the test is skipped if there is none. Each run has a new profile."""
    path = next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        pytest.skip(f"no browser: none of {', '.join(NAMES)} is on PATH")
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=str(Path(path)), args=list(ARGUMENTS), timeout=60_000)
        try:
            yield started
        finally:
            started.close()


def watched(browser: Browser, *, width: int = 1280, height: int = 900, dark: bool = False, scale: float = 1) -> Watched:
    """A new page. It forgets everything when the browser is closed."""
    scheme = "dark" if dark else "light"
    context = browser.new_context(
        viewport={"width": width, "height": height}, color_scheme=scheme, device_scale_factor=scale
    )
    context.set_default_timeout(60_000)
    seen = Watched(context.new_page())
    seen.page.on("request", lambda request: seen.asked.append(request.url))
    seen.page.on("console", lambda said: seen.problems.append(said.text) if said.type in ("error", "warning") else None)
    seen.page.on("pageerror", lambda error: seen.problems.append(str(error)))
    seen.page.on("requestfailed", lambda request: seen.problems.append(request.url) if _failed(request) else None)
    return seen


def _failed(request: Request) -> bool:
    """Whether a request got no answer, though the browser had not left the page by then."""
    return request.failure != "net::ERR_ABORTED"
