"""Which ids a store may have."""

from __future__ import annotations

import pytest

from sparklog.core.errors import InvalidInput
from sparklog.core.names.store_ids import MAX_LENGTH, check_store_ids


@pytest.mark.parametrize("ids", [["local"], ["zone-a", "zone-b"], ["a.b", "A_1", "9"], ["x" * MAX_LENGTH]])
def test_ids_that_settings_can_name_are_legal(ids: list[str]) -> None:
    check_store_ids(ids)


@pytest.mark.parametrize(
    ("ids", "text"),
    [
        (["a b"], "found 'a b'"),
        ([""], "found ''"),
        ([".."], "found '..'"),
        (["a/b"], "found 'a/b'"),
        (["é"], "found 'é'"),
        (["a\n"], r"found 'a\\n'"),
        (["x" * (MAX_LENGTH + 1)], "1 to 100 of"),
        (["metadata"], "means the place of the metadata"),
        (["a", "a"], "needs an id of its own, found 'a' and 'a'"),
        (["a", "A"], "needs an id of its own, found 'a' and 'A'"),
    ],
)
def test_others_are_refused(ids: list[str], text: str) -> None:
    with pytest.raises(InvalidInput, match=text):
        check_store_ids(ids)
