"""Errors on the wire: an error arrives as the class of its code, with its text and whether the command landed."""

from __future__ import annotations

import msgspec

from sparklog.core.errors import (
    AccessRefused,
    AuthenticationFailed,
    Conflict,
    Damaged,
    InvalidInput,
    Landed,
    NotController,
    NotFound,
    SparklogError,
    TryAgain,
    classes_by_code,
)

MOST_ERROR_CHARACTERS = 4_000  # of the text of an error: a value in it may be millions long
MISDIRECTED = 421  # RFC 9110: this server can't answer this request


class ErrorReply(msgspec.Struct, frozen=True):
    """An error: its code (Kafka's, if Kafka has one), its text, and whether the command changed the log."""

    code: str
    message: str
    retriable: bool
    landed: Landed


def error_reply(error: SparklogError) -> ErrorReply:
    """The reply that carries the error. A very long text is cut."""
    message = error.message
    if len(message) > MOST_ERROR_CHARACTERS:
        message = f"{message[:MOST_ERROR_CHARACTERS]}… ({len(message):,} characters)"
    return ErrorReply(error.code, message, error.retriable, error.landed)


def raised(reply: ErrorReply) -> SparklogError:
    """Return the error in the reply, to be raised here, as the class of its code.

    If this version does not know the code, the error is a TryAgain (if it is retriable) or a SparklogError, with the
    code in its text.
    """
    kind = classes_by_code().get(reply.code)
    if kind is not None:
        return kind(reply.message, landed=reply.landed)
    return (TryAgain if reply.retriable else SparklogError)(f"{reply.code}: {reply.message}", landed=reply.landed)


def http_status(error: SparklogError) -> int:
    """The HTTP status of an error, for proxies and people. Programs use its code."""
    match error:
        case NotController():
            return MISDIRECTED
        case TryAgain():
            return 503
        case InvalidInput():
            return 400
        case NotFound():
            return 404
        case Conflict():
            return 409
        case AuthenticationFailed():
            return 401
        case AccessRefused():
            return 403
        case Damaged():
            return 500
        case _:
            return 500
