"""`sparklog cluster cost`: an estimate of the cluster's cost per day."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from sparklog.cli.common_options import settings
from sparklog.cli.output import connect, ending, now_ms, print_json, print_values, status
from sparklog.core.describe.readable import amount, point_in_time, text_table
from sparklog.host.standard_streams import print_to

if TYPE_CHECKING:
    from sparklog.core.cost.cost_report import CostReport

COST_EPILOG = ending(
    "sparklog cluster cost",
    "sparklog cluster cost --provider gcs --reads-per-day 200000",
    "sparklog cluster cost --prices prices.toml --provider ours --gib-out-per-day 40 --format json",
)
PRICES = Path(__file__).with_name("prices.toml")


def cost(
    provider: str = typer.Option(
        "aws-s3", metavar="NAME", help="The provider: a table in the file of prices (aws-s3, gcs, azure-blob)."
    ),
    prices: str = typer.Option(
        None, "--prices", metavar="FILE", help="Your own prices, in the form of conf/prices.toml. Default: list prices."
    ),
    reads_per_day: int = typer.Option(
        0, min=0, metavar="N", help="Reads per day, by all clients together: one read is one range of one object."
    ),
    gib_out_per_day: float = typer.Option(
        0.0, min=0.0, max=1e9, metavar="GIB", help="GiB per day that clients outside the provider's region read."
    ),
) -> None:
    """Estimate the cost of the cluster per day: requests, bytes and storage, with advice on how to reduce it.

    The activity of the last 24 hours is read from the chain: from all entries, or from 512 evenly spread entries if
    there are more than 512. Each entry that is read costs a GET. docs/cost.md has the number of requests of each
    operation. The chain does not record reads, so only the reads that you give by options are counted. "not counted"
    lists what else is left out.
    """
    import tomllib

    from sparklog.client.describe.counted_day import counted_day
    from sparklog.core.cost.cost_report import cost_report
    from sparklog.core.cost.prices import prices_of
    from sparklog.core.errors import InvalidOption

    path = prices or str(PRICES)
    try:
        tables = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidOption(f"--prices: {path} can't be read: {error.strerror}") from error
    except ValueError as error:  # not TOML, or not UTF-8
        raise InvalidOption(f"--prices: {path} is not TOML: {error}") from error
    listed = prices_of(provider, tables, prices or "conf/prices.toml")
    with connect() as cluster:
        state = cluster.connection.newest_state()
        status("counting the entries of the last day")
        usage = counted_day(cluster.connection, state, now_ms())
    report = cost_report(usage, provider, listed, reads_per_day=reads_per_day, gib_out_per_day=gib_out_per_day)
    if settings.json:
        print_json(report)
    else:
        _show(report)


def _show(report: CostReport) -> None:
    rows: list[dict[str, Any]] = [
        {
            "what": what,
            "PUT": requests.puts,
            "POST": requests.posts,
            "GET": requests.gets,
            "LIST": requests.lists,
            "USD a day": f"{usd:.4f}",
        }
        for what, requests, usd in (
            *((line.what, line.requests, line.usd) for line in report.lines),
            ("all requests", report.requests, report.requests_usd),
        )
    ]
    print_to(sys.stdout, text_table(rows))
    print_to(sys.stdout, "")
    sample = "" if report.entries_read == report.entries else f", estimated from {report.entries_read:,}"
    print_values(
        {
            "prices": f"{report.provider}, {report.prices.region}, list prices of {report.prices.as_of} in USD",
            "counted": f"{point_in_time(report.from_ms)} to {point_in_time(report.to_ms)}, "
            f"{report.entries:,} entries{sample}",
            "requests": f"{report.requests_usd:.4f} a day",
            "storage": f"{report.storage_usd:.4f} a day for {amount(report.stored_bytes)}",
            "transfer": f"{report.transfer_usd:.4f} a day for {amount(report.between_zones_bytes)} between zones, "
            f"{report.gib_out:g} GiB out",
            "written": amount(report.written_bytes),
            "total": f"{report.usd_per_day:.4f} a day, {report.usd_per_month:.2f} in 30 days",
            "advice": list(report.advice) or "none",
            "not_counted": list(report.not_counted),
        }
    )
