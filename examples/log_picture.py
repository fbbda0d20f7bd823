"""A picture of a topic's log: partitions against offsets, with its objects, batches, log starts and high watermarks.

python examples/log_picture.py --cluster URL --topic T [--out FILE.png]
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from math import floor
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.dates as dates
import matplotlib.pyplot as plt
from matplotlib.colors import Normalize
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle

import sparklog
from sparklog.client.cluster import Cluster
from sparklog.core.describe.readable import counted
from sparklog.core.errors import SparklogError
from sparklog.core.lookup import partition_of, topic_of
from sparklog.core.placement.held_slices import named_object
from sparklog.core.types import Offset, OffsetRange, TopicPartition
from sparklog.log.read.object_reader import read_index
from sparklog.storage.keys import data_key

HEIGHT = 0.62  # height of a partition's bar; rows are 1 apart
COLOURS = "viridis"
GONE: Any = {"facecolor": "#f4f4f4", "edgecolor": "#9a9a9a", "hatch": "////"}


@dataclass(frozen=True)
class Batch:
    """A stored batch: its offsets [start, end), and the smallest and largest timestamp of its records (µs)."""

    start: int
    end: int
    oldest_us: int
    newest_us: int


@dataclass(frozen=True)
class Piece:
    """A slice: the offsets [start, end) of a partition that are in one object, and the batches that hold them."""

    partition: int
    start: int
    end: int
    object_key: str
    batches: tuple[Batch, ...]


@dataclass(frozen=True)
class LogView:
    """The log of a topic at one moment. The log starts and high watermarks are by partition."""

    topic: str
    pieces: tuple[Piece, ...]
    log_starts: Mapping[int, int]
    high_watermarks: Mapping[int, int]


@dataclass(frozen=True)
class Panel:
    """One diagram of the picture: a log, with a title. `forgotten`: pieces that retention removed, drawn hatched."""

    title: str
    view: LogView
    forgotten: Sequence[Piece] = field(default_factory=tuple)


def look_at(cluster: Cluster, topic: str) -> LogView:
    """The current state of the topic: its slices from the chain, its batches from the indexes of the objects."""
    state = cluster.connection.newest_state()
    described = topic_of(state, topic)
    stores = cluster.connection.stores(state)
    parts = {index: partition_of(state, described, index) for index in range(described.partitions)}
    slices = [
        (slice_, named_object(state, slice_))
        for index, part in parts.items()
        for slice_ in state.slices.find(
            TopicPartition(described.topic_id, part.partition), OffsetRange(Offset(0), part.high_watermark)
        )
    ]
    pieces = []
    for slice_, named in slices:
        key = data_key(named.object, topic)
        index = read_index(stores.get(named.object.holders[0].store), key, named)
        rows = slice(slice_.first_batch, slice_.first_batch + slice_.batches)
        starts = [int(first - index.first_record[rows.start] + slice_.start) for first in index.first_record[rows]]
        oldest, newest = index.min_timestamp_us[rows].tolist(), index.max_timestamp_us[rows].tolist()
        batches = map(Batch, starts, [*starts[1:], slice_.end], oldest, newest)
        pieces.append(Piece(int(slice_.partition), slice_.start, slice_.end, key, tuple(batches)))
    return LogView(
        topic,
        tuple(pieces),
        {index: part.log_start for index, part in parts.items()},
        {index: part.high_watermark for index, part in parts.items()},
    )


def draw(panels: Sequence[Panel], path: Path, title: str) -> None:
    """Write the picture as PNG, with the panels one below the other."""
    batches = [batch for panel in panels for piece in panel.view.pieces for batch in piece.batches]
    first, last = (
        min((_days(batch.oldest_us) for batch in batches), default=0.0),
        max((_days(batch.newest_us) for batch in batches), default=1.0),
    )
    scale = Normalize(floor(first), last)
    rows = [len(panel.view.log_starts) for panel in panels]
    figure, all_axes = plt.subplots(
        len(panels),
        1,
        figsize=(13, 1.6 + sum(1.1 + 0.42 * count for count in rows)),
        sharex=True,
        squeeze=False,
        layout="constrained",
        gridspec_kw={"height_ratios": [count + 2.0 for count in rows]},
    )
    axes = [row[0] for row in all_axes]
    for axis, panel in zip(axes, panels, strict=True):
        _draw_panel(axis, panel, scale)
    axes[-1].set_xlabel("offset")
    figure.get_layout_engine().set(h_pad=0.08, w_pad=0.08)
    figure.suptitle(title, fontsize=14, fontweight="bold")
    bar = figure.colorbar(plt.cm.ScalarMappable(scale, COLOURS), ax=axes, pad=0.01, aspect=40)
    bar.ax.yaxis.set_major_locator(dates.AutoDateLocator(minticks=4, maxticks=13))
    bar.ax.yaxis.set_major_formatter(dates.DateFormatter("%b %Y" if last - first > 60 else "%d %b"))
    bar.set_label("time of the records in a batch")
    figure.legend(handles=_legend(panels), loc="outside lower center", ncols=6, frameon=False, fontsize=9)
    figure.savefig(path, dpi=130)
    plt.close(figure)


def _draw_panel(axis: Any, panel: Panel, scale: Any) -> None:
    view = panel.view
    colour = plt.get_cmap(COLOURS)
    for piece in view.pieces:
        for batch in piece.batches:
            middle = scale((_days(batch.oldest_us) + _days(batch.newest_us)) / 2)
            axis.add_patch(_bar(piece.partition, batch.start, batch.end, facecolor=colour(middle), edgecolor="none"))
        low = piece.partition - HEIGHT / 2
        inner = [batch.start for batch in piece.batches[1:]]
        axis.vlines(inner, low, low + HEIGHT, color="white", linewidth=0.9, linestyle=(0, (2, 1.5)))
        axis.add_patch(
            _bar(piece.partition, piece.start, piece.end, facecolor="none", edgecolor="white", linewidth=1.6)
        )
    for piece in panel.forgotten:
        axis.add_patch(_bar(piece.partition, piece.start, piece.end, **GONE, linewidth=0.8))
    for partition, start in view.log_starts.items():
        axis.plot([start], [partition], marker=">", color="#d62728", markersize=8, zorder=5, clip_on=False)
    for partition, end in view.high_watermarks.items():
        axis.plot([end] * 2, [partition - 0.45, partition + 0.45], color="black", linewidth=2.2, zorder=5)
    objects = len({piece.object_key for piece in view.pieces})
    batches = sum(len(piece.batches) for piece in view.pieces)
    axis.set_title(f"{panel.title}: {counted(objects, 'object')}, {counted(batches, 'batch')}", loc="left", fontsize=11)
    names = sorted(view.log_starts)
    axis.set_yticks(names, [f"{view.topic}-{partition}" for partition in names])
    axis.set_ylim(len(names) - 0.4, -0.6)
    axis.set_xlim(0, max([*view.high_watermarks.values(), 1]) * 1.015)
    axis.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axis.tick_params(axis="y", length=0, pad=9)  # room for a log start at 0
    axis.spines[["top", "right", "left"]].set_visible(False)


def _bar(partition: int, start: int, end: int, **style: Any) -> Rectangle:
    return Rectangle((start, partition - HEIGHT / 2), end - start, HEIGHT, **style)


def _legend(panels: Sequence[Panel]) -> list[Any]:
    middle = plt.get_cmap(COLOURS)(0.45)
    entries: list[Any] = [
        Patch(facecolor=middle, label="what one object holds of a partition"),
        Line2D([], [], color=middle, linestyle=(0, (2, 1.5)), label="border of a batch in it"),
    ]
    if any(panel.forgotten for panel in panels):
        entries.append(Patch(**GONE, label="gone by retention"))
    entries.append(Line2D([], [], color="#d62728", marker=">", linestyle="", markersize=8, label="log start"))
    entries.append(Line2D([], [], color="black", linewidth=2.2, label="high watermark"))
    return entries


def _days(time_us: int) -> float:
    return float(dates.date2num(datetime.fromtimestamp(time_us / 1_000_000, UTC)))


def main() -> int:
    """Draw the current log of a topic. Return the exit code: 0, or that of the error."""
    parser = argparse.ArgumentParser(description="Draw a topic's log: partitions against offsets.")
    parser.add_argument("--cluster", metavar="URL", default=os.environ.get("SPARKLOG_CLUSTER"))
    parser.add_argument("--topic", metavar="T", required=True)
    parser.add_argument("--out", metavar="FILE", type=Path, default=Path("log.png"))
    given = parser.parse_args()
    try:
        with sparklog.connect(given.cluster) as cluster:
            view = look_at(cluster, given.topic)
    except SparklogError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    draw([Panel(given.topic, view)], given.out, f"The log of topic {given.topic}")
    print(given.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
