"""Renders the pages on options, config keys, metrics and migration. `PAGES` maps each file to its renderer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from sparklog.coordinator.watching.emf import EXPORTED
from sparklog.coordinator.watching.metric_names import METRICS
from sparklog.core.config.cluster_config import CLUSTER_KEYS, REFUSED_KEYS, TOPIC_DEFAULT_KEYS
from sparklog.core.config.key import ConfigKey, text_of
from sparklog.core.config.storage import SECRET_STORAGE_KEYS
from sparklog.core.config.topic_keys import TOPIC_KEYS
from sparklog.options.connector import (
    CONNECTOR_IGNORED,
    KAFKA_ALIASES,
    KAFKA_REFUSED,
    KAFKA_VALUES,
    STREAM_DIFFERENCES,
)
from sparklog.options.registry import OPTIONS, Option, Side

_GENERATED: Final = "<!-- Rendered from the registries by scripts.docs.render_docs; change them, not this page. -->"


def render_options() -> str:
    """`docs/options.md`: every option of `format("sparklog")`, for reads and writes."""
    lines = [
        "# Options",
        "",
        _GENERATED,
        "",
        'Options of `format("sparklog")`. Names are not case-sensitive. An option of another kind of query, such as a '
        "read option given to a write, has no effect and gives a warning; an unknown option is an error that suggests "
        "the nearest name.",
    ]
    for side in Side:
        here = [option for option in OPTIONS.values() if side in option.sides]
        lines += [
            "",
            f"## {side.capitalize()}",
            "",
            *_table(("option", "default", "legal", "what"), _option_rows(here, side)),
        ]
    secrets = ", ".join(f"`storage.<store>.{key}`" for key in sorted(SECRET_STORAGE_KEYS))
    lines += [
        "",
        "## Stores",
        "",
        "`storage.<store>.<key>` configures access to one store, for reads and writes. Spark passes options on in "
        f"lower case, so store ids are not case-sensitive here. The secrets are {secrets} and `cluster.token`: they "
        "are never logged or stored, and executors take theirs from their own environment.",
    ]
    return _page(lines)


def render_config() -> str:
    """`docs/config.md`: every config key of topics and of the cluster."""
    lines = [
        "# Config keys",
        "",
        _GENERATED,
        "",
        "Names and defaults are Kafka's; keys that only sparklog has say so. A key without effect is accepted and "
        "kept, so that scripts for Kafka run unchanged. An unknown key is an error that suggests the nearest name.",
        "",
        "## Topics",
        "",
        *_table(
            ("key", "type", "default", "legal", "what"), _key_rows(key for key in TOPIC_KEYS.values() if key.effect)
        ),
        "",
        "### Accepted without effect",
        "",
        *_table(
            ("key", "type", "default", "legal", "what"), _key_rows(key for key in TOPIC_KEYS.values() if not key.effect)
        ),
        "",
        "## Cluster",
        "",
        *_table(("key", "type", "default", "legal", "what"), _key_rows(CLUSTER_KEYS.values())),
        "",
        "These set the defaults for topics, under the names that Kafka's brokers use: "
        + ", ".join(f"`{name}` for `{topic}`" for name, topic in TOPIC_DEFAULT_KEYS.items() if name != topic)
        + ".",
        "",
        "Refused:",
        "",
        *(f"- `{name}`: {reason}." for name, reason in REFUSED_KEYS.items()),
    ]
    return _page(lines)


def render_migration() -> str:
    """`docs/migrate-from-kafka.md`: the counterpart in sparklog of each option of Spark's Kafka connector."""
    renamed = [
        option
        for option in OPTIONS.values()
        if option.kafka_equivalent and option.kafka_equivalent != option.name and option.name != "cluster"
    ]
    same = [option.name for option in OPTIONS.values() if option.kafka_equivalent == option.name]
    own = [option.name for option in OPTIONS.values() if not option.kafka_equivalent]
    lines = [
        "# From Spark's Kafka connector to sparklog",
        "",
        _GENERATED,
        "",
        'Change `format("kafka")` to `format("sparklog")`, and the address: `kafka.bootstrap.servers` becomes '
        "`cluster` (the old name works too, with a sparklog address). The columns are the same. The other "
        "differences are in [compat.md](compat.md), each with the test that proves it. Programs that use kafka-python "
        "or confluent-kafka: [migrate-clients.md](migrate-clients.md). The records of a topic, committed offsets and "
        "checkpoints come along: [moving.md](moving.md).",
        "",
        "## The same name, the same meaning",
        "",
        ", ".join(f"`{name}`" for name in same) + ".",
        "",
        "Timestamps may also be ISO 8601 with a zone. "
        f"`maxRecordsPerPartition` is {_default(OPTIONS['maxRecordsPerPartition'].key)} unless it is given.",
        "",
        "## Another name",
        "",
        *_table(
            ("Kafka", "sparklog", "the Kafka name works too"),
            ((f"`{option.kafka_equivalent}`", f"`{option.name}`", _maps(option)) for option in renamed),
        ),
        "",
        "These values are accepted and replaced, with one warning:",
        "",
        *_table(("option", "what happens"), _value_rows()),
        "",
        "## Refused, as in Spark's connector",
        "",
        *_table(("option", "side", "instead"), _refused_rows()),
        "",
        "## Accepted without effect, with one warning",
        "",
        *_table(("option", "why"), ((f"`{name}`", reason) for name, reason in CONNECTOR_IGNORED.items())),
        "",
        "The same holds for every other `kafka.*` option (they configure Kafka's clients, which sparklog does not "
        "use), and for read options given to a write, or the reverse. `path` is accepted only together with `cluster`.",
        "",
        "## Streaming queries",
        "",
        "Differences for streaming queries beside options. More is in [compat-streams.md](compat-streams.md).",
        "",
        *_table(
            ("what", "Spark's Kafka connector", "sparklog", "test"),
            ((what, connector, here, f"`{test}`") for what, connector, here, test in STREAM_DIFFERENCES),
        ),
        "",
        "## Only in sparklog",
        "",
        ", ".join(f"`{name}`" for name in own) + ": see [options](options.md).",
    ]
    return _page(lines)


