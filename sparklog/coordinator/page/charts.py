"""Makes small SVG charts: the points of a line, and of the area below the line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

WIDTH, HEIGHT = 600, 80


@dataclass(frozen=True)
class Chart:
    """A chart of one series of values. `line` and `area` are the points of an SVG; "" for fewer than two values.

    `command`: the command line that shows the same numbers. `latest`: the newest value; `top`: the greatest one.
    `seconds`: the time span of the chart.
    """

    title: str
    unit: str
    command: str
    line: str
    area: str
    latest: float
    top: float
    seconds: int


def chart(title: str, unit: str, command: str, values: Sequence[float], slots: int, seconds: int) -> Chart:
    """A chart with room for `slots` values, the newest at the right. `seconds`: the time span of all slots."""
    values = values[-slots:]
    top = max(values, default=0.0)
    if len(values) < 2:
        return Chart(title, unit, command, "", "", values[-1] if values else 0.0, top, seconds)
    step = WIDTH / (slots - 1)
    first_x = WIDTH - step * (len(values) - 1)
    floor = HEIGHT - 1
    points = [
        (first_x + step * at, floor - (value / top * (HEIGHT - 4) if top else 0.0)) for at, value in enumerate(values)
    ]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    area = f"{first_x:.1f},{HEIGHT} {line} {WIDTH},{HEIGHT}"
    return Chart(title, unit, command, line, area, values[-1], top, seconds)
