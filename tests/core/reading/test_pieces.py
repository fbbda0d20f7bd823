"""Pieces of a range: each is a beginning or an end of it, none is empty, and together they are the range."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparklog.core.reading import pieces
from sparklog.core.reading.pieces import next_piece
from sparklog.core.types import Offset, OffsetRange, PartitionIndex, TopicPartition
from tests.core.decided_log import TOPIC
from tests.core.planned_log import PlannedLog

KEY = TopicPartition(TOPIC, PartitionIndex(0))
SLICES = st.lists(st.tuples(st.integers(1, 50), st.integers(1, 5_000)), min_size=1, max_size=8)


def log_of(slices: list[tuple[int, int]]) -> PlannedLog:
    log = PlannedLog({})
    for records, length in slices:
        log.append_slice(records, length)
    return log


@given(slices=SLICES, most_offsets=st.integers(1, 80), most_bytes=st.integers(1, 8_000), down=st.booleans())
def test_pieces_tile_a_range_from_either_end(
    slices: list[tuple[int, int]], most_offsets: int, most_bytes: int, down: bool
) -> None:
    log = log_of(slices)
    rest = OffsetRange(Offset(0), Offset(sum(records for records, _ in slices)))
    while rest.start < rest.end:
        piece = next_piece(log.state, KEY, rest, most_offsets, most_bytes, down=down)
        assert rest.start <= piece.start < piece.end <= rest.end
        assert piece.end - piece.start <= most_offsets
        assert stored_bytes(slices, piece) <= most_bytes or piece.end - piece.start == 1
        if down:
            assert piece.end == rest.end
            rest = OffsetRange(rest.start, piece.start)
        else:
            assert piece.start == rest.start
            rest = OffsetRange(piece.end, rest.end)


def stored_bytes(slices: list[tuple[int, int]], piece: OffsetRange) -> float:
    """The bytes of a range, by a slow walk. Sizes are compared rounded down to whole bytes."""
    total, start = 0.0, 0
    for records, length in slices:
        overlap = max(0, min(piece.end, start + records) - max(piece.start, start))
        total += length * overlap / records
        start += records
    return int(total)


@pytest.mark.parametrize("down", [False, True])
def test_a_piece_has_few_slices(down: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "MOST_SLICES", 3)
    log = log_of([(2, 10)] * 8)
    piece = next_piece(log.state, KEY, OffsetRange(Offset(1), Offset(15)), 100, 1_000, down=down)
    assert piece == (OffsetRange(Offset(10), Offset(15)) if down else OffsetRange(Offset(1), Offset(6)))


def test_a_range_without_slices_is_one_piece() -> None:
    log = log_of([(5, 10)])
    beyond = OffsetRange(Offset(5), Offset(900))
    assert next_piece(log.state, KEY, beyond, 100, 10, down=False) == OffsetRange(Offset(5), Offset(105))
    assert next_piece(log.state, KEY, beyond, 100, 10, down=True) == OffsetRange(Offset(800), Offset(900))
