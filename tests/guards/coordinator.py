"""The guards of coordinators: which of them commits, and what it takes."""

from __future__ import annotations

from typing import Final

from tests.guards.guard import Guard

_ENTRIES = "tests/chain/test_coordinator_entries.py::"
_CORE = "tests/core/test_coordination.py::"
_LEADERSHIP = "tests/coordinator/leading/test_leadership.py::"
_WATCHING = "tests/coordinator/leading/test_silence.py::"
_APP = "tests/coordinator/http/test_app.py::"

_ADDRESSES = "tests/core/names/test_store_addresses.py::"

GUARDS: Final[tuple[Guard, ...]] = (
    Guard(
        "address-registered",
        "A store is registered only with an address that can be opened.",
        "sparklog/core/decide/stores.py",
        "    check_store_address(new.url)",
        "    pass",
        (f"{_ADDRESSES}test_another_is_refused_for_the_first_stores_and_for_later_ones",),
    ),
    Guard(
        "address-of-first-stores",
        "So are the first stores.",
        "sparklog/core/decide/topics.py",
        "        check_store_address(store.url)",
        "        pass",
        (f"{_ADDRESSES}test_another_is_refused_for_the_first_stores_and_for_later_ones",),
    ),
    Guard(
        "job-report-printable",
        "No text in a job's report reaches a terminal that the terminal obeys.",
        "sparklog/core/decide/job_reports.py",
        "        if not text.isprintable():",
        "        if False:",
        ("tests/core/decide/test_job_reports.py::test_a_report_that_is_not_legal_is_refused",),
    ),
    Guard(
        "names-compared",
        "A name of millions of characters is not compared with others in the event loop.",
        "sparklog/core/config/key.py",
        "    if len(name) > MOST_NAME_CHARACTERS:",
        "    if False:",
        ("tests/core/config/test_key.py::test_a_very_long_name_is_near_none_and_is_not_compared",),
    ),
    Guard(
        "names-known",
        "An unknown name is not compared with thousands of topics in the event loop.",
        "sparklog/core/config/key.py",
        "    if len(candidates) > _MOST_COMPARED:",
        "    if False:",
        ("tests/core/config/test_key.py::test_of_thousands_of_known_names_few_are_compared",),
    ),
    Guard(
        "names-decoded",
        "A name of millions of characters is refused where requests are decoded.",
        "sparklog/core/types.py",
        "Name = Annotated[str, msgspec.Meta(max_length=1_000)]",
        "Name = str",
        ("tests/wire/test_message_limits.py::test_a_name_of_millions_of_characters_is_refused_by_the_decoder",),
    ),
    Guard(
        "error-texts",
        "The text of an error is sent only up to a length.",
        "sparklog/wire/error_messages.py",
        "    if len(message) > MOST_ERROR_CHARACTERS:",
        "    if False:",
        ("tests/wire/test_message_limits.py::test_the_text_of_an_error_is_cut",),
    ),
    Guard(
        "coordinator-fenced",
        "A coordinator that another one followed, or that was made to resign, commits nothing more.",
        "sparklog/chain/commit/group_commit.py",
        "        if is_fenced(head.state.coordinator, self.author):",
        "        if False:",
        (
            f"{_ENTRIES}test_a_coordinator_that_another_one_followed_commits_nothing_more",
            f"{_ENTRIES}test_one_that_was_made_to_resign_commits_nothing_more",
        ),
    ),
    Guard(
        "coordinator-ignored",
        "No reader takes what a fenced coordinator wrote (rule C1).",
        "sparklog/chain/head.py",
        "        if not is_fenced(self.state.coordinator, entry.author):",
        "        if True:",
        (f"{_ENTRIES}test_no_reader_takes_what_a_fenced_coordinator_wrote",),
    ),
    Guard(
        "claim-epoch",
        "Two processes never lead in one epoch.",
        "sparklog/core/coordination.py",
        "    if command.epoch != known.epoch + 1 and not is_its_own:",
        "    if False:",
        (
            f"{_CORE}test_a_claim_of_another_epoch_is_refused",
            f"{_LEADERSHIP}test_no_two_lead_in_one_epoch_and_one_leads_soon_after_the_faults",
        ),
    ),
    Guard(
        "resign-epoch",
        "Nobody ends the term of a coordinator that he does not know of.",
        "sparklog/core/coordination.py",
        "    if not known.in_force or command.epoch != known.epoch:",
        "    if not known.in_force:",
        (f"{_CORE}test_only_the_coordinator_in_force_resigns",),
    ),
    Guard(
        "claim-patience",
        "A coordinator that writes in time is not replaced.",
        "sparklog/coordinator/leading/leadership.py",
        "            return self.session_ms  # a process",
        "            return 0  # a process",
        (f"{_LEADERSHIP}test_a_leader_that_is_in_time_is_never_replaced",),
    ),
    Guard(
        "claim-again",
        "A coordinator that nobody sends commands to is seen alive.",
        "sparklog/coordinator/leading/leadership.py",
        "            return self.session_ms // ENTRIES_PER_SESSION\n        if",
        "            return 10 * self.session_ms\n        if",
        (f"{_LEADERSHIP}test_a_leader_that_is_in_time_is_never_replaced",),
    ),
    Guard(
        "coordinator-chain",
        "A command for another cluster is not committed to this one.",
        "sparklog/coordinator/leading/control.py",
        "        check_chain(chain_id, state.chain_id)",
        "        pass",
        (f"{_APP}test_a_client_of_another_cluster_is_refused",),
    ),
    Guard(
        "coordinator-queue",
        "Commands that wait take a bounded amount of memory.",
        "sparklog/coordinator/leading/control.py",
        "        taken = wanted[: max(0, self.queued_max - self.queued)]",
        "        taken = wanted",
        (f"{_APP}test_more_commands_than_may_wait_are_refused_and_nothing_is_lost",),
    ),
    Guard(
        "coordinator-body",
        "A body that is too large is refused before it is read.",
        "sparklog/coordinator/http/exchange.py",
        "        if int(announced) > MAX_BODY:",
        "        if False:",
        (f"{_APP}test_a_large_body_is_refused_before_it_is_read",),
    ),
    Guard(
        "coordinator-body-stream",
        "A body whose length is not announced is read up to the limit only.",
        "sparklog/coordinator/http/exchange.py",
        "            if size > MAX_BODY:",
        "            if False:",
        (f"{_APP}test_a_body_of_no_announced_length_is_read_up_to_the_limit",),
    ),
    Guard(
        "format-checksum",
        "A flipped bit does not make an entry one of another format.",
        "sparklog/chain/framing.py",
        'google_crc32c.value(format_ + b" ")',
        'google_crc32c.value(b"")',
        ("tests/chain/test_entry.py::test_an_entry_is_not_taken_for_one_of_another_format",),
    ),
    Guard(
        "coordinated-doubt",
        "A command whose reply was lost is in doubt when it is sent again.",
        "sparklog/client/commits/delivery.py",
        "            self.submission = msgspec.structs.replace(self.submission, in_doubt=True)",
        "            pass",
        (
            "tests/client/commits/test_client_committer.py::test_a_command_is_applied_once_whatever_becomes_of_replies",
            "tests/client/commits/test_client_committer.py::test_after_its_time_a_command_says_whether_it_may_have_landed",
        ),
    ),
    Guard(
        "coordinated-refused-doubt",
        "A refusal does not say that nothing landed while an earlier attempt may be on its way.",
        "sparklog/client/commits/delivery.py",
        "                error.landed = Landed.UNKNOWN",
        "                pass",
        (
            "tests/client/commits/test_delivery.py::test_a_refusal_after_a_doubt_does_not_say_that_nothing_landed",
            "tests/storage/http/test_calls.py::test_a_refusal_after_a_lost_reply_says_that_the_command_may_have_landed",
        ),
    ),
    Guard(
        "coordinated-unread-doubt",
        "A chain that can't be read leaves a command that was sent in doubt.",
        "sparklog/client/commits/delivery.py",
        "        if not self.submission.in_doubt:",
        "        if True:",
        ("tests/client/commits/test_delivery.py::test_a_chain_that_can_not_be_read_leaves_a_doubt_a_doubt",),
    ),
    Guard(
        "claim-after-entry",
        "A busy coordinator that falls idle is seen alive within a third of a session.",
        "sparklog/coordinator/leading/control.py",
        "        self._observe(moment)  # the next",
        "        pass  # the next",
        (
            "tests/coordinator/leading/test_control.py::test_the_leader_claims_again_a_third_of_a_session_after_its_newest_entry",
        ),
    ),
    Guard(
        "coordinator-seen",
        "A coordinator that is behind its client reads the chain first.",
        "sparklog/coordinator/leading/control.py",
        "            if moment.state.n < request.seen:",
        "            if False:",
        ("tests/coordinator/leading/test_control.py::test_one_that_is_behind_its_client_reads_first",),
    ),
    Guard(
        "watch-write",
        "A store that a write reached is not said to be dead (rule E8).",
        "sparklog/coordinator/leading/silence.py",
        "                self.heard(holder.store, holder.registration, now_ms)",
        "                pass",
        (f"{_WATCHING}test_a_write_that_reached_a_store_proves_that_it_lives",),
    ),
    Guard(
        "watch-session",
        "A coordinator that has just begun takes nobody for silent.",
        "sparklog/coordinator/leading/silence.py",
        "self._heard_ms.setdefault((store.store, store.registration), now_ms)",
        "self._heard_ms.setdefault((store.store, store.registration), 0)",
        (f"{_WATCHING}test_nobody_is_silent_before_a_session_of_this_coordinator_has_passed",),
    ),
    Guard(
        "watch-paused",
        "A coordinator that was paused takes nobody for silent who could not be heard.",
        "sparklog/coordinator/leading/silence.py",
        "        return max(0, now_ms - self._observed_ms - self._session_ms // ENTRIES_PER_SESSION)",
        "        return 0",
        (f"{_WATCHING}test_time_in_which_the_process_itself_was_paused_does_not_count",),
    ),
    Guard(
        "watch-again",
        "An agent that was silent and comes back is not taken for silent at once.",
        "sparklog/coordinator/leading/silence.py",
        "                del self._heard_ms[store.store, store.registration]\n",
        "",
        (f"{_WATCHING}test_one_that_comes_back_has_a_session_before_it_is_silent_again",),
    ),
    Guard(
        "watch-registration",
        "A heartbeat for another life of a store does not count.",
        "sparklog/coordinator/leading/silence.py",
        "        self._heard_ms[store, registration] = now_ms",
        "        for key in [*self._heard_ms, (store, registration)]:\n"
        "            if key[0] == store:\n"
        "                self._heard_ms[key] = now_ms",
        (f"{_WATCHING}test_a_new_registration_begins_a_new_session",),
    ),
    Guard(
        "heartbeat-session",
        "An agent that is at work is not taken for dead.",
        "sparklog/agent/heartbeats.py",
        "        self._next_ms = now_ms + self._every_ms\n",
        "        self._next_ms = now_ms + 4 * self._every_ms\n",
        ("tests/agent/test_heartbeats.py::test_three_are_sent_in_a_session",),
    ),
    Guard(
        "coordinated-again",
        "A client whose coordinator is too busy, or can't say what came of a command, asks again under the same id.",
        "sparklog/client/commits/delivery.py",
        "    kinds = NotController | NoCoordinatorAnswers | NoCoordinator | OutcomeUnknown\n"
        "    return isinstance(error, kinds) or error.code == TryAgain.code",
        "    kinds = NotController | NoCoordinatorAnswers | NoCoordinator\n    return isinstance(error, kinds)",
        ("tests/client/commits/test_client_committer.py::test_a_command_is_applied_once_whatever_becomes_of_replies",),
    ),
    Guard(
        "coordinated-moved-on",
        "A client whose coordinator leads no more, or does not answer, sends its command to the next one.",
        "sparklog/client/commits/delivery.py",
        "    kinds = NotController | NoCoordinatorAnswers | NoCoordinator | OutcomeUnknown\n",
        "    kinds = NoCoordinator | OutcomeUnknown\n",
        ("tests/client/commits/test_delivery.py::test_only_an_attempt_that_may_have_landed_leaves_a_doubt",),
    ),
    Guard(
        "ended-never-handed-in",
        "A command whose caller has heard that nothing was done does not land later.",
        "sparklog/coordinator/leading/commit_loop.py",
        "        self._handed_in.clear()  # their",
        "        pass  # their",
        (
            "tests/coordinator/leading/test_commit_loop.py::test_a_command_that_ended_before_it_was_handed_in_never_lands",
        ),
    ),
    Guard(
        "reply-patience",
        "A coordinator that hangs holds a command up for a session, not for longer than the next one needs to lead.",
        "sparklog/client/commits/delivery.py",
        "        return min(self.left_ms(now_ms) + GRACE_MS, longest_ms)",
        "        return min(self.left_ms(now_ms), longest_ms) + GRACE_MS",
        (
            "tests/client/commits/test_delivery.py::test_a_coordinator_may_be_silent_for_a_session_and_then_for_shorter_times",
        ),
    ),
    Guard(
        "reply-patience-again",
        "A coordinator that did not answer once is not waited for as long again.",
        "sparklog/client/commits/delivery.py",
        "session_ms // LOOKS_PER_SESSION if known.name == self._silent else session_ms",
        "session_ms",
        (
            "tests/client/commits/test_delivery.py::test_a_coordinator_may_be_silent_for_a_session_and_then_for_shorter_times",
        ),
    ),
    Guard(
        "sent-in-doubt",
        "A command that was sent is never called unsent, wherever an interrupt comes.",
        "sparklog/client/commits/shared_requests.py",
        "            landed = Landed.UNKNOWN if waiting.sent else Landed.NO",
        "            landed = Landed.NO",
        ("tests/client/commits/test_shared_requests.py::test_an_interrupt_after_the_reply_leaves_the_others_in_doubt",),
    ),
    Guard(
        "outdated-stands-aside",
        "Only a read of the whole chain ends that a coordinator stands aside for a newer one.",
        "sparklog/coordinator/leading/control.py",
        "        self.is_outdated = self.is_outdated and not is_newest",
        "        self.is_outdated = False",
        (
            "tests/coordinator/leading/test_control.py::"
            "test_a_request_that_was_under_way_makes_nobody_lead_who_can_not_read_the_chain",
        ),
    ),
    Guard(
        "watching-ends",
        "A coordinator that leads no more reports nobody as silent.",
        "sparklog/coordinator/leading/control.py",
        "            self.watching = None\n            self._say",
        "            self._say",
        ("tests/coordinator/leading/test_control.py::test_one_that_another_followed_watches_nobody_any_more",),
    ),
    Guard(
        "delivery-try",
        "A coordinator does not go on with an attempt that its author has given up long ago.",
        "sparklog/client/commits/delivery.py",
        "        return min(self.left_ms(now_ms), session_ms)",
        "        return self.left_ms(now_ms)",
        ("tests/client/commits/test_delivery.py::test_the_reply_may_come_a_little_later_than_the_time_of_the_command",),
    ),
)
