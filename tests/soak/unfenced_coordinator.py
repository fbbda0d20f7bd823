"""`sparklog coordinator` without its fence: it goes on committing after another one has followed it.

Everybody else ignores what it writes. A checker that does not see that sees nothing.
"""

from __future__ import annotations

from sparklog.chain.commit import group_commit
from sparklog.cli.main import entry_point

if __name__ == "__main__":
    group_commit.is_fenced = lambda known, author: False  # type: ignore[assignment]
    entry_point()
