"""The metrics and labels that an expression of Prometheus names, as far as a coordinator has them."""

from __future__ import annotations

import re

from sparklog.coordinator.watching.metric_names import HISTOGRAM, METRICS

OF_PROMETHEUS = frozenset({"instance", "job"})  # labels that a scrape adds

LABELS = {metric.name: set(metric.labels) for metric in METRICS}
for _metric in METRICS:
    if _metric.kind == HISTOGRAM:
        LABELS |= {f"{_metric.name}{end}": {"le"} for end in ("_bucket", "_count", "_sum")}


def metrics_in(expression: str) -> set[str]:
    """The names of the metrics; a metric that no coordinator has is in it, too."""
    return set(re.findall(r"\b(?:sparklog|kafka|process)_\w+", expression))


def wrong_in(expression: str, *texts: str) -> list[str]:
    """The metrics that no coordinator has, and the labels that none of these metrics has.

    `texts` are what is shown: `{{label}}` in a legend, `$labels.label` in an annotation.
    """
    names = metrics_in(expression)
    wrong = sorted(names - LABELS.keys())
    known = OF_PROMETHEUS.union(*(LABELS.get(name, set()) for name in names))
    used = [label for by in re.findall(r"by \(([^)]*)\)", expression) for label in re.findall(r"\w+", by)]
    used += re.findall(r'(\w+)\s*(?:=|!=|=~|!~)\s*"', expression)
    for text in texts:
        used += re.findall(r"\{\{\s*(\w+)\s*\}\}", text) + re.findall(r"\$labels\.(\w+)", text)
    return wrong + sorted(set(used) - known) or ([] if names else [f"no metric in {expression!r}"])
