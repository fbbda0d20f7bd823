"""An entry of another process is durable once its bytes were put again, or a snapshot covers it."""

from __future__ import annotations

import pytest

from sparklog.chain.requests import Get, Put
from sparklog.chain.settling import Settled, Settling
from sparklog.core.errors import KeyExists, KeyNotFound, SparklogError, StoreUnavailable
from sparklog.storage.keys import entry_key

KEY = entry_key(5)


def put_again() -> Settling:
    """A machine that has read the entry, and asked to put it."""
    machine = Settling(5)
    assert isinstance(machine.start(), Get)
    put = machine.reply(memoryview(b"entry"))
    assert isinstance(put, Put)
    assert (put.key, put.body) == (KEY, b"entry")
    return machine


@pytest.mark.parametrize("reply", [None, KeyExists(KEY)])
def test_an_entry_is_durable_once_its_bytes_are_put_again_or_refused_as_taken(reply: object) -> None:
    assert put_again().reply(reply) == Settled(5, b"entry")


def test_an_entry_that_was_deleted_as_old_is_covered_by_a_snapshot() -> None:
    machine = Settling(5)
    machine.start()
    assert machine.reply(KeyNotFound(KEY)) == Settled(5, None)


@pytest.mark.parametrize("error", [StoreUnavailable(KEY), KeyNotFound(KEY)])
def test_an_entry_whose_put_has_failed_is_not_taken_for_durable(error: SparklogError) -> None:
    assert put_again().reply(error) is error


def test_an_entry_that_can_not_be_read_is_not_taken_for_durable() -> None:
    machine = Settling(5)
    machine.start()
    error = StoreUnavailable(KEY)
    assert machine.reply(error) is error
