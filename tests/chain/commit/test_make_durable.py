"""An entry of another process is durable once its bytes were put again, or a snapshot covers it."""

from __future__ import annotations

import pytest

from sparklog.chain.chain_requests import Get, MirrorEntry, Now, Put, Request
from sparklog.chain.commit.make_durable import made_durable
from sparklog.chain.head import Head
from sparklog.core.errors import InconsistentClusterId, KeyExists, KeyNotFound, SparklogError, StoreUnavailable
from sparklog.core.state import ClusterState
from sparklog.storage.keys import entry_key
from tests.chain.driven import NOW, Driven

KEY = entry_key(5)
HEAD = Head(ClusterState(n=5))


def reading(*, copied: bool = False) -> Driven[int]:
    """A machine that reads the entry."""
    machine = Driven(made_durable(HEAD, 1_000, with_mirrors=copied))
    assert isinstance(machine.start(), Get)
    return machine


def put_again(*, copied: bool = False) -> Driven[int]:
    """A machine that has read the entry, and asked to put it."""
    machine = reading(copied=copied)
    put = machine.reply(memoryview(b"entry"), NOW)
    assert isinstance(put, Put)
    assert (put.key, put.body) == (KEY, b"entry")
    return machine


@pytest.mark.parametrize("reply", [None, KeyExists(KEY)])
def test_an_entry_is_durable_once_its_bytes_are_put_again_or_refused_as_taken(reply: object) -> None:
    assert put_again().reply(reply, NOW) == 5


def test_an_entry_that_was_deleted_as_old_is_covered_by_a_snapshot() -> None:
    assert reading().reply(KeyNotFound(KEY), NOW) == 5


@pytest.mark.parametrize("error", [StoreUnavailable(KEY), KeyNotFound(KEY)])
def test_an_entry_whose_put_has_failed_is_not_taken_for_durable(error: SparklogError) -> None:
    assert put_again().reply(error, NOW) is error


def test_an_entry_that_can_not_be_read_is_not_taken_for_durable() -> None:
    error = StoreUnavailable(KEY)
    assert reading().reply(error, NOW) is error


# ---- copies -------------------------------------------------------------------------------------------


def test_an_entry_gets_the_copies_that_are_wanted_after_it_is_durable() -> None:
    machine = put_again(copied=True)
    copy = machine.reply(KeyExists(KEY), NOW)
    assert isinstance(copy, MirrorEntry)
    assert (copy.head, copy.body) == (HEAD, b"entry")
    assert machine.reply(None, NOW) == 5


def test_an_entry_that_was_deleted_as_old_gets_its_copies_too() -> None:
    copy = reading(copied=True).reply(KeyNotFound(KEY), NOW)
    assert isinstance(copy, MirrorEntry)
    assert copy.body is None


def test_too_few_copies_are_tried_for_again_up_to_the_deadline() -> None:
    machine = put_again(copied=True)
    machine.reply(None, NOW)
    error = StoreUnavailable("b is away")
    assert isinstance(machine.reply(error, NOW), Request)
    assert isinstance(machine.reply(None, NOW), MirrorEntry)
    assert machine.reply(error, Now(0, 1_000, "f" * 32)) is error


def test_an_entry_of_a_cluster_that_was_restored_elsewhere_is_not_put_again() -> None:
    machine = put_again(copied=True)
    machine.reply(None, NOW)
    error = InconsistentClusterId("restored elsewhere")
    assert machine.reply(error, NOW) is error
