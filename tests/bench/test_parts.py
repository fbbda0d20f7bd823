"""Every part of `make bench` can be imported."""

from __future__ import annotations

import importlib
import pkgutil

import bench


def test_every_part_of_the_bench_can_be_imported() -> None:
    for module in pkgutil.iter_modules(bench.__path__, "bench."):
        importlib.import_module(module.name)
