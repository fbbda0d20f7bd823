"""A store that is catching up becomes level although writers go on: they upload to it too, and name it."""

from __future__ import annotations

from sparklog.core.commands import AgentUp
from sparklog.core.types import StoreId
from tests.core.replicated_log import ReplicatedLog

C = StoreId("c")


def caught_up_but_for(*named: str) -> ReplicatedLog:
    """c was fenced and is back. It lacks one record, then come writes that are on these stores."""
    log = ReplicatedLog()
    log.configure(min_insync_replicas="1")
    log.write("abc")
    log.fence("c")
    log.write("ab")
    log.register("c")
    for stores in named:
        log.write(stores)
    return log


# M: P-02
def test_a_report_goes_on_over_what_names_the_store() -> None:
    log = caught_up_but_for("abc", "abc")
    assert log.value().log_end(C) == 1
    log.report("c", 2)
    assert log.replicas() == "a:abc a4 b4 c4 hw4"


def test_a_report_ends_where_something_does_not_name_the_store() -> None:
    log = caught_up_but_for("abc", "ab", "abc")
    log.report("c", 2)
    assert log.replicas() == "a:ab a5 b5 c3 hw5"


def test_what_named_an_earlier_registration_does_not_count() -> None:
    log = caught_up_but_for("abc")
    log.fence("c")
    log.register("c")
    log.report("c", 2)
    assert log.replicas() == "a:ab a3 b3 c2 hw3"


def test_a_write_that_was_planned_before_the_store_was_level_keeps_it_in_sync_if_it_names_it() -> None:
    log = caught_up_but_for("abc")
    log.submit(AgentUp(C, log.registration("c")))
    late = log.write_of("abc")
    log.report("c", 2)
    log.submit(late)
    assert log.replicas() == "a:abc a4 b4 c4 hw4"
