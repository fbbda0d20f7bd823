"""Pieces of a range: each is a beginning or an end of it, none is empty, and together they are the range."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparklog.core.reading import pieces
from sparklog.core.reading.pieces import next_piece
from sparklog.core.tables.slice_table import SliceTable
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
    assert next_piece(log.state, KEY, beyond, 100, 10, down=False) == beyond
    assert next_piece(log.state, KEY, beyond, 100, 10, down=True) == beyond


def test_a_gap_is_one_piece_however_long_it_is() -> None:
    """That of a mirror topic that was promoted."""
    far = 1 << 60
    log = log_of([(1, 10)])
    (first,) = log.slices()
    log.state.slices = SliceTable()
    log.state.slices.add(
        msgspec.structs.replace(first, start=Offset(start), end=Offset(end), records=end - start, length=100)
        for start, end in [(far, far + 200), (2 * far, 2 * far + 300)]
    )

    def pieces_of(*, down: bool) -> list[tuple[int, int]]:
        rest, found = OffsetRange(Offset(5), Offset(3 * far)), []
        while rest.start < rest.end and len(found) < 20:
            piece = next_piece(log.state, KEY, rest, 100, 1_000, down=down)
            found.append((int(piece.start), int(piece.end)))
            rest = OffsetRange(rest.start, piece.start) if down else OffsetRange(piece.end, rest.end)
        return found

    in_middle = [(far, far + 100), (far + 100, far + 200)]
    at_end = [(2 * far + at, 2 * far + at + 100) for at in (0, 100, 200)]
    upwards = [(5, far), *in_middle, (far + 200, 2 * far), *at_end, (2 * far + 300, 3 * far)]
    assert pieces_of(down=False) == upwards
    assert pieces_of(down=True) == upwards[::-1]


def test_pieces_of_a_slice_with_far_more_offsets_than_records_can_be_as_long_as_its_bytes_allow() -> None:
    log = log_of([(1, 10)])
    (first,) = log.slices()
    log.state.slices = SliceTable()
    log.state.slices.add([msgspec.structs.replace(first, end=Offset(1 << 61), records=51, length=1 << 30)])
    rest = OffsetRange(Offset(0), Offset(1 << 61))
    assert next_piece(log.state, KEY, rest, 1 << 62, 1 << 31, down=False) == rest
    for down, part in (
        (False, OffsetRange(Offset(0), Offset(1 << 54))),
        (True, OffsetRange(Offset((1 << 61) - (1 << 54)), rest.end)),
    ):
        assert next_piece(log.state, KEY, rest, 1 << 62, 8 << 20, down=down) == part
