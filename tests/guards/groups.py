"""Guards of consumer groups: who may commit, what a commit may say, and who is evicted."""

from __future__ import annotations

from typing import Final

from tests.guards.guard import Guard

_DECIDE: Final = "sparklog/core/decide/groups.py"
_TESTS: Final = "tests/core/decide/test_groups.py::"

GUARDS: Final = (
    Guard(
        "group-generation",
        "Only members of the present generation commit: the partitions may be others' by now.",
        "sparklog/core/groups.py",
        "    if generation != group.generation:",
        "    if False:",
        (_TESTS + "test_only_the_present_generation_commits",),
    ),
    Guard(
        "group-member",
        "Who is no member any more commits nothing.",
        "sparklog/core/groups.py",
        "    if member is None:\n        raise unknown_member(group, member_id)",
        "    if member is None:\n        return Member(member_id, (), 1, EntryNumber(0))",
        (_TESTS + "test_only_the_present_generation_commits",),
    ),
    Guard(
        "group-without-member",
        "A commit without a member does not move a group that has members.",
        _DECIDE,
        "        if group.members:\n            ids",
        "        if False:\n            ids",
        (_TESTS + "test_without_a_member_only_a_group_without_members_is_committed_to",),
    ),
    Guard(
        "group-repeat",
        "A commit that is sent again does not move a group back.",
        _DECIDE,
        "        if known is not None and 0 < command.number <= known.commits:",
        "        if False:",
        (_TESTS + "test_a_commit_that_was_repeated_or_overtaken_changes_nothing",),
    ),
    Guard(
        "group-offset-in-log",
        "A group does not go on behind the high watermark.",
        _DECIDE,
        "    if not 0 <= offset.offset <= end:",
        "    if False:",
        (_TESTS + "test_a_commit_is_refused_as_a_whole",),
    ),
    Guard(
        "group-metadata",
        "The texts with offsets are bounded, as the state keeps them.",
        _DECIDE,
        "    if size > most_bytes:",
        "    if False:",
        (_TESTS + "test_a_commit_is_refused_as_a_whole",),
    ),
    Guard(
        "group-lost-records",
        "What an unclean election gave up before a late commit counts as unread.",
        _DECIDE,
        "    return offset if right == offset.offset else msgspec.structs.replace(offset, offset=right)",
        "    return offset",
        ("tests/core/test_forgetting.py::test_a_group_goes_back_to_where_an_unclean_election_began_to_lose",),
    ),
    Guard(
        "group-cut",
        "An unclean election takes a group back to where it began to lose records.",
        "sparklog/core/forgetting.py",
        "            state.offsets.cut(key, change.forgotten_from)\n",
        "",
        ("tests/core/test_forgetting.py::test_a_group_goes_back_to_where_an_unclean_election_began_to_lose",),
    ),
    Guard(
        "group-topic-deleted",
        "The offsets of a deleted topic go with it.",
        "sparklog/core/apply.py",
        "    state.offsets.remove_topic(record.topic_id)\n",
        "",
        (_TESTS + "test_a_topic_created_again_is_another_topic_for_a_group",),
    ),
    Guard(
        "group-partitions-changed",
        "Added partitions belong to a member at once.",
        "sparklog/core/decide/topics.py",
        "        *rebalanced(state, topic.name, TopicSize(topic.topic_id, command.total)),\n",
        "",
        (_TESTS + "test_each_change_of_members_or_partitions_divides_them_anew",),
    ),
    Guard(
        "group-delete-active",
        "A group with members is neither deleted nor reset.",
        _DECIDE,
        "    if group.members:\n        ids",
        "    if False:\n        ids",
        (_TESTS + "test_a_group_with_members_is_not_deleted",),
    ),
    Guard(
        "group-renewed-since",
        "A member that was renewed after it was seen silent is not evicted.",
        _DECIDE,
        "(member is None or member.renewed_at != command.renewed_at)",
        "member is None",
        (_TESTS + "test_a_member_that_was_renewed_in_the_meantime_is_not_evicted",),
    ),
    Guard(
        "group-silence-asked",
        "Time in which a process saw nothing of the chain does not count as silence of others.",
        "sparklog/core/group_sessions.py",
        "            if asked_ms - self._seen[key] >= member.session_timeout_ms",
        "            if now_ms - self._seen[key] >= member.session_timeout_ms",
        ("tests/core/test_groups.py::test_time_in_which_nobody_looked_counts_for_nobody",),
    ),
    Guard(
        "group-expiry-emptied",
        "Offsets are kept for the whole retention after the last member has left.",
        _DECIDE,
        'np.maximum(rows["committed_ms"], emptied[of_row])',
        'rows["committed_ms"]',
        (_TESTS + "test_offsets_expire_once_their_group_has_been_empty_for_the_retention",),
    ),
    Guard(
        "group-expiry-subscribed",
        "What members read does not expire, however old the commit is.",
        _DECIDE,
        "        if key >> 32 not in subscribed.get(number, ()):",
        "        if True:",
        (_TESTS + "test_offsets_expire_once_their_group_has_been_empty_for_the_retention",),
    ),
    Guard(
        "group-rows-replaced",
        "A row that is committed again replaces the one in an older block.",
        "sparklog/core/offset_table.py",
        "        self._kill({group: np.array(sorted(keys), dtype=np.int64) for group, keys in replaced.items()})\n",
        "",
        ("tests/core/test_offset_table.py::test_a_row_that_is_set_again_replaces_the_one_in_a_block",),
    ),
    Guard(
        "group-printed-then-committed",
        "consume --group commits only what it has printed.",
        "sparklog/cli/consume.py",
        "            table = consumer.poll_table(FOLLOW_WAIT_MS if follow else 0, most)",
        "            table = consumer.poll_table(FOLLOW_WAIT_MS if follow else 0, most)\n"
        "            consumer.poll_table(0, 1)",
        ("tests/cli/test_consume.py::test_a_group_commits_only_what_it_printed",),
    ),
)
