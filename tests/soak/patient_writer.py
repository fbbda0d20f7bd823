"""`writer`, which waits a minute for a reply: a leader that was paused finds its commands when it wakes, not closed
connections, however slow the machine is.
"""

from __future__ import annotations

import sys

from sparklog.client.commits.delivery import Delivery
from tests.soak.writer import main

if __name__ == "__main__":
    import tests.kit.pandas_hidden  # noqa: F401

    Delivery.patience_ms = lambda *_: 60_000  # type: ignore[method-assign]
    main(*sys.argv[1:])
