"""--option of produce: Spark's names, and a refusal for what would change nothing."""

from __future__ import annotations

import pytest

from sparklog.core.errors import InvalidOption
from sparklog.spark.produce.formats.csv_rows import CsvDialect
from sparklog.spark.produce.produce_options import CsvOptions, JsonOptions, csv_options, json_options


def test_names_match_without_case_and_spark_has_two_for_some() -> None:
    assert csv_options({}) == CsvOptions()
    found = csv_options(
        {"DELIMITER": "\\t", "charset": "latin1", "multiline": "FALSE", "nullvalue": "", "pathGlobFilter": "*"}
    )
    assert found.dialect == CsvDialect(sep="\t", encoding="iso8859-1", multiline=False)
    assert (found.null_value, found.of_files) == ("", {"pathGlobFilter": "*"})
    assert json_options({"multiLine": "true", "prefersDecimal": "true"}) == JsonOptions(
        multiline=True, of_types={"prefersDecimal": "true"}
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"headr": "true"}, "did you mean header?"),
        ({"mode": "DROPMALFORMED"}, "--on-bad-row chooses"),
        ({"sep": ",,"}, "wanted one character, found ',,'"),
        ({"sep": '"'}, "a character other than quote"),
        ({"header": "yes"}, "wanted true or false, found 'yes'"),
        ({"encoding": "utf-16"}, "iconv -f utf-16"),
        ({"encoding": "klingon"}, "found 'klingon'"),
    ],
)
def test_what_cannot_be_meant_is_refused(options: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidOption) as raised:
        csv_options(options)
    assert message in str(raised.value)
