"""Which connections go first, and whose time is over: against a slow twin that sorts them all."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sparklog.coordinator.http.connection_table import ConnectionLimits, ConnectionTable, State

LIMITS = ConnectionLimits(connections=5, request_s=10, idle_s=90, linger_s=2, evict_receiving_s=1, refusing=2)
ALLOWED_S = {
    State.HANDSHAKE: 10,
    State.REFUSED: 10,
    State.SILENT: 10,
    State.RECEIVING: 10,
    State.IDLE: 90,
    State.STUCK: 10,
    State.LINGERING: 2,
}
STEPS = st.lists(st.tuples(st.integers(0, 9), st.sampled_from([*State, None]), st.integers(0, 8)), max_size=60)


@given(STEPS)
def test_the_longest_idle_goes_first_and_nobody_before_its_time(steps: list[tuple[int, State | None, int]]) -> None:
    table: ConnectionTable[int] = ConnectionTable(LIMITS)
    known: dict[int, tuple[State, int, int]] = {}  # state, since, order
    now = 0
    for order, (connection, state, later) in enumerate(steps):
        now += later
        if state is None:
            table.leave(connection)
            known.pop(connection, None)
        else:
            table.enter(connection, state, now)
            known[connection] = (state, now, order)
        beside = (State.LINGERING, State.REFUSED)
        counted = [each for each, (in_state, _, _) in known.items() if in_state not in beside]
        assert (len(table), table.is_full) == (len(known), len(counted) >= 5)
        assert sorted(each for each, _ in table.overdue(now)) == sorted(
            each for each, (in_state, since, _) in known.items() if now - since >= ALLOWED_S.get(in_state, 10**9)
        )
        assert table.victim(now) in _victims(known, now)
        refused = sum(in_state is State.REFUSED for in_state, _, _ in known.values())
        admission = table.admission(now)
        if admission is None:
            assert (table.is_full, table.victim(now), refused >= 2) == (True, None, True)
        else:
            assert admission.victim == (table.victim(now) if table.is_full else None)
            is_refused = table.is_full and admission.victim is None
            assert admission.state is (State.REFUSED if is_refused else State.HANDSHAKE)


def _victims(known: dict[int, tuple[State, int, int]], now: int) -> set[int | None]:
    """Those of which one goes first; {None} if none may go."""
    silent = [(since, each) for each, (of, since, _) in known.items() if of in (State.HANDSHAKE, State.SILENT)]
    if silent:
        return {each for since, each in silent if since == min(silent)[0]}
    return {_victim(known, now)}


def _victim(known: dict[int, tuple[State, int, int]], now: int) -> int | None:
    for state, least in ((State.IDLE, 0), (State.RECEIVING, 1)):
        oldest = min(((order, each) for each, (of, _, order) in known.items() if of is state), default=None)
        if oldest is not None and now - known[oldest[1]][1] >= least:
            return oldest[1]
    return None


def test_connections_may_leave_while_the_overdue_are_gone_through() -> None:
    table: ConnectionTable[int] = ConnectionTable(LIMITS)
    for connection in range(5):
        table.enter(connection, State.SILENT, 0)
    for connection, _ in table.overdue(100):
        table.leave(connection)
    assert len(table) == 0
