"""The guards of what a coordinator shows: the text of others is no script, and strangers read nothing."""

from __future__ import annotations

from typing import Final

from tests.guards.guard import Guard

_PAGES = "tests/coordinator/test_pages.py::"
_RECORDS = "tests/coordinator/test_record_page.py::"
_ACTIONS = "tests/coordinator/test_page_actions.py::"
_REFUSALS = "tests/coordinator/test_page_action_refusals.py::"
_LOOKS = "tests/coordinator/watching/test_store_looks.py::"
_WORK = "tests/coordinator/leading/test_record_work.py::"
_METRICS = "tests/coordinator/watching/test_metrics.py::"

GUARDS: Final[tuple[Guard, ...]] = (
    Guard(
        "page-escape",
        "Names and values of users are text on a page.",
        "sparklog/coordinator/page/rendering.py",
        "        autoescape=True,",
        "        autoescape=False,",
        (f"{_PAGES}test_names_and_values_of_others_are_text",),
    ),
    Guard(
        "page-records-right",
        "Records are shown to those who may read their topic only.",
        "sparklog/coordinator/page/records/record_routes.py",
        "            check_topic_for(request, Verb.READ, topic, service.follower.state)",
        "            pass",
        (f"{_RECORDS}test_records_are_for_those_who_may_read_the_topic",),
    ),
    Guard(
        "page-records-mask",
        "A search does not tell what is in a masked value.",
        "sparklog/coordinator/page/records/record_batches.py",
        '*(() if mask.hides_values else ("value",))',
        '"value"',
        (f"{_RECORDS}test_masked_parts_are_on_no_page_in_no_download_and_no_search",),
    ),
    Guard(
        "page-records-abandoned",
        "Reads of records that hang take no more than some threads.",
        "sparklog/coordinator/leading/record_work.py",
        "        if len(self._abandoned) >= ABANDONED:",
        "        if False:",
        (f"{_WORK}test_a_store_that_never_answers_keeps_nobody_else_waiting_and_its_threads_are_bounded",),
    ),
    Guard(
        "page-records-at-once",
        "Few callers wait for work on records.",
        "sparklog/coordinator/leading/record_work.py",
        "        if self._under_way >= self._most:",
        "        if False:",
        (f"{_WORK}test_a_further_caller_is_told_that_it_is_busy",),
    ),
    Guard(
        "mask-no-object",
        "A part of a value that is no object where the path of a mask goes on is masked as a whole.",
        "sparklog/coordinator/page/records/masks.py",
        "    return None if node is None else MASKED",
        "    return node",
        ("tests/coordinator/test_record_text.py::test_a_mask_hides_too_much_rather_than_too_little",),
    ),
    Guard(
        "page-indented",
        "A value whose indented text would be many times as long is not indented.",
        "sparklog/coordinator/page/records/record_text.py",
        " or _most_indented(value) > _INDENTED_BYTES:",
        ":",
        ("tests/coordinator/test_record_text.py::test_a_value_that_would_grow_without_bound_is_not_indented",),
    ),
    Guard(
        "page-records-gap",
        "The links of a page pass no record: a page that was cut ends where it was cut.",
        "sparklog/coordinator/page/records/record_reading.py",
        'section.low = kept.column("offset")[0].as_py() if is_cut else piece.start',
        "section.low = piece.start",
        (f"{_RECORDS}test_a_search_finds_parts_of_values_and_whole_keys",),
    ),
    Guard(
        "page-shared",
        "A page that was made for somebody with other rights is shown to nobody.",
        "sparklog/coordinator/page/routes.py",
        'f"{request.url.path}?{request.url.query} {rights}"',
        'f"{request.url.path}?{request.url.query}"',
        (
            "tests/coordinator/test_shared_answers.py::"
            "test_a_page_that_its_script_reads_again_is_made_once_for_readers_with_the_same_rights",
        ),
    ),
    Guard(
        "action-off",
        "The pages change nothing unless the cluster's config says so.",
        "sparklog/coordinator/page/actions/action_routes.py",
        "    if not writes_are_on(service.follower.state):",
        "    if False:",
        (f"{_REFUSALS}test_pages_only_show_until_the_cluster_says_otherwise",),
    ),
    Guard(
        "action-origin",
        "A form that another site makes a browser send changes nothing (CSRF).",
        "sparklog/coordinator/page/actions/action_routes.py",
        "            check_same_origin(request, service.control.leadership.address)",
        "            pass",
        (f"{_REFUSALS}test_a_form_that_another_site_sends_changes_nothing",),
    ),
    Guard(
        "action-no-name",
        "A form without an origin is not of a request without a host.",
        "sparklog/coordinator/page/actions/sealed_plan.py",
        'name != "" and (',
        "(",
        (f"{_REFUSALS}test_a_form_that_another_site_sends_changes_nothing",),
    ),
    Guard(
        "action-seal",
        "Only what this process has shown as a plan is committed.",
        "sparklog/coordinator/page/actions/sealed_plan.py",
        "        if not hmac.compare_digest(digest, self._digest(body)):",
        "        if len(body) < 10:",
        (f"{_REFUSALS}test_a_form_without_its_token_or_with_that_of_another_one_changes_nothing",),
    ),
    Guard(
        "action-principal",
        "Nobody has another principal send a form that was made for somebody else.",
        "sparklog/coordinator/page/actions/sealed_plan.py",
        "        if (plan.action, plan.principal) != (action, principal):",
        "        if plan.action != action:",
        (f"{_REFUSALS}test_a_form_is_good_for_its_principal_only",),
    ),
    Guard(
        "action-age",
        "A plan is confirmed while it is fresh.",
        "sparklog/coordinator/page/actions/sealed_plan.py",
        "        if not 0 <= now_ms - plan.made_ms <= VALID_MS:",
        "        if False:",
        (f"{_REFUSALS}test_a_form_is_good_for_some_minutes_only",),
    ),
    Guard(
        "action-right",
        "Nothing is planned for somebody without the right.",
        "sparklog/coordinator/page/actions/action_routes.py",
        "            if (refusal := refusal_of(principal, need_of(command), state)) is not None:",
        "            if (refusal := refusal_of(principal, need_of(command), state)) is False:",
        (f"{_REFUSALS}test_a_page_offers_what_its_reader_has_the_right_to_and_plans_nothing_else",),
    ),
    Guard(
        "action-link",
        "A page offers only what its reader has the right to.",
        "sparklog/coordinator/page/actions/action_list.py",
        "        if (action := ACTIONS[name]).may(principal, seen.state, of)",
        "        if (action := ACTIONS[name])",
        (f"{_REFUSALS}test_a_page_offers_what_its_reader_has_the_right_to_and_plans_nothing_else",),
    ),
    Guard(
        "action-twice",
        "A form that is sent twice is one command (C2).",
        "sparklog/coordinator/page/actions/action_routes.py",
        "SubmittedCommand(submission, TIMEOUT_MS)",
        "SubmittedCommand(Submission(new_command_id(), submission.n0, submission.command), TIMEOUT_MS)",
        (f"{_ACTIONS}test_a_form_that_is_sent_twice_is_one_command",),
    ),
    Guard(
        "page-leader-link",
        "The page links to the leader only by HTTP: the address is what its process has claimed.",
        "sparklog/coordinator/page/views.py",
        'link = known.address if known.address.startswith(("http://", "https://")) else ""',
        "link = known.address",
        (f"{_PAGES}test_names_and_values_of_others_are_text",),
    ),
    Guard(
        "page-lost-store",
        "A lost store is wrong on the page, although the chain does not know of it.",
        "sparklog/coordinator/page/views.py",
        "[look.problem] if look.problem else []",
        "[]",
        (f"{_LOOKS}test_the_page_and_the_metrics_of_a_coordinator_show_them",),
    ),
    Guard(
        "look-no-answer",
        "A store that never answers is no store whose last look was fine.",
        "sparklog/coordinator/watching/store_looks.py",
        "now_ms - began_ms >= PATIENCE_MS",
        "False",
        (f"{_LOOKS}test_a_store_that_never_answers_is_no_answer_until_it_does",),
    ),
    Guard(
        "reserve",
        "Space for commits is really taken from the disk, so that it is there when the disk is full.",
        "sparklog/storage/local/reserve.py",
        "                _allocate(descriptor)",
        "                os.ftruncate(descriptor, RESERVE_BYTES)",
        ("tests/cli/test_full_disk.py::test_a_full_disk_takes_a_deletion_once_its_reserve_is_given_back",),
    ),
    Guard(
        "page-policy",
        "A page loads and runs only what the coordinator serves, and nobody frames it.",
        "sparklog/coordinator/page/rendering.py",
        "        \"default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; \"",
        "        \"img-src 'self'; \"",
        (f"{_PAGES}test_pages_load_nothing_from_elsewhere_and_their_parts_are_there",),
    ),
    Guard(
        "metrics-routes",
        "Paths of strangers make no new series.",
        "sparklog/coordinator/http/request_counts.py",
        'self._paths.get(scope.get("endpoint"), OTHER), status',
        'scope["path"], status',
        (f"{_METRICS}test_commits_and_refusals_are_counted",),
    ),
    Guard(
        "metrics-jobs",
        "The number of series does not grow with the names that jobs were given.",
        "sparklog/coordinator/watching/metrics.py",
        "key=lambda run: run.ended_ms)[-MOST_JOBS:]",
        "key=lambda run: run.ended_ms)",
        (f"{_METRICS}test_names_of_jobs_are_escaped_and_few",),
    ),
    Guard(
        "tail-ignored",
        "What a fenced coordinator wrote is not shown as if it counted.",
        "sparklog/chain/follow/ignored_entries.py",
        "        if is_fenced(known, entry.author):",
        "        if False:",
        (
            "tests/chain/follow/test_ignored_entries.py::test_the_same_entries_count_as_in_a_replay",
            "tests/cli/cluster/test_chain_verbs.py::test_what_a_fenced_coordinator_wrote_is_shown_as_ignored",
        ),
    ),
)
