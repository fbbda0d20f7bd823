"""The guards of the copies of the chain, and of a restore from them."""

from __future__ import annotations

from typing import Final

from tests.guards.guard import Guard

_COPIES = "tests/chain/test_copies.py::"
_RESTORE = "tests/client/test_restore.py::"

GUARDS: Final[tuple[Guard, ...]] = (
    Guard(
        "copies-before-ack",
        "An entry is on other stores before its commands are acknowledged.",
        "sparklog/chain/group_commit.py",
        "                case Won() if not self._attempts[0].is_copied and ",
        "                case Won() if False and ",
        (f"{_COPIES}test_an_entry_is_on_as_many_stores_as_are_wanted_before_the_answer",),
    ),
    Guard(
        "copies-settled",
        "An answer that rests on an entry of another process waits for its copies.",
        "sparklog/chain/settling.py",
        "        if not self._copied:",
        "        if True:",
        (f"{_COPIES}test_the_answer_to_a_repeat_waits_for_copies_too",),
    ),
    Guard(
        "copies-whole",
        "A store has everything before an entry when it gets the entry.",
        "sparklog/chain/store_copy.py",
        "            self._catch_up(copy)\n        if",
        "            pass\n        if",
        (f"{_COPIES}test_an_acknowledged_entry_has_copies_of_all_before_it",),
    ),
    Guard(
        "copies-beginning",
        "Entries without those before them, as after a store was wiped, are not taken for a copy.",
        "sparklog/chain/store_copy.py",
        "        if not self._has(0) and self._place",
        "        if False and self._place",
        (f"{_COPIES}test_entries_without_a_beginning_are_no_copy",),
    ),
    Guard(
        "copies-patience",
        "A store that hangs holds no commit up for long.",
        "sparklog/chain/copies.py",
        "                    elif self._clock.monotonic_ms() >= until_ms:",
        "                    elif False:",
        (f"{_COPIES}test_a_store_that_hangs_holds_nobody_up_for_longer_than_patience",),
    ),
    Guard(
        "copies-enough",
        "With too few copies nothing is acknowledged.",
        "sparklog/chain/copies.py",
        "                    raise _too_few(copy.head.n, whole, wanted, failures)",
        "                    return",
        (f"{_COPIES}test_without_enough_stores_nothing_is_acknowledged_and_a_retry_is_once_they_are_there",),
    ),
    Guard(
        "owner-seen-by-who-begins",
        "A process of a lost chain that begins after its restore acknowledges nothing.",
        "sparklog/chain/store_copy.py",
        "            check_owner(self._target, len(copy.head.state.ancestors))",
        "            pass",
        (f"{_COPIES}test_a_restored_cluster_is_noticed_by_who_begins_and_by_who_runs",),
    ),
    Guard(
        "owner-seen-by-who-runs",
        "A process of a lost chain that runs on acknowledges nothing after its restore.",
        "sparklog/client/restore.py",
        "            close(CopyPlace(target, chain_id), owner)",
        "            pass",
        (f"{_RESTORE}test_the_lost_chain_acknowledges_nothing_more_once_it_is_restored",),
    ),
    Guard(
        "owner-marks-before-reading",
        "A restore reads the copies after it has kept the lost chain out.",
        "sparklog/chain/store_copy.py",
        "        if is_mark(there):",
        "        if is_mark(there) and not body:",
        (f"{_COPIES}test_a_restored_cluster_is_noticed_by_who_begins_and_by_who_runs",),
    ),
    Guard(
        "owner-deletions",
        "A process of a lost chain deletes nothing after its restore.",
        "sparklog/log/stores.py",
        "            check_owner(self.get(store), self.places.ancestors)",
        "            pass",
        (f"{_RESTORE}test_jobs_of_the_lost_chain_delete_nothing_once_it_is_restored",),
    ),
    Guard(
        "restore-one-owner",
        "Of two restores to different places one is refused.",
        "sparklog/client/restore.py",
        "            if there != mine and (owner is not None",
        "            if False and (owner is not None",
        (f"{_RESTORE}test_of_two_restores_at_once_to_different_places_one_is_refused",),
    ),
    Guard(
        "restore-empty-place",
        "A restore never goes to a place that has metadata.",
        "sparklog/client/restore.py",
        "        if here.n >= 0 and here.chain_id not in begun:",
        "        if False:",
        (f"{_RESTORE}test_a_place_that_has_metadata_is_no_place_for_a_restore",),
    ),
    Guard(
        "restore-floor",
        "What was begun on the lost chain is not committed to the restored one.",
        "sparklog/core/decide/restore.py",
        "    return (restored, FloorRaised(at.n), *changes)",
        "    return (restored, *changes)",
        (f"{_RESTORE}test_what_was_begun_on_the_lost_chain_is_not_committed_to_the_new_one",),
    ),
    Guard(
        "restore-epochs",
        "Every partition has a new leader epoch after a restore.",
        "sparklog/core/decide/restore.py",
        "        if before.leader is None:",
        "        if True:",
        (f"{_RESTORE}test_a_cluster_is_restored_from_any_one_store_that_has_copies",),
    ),
    Guard(
        "restore-newest-chain",
        "A cluster that was restored before is restored from its newest chain.",
        "sparklog/client/restore.py",
        "            if owner is None or (is_done is None and self._has_copies(chain_id)):",
        "            if owner is None:",
        (f"{_RESTORE}test_a_restored_cluster_can_be_restored_again",),
    ),
)
