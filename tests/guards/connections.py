"""The guards of a coordinator's connections, and of the requests that threads share."""

from __future__ import annotations

from typing import Final

from tests.guards.guard import Guard

_CONNECTIONS = "tests/coordinator/http/test_server_connections.py::"
_TABLE = "sparklog/coordinator/http/connection_table.py"
_SHELL = "sparklog/coordinator/http/server_connections.py"

GUARDS: Final[tuple[Guard, ...]] = (
    Guard(
        "connections-bound",
        "So many connections may be open, and not one more.",
        _TABLE,
        "        if not self.is_full:",
        "        if True:",
        (f"{_CONNECTIONS}test_idle_connections_make_room_for_new_ones_the_longest_idle_first",),
    ),
    Guard(
        "connections-victim",
        "Idle connections do not lock out new clients.",
        _TABLE,
        "        victim = self.victim(now_s)",
        "        victim = None",
        (f"{_CONNECTIONS}test_idle_connections_make_room_for_new_ones_the_longest_idle_first",),
    ),
    Guard(
        "connections-before-tls",
        "A connection counts from the moment it is accepted.",
        _SHELL,
        "        self.table.enter(connection, admission.state, loop.time())\n",
        "        pass\n",
        (f"{_CONNECTIONS}test_connections_without_a_handshake_make_room_for_new_ones",),
    ),
    Guard(
        "connections-handshake-time",
        "A handshake that is not complete in time is ended.",
        _TABLE,
        "            State.HANDSHAKE: limits.request_s,\n",
        "            State.HANDSHAKE: 1e9,\n",
        (f"{_CONNECTIONS}test_a_handshake_that_is_not_complete_in_time_is_ended",),
    ),
    Guard(
        "connections-wait-to-be-accepted",
        "Beyond the limit, only a few connections are accepted to be refused.",
        _TABLE,
        "if self.count(State.REFUSED) < self.limits.refusing else None",
        "if True else None",
        (f"{_CONNECTIONS}test_beyond_the_limit_connections_wait_to_be_accepted",),
    ),
    Guard(
        "connections-no-file",
        "If the process may open no further file, it accepts again later.",
        "sparklog/coordinator/http/acceptor.py",
        "report_failure(error, self._loop.time())\n                self._pause()\n",
        "report_failure(error, self._loop.time())\n",
        (f"{_CONNECTIONS}test_if_no_file_can_be_opened_the_loop_does_not_spin",),
    ),
    Guard(
        "connections-failure-logged",
        "A server that can accept no connection does not fill its log with that.",
        _SHELL,
        "now_s >= last_s + REPORT_EVERY_S",
        "True",
        (f"{_CONNECTIONS}test_a_log_without_a_reader_all_night_is_not_filled_with_one_failure",),
    ),
    Guard(
        "connections-silent",
        "A connection that never sends a byte is dropped.",
        _TABLE,
        "            State.SILENT: limits.request_s,\n",
        "            State.SILENT: 1e9,\n",
        (f"{_CONNECTIONS}test_one_that_never_sends_a_byte_is_dropped",),
    ),
    Guard(
        "connections-request-time",
        "A request that is not complete in time is refused.",
        _TABLE,
        "            State.RECEIVING: limits.request_s,\n",
        "            State.RECEIVING: 1e9,\n",
        (f"{_CONNECTIONS}test_a_request_that_is_not_complete_in_time_is_refused_and_others_go_on",),
    ),
    Guard(
        "connections-body-progress",
        "Bytes that trickle in do not keep a request alive.",
        _SHELL,
        "            if self._in_body and self._received >= self._limits.body_bytes:",
        "            if self._in_body and self._received:",
        (f"{_CONNECTIONS}test_a_large_body_has_to_make_progress",),
    ),
    Guard(
        "connections-stuck",
        "A client that does not read its reply is dropped.",
        _TABLE,
        "            State.STUCK: limits.request_s,\n",
        "            State.STUCK: 1e9,\n",
        (f"{_CONNECTIONS}test_one_that_does_not_read_its_reply_is_dropped_and_others_go_on",),
    ),
    Guard(
        "connections-head",
        "The head of a request takes a bounded amount of memory.",
        _SHELL,
        "        if self._in_head and self._received > self._limits.head_bytes:",
        "        if False:",
        (f"{_CONNECTIONS}test_a_head_without_end_is_refused",),
    ),
    Guard(
        "connections-pipelined",
        "The requests of one connection that wait take a bounded amount of memory.",
        _SHELL,
        "        if len(self.pipeline) >= self._limits.pipelined:",
        "        if False:",
        (f"{_CONNECTIONS}test_a_flood_of_pipelined_requests_ends_the_connection",),
    ),
    Guard(
        "connections-junk",
        "An error about a later request is not taken for the answer to a command that may be committed.",
        _SHELL,
        "        if self.pipeline or (is_answering and (cycle.response_started or not self._in_body)):",
        "        if False:",
        (f"{_CONNECTIONS}test_junk_behind_a_request_is_not_taken_for_its_answer",),
    ),
    Guard(
        "connections-lingering",
        "Connections that are refused do not pile up.",
        _SHELL,
        "self._table.count(State.LINGERING) >= self._limits.lingering or ",
        "",
        (f"{_CONNECTIONS}test_the_refused_do_not_pile_up",),
    ),
    Guard(
        "connections-refused-body",
        "Nobody reads the rest of a body that was refused.",
        _SHELL,
        "        if self._in_body and self.cycle.response_complete:",
        "        if False:",
        (f"{_CONNECTIONS}test_a_body_that_is_refused_before_its_end_ends_the_connection",),
    ),
    Guard(
        "connections-bodies",
        "Half-sent bodies take a bounded amount of memory.",
        "sparklog/coordinator/http/exchange.py",
        "        if after > SMALL_BODY and self.held > self.most_held:",
        "        if False:",
        (f"{_CONNECTIONS}test_half_sent_bodies_take_a_bounded_amount_of_memory_and_small_ones_always_fit",),
    ),
    Guard(
        "submit-commands",
        "A request has a bounded number of commands.",
        "sparklog/coordinator/leading/control.py",
        "        if len(wanted) > MAX_COMMANDS:",
        "        if False:",
        ("tests/coordinator/http/test_app.py::test_a_request_has_so_many_commands_at_most",),
    ),
    Guard(
        "carrier-interrupt",
        "A thread that is interrupted while it carries the commands of others leaves nobody waiting.",
        "sparklog/client/commits/shared_requests.py",
        "            self._arrive(waiting, [_interrupted(landed)] * len(waiting.request))",
        "            pass",
        ("tests/client/commits/test_shared_requests.py::test_an_interrupt_after_the_reply_leaves_the_others_in_doubt",),
    ),
    Guard(
        "request-own-error",
        "Each command of a request has the outcome of its own.",
        "sparklog/client/commits/client_committer.py",
        "        if len(reply.outcomes) != len(commands):",
        "        if False:",
        ("tests/client/commits/test_client_committer.py::test_a_command_is_applied_once_whatever_becomes_of_replies",),
    ),
)
