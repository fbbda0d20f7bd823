"""The guards of access: who is let in, to what, and where tokens go."""

from __future__ import annotations

from typing import Final

from tests.guards.guard import Guard

_ACCESS = "tests/core/test_access.py::"
_PRODUCER = "test_a_producer_is_fenced_or_used_only_with_the_right_on_all_topics_that_it_wrote_to"
_GATE = "tests/coordinator/access/test_gate.py::"
_GATE_COMMANDS = "tests/coordinator/test_gate_commands.py::"
_FILE = "tests/coordinator/access/test_access_file.py::"
_RENEWED = "tests/coordinator/access/test_renewed_files.py::"
_CALLS = "tests/storage/http/test_calls.py::"
_CLI = "tests/cli/cluster/test_coordinator_verbs.py::"

GUARDS: Final[tuple[Guard, ...]] = (
    Guard(
        "member-of-others",
        "A member of a group is evicted, replaced or renewed only with the right on all its topics.",
        "sparklog/core/access.py",
        "    if member is not None and not all(principal.may(verb, topic) for topic in member.topics):",
        "    if False:",
        (
            "tests/core/test_access.py::"
            "test_a_member_is_evicted_replaced_or_renewed_only_with_the_right_on_all_its_topics",
            "tests/coordinator/test_gate_commands.py::test_a_heartbeat_needs_the_right_on_all_topics_of_the_member",
        ),
    ),
    Guard(
        "join-of-others",
        "A group is joined only with the right on the topics of all its members.",
        "sparklog/core/access.py",
        "        if need.joins:",
        "        if False:",
        ("tests/core/test_access.py::test_a_group_is_joined_only_with_the_right_on_the_topics_of_all_members",),
    ),
    Guard(
        "renewed-beside-others",
        "A member stays although another one has joined that reads topics that the member may not read.",
        "sparklog/core/access.py",
        "    if known is None or known.member(member_id) or known.holder(instance_of(member_id)):",
        "    if known is None:",
        ("tests/core/test_access.py::test_a_member_renews_itself_beside_one_that_came_later_and_reads_more",),
    ),
    Guard(
        "producer-of-others",
        "A producer is fenced only with the right on all topics that it wrote to.",
        "sparklog/core/access.py",
        "    if not all(principal.may(verb, state.topics[topic_id].name) for topic_id in topic_ids):",
        "    if False:",
        (f"{_ACCESS}{_PRODUCER}[fences]", f"{_ACCESS}{_PRODUCER}[appends]"),
    ),
    Guard(
        "producer-used-by-others",
        "Nobody adds a topic of his own to those of another's producer, which would then lack a right.",
        "sparklog/core/access.py",
        ", of_producers=tuple(sorted(producers)))",
        ")",
        (f"{_ACCESS}{_PRODUCER}[appends]",),
    ),
    Guard(
        "known-write-of-others",
        "The result of another author's write does not show topics that its caller may not describe.",
        "sparklog/coordinator/access/submitting.py",
        "    if not hidden:",
        "    if True:",
        (f"{_GATE_COMMANDS}test_the_result_of_a_known_write_names_only_topics_that_its_caller_may_describe",),
    ),
    Guard(
        "access-exposure",
        "A coordinator without TLS and tokens is not reached from other machines.",
        "sparklog/coordinator/run.py",
        "    if missing and not is_this_machine(host):",
        "    if False:",
        (f"{_CLI}test_it_listens_beyond_this_machine_with_tls_and_an_access_file_only",),
    ),
    Guard(
        "access-token",
        "A request without a right token is refused.",
        "sparklog/coordinator/access/gate.py",
        "        if principal is None:",
        "        principal = principal or ANONYMOUS\n        if False:",
        (f"{_GATE}test_every_route_but_those_for_probes_asks_for_a_token",),
    ),
    Guard(
        "access-token-length",
        "A token is as long as one may be.",
        "sparklog/coordinator/access/gate.py",
        " or len(token) > MAX_TOKEN:",
        " or len(token) > 10**9:",
        (f"{_GATE}test_a_token_that_is_too_long_is_not_even_hashed",),
    ),
    Guard(
        "access-one-token",
        "Nobody hides one token behind another.",
        "sparklog/coordinator/access/gate.py",
        "        if len(given) > 1 or not token",
        "        if not token",
        (f"{_GATE}test_two_tokens_in_one_request_are_refused",),
    ),
    Guard(
        "access-stated",
        "A route that states nothing is open to nobody.",
        "sparklog/coordinator/access/gate.py",
        "            if need is None:",
        "            if False:",
        (f"{_GATE}test_a_route_that_states_nothing_is_refused_to_everybody",),
    ),
    Guard(
        "access-route",
        "A route is for those who have the right that it states.",
        "sparklog/coordinator/access/gate.py",
        "            if isinstance(need, Need):",
        "            if False:",
        (f"{_GATE}test_a_route_needs_the_right_that_it_states",),
    ),
    Guard(
        "access-host",
        "A page in a browser on this machine can't ask a coordinator without an access file.",
        "sparklog/coordinator/access/gate.py",
        "        if name not in self._hosts and not is_this_machine(name):",
        "        if False:",
        (
            f"{_GATE}test_without_an_access_file_it_answers_under_names_of_this_machine",
            "tests/coordinator/test_pages.py::test_only_requests_under_a_name_of_this_coordinator_are_answered",
        ),
    ),
    Guard(
        "access-command",
        "A command needs its right.",
        "sparklog/coordinator/access/submitting.py",
        "        check_access(principal, need, state)\n",
        "        pass\n",
        (
            f"{_GATE_COMMANDS}test_every_command_needs_its_right_on_the_leader_and_on_a_standby",
            f"{_GATE_COMMANDS}test_rights_on_a_topic_hold_for_its_id",
        ),
    ),
    Guard(
        "access-claim",
        "Nobody claims to coordinate the cluster by a request.",
        "sparklog/core/access.py",
        "            return Need(None)",
        "            return Need(Verb.ALTER)",
        (
            f"{_ACCESS}test_a_command_of_the_cluster_needs_its_verb_on_all_topics",
            f"{_GATE}test_without_an_access_file_everything_but_a_claim_is_allowed",
        ),
    ),
    Guard(
        "access-every-topic",
        "An append needs the right on every topic that it names anywhere.",
        "sparklog/core/access.py",
        "    return tuple(sorted({*named, ",
        "    return tuple(sorted({",
        (f"{_ACCESS}test_an_append_needs_the_right_on_every_topic_that_it_names_anywhere",),
    ),
    Guard(
        "access-prefix",
        "A right on one topic is none on another one whose name begins alike.",
        "sparklog/core/access.py",
        "        return topic == self.topics\n",
        "        return topic.startswith(self.topics)\n",
        (f"{_ACCESS}test_a_command_of_a_topic_needs_its_verb_on_that_topic",),
    ),
    Guard(
        "access-unseen",
        "A refusal does not show the name of a topic that its caller may not see.",
        "sparklog/core/access.py",
        "(isinstance(topic, str) or principal.may(Verb.DESCRIBE, name))",
        "True",
        (f"{_ACCESS}test_a_topic_that_may_not_be_seen_is_not_told_apart_from_none",),
    ),
    Guard(
        "access-newer-topic",
        "A right holds for a topic that is newer than what the coordinator has read.",
        "sparklog/coordinator/access/submitting.py",
        "        await service.read_up_to(request.seen)",
        "        pass",
        (f"{_GATE_COMMANDS}test_a_right_holds_for_a_topic_that_only_the_client_has_seen_yet",),
    ),
    Guard(
        "access-last-good",
        "A broken version of the access file locks nobody out, and lets nobody in.",
        "sparklog/coordinator/access/renewed_files.py",
        "            self.value = self._take(bodies)\n        except",
        "            self.value = self._take(bodies) if bodies[0] else self.value\n        except",
        (f"{_RENEWED}test_a_broken_version_is_reported_once_and_the_last_good_one_stays",),
    ),
    Guard(
        "access-changed",
        "A change of a file is seen, whatever its time and size say.",
        "sparklog/coordinator/access/renewed_files.py",
        "            if bodies == self._seen:",
        "            if [*map(len, bodies)] == [*map(len, self._seen or [])]:",
        (f"{_RENEWED}test_a_change_that_leaves_size_and_time_as_they_were_is_seen",),
    ),
    Guard(
        "access-shared-token",
        "Each token is of one principal.",
        "sparklog/coordinator/access/access_file.py",
        "            if owner.setdefault(known, principal.name) != principal.name:",
        "            if False:",
        (f"{_FILE}test_a_wrong_file_is_refused_and_no_value_is_shown",),
    ),
    Guard(
        "certificate-renewed",
        "New connections get the newest certificate.",
        "sparklog/coordinator/access/renewed_files.py",
        "        connection.context = self.files.value",
        "        pass",
        (f"{_RENEWED}test_a_renewed_certificate_is_taken_by_new_connections",),
    ),
    Guard(
        "token-in-clear",
        "A token does not go over a network in clear.",
        "sparklog/storage/http/calls.py",
        '    if not address.startswith("https://") and not',
        "    if False and not",
        (f"{_CALLS}test_a_token_does_not_leave_this_machine_in_clear",),
    ),
    Guard(
        "token-shown",
        "No error of a library shows a token.",
        "sparklog/storage/http/calls.py",
        "    if _TOKEN.fullmatch(token) is None:",
        "    if False:",
        (f"{_CALLS}test_what_can_not_be_a_header_is_refused_and_not_shown",),
    ),
    Guard(
        "internal-topic",
        "Nobody writes to an internal topic.",
        "sparklog/core/decide/append.py",
        "        check_not_internal(state.topics[slice_.topic_id].name)\n",
        "",
        ("tests/core/decide/test_append.py::test_an_internal_topic_is_not_written_to",),
    ),
    Guard(
        "internal-topic-created",
        "Nobody creates an internal topic.",
        "sparklog/core/decide/topics.py",
        "    check_not_internal(command.name)\n",
        "",
        ("tests/core/decide/test_topics.py::test_what_is_not_legal_is_refused",),
    ),
    Guard(
        "newer-format-leads",
        "A coordinator that can't read what a newer one wrote leads no more.",
        "sparklog/coordinator/leading/control.py",
        "                self.is_outdated, self.watching = True, None",
        "                pass",
        ("tests/coordinator/test_newer_format.py::test_it_stands_aside_and_claims_nothing_over_what_it_can_not_read",),
    ),
    Guard(
        "access-origin",
        "Without an access file, a page from elsewhere sends nothing through the browser of this machine.",
        "sparklog/coordinator/access/gate.py",
        "        for name in (host,) if origin is None else (host,",
        "        for name in (host,) if True else (host,",
        (f"{_GATE}test_without_an_access_file_a_page_from_elsewhere_sends_nothing",),
    ),
    Guard(
        "access-names",
        "An error names no topic that its reader may not see.",
        "sparklog/coordinator/http/topic_routes.py",
        " for known in state.topic_ids if principal.may(Verb.DESCRIBE, known)])",
        " for known in state.topic_ids])",
        (f"{_GATE_COMMANDS}test_an_unknown_topic_tells_nothing_of_others",),
    ),
)
