"""The pages of actions. GET shows a form, or the plan of a completed form; POST commits a plan that was shown.

Only the POST changes anything. It submits the commands of the plan by `submit_for`, as if a client had sent them: the
user's rights are checked, each command is audited, and a repeated command id returns the earlier result. A form with
errors has no plan.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final
from urllib.parse import parse_qs

from msgspec.structs import replace
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from sparklog.chain.commit.committer import new_command_id
from sparklog.coordinator.access.audit import audit_refused
from sparklog.coordinator.access.gate import caller_of
from sparklog.coordinator.access.submitting import refusal_of, submit_for
from sparklog.coordinator.http.endpoint import GatedRoute
from sparklog.coordinator.http.exchange import body_of
from sparklog.coordinator.leading.service import Service
from sparklog.coordinator.page.actions.action import Action, Plan, Planning
from sparklog.coordinator.page.actions.action_list import ACTIONS, PATH, address_of, writes_are_on
from sparklog.coordinator.page.actions.sealed_plan import SealedPlan, Seals, check_same_origin
from sparklog.coordinator.page.records.record_routes import page_reads
from sparklog.coordinator.page.rendering import rendered
from sparklog.coordinator.page.words import path_part
from sparklog.coordinator.watching.observation import Observation
from sparklog.core.access import Need, Verb, need_of
from sparklog.core.commands import Submission
from sparklog.core.describe.readable import counted
from sparklog.core.errors import (
    AccessRefused,
    ClusterAuthorizationFailed,
    InvalidOption,
    Landed,
    NotFound,
    OutcomeUnknown,
    SparklogError,
)
from sparklog.core.state import ClusterState
from sparklog.host.clock import now_ms
from sparklog.log.cluster_stores import Stores
from sparklog.log.read.time_lookup import first_at_or_after
from sparklog.wire.error_messages import http_status, raised
from sparklog.wire.messages import MAX_COMMANDS, SubmitRequest, SubmittedCommand

ROWS: Final = 200  # of a plan that are shown
ERRORS: Final = 15
MOST_CHARACTERS: Final = 20_000  # of the values filled in
TIMEOUT_MS: Final = 30_000  # of the commands; the user waits
_log = logging.getLogger("sparklog.coordinator")


@dataclass
class ActionPage:
    """The content of an action's page. `sealed`: the plan in the confirmation form; "" if there is no such form.

    `done`: the sentence to show if all commands were committed. `partly`: the sentence to show if only some were.
    """

    given: Mapping[str, str]
    action: Action | None = None
    plan: Plan | None = None
    sealed: str = ""
    done: str = ""
    partly: str = ""
    problems: Sequence[SparklogError] = ()

    async def response(self, service: Service) -> Response:
        """Render the page. Its HTTP status is that of the first problem, or 200 without problems."""
        return await rendered(
            service, "action.html", self._content, http_status(self.problems[0]) if self.problems else 200
        )

    def _content(self, seen: Observation) -> dict[str, Any]:
        action = self.action
        name = "" if action is None else self.given.get(action.of, "")
        sentences = list(dict.fromkeys(map(str, self.problems)))
        listed = "topics" if action is None else action.listed
        usable = action is not None and (not action.changes or (seen.leads and writes_are_on(seen.state)))
        return {
            "action": action,
            "usable": usable,
            "given": self.given,
            "name": name,
            "of": listed,
            "back": f"/{listed}/{path_part(name)}" if name and not self.done else f"/{listed}",
            "address": "" if action is None else address_of(action.name, self.given),
            "plan": self.plan,
            "rows": () if self.plan is None else self.plan.change.rows[:ROWS],
            "sealed": self.sealed if usable else "",
            "done": self.done,
            "partly": self.partly,
            "problems": sentences[:ERRORS],
            "more_problems": len(sentences[ERRORS:]),
        }


def action_routes(service: Service) -> list[GatedRoute]:
    """The routes of the actions' pages: GET shows the page of an action, POST commits its plan."""
    seals, reads = Seals(), page_reads()

    async def shown(request: Request) -> Response:
        page = ActionPage(given=_given(request))
        try:
            page.action = action = _action(request)
            _check_on(service, action)
            if any(len(text) > MOST_CHARACTERS for text in request.query_params.values()):
                raise InvalidOption(f"a field has at most {MOST_CHARACTERS} characters, found more")
            if action.of and not page.given.get(action.of):
                raise InvalidOption(f"{action.of}: wanted a name, found none")
            if "plan" in page.given:
                await plan(request, action, page)
        except SparklogError as error:
            page.problems = [error]
            if isinstance(error, AccessRefused):
                _audit(request, error)
        return await page.response(service)

    async def plan(request: Request, action: Action, page: ActionPage) -> None:
        state, planned = await reads.run(partial(_planned, service, action, page.given))
        page.plan, principal, commands = planned, caller_of(request.scope).principal, planned.change.commands
        for command in commands:
            if (refusal := refusal_of(principal, need_of(command), state)) is not None:
                raise refusal
        if len(commands) > MAX_COMMANDS:
            raise InvalidOption(f"a page changes at most {MAX_COMMANDS} partitions at once, found {len(commands)}")
        if commands:
            submissions = tuple(Submission(new_command_id(), state.n0, command) for command in commands)
            made = SealedPlan(action.name, principal.name, now_ms(), state.chain_id, planned.change.done, submissions)
            page.sealed = seals.sealed(made)

    async def confirmed(request: Request) -> Response:
        page = ActionPage(given=_given(request))
        try:
            page.action = action = _action(request)
            _check_on(service, action)
            check_same_origin(request, service.control.leadership.address)
            text = _sealed_in(await body_of(request))
            made = seals.opened(text, action.name, caller_of(request.scope).principal.name, now_ms())
        except ClientDisconnect:  # in the middle of its body: there is no request to answer
            return Response(status_code=400)
        except SparklogError as error:
            _audit(request, error)
            page.problems = [error]
            return await page.response(service)
        page.problems = await _committed(request, service, made)
        total, failed = len(made.submissions), len(page.problems)
        if not failed:
            page.done = made.done
        elif failed < total:
            page.partly = f"{total - failed} of {counted(total, 'command')} are in the chain."
        if any(error.landed is Landed.UNKNOWN for error in page.problems):
            doubted = tuple(replace(submission, in_doubt=True) for submission in made.submissions)
            page.sealed = seals.sealed(replace(made, submissions=doubted))
        elif any(error.retriable for error in page.problems):
            page.sealed = text
        return await page.response(service)

    return [
        GatedRoute("GET", PATH, shown, Need(Verb.DESCRIBE), for_people=True),
        GatedRoute("POST", PATH, confirmed, Need(Verb.DESCRIBE), for_people=True),
    ]


