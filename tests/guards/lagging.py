"""Guards of the lag clock: whoever leaves the ISR really lacked something for a whole period (rule I2)."""

from __future__ import annotations

from typing import Final

from tests.guards.guard import Guard

_CLOCK: Final = "sparklog/core/placement/lag_clock.py"
_AGENT: Final = "sparklog/agent/agent.py"


def _guard(name: str, guards: str, text: str, without: str, test: str) -> Guard:
    return Guard(f"lag-{name}", guards, _CLOCK, text, without, (f"tests/core/placement/test_lag_clock.py::{test}",))


GUARDS: Final = (
    _guard(
        "leo-of-that-time",
        "A follower has to have what the leader had a period ago, not what it has now.",
        "value.log_end(store) < leader_end",
        "value.log_end(store) < value.next_offset",
        "test_a_follower_that_has_what_the_leader_had_within_the_period_stays",
    ),
    _guard(
        "period",
        "A follower lags only after a period of its own, also one that joined the ISR later.",
        "if in_sync_ms < then_ms and ",
        "if ",
        "test_a_store_that_came_back_has_a_period_of_its_own",
    ),
    _guard(
        "registration",
        "So has a store that was registered again between two looks.",
        "known is not None and known[0] == registration",
        "known is not None",
        "test_a_store_that_came_back_between_two_looks_has_a_period_of_its_own",
    ),
    _guard(
        "epoch",
        "Under a new leader epoch the period begins anew.",
        "if behind is None or behind.leader_epoch != value.leader_epoch:",
        "if behind is None:",
        "test_a_new_leader_epoch_begins_anew",
    ),
    _guard(
        "leader",
        "Only the agent of the leader's store judges.",
        "if self._store is None else value.leader == self._store",
        "",
        "test_only_the_agent_of_the_leaders_store_judges",
    ),
    _guard(
        "asked",
        "A state that comes late is judged as of when it was asked for.",
        "        self._asked_ms = asked_ms",
        "        self._asked_ms = now_ms",
        "test_a_state_that_comes_late_is_judged_as_of_when_it_was_asked_for",
    ),
    _guard(
        "seen",
        "What the leader has counts from when it was seen.",
        "ends.append((now_ms, value.next_offset))",
        "ends.append((self._asked_ms, value.next_offset))",
        "test_what_the_leader_has_counts_from_when_it_was_seen_also_later",
    ),
    _guard(
        "favour",
        "A LEO of the leader that is left out is judged to the follower's favour.",
        "                ends.pop()  # as if the leader had got this far only now, in the follower's favour\n"
        "            ends.append((now_ms, value.next_offset))",
        "                now_ms = ends.pop()[0]\n            ends.append((now_ms, value.next_offset))",
        "test_little_is_remembered_of_a_partition_that_is_always_behind",
    ),
    _guard(
        "check",
        "The check is made twice a period.",
        "        if now_ms < self._check_ms:",
        "        if False:",
        "test_the_check_is_made_twice_a_period",
    ),
    Guard(
        "lag-once",
        "An agent that runs once takes nobody out of the ISR.",
        _AGENT,
        "        if self._once or self._stopping or state.coordinator.in_force:",
        "        if self._stopping or state.coordinator.in_force:",
        ("tests/agent/test_lagging.py::test_an_agent_that_runs_once_takes_nobody_out",),
    ),
    Guard(
        "lag-stopping",
        "An agent that stops takes nobody out of the ISR.",
        _AGENT,
        "        if self._once or self._stopping or state.coordinator.in_force:",
        "        if self._once or state.coordinator.in_force:",
        ("tests/agent/test_lagging.py::test_an_agent_that_stops_takes_nobody_out",),
    ),
)
