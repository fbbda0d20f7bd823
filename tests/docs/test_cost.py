"""What docs/cost.md says in words follows from its table, and from the code."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

from sparklog.chain.follow.follower import READ_WIDTH
from sparklog.chain.snapshot.snapshot_writer import SNAPSHOT_EVERY
from sparklog.core.cost.request_costs import PART_BYTES
from sparklog.core.tables.column_blocks import MAX_BLOCK_ROWS
from sparklog.log.read.ranged_reads import RANGED_READ_BYTES
from sparklog.log.write.task_memory import WriterLimits
from tests.cost_table import PAGE, list_prices
from tests.docs.clean_shell import in_clean_shell

TEXT = " ".join(PAGE.read_text(encoding="utf-8").split())
MONTH_S = 30 * 24 * 3600
MIB = 1 << 20


def usd_per_million(operation: str) -> float:
    found = re.search(rf"\| {re.escape(operation)} \|(?: \d+ \|)+ ([\d.]+) \|", TEXT)
    assert found is not None
    return float(found[1])


def test_the_bills_of_a_month_follow_from_the_table() -> None:
    commits = MONTH_S // 60
    job = commits * usd_per_million("bulk write: 4 tasks, 4 objects, one commit") / 1e6
    assert f"makes {commits:,} commits a month: with four objects each, about {job:.0f} USD" in TEXT
    appends = 1_000 * MONTH_S
    producers = round(appends * usd_per_million("append: one object") / 1e6, -3)
    assert f"are {appends / 1e9:.1f} billion appends a month, and about {producers:,.0f} USD" in TEXT


def test_sizes_that_the_page_names_are_those_of_the_code() -> None:
    assert f"one chunk per {MAX_BLOCK_ROWS:,} slices" in TEXT
    assert f"{READ_WIDTH} are asked for at once" in TEXT
    assert f"one ranged read per {RANGED_READ_BYTES // MIB} MiB" in TEXT
    assert f"closed at about {WriterLimits().object_bytes // MIB} MiB" in TEXT
    assert f"sent in parts of {PART_BYTES // MIB} MiB" in TEXT
    assert f"Every {SNAPSHOT_EVERY:,} entries" in TEXT


def test_the_commands_of_the_page_run(tmp_path: Path) -> None:
    (script,) = re.findall(r"```bash\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    script = f"export PATH={Path(sys.executable).parent}:$PATH\n" + script.replace("/tmp/", f"{tmp_path}/")
    said = in_clean_shell(tmp_path, script).splitlines()
    assert any(line.startswith("all requests") for line in said)
    assert json.loads(said[-1])["provider"] == "gcs"


def test_prices_of_the_page_are_those_of_the_file() -> None:
    prices = list_prices()
    assert f"LIST {prices.writes_per_1000} USD per 1,000; GET and HEAD {prices.reads_per_1000} USD per 1,000" in TEXT
    assert f"list prices of {prices.region}" in TEXT
