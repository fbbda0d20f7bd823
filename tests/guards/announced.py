"""The guards of what stores say of each other: announcements, the last store with copies, the place of the metadata."""

from __future__ import annotations

from typing import Final

from tests.guards.guard import Guard

_BESIDE_STORES = "tests/client/restoring/test_restore_beside_stores.py::"
_CHECKS = "sparklog/client/restoring/restore_checks.py"
_REMOUNTED = "tests/client/test_remounted_copies.py::"

GUARDS: Final[tuple[Guard, ...]] = (
    Guard(
        "peers-announced",
        "A store is announced to as many stores as have copies before it is registered.",
        "sparklog/client/stores/add_store.py",
        "    if copies and len(announced) < len(may_have_mirrors):",
        "    if False:",
        (f"{_BESIDE_STORES}test_a_store_is_not_added_while_no_store_that_may_have_copies_can_be_told",),
    ),
    Guard(
        "peers-registered",
        "A store is registered only if the stores that were told of it are still registered.",
        "sparklog/core/decide/stores.py",
        "    if gone:",
        "    if False:",
        (f"{_BESIDE_STORES}test_a_store_whose_announcement_is_outdated_is_not_registered",),
    ),
    Guard(
        "peers-withdrawn",
        "A store is registered only if none was registered since it was announced: it may have been removed again.",
        "sparklog/core/decide/stores.py",
        "    if command.next_registration not in (None, state.next_registration):",
        "    if False:",
        (f"{_BESIDE_STORES}test_a_store_is_not_registered_by_an_announcement_that_was_withdrawn_since",),
    ),
    Guard(
        "peers-of-this-cluster",
        "A store that was announced, and belongs to another cluster by now, is not marked.",
        "sparklog/client/restoring/found_stores.py",
        "                if address != given and self._chains().isdisjoint(found_store.chains):",
        "                if False:",
        (f"{_BESIDE_STORES}test_a_store_that_another_cluster_has_by_now_is_not_marked",),
    ),
    Guard(
        "remove-last-copies",
        "The last store that may have copies of the metadata is not removed.",
        "sparklog/core/decide/stores.py",
        "    if copies and not command.others.items()",
        "    if False and not command.others.items()",
        (
            f"{_BESIDE_STORES}test_the_last_store_that_may_have_copies_is_not_removed",
            f"{_BESIDE_STORES}test_of_the_last_two_stores_that_may_have_copies_two_processes_remove_one",
        ),
    ),
    Guard(
        "peers-owner",
        "The lost chain announces no store any more once its stores are marked.",
        "sparklog/chain/peers.py",
        "    check_owner(target, ancestors, [INCARNATION, key])",
        "    pass",
        (f"{_BESIDE_STORES}test_a_marked_store_is_told_of_no_store_of_the_lost_chain",),
    ),
    Guard(
        "peers-asked",
        "A restore looks for the stores that were announced.",
        "sparklog/client/restoring/found_stores.py",
        "                if peer.url is not None:",
        "                if False:",
        (f"{_BESIDE_STORES}test_a_store_that_was_added_is_found_though_it_alone_has_the_newest_copies",),
    ),
    Guard(
        "peers-required",
        "A restore is refused without a store that was announced, and may have the newest copies.",
        _CHECKS,
        "        if peer.url is not None:",
        "        if False:",
        (f"{_BESIDE_STORES}test_a_store_that_was_announced_and_is_not_there_may_have_the_newest_copies",),
    ),
    Guard(
        "peers-below-mount",
        "An announcement that was put below a disk that is back by the next look is not on that disk.",
        "sparklog/chain/peers.py",
        "    check_owner(target, ancestors, [INCARNATION, key])",
        "    check_owner(target, ancestors)",
        (f"{_REMOUNTED}test_an_announcement_below_a_disk_that_is_back_by_the_next_look_does_not_count",),
        "names",
    ),
    Guard(
        "metadata-apart",
        "The place of the metadata is no store under another address: copies would lie beside the originals.",
        "sparklog/client/stores/add_store.py",
        "    places = targets if at_metadata else",
        "    places = targets if True else",
        ("tests/client/test_bootstrap.py::test_the_place_of_the_metadata_is_no_store_under_another_address",),
    ),
    Guard(
        "metadata-added",
        "The place of the metadata is not added under another address.",
        "sparklog/client/stores/add_store.py",
        "        if hash_of(bytes(target.get(entry_key(head.n)))) == head.entry_hash:",
        "        if False:",
        ("tests/client/test_bootstrap.py::test_the_place_of_the_metadata_is_not_added_under_another_address",),
    ),
    Guard(
        "peers-damaged",
        "A damaged announcement may be of a store with the newest copies.",
        _CHECKS,
        "        if peer.damaged:\n",
        "        if False:\n",
        (f"{_BESIDE_STORES}test_a_damaged_announcement_may_be_of_a_store_with_the_newest_copies",),
    ),
    Guard(
        "remove-last-copies-registration",
        "A store that was registered again since, as after a loss, is not one that may have copies.",
        "sparklog/core/decide/stores.py",
        "command.others.items() & state.registrations().items()",
        "command.others.keys() & state.registrations().keys()",
        ("tests/core/decide/test_stores.py::test_the_last_store_that_may_have_copies_stays",),
    ),
    Guard(
        "announcement-refused",
        "An announcement that the mark of a restore refuses is not tried again under other numbers.",
        "sparklog/client/stores/add_store.py",
        "        except InconsistentClusterId:  # a further announcement could fail in another way, and hide this\n"
        "            raise\n",
        "",
        (f"{_BESIDE_STORES}test_a_store_that_is_added_to_the_lost_chain_is_announced_to_a_marked_store_just_once",),
    ),
    Guard(
        "peers-of-former-chains",
        "A store belongs to the cluster by each chain that has owned it, not just by its first one.",
        "sparklog/client/restoring/found_stores.py",
        "self._chains().isdisjoint(found_store.chains)",
        "mark.chain_id not in self._chains()",
        ("tests/client/restoring/test_found_stores.py::test_a_store_is_known_by_each_chain_that_has_owned_it",),
    ),
)
