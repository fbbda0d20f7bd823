"""Legal and internal topic names: Kafka's rules (`org.apache.kafka.common.internals.Topic`)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from sparklog.core.errors import InvalidTopic

MAX_LENGTH: Final = 249
# Kafka keeps its own state under these names; the state of sparklog is in the metadata chain.
INTERNAL_TOPICS: Final = frozenset(
    {"__consumer_offsets", "__transaction_state", "__share_group_state", "__cluster_metadata"}
)
_LEGAL: Final = re.compile(r"[a-zA-Z0-9._-]+")
_ILLEGAL_CHARACTER: Final = re.compile(r"[^a-zA-Z0-9._-]")


def check_topic_name(name: str) -> None:
    """Raise `InvalidTopic` if the name is not legal."""
    problem = _what_is_wrong(name)
    if problem is not None:
        raise InvalidTopic(
            f"a topic name is 1 to {MAX_LENGTH} of a-z A-Z 0-9 . _ - and neither '.' nor '..', but {problem}"
        )


def check_not_internal(name: str) -> None:
    """Raise `InvalidTopic` if the name is that of an internal topic: clients can't create it or write to it."""
    if name in INTERNAL_TOPICS:
        raise InvalidTopic(
            f"'{name}' is the name of an internal topic of Kafka, which can't be created or written to: choose another"
        )


def check_no_collision(name: str, existing: Iterable[str]) -> None:
    """Raise `InvalidTopic` if the name of an existing topic differs from `name` only in '.' versus '_'.

    Metric names have '_' in place of '.', so both topics would share their metrics. Kafka refuses the second one, too.
    An existing topic of exactly this name is no collision.
    """
    if "." not in name and "_" not in name:
        return
    unified = name.replace(".", "_")
    for other in existing:
        if other != name and other.replace(".", "_") == unified:
            raise InvalidTopic(
                f"topic '{name}' collides with the existing topic '{other}': "
                "names may not differ only in '.' against '_', because metrics show both alike"
            )


def _what_is_wrong(name: str) -> str | None:
    if not name:
        return "it is empty"
    if name in (".", ".."):
        return f"it is '{name}'"
    if len(name) > MAX_LENGTH:
        return f"'{name[:40]}…' has {len(name)} characters"
    if _LEGAL.fullmatch(name) is None:
        illegal = sorted(set(_ILLEGAL_CHARACTER.findall(name)))
        return f"{name!r} has {', '.join(map(repr, illegal))}"
    return None
