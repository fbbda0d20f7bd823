"""The guards of those who wait: nobody waits who need not, nobody waits for ever, and memory stays bounded."""

from __future__ import annotations

from typing import Final

from tests.guards.guard import Guard

_PURGATORY = "tests/core/test_purgatory.py::"
_COORDINATOR = "tests/coordinator/http/test_waiting_requests.py::"
_CLIENT = "tests/client/test_waiting.py::"
_AGENT = "tests/agent/test_news.py::"

GUARDS: Final[tuple[Guard, ...]] = (
    Guard(
        "waiting-topic",
        "A write whose fate a topic's config decides is told so.",
        "sparklog/core/purgatory.py",
        "        for topic in state.topics.differing(before.topics):",
        "        for topic in ():",
        (
            f"{_PURGATORY}test_a_config_that_decides_about_a_write_completes_it",
            f"{_PURGATORY}test_a_reader_of_a_whole_topic_is_woken_by_a_new_partition",
        ),
    ),
    Guard(
        "waiting-error",
        "What will never come is waited for no longer.",
        "sparklog/core/purgatory.py",
        "    except SparklogError:\n        return True",
        "    except SparklogError:\n        return False",
        (
            f"{_PURGATORY}test_a_write_that_hw_will_not_pass_waits_no_longer",
            f"{_PURGATORY}test_a_reader_is_woken_when_the_topic_is_deleted_or_made_anew",
        ),
    ),
    Guard(
        "waiting-range",
        "A reader that can't go on from its position is told so.",
        "sparklog/core/purgatory.py",
        "        if not partition.log_start <= position.offset <= partition.next_offset:",
        "        if False:",
        (f"{_PURGATORY}test_a_reader_is_woken_when_retention_passes_it",),
    ),
    Guard(
        "waiting-news",
        "News for an agent between two of its requests are not lost.",
        "sparklog/core/purgatory.py",
        "max(self._known_from, self._news_of_all_at, self._news_at.get(wanted.store, -1))",
        "-1",
        (f"{_PURGATORY}test_news_between_two_requests_of_an_agent_are_not_lost",),
    ),
    Guard(
        "waiting-offsets",
        "Offsets that no log has do not break the process that is asked.",
        "sparklog/core/purgatory.py",
        "        _check_offsets(wanted)\n",
        "",
        (f"{_PURGATORY}test_offsets_that_no_log_has_are_refused",),
    ),
    Guard(
        "waiting-bound",
        "Requests that wait take a bounded amount of memory.",
        "sparklog/coordinator/http/waiting_requests.py",
        "        if self._purgatory.watched + weight(wanted) > MAX_WATCHED:",
        "        if False:",
        (f"{_COORDINATOR}test_who_watches_too_much_is_sent_away",),
    ),
    Guard(
        "waiting-limit",
        "No request waits longer than the limit.",
        "sparklog/coordinator/http/waiting_requests.py",
        "        wait_ms = min(request.max_wait_ms, MAX_WAIT_MS)",
        "        wait_ms = request.max_wait_ms",
        (f"{_COORDINATOR}test_nobody_waits_longer_than_the_limit",),
    ),
    Guard(
        "waiting-left",
        "A client that has left is not kept in memory.",
        "sparklog/coordinator/http/waiting_requests.py",
        "        left.add_done_callback(lambda _: self._set(operation, done=False))\n",
        "",
        (f"{_COORDINATOR}test_a_client_that_leaves_is_forgotten_at_once",),
    ),
    Guard(
        "waiting-look",
        "An entry of an embedded writer wakes those who wait at a coordinator.",
        "sparklog/coordinator/http/waiting_requests.py",
        "                if self._answers and self._follower.head.n == n:",
        "                if False:",
        (f"{_COORDINATOR}test_an_entry_of_an_embedded_writer_beside_it_wakes_too",),
    ),
    Guard(
        "waiting-seen",
        "A coordinator answers from no older state than its client has seen.",
        "sparklog/coordinator/http/waiting_requests.py",
        "        if not self._closed and self._follower.head.n < request.seen:",
        "        if False:",
        (f"{_COORDINATOR}test_a_client_that_has_seen_more_makes_it_read_first",),
    ),
    Guard(
        "waiting-deposed",
        "Nobody goes on to wait at a coordinator that leads no more.",
        "sparklog/coordinator/leading/service.py",
        "            self.waits.end_all()\n",
        "",
        (f"{_COORDINATOR}test_one_that_leads_no_more_answers_everybody",),
    ),
    Guard(
        "waiting-stop",
        "A coordinator that stops answers everybody.",
        "sparklog/coordinator/leading/service.py",
        "        self.waits.close()\n",
        "",
        (f"{_COORDINATOR}test_a_stop_answers_everybody_after_the_resignation_and_takes_no_more",),
    ),
    Guard(
        "waiting-silent",
        "A client whose coordinator can't be asked looks at the chain itself.",
        "sparklog/client/waiting.py",
        "            self._failures.note(known.name)\n            return None",
        "            return WaitReply(self.newest, False)",
        (f"{_CLIENT}test_while_no_coordinator_can_be_asked_it_looks_and_asks_again_now_and_then",),
    ),
    Guard(
        "waiting-storm",
        "A coordinator that answers at once for nothing is not asked without end.",
        "sparklog/client/waiting.py",
        "            if reply is None or clock.monotonic_ms() - asked_ms < max(1, min(left_ms, ROUND_MS) // 2):",
        "            if reply is None:",
        (f"{_CLIENT}test_a_coordinator_that_answers_at_once_for_nothing_is_not_asked_without_end",),
    ),
    Guard(
        "waiting-shared-look",
        "However many wait in a process, it looks at the chain as often as one.",
        "sparklog/client/waiting.py",
        "        if self._looks == looks and self.newest == seen:",
        "        if True:",
        (f"{_CLIENT}test_one_look_serves_all_who_wait_in_the_process",),
    ),
    Guard(
        "waiting-woken",
        "A reader that can do nothing with what it was woken for does not spin.",
        "sparklog/client/waiting.py",
        "        if waiting.newest == self._woken_at and waiting.is_done(wanted):",
        "        if False:",
        (f"{_CLIENT}test_what_could_not_be_used_does_not_wake_again_at_once",),
    ),
    Guard(
        "news-silent",
        "An agent whose coordinator does not answer looks by itself.",
        "sparklog/agent/news.py",
        "        self._until_ms = None\n        self.arrived",
        "        self.arrived",
        (f"{_AGENT}test_without_news_it_looks_as_often_as_without_a_coordinator",),
    ),
    Guard(
        "waiting-interrupt",
        "An interrupt that Python drops is not lost.",
        "sparklog/cli/records/consume.py",
        "            sys.stdout.flush()\n            check_interrupts()\n",
        "            sys.stdout.flush()\n",
        ("tests/faults/test_waiting.py::test_an_interrupt_that_python_drops_still_ends_consume",),
    ),
)
