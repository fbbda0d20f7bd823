"""docs/failures.md, from the failures and from how long the last `make failures` waited for each to be seen.

python -m tests.chaos.page    writes the page
"""

from __future__ import annotations

import json
from pathlib import Path

from tests.chaos.failures import FAILURES, Failure

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "failures.md"
SECONDS = Path(__file__).parent / "seconds.json"
RECORDING = "RECORD_SECONDS"  # tests see no variable of the form SPARKLOG_…

HEAD = """# Failures, and what shows them

Written by `make failures`, which runs two coordinators and three agents (a session of 6 s), breaks one thing at a time,
waits until it is seen in all the places below, does what the last column says, and waits until all is well again. "…"
stands for anything.

- **cluster health**: a part of what `sparklog cluster health` says, and its exit code. 5: something is wrong; 0: a
  remark at most.
- **page, metric**: a part of what the overview of a coordinator says, and a line of its `/metrics`. The alerts of
  conf/prometheus-alerts.yml and the alarms of terraform/ are about these metrics.
- **seen after**: seconds until health and then the page said so, and until nothing was left of it once it was mended.
  Health looks when it is run, and waits for a store that does not answer; a coordinator looks at the stores every 30 s.
  These are of one run on a small machine.

| failure | cluster health | exit | page, metric | seen after: health, page; mended | what mends it |
|---|---|---|---|---|---|
"""


def page() -> str:
    """The whole page."""
    seconds = json.loads(SECONDS.read_text())
    return HEAD + "".join(_row(failure, seconds.get(failure.what)) for failure in FAILURES)


def _row(failure: Failure, seconds: list[int] | None) -> str:
    shown = [f"{failure.page}" if failure.page else "", f"`{failure.metric}`" if failure.metric else ""]
    on_page = "<br>".join(filter(None, shown)) or "-"
    if failure.no_coordinator:
        on_page = "the page does not answer"
    after = "{} s, {} s; {} s".format(*seconds) if seconds else "not run: this machine lacks what it needs"
    cells = [failure.what, failure.health or "-", str(failure.code), on_page, after, failure.mend]
    return f"| {' | '.join(cells)} |\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
