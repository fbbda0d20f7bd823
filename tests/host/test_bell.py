"""A bell that wakes a thread. Nothing here could end in time if it did not ring."""

from __future__ import annotations

import signal
import threading

from sparklog.host.bell import Bell

NEVER_MS = 3_600_000


def test_a_ring_ends_a_wait_of_another_thread() -> None:
    bell, woken = Bell(), threading.Event()

    def wait() -> None:
        bell.wait(NEVER_MS)
        woken.set()

    threading.Thread(target=wait, daemon=True).start()
    bell.ring()
    assert woken.wait(30)


def test_a_ring_before_a_wait_ends_it_and_several_end_only_one() -> None:
    bell = Bell()
    bell.ring()
    bell.ring()
    bell.wait()
    assert bell._rings.empty()
    bell.wait(0)
    bell.wait(-1)


def test_a_signal_handler_rings_while_its_own_thread_waits() -> None:
    bell, rung = Bell(), []

    def handler(*_: object) -> None:
        rung.append(None)
        bell.ring()

    before = signal.signal(signal.SIGUSR1, handler)
    main = threading.main_thread().ident
    assert main is not None
    try:
        for _ in range(20):  # before the wait begins, or while it lasts
            sender = threading.Thread(target=signal.pthread_kill, args=(main, signal.SIGUSR1))
            sender.start()
            bell.wait(NEVER_MS)
            sender.join()
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert len(rung) == 20