def render_metrics() -> str:
    """`docs/metrics.md`: every metric of a coordinator."""
    lines = [
        "# Metrics",
        "",
        _GENERATED,
        "",
        "Each coordinator process serves these at `/metrics`, for Prometheus. Counters begin at 0 with the process, "
        "counters of commits whenever it begins to lead. Every process reports the partitions, stores and jobs in the "
        "metadata chain, a standby a little later: take the `max` over the processes, not the `sum`. Only the leading "
        "process reports metrics with a label for a group or a topic. It names at most `metrics.groups.max` groups and "
        "`metrics.topics.max` topics ([config](config.md)), so a larger cluster does not have more series. No metric "
        "has a label for a partition: `sparklog replica list --under-replicated`, `sparklog group describe` and "
        "`/v1/groups/NAME` name the partitions.",
        "",
        "Metrics that begin with `kafka_` have kafka_exporter's names, and its labels except `partition`: a value is "
        "the sum over the partitions, which dashboards compute anyway. So dashboards and rules made for kafka_exporter "
        "work with a sparklog cluster.",
        "",
        "[conf/prometheus-alerts.yml](../conf/prometheus-alerts.yml) has alert rules to begin with.",
        "",
        *_table(("metric", "kind", "labels", "what", "Kafka's MBean"), _metric_rows()),
        "",
        "## CloudWatch",
        "",
        "`sparklog coordinator --emf-namespace NAME` (or `SPARKLOG_EMF_NAMESPACE`) prints these metrics once a minute "
        "on stdout, in CloudWatch's embedded metric format. If CloudWatch Logs collects the output of the process, it "
        "turns the lines into metrics. A counter is reported as its increase since the last line: take the `Sum`. A "
        "gauge is reported unchanged: take the `Maximum`. `sparklog_group_lag_seconds` is the lag of the group that is "
        "furthest behind. The dimension `Cluster` is the address of the metadata. A metric with another dimension is "
        "reported for each of its values and, except for `state`, over all of them; `status` is `2xx`, `4xx` or `5xx`.",
        "",
        *_table(("metric", "dimensions"), _exported_rows()),
    ]
    return _page(lines)


def _metric_rows() -> Iterable[tuple[str, ...]]:
    for metric in METRICS:
        labels = ", ".join(f"`{label}`" for label in metric.labels)
        yield f"`{metric.name}`", metric.kind, labels, metric.help, f"`{metric.kafka}`" if metric.kafka else ""


def _exported_rows() -> Iterable[tuple[str, ...]]:
    for name, export in EXPORTED.items():
        yield f"`{name}`", f"`Cluster`, `{export.label}`" if export.label else "`Cluster`"


def _option_rows(options: Iterable[Option], side: Side) -> Iterable[tuple[str, ...]]:
    for option in options:
        default = f"`{option.stream_default}`" if side.is_stream and option.stream_default else _default(option.key)
        yield f"`{option.name}`", default, option.legal(side), option.key.doc


def _key_rows(keys: Iterable[ConfigKey]) -> Iterable[tuple[str, ...]]:
    for key in keys:
        yield f"`{key.name}`", key.type.value, _default(key), key.legal(), key.doc


def _refused_rows() -> Iterable[tuple[str, ...]]:
    sides: dict[tuple[str, str], list[str]] = {}
    for side, refused in KAFKA_REFUSED.items():
        for name, instead in refused.items():
            sides.setdefault((name, instead), []).append(side.value)
    for (name, instead), named in sides.items():
        yield f"`{name}`", ", ".join(named), instead


def _value_rows() -> Iterable[tuple[str, ...]]:
    for name, values in KAFKA_VALUES.items():
        for value, (_, reason) in values.items():
            yield f"`{name}={value}`", reason


def _maps(option: Option) -> str:
    return "yes" if any(option.kafka_equivalent in aliases for aliases in KAFKA_ALIASES.values()) else "no"


def _default(key: ConfigKey) -> str:
    if key.default is None:
        return "—"
    text = text_of(key.default)
    return f"`{text}`" if text else "empty"


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> list[str]:
    lines = [_row(head), _row(("---",) * len(head))]
    return lines + [_row(row) for row in rows]


def _row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _page(lines: list[str]) -> str:
    return "\n".join(lines) + "\n"


PAGES: Final[Mapping[str, Callable[[], str]]] = {
    "docs/options.md": render_options,
    "docs/config.md": render_config,
    "docs/metrics.md": render_metrics,
    "docs/migrate-from-kafka.md": render_migration,
}