def _action(request: Request) -> Action:
    """The action that the address names. Raises NotFound if there is no such action."""
    name = request.path_params["action"]
    if name not in ACTIONS:
        raise NotFound(f"wanted one of the actions {', '.join(ACTIONS)}, found {name[:100]!r}")
    return ACTIONS[name]


def _check_on(service: Service, action: Action) -> None:
    """Check that this process can perform the action now. An action that changes nothing passes.

    Raises ClusterAuthorizationFailed if `page.writes` is false, and NotController if this process does not lead.
    """
    if not action.changes:
        return
    if not writes_are_on(service.follower.state):
        raise ClusterAuthorizationFailed(
            "the pages of this cluster are read-only: wanted page.writes=true in its config, found false; sparklog "
            "cluster alter --set page.writes=true changes that, or use the command line for the same changes"
        )
    service.control.check_leads(service.follower.state)


def _planned(service: Service, action: Action, given: Mapping[str, str]) -> tuple[ClusterState, Plan]:
    """Return the newest state, and the plan based on it. To be called in a thread."""

    def now() -> tuple[ClusterState, Stores]:
        newest = service.follower.catch_up().state
        return newest, service.stores(newest)

    state = service.follower.catch_up().state
    return state, action.plan(Planning(state, now_ms(), given, partial(first_at_or_after, now)))


async def _committed(request: Request, service: Service, made: SealedPlan) -> list[SparklogError]:
    """Commit the sealed commands. Return the errors of those that failed; [] if all were committed."""
    commands = tuple(SubmittedCommand(submission, TIMEOUT_MS) for submission in made.submissions)
    wanted = SubmitRequest(made.chain_id, made.submissions[0].n0, commands)
    try:
        reply = await submit_for(caller_of(request.scope), service, wanted)
    except SparklogError as error:
        return [error] * len(commands)
    except Exception as error:
        _log.error("%s %s failed", request.method, request.url.path, exc_info=error)
        return [OutcomeUnknown(f"the coordinator failed while it committed: {error!r}")] * len(commands)
    return [raised(outcome.error) for outcome in reply.outcomes if outcome.error is not None]


def _sealed_in(body: bytes) -> str:
    """The sealed plan in the body of a form; "" if the body has no plan."""
    try:
        return parse_qs(body.decode(), max_num_fields=10).get("sealed", [""])[0]
    except ValueError:
        return ""


def _given(request: Request) -> dict[str, str]:
    """The values of the form's fields, from the parameters of the address; each is cut to MOST_CHARACTERS."""
    return {name: text[:MOST_CHARACTERS] for name, text in request.query_params.items()}


def _audit(request: Request, error: SparklogError) -> None:
    """Write the audit line of a request that was refused before a command was read from it."""
    caller = caller_of(request.scope)
    audit_refused(caller.principal.name, caller.address, f"{request.method} {request.url.path}", error)
