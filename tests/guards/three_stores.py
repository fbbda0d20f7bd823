"""Guards of replicas whose absence shows from outside: at real stores, with processes that write meanwhile.

The same guards have cheap tests of their own in the lists beside this one.
"""

from __future__ import annotations

from typing import Final

from tests.guards.guard import Guard

_SCENARIOS: Final = "tests/faults/test_three_stores.py::test_nothing_is_lost_and_the_replicas_are_the_same"
_LOST: Final = "tests/faults/test_lost_store.py::"
_MIXED: Final = "tests/faults/test_lost_server.py::"

GUARDS: Final = (
    Guard(
        "outside-hw",
        "Readers see what is on every store in sync, not what one of them has.",
        "sparklog/core/replication/partition.py",
        "    if len(isr) >= changed.required_isr(min_isr):",
        "    if isr:",
        (_SCENARIOS,),
        choose="divergence",
    ),
    Guard(
        "outside-leaves",
        "A store that did not take a write is not in sync.",
        "sparklog/core/replication/replica_append.py",
        "            isr = tuple(store for store in isr if store in whole)",
        "            pass",
        (f"{_LOST}test_writes_go_on_whatever_one_store_does",),
    ),
    Guard(
        "outside-incarnation",
        "A folder that is not mounted is not the store that was there.",
        "sparklog/log/write/replicated_upload.py",
        "                check_incarnation(store, self.lane.incarnation, (self._key,))\n",
        "                pass\n",
        (f"{_LOST}test_writes_go_on_whatever_one_store_does",),
    ),
    Guard(
        "outside-take-over",
        "A write whose leader's store is gone goes on under another leader.",
        "sparklog/core/decide/append.py",
        "    if command.take_over and before.leader not in everywhere:",
        "    if False:",
        (_SCENARIOS,),
        choose="unnoticed",
    ),
    Guard(
        "outside-old-copy",
        "A store that is an old copy of itself is found out.",
        "sparklog/agent/agent.py",
        "            if not missing:\n                return state",
        "            if True:\n                return state",
        (f"{_LOST}test_a_store_that_is_wiped_or_an_old_copy_is_found_out_and_filled",),
    ),
    Guard(
        "outside-slow",
        "A store that takes 30 s for each request does not hold writers up that long.",
        "sparklog/log/write/store_lanes.py",
        "                if left_ms <= 0:",
        "                if False:",
        (f"{_MIXED}test_writes_go_on_and_the_store_ends_as_the_others",),
        choose="takes",
    ),
    Guard(
        "outside-wiped",
        "A bucket that was emptied is not the store that was there.",
        "sparklog/log/write/replicated_upload.py",
        "                check_incarnation(store, self.lane.incarnation, (self._key,))\n",
        "                pass\n",
        (f"{_MIXED}test_a_store_that_was_wiped_leaves_and_is_filled",),
        choose="S3",
    ),
    Guard(
        "outside-old-objects",
        "A bucket that lacks its newer objects is found out.",
        "sparklog/agent/agent.py",
        "            if not missing:\n                return state",
        "            if True:\n                return state",
        (f"{_MIXED}test_a_store_with_old_data_is_found_out_and_filled",),
        choose="S3",
    ),
    Guard(
        "append-secrets",
        "An append has the secrets that its program gave.",
        "sparklog/client/plans/plan_and_upload.py",
        ", stores=stores, kept=kept)",
        ", kept=kept)",
        ("tests/client/test_cluster.py::test_an_append_opens_stores_with_the_secrets_that_its_program_gave",),
    ),
)
