"""The tail of the chain with heartbeats in a row as one row: nothing that changes a topic is hidden."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest

from sparklog.client.describe.chain_tail import QuietEntries, TailEntry, chain_tail, folded
from tests.chain.chain_kit import Member, append, new_chain
from tests.chain.fenced_entry import claim, write_fenced_entry


@pytest.fixture
def chain() -> Member:
    return new_chain()


def tail(chain: Member, num: int = 1_000) -> list[TailEntry]:
    return chain_tail(chain.follower.store, chain.follower.catch_up().state, num).entries


def words(rows: list[TailEntry | QuietEntries]) -> list[str]:
    return [re.sub("coordinated by.*", "claimed", row.what) for row in rows]


def test_heartbeats_in_a_row_are_one_row_and_the_claim_is_seen(chain: Member) -> None:
    before = len(tail(chain))
    coordinator = claim(chain.follower, 1, times=4)
    coordinator.submit(coordinator.begin(append(3)))
    claim(chain.follower, 1, times=2)
    claim(chain.follower, 2, times=2)
    rows = folded(tail(chain))[before:]
    assert words(rows) == [
        "claimed",
        "3 heartbeats of the coordinator",
        "3 records, 10 B appended to orders-0",
        "2 heartbeats of the coordinator",
        "claimed",
        "claimed",
    ]
    quiet = [row for row in rows if isinstance(row, QuietEntries)]
    assert [row.last - row.first for row in quiet] == [2, 1]
    assert {row.author for row in quiet} == {"coordinator c1"}


def test_each_entry_is_in_one_row(chain: Member) -> None:
    coordinator = claim(chain.follower, 1, times=3)
    coordinator.submit(coordinator.begin(append(1)))
    claim(chain.follower, 1, times=3)
    write_fenced_entry(chain.follower)
    entries = tail(chain)
    for at in range(len(entries)):
        rows = folded(entries[at:])
        ends = [(row.first, row.last) if isinstance(row, QuietEntries) else (row.n, row.n) for row in rows]
        assert all(last + 1 == first for (_, last), (first, _) in pairwise(ends))
        assert (ends[0][0], ends[-1][1]) == (entries[at].n, entries[-1].n)
    assert [row.ignored for row in folded(entries) if isinstance(row, TailEntry)][-1] is True
