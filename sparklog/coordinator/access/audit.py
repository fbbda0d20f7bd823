"""The audit of a coordinator: a line of JSON for each command, and for each request refused before a command was read.

    {"time":"2026-11-22T14:03:11.120Z","principal":"loader","address":"10.0.0.7","verb":"write","topics":["orders"],
     "kind":"append","command_id":"…","entry":4711}

After a failure, the line has no `entry`. Instead, `error` has the error's code, and `landed` says whether the command
changed the log (yes, no or unknown). No line contains records, config values or tokens.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping
from logging.handlers import WatchedFileHandler
from typing import Final

import msgspec

from sparklog.core.access import Need
from sparklog.core.commands import Submission
from sparklog.core.describe.readable import point_in_time
from sparklog.core.errors import InvalidInput, Landed, SparklogError
from sparklog.host.clock import now_ms
from sparklog.wire.error_messages import ErrorReply
from sparklog.wire.messages import Outcome

LOGGER: Final = "sparklog.audit"
_LONGEST: Final = 250  # characters of a name: longer ones are not legal
_log = logging.getLogger(LOGGER)
_encoder = msgspec.json.Encoder()


def audit_to(place: str) -> None:
    """Write all audit lines from now on to the file `place`, or to stderr if `place` is "-".

    If log rotation moves the file away, a new file is created. Raises InvalidInput if the file can't be written.
    """
    try:
        handler = logging.StreamHandler(sys.stderr) if place == "-" else WatchedFileHandler(place, encoding="utf-8")
    except OSError as error:
        raise InvalidInput(f"--audit: {place} can't be written: {error.strerror}") from error
    handler.setFormatter(logging.Formatter("%(message)s"))
    _log.addHandler(handler)
    _log.setLevel(logging.INFO)


def is_audited() -> bool:
    """True if `audit_to` was called, so that audit lines are written."""
    return _log.isEnabledFor(logging.INFO)


def audit_command(
    principal: str,
    address: str,
    need: Need,
    topics: list[str],
    submission: Submission,
    outcome: Outcome | BaseException,
) -> None:
    """Write the audit line of a client's command.

    `need` is the right that the command needs, `topics` are the topics that this right is for. `outcome` is an
    exception if the whole request failed.
    """
    line: dict[str, object] = {
        "principal": principal,
        "address": address,
        "verb": need.verb,
        "topics": [topic[:_LONGEST] for topic in topics],
        "kind": submission.command.__struct_config__.tag,
        "command_id": submission.command_id[:_LONGEST],
    }
    _write(line | _outcome(outcome))


def audit_refused(principal: str, address: str, request: str, error: SparklogError) -> None:
    """Write the audit line of a refused request; `request` is its method and path, `error` the reason.

    `principal` is "anonymous" if the caller had no valid token.
    """
    line = {"principal": principal, "address": address, "request": request[:_LONGEST]}
    _write(line | _outcome(error))


def _outcome(outcome: Outcome | BaseException) -> dict[str, object]:
    if isinstance(outcome, Outcome) and outcome.result is not None:
        return {"entry": outcome.result.n}
    error = outcome.error if isinstance(outcome, Outcome) else outcome
    if isinstance(error, ErrorReply | SparklogError):
        return {"error": error.code, "landed": error.landed}
    return {"error": "COMMIT_OUTCOME_UNKNOWN", "landed": Landed.UNKNOWN}  # cancelled, or an error of the process itself


def _write(line: Mapping[str, object]) -> None:
    if is_audited():
        _log.info("%s", _encoder.encode({"time": point_in_time(now_ms()), **line}).decode())
