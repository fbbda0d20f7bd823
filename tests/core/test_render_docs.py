from __future__ import annotations

import pytest

from sparklog.core.cluster_config import CLUSTER_KEYS
from sparklog.core.option_registry import CONNECTOR_IGNORED, KAFKA_REFUSED, OPTIONS
from sparklog.core.render_docs import PAGES, render_config, render_migration, render_options
from sparklog.core.topic_config import TOPIC_KEYS


def test_every_option_and_key_stands_in_its_page() -> None:
    assert all(f"| `{name}` |" in render_options() for name in OPTIONS)
    assert all(f"| `{name}` |" in render_config() for name in (*TOPIC_KEYS, *CLUSTER_KEYS))


def test_migration_says_what_becomes_of_every_kafka_option() -> None:
    page = render_migration()
    for option in OPTIONS.values():
        assert f"`{option.kafka_equivalent or option.name}`" in page
    for name in (*CONNECTOR_IGNORED, *(name for refused in KAFKA_REFUSED.values() for name in refused)):
        assert f"| `{name}` |" in page


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
