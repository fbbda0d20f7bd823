"""The table of docs/deploy.md: what a deployment on AWS costs a month at three sizes.

python -m tests.deploy_costs    writes it into the page

Requests, storage and traffic of S3 are counted as `sparklog cluster cost` does (core/cost); sizes and schedules are
those of the Terraform modules. No account was billed: what EMR Serverless takes is assumed, in constants of this file.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from sparklog.coordinator.watching.emf import EXPORTED
from sparklog.core.cost.cost_report import DAYS_OF_MONTH, CostReport, cost_report
from sparklog.core.cost.prices import GIB
from sparklog.core.cost.request_costs import stored
from sparklog.core.cost.usage import EntryWork, Usage, WrittenObjects
from sparklog.core.types import StoreId
from tests.cost_table import list_prices
from tests.marked_part import replaced

ROOT = Path(__file__).parents[1]
PAGE, PRICES, MODULES = (
    ROOT / "docs" / "deploy.md",
    ROOT / "conf" / "service-prices.toml",
    ROOT / "terraform" / "modules",
)
BEGIN, END = "<!-- costs: begin (make docs) -->", "<!-- costs: end -->"
HOURS: Final = 24 * DAYS_OF_MONTH
DAY_MS: Final = 86_400_000
MIB: Final = 1 << 20

# Assumptions about EMR Serverless.
DRIVER_MINUTES: Final = 2.0  # of a run, whatever it finds: a worker starts, unpacks the environment, imports, plans
EXECUTORS_AT_FIRST: Final = 1  # the setting of the module spark …
EXECUTOR_MINUTES: Final = 1.0  # … and bills for at least
MIB_PER_CORE_SECOND: Final = 25  # read, rewritten and put by one core of an executor
WORKER_GIB: Final = 7  # 6g and its overhead
JOBS_WITH_DATA: Final = ("roll", "verify")  # no compacted topic; retention only cuts
# … and about logs.
AUDIT_BYTES: Final = 400  # of a command
METRIC_LINES_BYTES: Final = 8_000  # of a coordinator in a minute
JOB_LOG_BYTES: Final = 100_000  # of a run
CONTAINER_INSIGHTS: Final = 10  # metrics of a service of ECS


class ServicePrices(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The prices of conf/service-prices.toml."""

    region: str
    as_of: str
    fargate_vcpu_hour: float
    fargate_gib_hour: float
    emr_serverless_vcpu_hour: float
    emr_serverless_gib_hour: float
    load_balancer_hour: float
    load_balancer_unit_hour: float
    endpoint_hour: float
    nat_gateway_hour: float
    nat_gateway_gib: float
    key_month: float
    secret_month: float
    metric_month: float
    alarm_month: float
    log_gib: float
    log_gib_month: float
    image_gib_month: float
    hosted_zone_month: float


class Size(msgspec.Struct, frozen=True):
    """A deployment. Bytes are those that are stored: after compression, one replica of each."""

    name: str
    example: str
    gib_per_day: int
    writes_per_day: int  # commits, each of a few objects
    objects_per_write: int
    reads_per_day: int
    stores: int = 1
    regions: int = 1
    coordinators: int = 0
    zones: int = 0  # of the VPC; 0: none
    keys: int = 3
    secrets: int = 0
    retention_days: int = 7


SIZES: Final = (
    Size("small", "minimal", 10, 300, 4, 10_000),
    Size("medium", "complete", 200, 20_000, 2, 200_000, stores=2, coordinators=2, zones=3, keys=4, secrets=5),
    Size("large", "two-regions", 2_000, 100_000, 4, 1_000_000, stores=2, regions=2, coordinators=2, zones=2, keys=5,
         secrets=3),
)  # fmt: skip


def service_prices() -> ServicePrices:
    return msgspec.convert(tomllib.loads(PRICES.read_text(encoding="utf-8")), ServicePrices)


def default_of(module: str, variable: str) -> str:
    """The text of a variable's default in a module."""
    text = (MODULES / module / "variables.tf").read_text(encoding="utf-8")
    (found,) = re.findall(rf'^variable "{variable}" {{\n.*?^  default += +(.*?)$(?=\n\n|\n}}|\n  validation)', text,
                          re.DOTALL | re.MULTILINE)  # fmt: skip
    return str(found)


