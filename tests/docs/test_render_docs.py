from __future__ import annotations

import re

import pytest

from scripts.docs.render_docs import PAGES, render_config, render_migration, render_options
from sparklog.core.config.cluster_config import CLUSTER_KEYS
from sparklog.core.config.topic_keys import TOPIC_KEYS
from sparklog.core.errors import InvalidOption
from sparklog.options.connector import (
    CONNECTOR_IGNORED,
    KAFKA_ALIASES,
    KAFKA_REFUSED,
    KAFKA_VALUES,
    SPARKS_OWN_IN_STREAMS,
)
from sparklog.options.given import GivenOptions, Ignored
from sparklog.options.registry import OPTIONS, Side


def test_every_option_and_key_stands_in_its_page() -> None:
    assert all(f"| `{name}` |" in render_options() for name in OPTIONS)
    assert all(f"| `{name}` |" in render_config() for name in (*TOPIC_KEYS, *CLUSTER_KEYS))


def test_migration_says_what_becomes_of_every_kafka_option() -> None:
    page = render_migration()
    for option in OPTIONS.values():
        assert f"`{option.kafka_equivalent or option.name}`" in page
    for name in (*CONNECTOR_IGNORED, *(name for refused in KAFKA_REFUSED.values() for name in refused)):
        assert f"| `{name}` |" in page


def test_what_the_migration_page_says_of_an_option_is_what_the_parser_does() -> None:
    same = [option for option in OPTIONS.values() if option.kafka_equivalent == option.name]
    for side in Side:
        assert GivenOptions({each.name: "x" for each in same if side in each.sides}, side).ignored() == ()
        for option in OPTIONS.values():
            if side not in option.sides:
                (ignored,) = GivenOptions({option.name: "x"}, side).ignored()
                assert ignored.name == option.name
        for name in KAFKA_REFUSED[side]:
            with pytest.raises(InvalidOption, match=re.escape(f"{name}: not supported")):
                GivenOptions({name: "x"}, side)
        for name, reason in CONNECTOR_IGNORED.items():
            named = () if side.is_stream and name in SPARKS_OWN_IN_STREAMS else (Ignored(name, reason),)
            assert GivenOptions({name: "x", "cluster": "/c"}, side).ignored() == named
        assert [each.name for each in GivenOptions({"kafka.any": "x"}, side).ignored()] == ["kafka.any"]
        for alias, name in KAFKA_ALIASES[side].items():
            assert GivenOptions({alias: "x"}, side).raw(name) == "x"
    for name, values in KAFKA_VALUES.items():
        for value, (instead, reason) in values.items():
            given = GivenOptions({name: value}, Side.BATCH_WRITE)
            assert given.ignored() == (Ignored(f"{name}={value}", reason),)
            assert given.names() == ([KAFKA_ALIASES[Side.BATCH_WRITE][name]] if instead else [])
            assert f"| `{name}={value}` |" in render_migration()


@pytest.mark.parametrize("path", PAGES)
def test_tables_are_well_formed(path: str) -> None:
    lines = PAGES[path]().splitlines()
    assert lines[0].startswith("# ")
    width = 0
    for before, line in zip(["", *lines], lines, strict=False):
        if line.startswith("|"):
            cells = line.replace("\\|", "").count("|")
            width = width if before.startswith("|") else cells
            assert cells == width
