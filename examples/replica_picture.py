"""A picture of the replicas of a topic over time: the LEO of each replica and the HW, for every partition.

The history comes from the chain: its entries are applied one after the other, and each change of a replica is kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.lines import Line2D

from sparklog.chain.head import Draft, Head
from sparklog.client.cluster import Cluster
from sparklog.core.replication.partition import Replication
from sparklog.core.types import EntryNumber, StoreId

RED = "#d62728"
GREY = "#d0d0d0"
OUT = (0, (1, 1.6))  # line style of a replica that is not in sync


@dataclass(frozen=True)
class Moment:
    """An event to mark in the picture, such as the loss of a store. `time_ms`: milliseconds since 1970."""

    time_ms: int
    label: str


@dataclass(frozen=True)
class Step:
    """The replicas of a partition from `time_ms` (milliseconds since 1970) until the next step."""

    time_ms: int
    replication: Replication


def history(cluster: Cluster, topic: str) -> Mapping[int, Sequence[Step]]:
    """Return the states of each partition's replicas, by partition, oldest first.

    Applies all entries of the chain, so none of them may have been deleted.
    """
    follower = cluster.connection.follower
    draft = Draft(Head())
    steps: dict[int, list[Step]] = {}
    for entry in follower.entries(EntryNumber(n) for n in range(follower.state.n + 1)):
        draft.apply(entry, b"", {})  # nothing compares the hash of its bytes
        state = draft.state
        named = state.topic_named(topic)
        for partition in state.partitions_of(named) if named is not None else ():
            of_partition = steps.setdefault(partition.partition, [])
            if not of_partition or of_partition[-1].replication != partition.replication:
                of_partition.append(Step(entry.time_ms, partition.replication))
    return steps


def draw_replicas(steps: Mapping[int, Sequence[Step]], moments: Sequence[Moment], path: Path, title: str) -> None:
    """Write the picture as PNG: a panel for each partition, a column for each change of a partition and each moment.

    All columns are equally wide, whatever the time between them. Their labels are seconds since the first one.
    """
    stores = sorted({store for of in steps.values() for step in of for store in step.replication.replicas})
    span = max(len(stores) - 1, 1)
    colours = {store: plt.get_cmap("viridis")(0.05 + 0.8 * rank / span) for rank, store in enumerate(stores)}
    times = {step.time_ms for of in steps.values() for step in of} | {moment.time_ms for moment in moments}
    columns = {time_ms: column for column, time_ms in enumerate(sorted(times))}
    figure, all_axes = plt.subplots(
        len(steps), 1, figsize=(13, 1.7 + 2.3 * len(steps)), sharex=True, squeeze=False, layout="constrained"
    )
    axes = [row[0] for row in all_axes]
    for axis, (partition, of) in zip(axes, sorted(steps.items()), strict=True):
        _draw_partition(axis, of, colours, columns)
        for moment in moments:
            axis.axvline(columns[moment.time_ms], color=RED, linewidth=1.2, zorder=1)
        axis.set_title(f"partition {partition}", loc="left", fontsize=11)
    for moment in moments:
        place = (columns[moment.time_ms], 1.03)
        axes[0].annotate(moment.label, place, xycoords=("data", "axes fraction"), color=RED, fontsize=9, ha="center")
    axes[-1].set_xticks(list(columns.values()), [f"{(time_ms - min(times)) / 1000:.1f}" for time_ms in columns])
    axes[-1].set_xlabel("seconds (not to scale: each change has a column of its own)")
    axes[-1].set_xlim(-0.3, len(columns) + 0.7)
    figure.suptitle(title, fontsize=14, fontweight="bold")
    figure.legend(handles=_legend(colours), loc="outside lower center", ncols=8, frameon=False, fontsize=9)
    figure.savefig(path, dpi=130)
    plt.close(figure)


def _draw_partition(
    axis: Any, steps: Sequence[Step], colours: Mapping[StoreId, Any], columns: Mapping[int, int]
) -> None:
    places = [columns[step.time_ms] for step in steps] + [len(columns)]
    values = [step.replication for step in steps]
    values.append(values[-1])
    top = max(values[-1].next_offset, 1)
    high_watermarks = [value.high_watermark for value in values]
    axis.step(places, high_watermarks, where="post", color=GREY, linewidth=9, solid_capstyle="butt", zorder=1.5)
    for rank, (store, colour) in enumerate(colours.items()):
        shift = (rank - (len(colours) - 1) / 2) * top * 0.02  # lines at the same offset lie beside each other
        ends = [value.log_end(store) + shift for value in values]
        axis.step(places, ends, where="post", color=colour, linewidth=1.4, linestyle=OUT)
        in_sync = [end if store in value.isr else float("nan") for end, value in zip(ends, values, strict=True)]
        axis.step(places, in_sync, where="post", color=colour, linewidth=2.4)
    epoch = None
    for place, value in zip(places, values, strict=True):
        if value.leader_epoch != epoch and value.leader is not None:
            _mark_leader(axis, place, value, colours[value.leader])
        epoch = value.leader_epoch
    axis.set_ylim(-0.08 * top, 1.16 * top)
    axis.set_ylabel("offset")
    axis.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axis.spines[["top", "right"]].set_visible(False)


def _mark_leader(axis: Any, place: float, value: Replication, colour: Any) -> None:
    at = (place, value.next_offset)
    axis.plot(*at, marker="*", markersize=15, color=colour, markeredgecolor="white", zorder=6, clip_on=False)
    text = f"{value.leader} leads, epoch {value.leader_epoch}"
    paper = {"facecolor": "white", "edgecolor": "none", "alpha": 0.75, "pad": 1}
    axis.annotate(text, at, xytext=(9, 8), textcoords="offset points", fontsize=9, zorder=6, bbox=paper)


def _legend(colours: Mapping[StoreId, Any]) -> list[Any]:
    lines: list[Any] = [
        Line2D([], [], color=colour, linewidth=2, label=f"log end of store {store}")
        for store, colour in colours.items()
    ]
    lines.append(Line2D([], [], color="#777777", linewidth=1.6, linestyle=OUT, label="out of the ISR"))
    lines.append(Line2D([], [], color=GREY, linewidth=9, label="high watermark: readers see what is below"))
    lines.append(Line2D([], [], color="#777777", marker="*", linestyle="", markersize=13, label="new leader"))
    return lines
