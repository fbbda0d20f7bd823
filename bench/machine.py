"""What the figures were measured on."""

from __future__ import annotations

import os
import platform
from pathlib import Path

import pyarrow
import pyspark


def describe() -> str:
    """One line: processors, memory, system, versions."""
    model = "unknown processor"
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [
            line.split(":", 1)[1].strip() for line in info.read_text().splitlines() if line.startswith("model name")
        ]
        model = names[0] if names else model
    memory_gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return (
        f"{os.cpu_count()} x {model}, {memory_gib:.0f} GiB, {platform.system()} {platform.release()}, "
        f"Python {platform.python_version()}, pyspark {pyspark.__version__}, pyarrow {pyarrow.__version__}"
    )


def loaded() -> str:
    """An addition to the description if a processor or more was busy in the last minute, else ""."""
    load = os.getloadavg()[0]
    return f", loaded by other work (load average {load:.1f} at the start): seconds are no guide" if load >= 1 else ""