def runs_per_day() -> dict[str, float]:
    """How often the module schedules starts each job."""
    rates = re.findall(r'(\w+) += \{ expression = "(.*?)"', default_of("schedules", "schedules"))
    assert rates
    return {job: _per_day(expression) for job, expression in rates}


def _per_day(expression: str) -> float:
    if (rate := re.fullmatch(r"rate\((\d+) (minute|hour|day)s?\)", expression)) is not None:
        return {"minute": 1440, "hour": 24, "day": 1}[rate[2]] / int(rate[1])
    assert expression.startswith("cron("), expression
    return 1.0 if expression.split()[4] in ("?", "*") else 1 / 7  # daily, or on one day of the week


def storage_of(size: Size) -> CostReport:
    """What `sparklog cluster cost` says of a day of this size."""
    bytes_a_day = size.gib_per_day * GIB
    objects = size.writes_per_day * size.objects_per_write
    segments = max(1, bytes_a_day // (1 << 30))  # segment.bytes
    elsewhere = (size.regions - 1) * bytes_a_day

    def put(count: int) -> WrittenObjects:
        requests = stored(bytes_a_day // count).times(count * size.stores)
        return WrittenObjects(count, count, bytes_a_day, size.stores * bytes_a_day, elsewhere, requests)

    jobs = runs_per_day()
    job_runs = round(sum(jobs.values()))
    # A commit, and the records of the jobs themselves: a swap for each segment, and a report for each run.
    work = EntryWork(
        entries=size.writes_per_day + segments + 2 * job_runs,
        size_bytes=0,
        planned=0 if size.coordinators else size.writes_per_day,
        appended=put(objects),
        rewritten=put(segments),  # roll
        job_runs=job_runs,
    )
    # What roll and retention delete is kept for some days more, as a version that is not current.
    kept_days = size.retention_days + 2 * int(default_of("storage", "noncurrent_days"))
    usage = Usage(
        from_ms=0,
        to_ms=DAY_MS,
        work=work,
        sampled=0,
        stored_bytes={StoreId(f"{number}"): kept_days * bytes_a_day for number in range(size.stores)},
        metadata_bytes=GIB,
        copies=size.stores - 1,
        agents=size.stores if size.stores > 1 else 0,
        coordinator_in_force=size.coordinators > 0,
        snapshot_every=1_000,
        fetch_wait_ms=500,
        rolled=True,
    )
    return cost_report(usage, "aws-s3", list_prices(), reads_per_day=size.reads_per_day)


def emr_usd(size: Size, prices: ServicePrices) -> float:
    """EMR Serverless for a month."""
    cores = 2  # of a driver and of an executor
    driver_s = executor_s = 0.0
    for job, runs in runs_per_day().items():
        driver_s += runs * DRIVER_MINUTES * 60
        if job in JOBS_WITH_DATA:
            days = 1 if job == "roll" else size.retention_days / 7  # verify reads a seventh of the log a day
            mib = days * size.gib_per_day * 1024 * (size.stores if job == "verify" else 1)
            work_s = mib / MIB_PER_CORE_SECOND / cores
            executor_s += max(work_s, runs * EXECUTORS_AT_FIRST * EXECUTOR_MINUTES * 60)
    hour_usd = cores * prices.emr_serverless_vcpu_hour + WORKER_GIB * prices.emr_serverless_gib_hour
    return DAYS_OF_MONTH * (driver_s + executor_s) / 3600 * hour_usd


def metrics(size: Size) -> int:
    """Metrics of CloudWatch that coordinators and ECS make."""
    if not size.coordinators:
        return 0
    values = {None: 0, "status": 4, "state": 4, "store": size.stores, "name": 7}
    own = sum(values[export.label] + (export.overall or export.label is None) for export in EXPORTED.values())
    return own + CONTAINER_INSIGHTS * (size.coordinators + size.stores)


def alarms(size: Size) -> int:
    """Metrics in alarms: those of coordinators, dead letters, and a target group for each coordinator."""
    text = (MODULES / "observability" / "alarms.tf").read_text(encoding="utf-8")
    of_coordinators = len(re.findall(r'\bmetric += "sparklog_', text))
    return 1 + (of_coordinators + size.coordinators if size.coordinators else 0)


def logs_usd(size: Size, prices: ServicePrices) -> float:
    """Logs of a month, and those that are kept."""
    a_day = JOB_LOG_BYTES * sum(runs_per_day().values())
    if size.coordinators:
        a_day += AUDIT_BYTES * size.writes_per_day + METRIC_LINES_BYTES * 1440 * size.coordinators
    gib = DAYS_OF_MONTH * a_day / GIB
    kept = int(default_of("observability", "retention_days")) / DAYS_OF_MONTH
    return gib * prices.log_gib + gib * kept * prices.log_gib_month


def fargate_usd(module: str, count: int, prices: ServicePrices) -> float:
    """Tasks of a module that run all the time."""
    vcpu, gib = (int(default_of(module, variable)) / 1024 for variable in ("cpu", "memory_mib"))
    return count * HOURS * (vcpu * prices.fargate_vcpu_hour + gib * prices.fargate_gib_hour)


def costs(size: Size, prices: ServicePrices) -> Mapping[str, float]:
    """USD a month, by kind."""
    report = storage_of(size)
    endpoints = len(re.findall(r'"[\w.]+"', default_of("network", "interface_endpoints"))) if size.zones else 0
    crossing_gib = DAYS_OF_MONTH * report.between_zones_bytes / GIB
    nat_usd = HOURS * prices.nat_gateway_hour + crossing_gib * prices.nat_gateway_gib if size.regions > 1 else 0.0
    return {
        "S3: storage, deleted objects for a week more included": DAYS_OF_MONTH * report.storage_usd,
        "S3: requests": DAYS_OF_MONTH * report.requests_usd,
        "traffic between the regions": DAYS_OF_MONTH * report.transfer_usd,
        "NAT gateway, which that traffic passes": nat_usd,
        "EMR Serverless: scheduled jobs": emr_usd(size, prices),
        "Fargate: coordinators": fargate_usd("coordinator", size.coordinators, prices),
        "Fargate: agents": fargate_usd("agents", size.stores if size.stores > 1 else 0, prices),
        "network load balancer": HOURS * (prices.load_balancer_hour + prices.load_balancer_unit_hour)
        if size.coordinators
        else 0.0,
        "interface endpoints": HOURS * endpoints * size.zones * prices.endpoint_hour,
        "CloudWatch: metrics and alarms": metrics(size) * prices.metric_month + alarms(size) * prices.alarm_month,
        "CloudWatch: logs": logs_usd(size, prices),
        "keys, secrets, image, private zone": size.keys * prices.key_month
        + size.secrets * prices.secret_month
        + (prices.image_gib_month + prices.hosted_zone_month if size.coordinators else 0.0),
    }


def table() -> str:
    """The rows of the page."""
    prices = service_prices()
    columns = [costs(size, prices) for size in SIZES]

    def row(name: str, cells: list[str]) -> str:
        return f"| {name} | {' | '.join(cells)} |"

    lines = [
        row("", [size.name for size in SIZES]),
        "|---|" + "---:|" * len(SIZES),
        row("example", [f"`{size.example}`" for size in SIZES]),
        row("written a day, compressed", [f"{size.gib_per_day:,} GiB" for size in SIZES]),
        row("in", [f"{size.writes_per_day:,} commits" for size in SIZES]),
        row("reads a day", [f"{size.reads_per_day:,}" for size in SIZES]),
        row("stores", [f"{size.stores} in {size.regions} region{'s' * (size.regions > 1)}" for size in SIZES]),
        row("kept for", [f"{size.retention_days} days" for size in SIZES]),
        *(row(name, [f"{column[name]:,.0f}" for column in columns]) for name in columns[0]),
        row("**USD a month**", [f"**{sum(column.values()):,.0f}**" for column in columns]),
    ]
    return "\n".join(lines)


def page() -> str:
    """The page with its table replaced."""
    return replaced(PAGE.read_text(encoding="utf-8"), BEGIN, END, table())


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
