"""What the policies allow although no recorded run asks for it, and what their wildcards are for. One reason each."""

from __future__ import annotations

# (role, action, key pattern): the rest of a deployment's life that a run of minutes does not have.
NOT_RUN: dict[tuple[str, str, str], str] = {}

# Key patterns with a wildcard. A key itself is drawn by the process that writes it, so no policy can name it.
WILDCARDS: dict[str, str] = {}
