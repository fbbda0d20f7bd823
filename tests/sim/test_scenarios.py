"""What the simulation found, each as a scenario of a few steps."""

from __future__ import annotations

import msgspec

from sparklog.chain.chain_requests import Get, Now, Put, Request
from sparklog.chain.commit.command_body import CommandBody, stored_body
from sparklog.core.commands import Submission
from sparklog.core.errors import KeyExists
from sparklog.core.machine import run
from sparklog.core.types import CommandId, EntryNumber, Holder, StoreId
from sparklog.storage.memory import MemoryStore
from tests.chain.chain_kit import append, new_store

NOW = Now(0, 0, "n")


def test_a_large_append_is_submitted_again_with_other_holders() -> None:
    """After FENCED_LEADER_EPOCH the same command id and n0, with the holders of then.

    The body of the first try is under the command's name already. The second try's is the command's next one.
    """
    store = new_store()
    command = append(slices=(0, 1, 2))
    first = Submission(CommandId("1" * 32), EntryNumber(0), command)
    stored = _stored(store, first)
    assert isinstance(stored, CommandBody)
    assert stored.number == 0
    moved = msgspec.structs.replace(command.objects[0], holders=(Holder(StoreId("b"), 7),))
    again = msgspec.structs.replace(first, command=msgspec.structs.replace(command, objects=(moved,)))
    stored = _stored(store, again)
    assert isinstance(stored, CommandBody)
    assert stored.number == 1
    assert _stored(store, again) == stored


def _stored(store: MemoryStore, submission: Submission) -> CommandBody:
    return run(stored_body(submission, 1_000, 1_000, store.url), lambda request: (_reply(store, request), NOW))


def _reply(store: MemoryStore, request: Request) -> object:
    match request:
        case Put():
            try:
                store.put_if_absent(request.key, request.body)
            except KeyExists as error:
                return error
            return None
        case Get():
            return store.get(request.key)
        case _:
            return None
