"""Names that a source can't bring, because produce uses them. No Spark."""

from __future__ import annotations

import pytest

from sparklog.core.errors import InvalidInput
from sparklog.spark.produce_reserved import check_column_names


@pytest.mark.parametrize(
    ("columns", "text", "json", "refused"),
    [
        (["a", "sparklog_json", "sparklog_bad_row"], True, True, None),
        (["a", "sparklog_bad_row"], True, False, None),
        (["a", "sparklog_file"], False, False, None),
        (["a", "sparklog_json"], False, False, "sparklog_json"),
        (["Sparklog_Json", "sparklog_bad_row"], True, False, "sparklog_json"),
        (["SPARKLOG_JSON", "sparklog_json", "sparklog_bad_row"], True, True, "sparklog_json"),
        (["sparklog_bad_row"], False, False, "sparklog_bad_row"),
        (["sparklog_bad_row", "sparklog_bad_row"], True, False, "sparklog_bad_row"),
    ],
)
def test_a_column_is_refused_if_it_is_not_produces_own(
    columns: list[str], text: bool, json: bool, refused: str | None
) -> None:
    if refused is None:
        check_column_names(columns, source="a.csv", text=text, json=json)
        return
    with pytest.raises(InvalidInput, match=f"a.csv: wanted .* of other names than {refused}, which produce uses"):
        check_column_names(columns, source="a.csv", text=text, json=json)
