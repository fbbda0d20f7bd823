"""What the JAR needs of a session."""

from __future__ import annotations

import pytest

from sparklog.spark import spark_versions
from sparklog.spark.jar import function_advice

SETTING = "spark.sql.execution.arrow.pythonUDF.columnarInput.enabled"


def test_where_functions_in_python_hang_the_setting_is_named_until_it_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_versions, "HANGING_UDF_SETTING", SETTING)
    for value in (None, "true"):
        advice = function_advice({SETTING: value}.get)
        assert advice is not None
        assert advice.endswith(f"set {SETTING}=false")
    assert function_advice({SETTING: "false"}.get) is None


def test_where_they_do_not_hang_nothing_is_to_be_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_versions, "HANGING_UDF_SETTING", None)
    assert function_advice({SETTING: "true"}.get) is None
