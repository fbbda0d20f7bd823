"""The guards of reading through coordinators: whose chain it is, how new it is, and what is served at all."""

from __future__ import annotations

from typing import Final

from tests.guards.guard import Guard

_METADATA = "tests/coordinator/http/test_metadata_routes.py::"
_QUERIES = "tests/coordinator/http/test_topic_routes.py::"
_CLIENT = "tests/client/test_http_addresses.py::"

GUARDS: Final[tuple[Guard, ...]] = (
    Guard(
        "reading-chain",
        "Nobody follows or asks the coordinator of another cluster.",
        "sparklog/coordinator/leading/reader_threads.py",
        "        if wanted is not None:",
        "        if False:",
        (f"{_METADATA}test_a_request_for_another_cluster_is_refused",),
    ),
    Guard(
        "reading-behind",
        "A coordinator that is behind catches up before it answers.",
        "sparklog/coordinator/leading/reader_threads.py",
        "        if seen is None or self.follower.head.n < seen:",
        "        if False:",
        (f"{_QUERIES}test_without_a_word_the_answer_is_the_newest_and_else_no_older_than_what_was_seen",),
    ),
    Guard(
        "reading-too-old",
        "A coordinator that can't catch up does not answer with something older than what the client has seen.",
        "sparklog/coordinator/leading/reader_threads.py",
        "        if seen is not None and state.n < seen:",
        "        if False:",
        (f"{_QUERIES}test_a_coordinator_that_can_not_catch_up_says_so",),
    ),
    Guard(
        "reading-bounded",
        "Reads that wait take a bounded amount of memory.",
        "sparklog/coordinator/leading/reader_threads.py",
        "        if self.waiting >= self.waiting_max:",
        "        if False:",
        (f"{_METADATA}test_more_reads_than_may_wait_are_refused",),
    ),
    Guard(
        "metadata-only",
        "Listings show nothing but the metadata.",
        "sparklog/coordinator/http/metadata_routes.py",
        "    if not prefix.startswith(_ROOT):",
        "    if False:",
        (f"{_METADATA}test_other_listings_are_refused",),
    ),
    Guard(
        "metadata-plain-keys",
        "A key can't be disguised by percent signs.",
        "sparklog/coordinator/http/metadata_routes.py",
        '    if b"%" in request.scope.get("raw_path", b""):',
        "    if False:",
        (f"{_METADATA}test_other_keys_are_refused",),
    ),
    Guard(
        "metadata-kept",
        "What may be deleted is not served from memory, as if it were still there.",
        "sparklog/coordinator/http/metadata_routes.py",
        "        if key.startswith(_KEPT):",
        "        if True:",
        (f"{_METADATA}test_what_may_be_deleted_is_not_kept",),
    ),
    Guard(
        "http-commit",
        "A client that has only addresses never commits beside the coordinators.",
        "sparklog/client/commits/client_committer.py",
        "            if not known.in_force and self._given is None:",
        "            if not known.in_force:",
        (f"{_CLIENT}test_a_command_waits_until_somebody_coordinates",),
    ),
    Guard(
        "http-elsewhere",
        "A command that may have landed is not sent to another address as if it had not.",
        "sparklog/client/commits/client_committer.py",
        "                if error.landed is not Landed.NO or not _may_another_lead(error):",
        "                if not _may_another_lead(error):",
        (f"{_CLIENT}test_a_command_whose_reply_was_lost_is_in_doubt_at_the_next_address",),
    ),
)
