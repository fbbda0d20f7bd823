"""Numbers between numpy and Arrow: the same values at the same place in memory."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from sparklog.log.number_arrays import array_of, numpy_of
from sparklog.log.stored_schema import TIMESTAMP


@given(st.lists(st.integers(-(2**63), 2**63 - 1)), st.integers(0, 5))
def test_a_round_trip_keeps_values_and_copies_nothing(numbers: list[int], left_out: int) -> None:
    values = np.array(numbers, np.int64)[left_out:]
    arrow = array_of(values)
    arrow.validate(full=True)
    assert (arrow.type, arrow.to_pylist()) == (pa.int64(), numbers[left_out:])
    view = numpy_of(arrow)
    assert view.tolist() == numbers[left_out:]
    if view.size:
        assert not view.flags.writeable
        assert np.shares_memory(values, view)
    assert numpy_of(arrow[1:]).tolist() == numbers[left_out + 1 :]


def test_a_type_of_the_same_width_may_be_asked_for() -> None:
    assert array_of(np.array([1, 2], np.int64), TIMESTAMP).cast(pa.int64()).to_pylist() == [1, 2]
    assert array_of(np.arange(6, dtype=np.int32)[::2]).to_pylist() == [0, 2, 4], "numbers that lie apart are copied"
