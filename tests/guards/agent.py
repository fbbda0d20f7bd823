"""Guards of agents, copies and the replication job: what is reported is really there, nothing is overwritten."""

from __future__ import annotations

from typing import Final

from tests.guards.guard import Guard

_AGENT: Final = "sparklog/agent/agent.py"
_LOSSES: Final = "sparklog/agent/losses.py"
_SEARCH: Final = "sparklog/core/placement/loss_search.py"
_COPY: Final = "sparklog/log/objects/object_copy.py"
_AGENT_TESTS: Final = "tests/agent/test_agent.py"
_LOSS_TESTS: Final = "tests/agent/test_losses.py"
_BESIDE_TESTS: Final = "tests/agent/test_losses_beside_others.py"
_COPY_TESTS: Final = "tests/log/objects/test_object_copy.py"

GUARDS: Final = (
    Guard(
        "agent-other-life",
        "What was found under one registration of a store is not reported under the next.",
        _AGENT,
        "self._registration, self._fetchers = store.registration, Fetchers(self.store, self._dice)",
        "self._registration = store.registration",
        (f"{_AGENT_TESTS}::test_what_was_copied_in_another_life_of_the_store_is_not_reported",),
    ),
    Guard(
        "agent-mark-read",
        "Before a report the store's INCARNATION is compared.",
        _AGENT,
        "            if mark is None or mark.incarnation != store.incarnation:\n                return",
        "            if False:\n                return",
        (f"{_AGENT_TESTS}::test_what_was_copied_before_the_store_was_wiped_is_not_reported",),
    ),
    Guard(
        "copy-life",
        "What was copied while the disk was not mounted is not reported once it is.",
        _COPY,
        "    check_incarnation(stores.get(store), incarnation, objects)\n",
        "",
        (
            "tests/agent/test_run.py::test_a_copy_below_a_disk_that_is_not_mounted_does_not_count_once_it_is_mounted",
            "tests/maintenance/test_replication_job.py"
            "::test_what_was_copied_while_the_store_was_not_mounted_does_not_count",
        ),
    ),
    Guard(
        "agent-foreign",
        "A store of another cluster is left alone.",
        _LOSSES,
        "    if mark.chain_id not in state.lineage:",
        "    if False:",
        (f"{_LOSS_TESTS}::test_a_store_of_another_cluster_stops_the_agent_and_is_not_touched",),
    ),
    Guard(
        "agent-two-stores",
        "Two stores at one place are not taken for a store that was wiped.",
        _LOSSES,
        "if other.incarnation == mark.incarnation and other.store != store.store:",
        "if False:",
        (f"{_LOSS_TESTS}::test_two_stores_at_one_place_stop_the_agent",),
    ),
    Guard(
        "agent-stops-fenced",
        "The agent of a fenced store stops.",
        _AGENT,
        "        if store.fenced:",
        "        if False:",
        (f"{_AGENT_TESTS}::test_a_fenced_store_stops_its_agent_with_the_way_back",),
    ),
    Guard(
        "agent-retention",
        "What retention took is no loss of the store.",
        _AGENT,
        "if not any(is_still_held(newer, self.store, object_) for object_ in missing.values()):",
        "if False:",
        (f"{_LOSS_TESTS}::test_what_retention_took_is_no_loss",),
    ),
    Guard(
        "agent-search-retention",
        "What retention took while the agent looked for what is left is not reported.",
        _SEARCH,
        "(missing is not None and not is_still_held(now, store, missing))",
        "False",
        (f"{_LOSS_TESTS}::test_what_retention_took_during_the_search_after_a_loss_is_not_reported",),
    ),
    Guard(
        "agent-search-rewrite",
        "What a rewrite has replaced while the agent looked for what is left is looked for again.",
        _SEARCH,
        "    return now.partitions[key].replication.version == before.partitions[key].replication.version",
        "    return True",
        (f"{_BESIDE_TESTS}::test_what_a_rewrite_has_replaced_during_the_search_is_looked_for_again",),
    ),
    Guard(
        "agent-search-deleted",
        "A topic that is deleted while the agent looks for what is left ends no search.",
        _SEARCH,
        "    if not _has_replica(now, store, key) or (missing",
        "    if (missing",
        (f"{_BESIDE_TESTS}::test_a_topic_that_is_deleted_during_the_search_does_not_stop_it",),
    ),
    Guard(
        "agent-loss-everywhere",
        "After a loss in one partition the newest objects of all others are looked for.",
        _AGENT,
        "            if not thorough:  # the same may",
        "            if False:  # the same may",
        (f"{_BESIDE_TESTS}::test_after_a_loss_in_one_partition_all_are_looked_at_at_once",),
    ),
    Guard(
        "agent-loss-own",
        "When an object is missing that only this store should have, the agent looks at once what else it has lost.",
        "sparklog/agent/fetchers.py",
        "                self.lost_something |= not request.wanted.sources\n",
        "",
        (f"{_BESIDE_TESTS}::test_what_only_its_store_should_have_and_has_not_is_a_loss_at_once",),
    ),
    Guard(
        "agent-loss-life",
        "When a copy finds another life of the store, the agent looks at once which one it is.",
        "sparklog/agent/fetchers.py",
        "                self.lost_something |= isinstance(reply, AnotherIncarnation)\n",
        "",
        (
            "tests/agent/test_run.py"
            "::test_a_disk_that_is_mounted_again_before_anything_was_copied_below_it_is_examined_at_once",
        ),
    ),
    Guard(
        "agent-held-ends",
        "A store without its mark keeps what is really there.",
        _SEARCH,
        "            if whole_too or key in missing:",
        "            if key in missing:",
        (f"{_LOSS_TESTS}::test_the_only_copy_that_lost_its_mark_keeps_its_records",),
    ),
    Guard(
        "report-contiguous",
        "A log end rises over what is contiguous only.",
        "sparklog/core/placement/replica_fetch.py",
        "        if slice_.object_number not in checked:\n            break",
        "        if slice_.object_number not in checked:\n            continue",
        ("tests/core/placement/test_replica_fetch.py::test_reports_are_those_of_a_slow_twin_and_the_chain_takes_them",),
    ),
    Guard(
        "copy-crc",
        "Bytes that pass by are compared with the chain's checksum.",
        _COPY,
        "    if actual != wanted:",
        "    if False:",
        (f"{_COPY_TESTS}::test_what_the_source_has_otherwise_is_not_copied",),
        "changed",
    ),
    Guard(
        "copy-length",
        "A source of another length is not copied by the stores themselves.",
        _COPY,
        "    source_bytes = _asked(source, key, lambda: source.size(key))\n    if source_bytes != size_bytes:",
        "    source_bytes = _asked(source, key, lambda: source.size(key))\n    if False:",
        (f"{_COPY_TESTS}::test_a_source_that_is_too_long_is_not_copied_by_the_stores",),
    ),
    Guard(
        "copy-there",
        "What is there counts only with its length.",
        _COPY,
        "    if existing_bytes != size_bytes:\n        raise Damaged(\n",
        "    if False:\n        raise Damaged(\n",
        (f"{_COPY_TESTS}::test_something_else_under_the_name_is_damage_and_stays",),
        "memory",
    ),
    Guard(
        "copy-unknown",
        "A put with an unknown outcome is not taken for a copy.",
        _COPY,
        "    with suppress(OutcomeUnknown):\n        return _put(put, target, key, size_bytes)\n"
        "    return _put(put, target, key, size_bytes)",
        "    with suppress(OutcomeUnknown):\n        return _put(put, target, key, size_bytes)\n    return None",
        (f"{_COPY_TESTS}::test_a_put_whose_outcome_is_unknown_is_put_again",),
    ),
    Guard(
        "copy-durable-name",
        "A name that another process left is made durable before it counts.",
        _COPY,
        "    index = index_key(key)\n    body",
        "    index = index_key(key)\n    if _is_there(target, index, named.index_size_bytes):\n        return\n"
        "    body",
        (f"{_COPY_TESTS}::test_names_that_another_process_left_are_made_durable",),
    ),
    Guard(
        "job-mark-read",
        "The replication job compares the store's INCARNATION after the copies.",
        "sparklog/maintenance/replication_job.py",
        "        registration = check_registered(frame, state, store)",
        "        registration = state.stores[store].registration",
        ("tests/maintenance/test_replication_job.py::test_a_store_that_is_wiped_during_the_copies_is_not_reported",),
    ),
    Guard(
        "copy-rebuilt-index",
        "An index that was rebuilt from a copy is the one that the chain names, or none.",
        "sparklog/log/check/index_repair.py",
        "    return body if _is_named(body, named) else None",
        "    return body",
        (f"{_COPY_TESTS}::test_an_index_that_another_arrow_would_write_otherwise_is_not_put",),
    ),
    Guard(
        "agent-rests",
        "An agent whom the chain refuses for ever rests in between, and can be stopped.",
        "sparklog/agent/agent.py",
        "            if newer.n > state.n:",
        "            if True:",
        ("tests/agent/test_agent.py::test_an_agent_whose_cluster_and_store_were_deleted_rests_and_stops",),
    ),
    Guard(
        "job-of-restored",
        "The replication job does not take a restore of its cluster for another change that was faster.",
        "sparklog/maintenance/replication_job.py",
        "        except InconsistentClusterId:\n            raise\n",
        "",
        ("tests/maintenance/test_replication_job.py::test_a_cluster_that_was_restored_elsewhere_is_no_other_change",),
    ),
)
