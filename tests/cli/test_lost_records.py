"""Records that are lost for good: `consume` stops there, or passes over them if it is told to."""

from __future__ import annotations

from pathlib import Path

import pytest

import sparklog
from sparklog.core.errors import DataLoss
from sparklog.core.types import ObjectNumber
from sparklog.maintenance.verify.recovery_job import run_recovery
from sparklog.storage.keys import data_key
from tests.cli.conftest import Cli, Said
from tests.kit.silent_console import SILENT

LINE = "records [{0}, {1}) were lost"


def accept_loss(orders: Cli, offset: int) -> None:
    """Lose one of the three records of orders for good. Each lies in an object of its own."""
    with sparklog.connect(orders.url) as cluster:
        object_ = cluster.connection.follower.state.objects.get(ObjectNumber(offset))
    assert object_ is not None
    (Path(orders.url) / data_key(object_, "orders")).unlink()
    assert run_recovery(orders.url, accept_loss=True, console=SILENT).exit_code == 0


@pytest.mark.parametrize("group", [(), ("--group", "g")], ids=["alone", "group"])
@pytest.mark.parametrize("lost", [0, 1, 2])
def test_a_loss_stops_consume_until_it_is_told_to_skip_it(orders: Cli, lost: int, group: tuple[str, ...]) -> None:
    accept_loss(orders, lost)
    line = LINE.format(lost, lost + 1)
    stopped = orders("consume", "orders", *group)
    assert stopped.code == 5
    assert stopped.out.split() == list("abc"[:lost])  # the records before it are printed
    assert line in stopped.err
    assert "--skip-lost continues with the records that are left" in stopped.err
    again = orders("consume", "orders", *group)
    assert (again.code, again.out) == (5, "" if group else stopped.out)  # a group committed what was printed
    skipped = orders("consume", "orders", *group, "--skip-lost")
    assert skipped.code == 0
    assert skipped.out.split() == list("abc"[lost + 1 :] if group else "abc"[:lost] + "abc"[lost + 1 :])
    orders("produce", "orders", stdin="d\n")
    if group:
        assert orders("consume", "orders", *group).out == "d\n"  # it is past the loss


@pytest.mark.parametrize("offset", ["3", "end", "@2100-01-01T00:00:00Z"])
def test_a_loss_at_the_end_is_no_error_behind_it(orders: Cli, offset: str) -> None:
    accept_loss(orders, 2)
    assert orders("consume", "orders", "--offset", offset) == Said(0, "", "")


def test_a_scan_of_python_names_its_own_option(orders: Cli) -> None:
    accept_loss(orders, 1)
    with sparklog.connect(orders.url) as cluster:
        with pytest.raises(DataLoss, match="fail_on_data_loss=False continues with the records that are left"):
            cluster.read("orders", partition=0)
        left = cluster.read("orders", partition=0, fail_on_data_loss=False)
    assert left["value"].to_pylist() == [b"a", b"c"]
