"""Every mark is booked on the test it belongs to, or named with its file and line."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from tests import mechanisms
from tests.mechanism_marks import BadMarks, claims
from tests.mechanism_rows import ROWS, SECTIONS

KNOWN = ("A-01", "A-02", "A-03")

CONTRACT = {
    "contract.py": """
        class Contract:
            # M: A-01
            def test_inherited(self) -> None: ...

        class OnRemoteStores(Contract): ...
        """,
    "test_stores.py": """
        from contract import Contract, OnRemoteStores

        class TestLocal(Contract): ...

        class TestRemote(OnRemoteStores): ...
        """,
}


def booked(root: Path, **files: str) -> list[tuple[str, str, tuple[str, ...], str]]:
    """(row, test, heirs, how) of a folder with these files."""
    (root / "tests").mkdir()
    for name, text in files.items():
        (root / "tests" / name).write_text(dedent(text))
    return [(each.row, each.node.removeprefix("tests/"), each.heirs, each.how) for each in claims(root, KNOWN)]


@pytest.mark.parametrize(
    "text",
    [
        "# M: A-01\ndef test_it(): ...",
        "# M: A-01\n# and why\n\n@decorated\nasync def test_it(): ...",
        "@decorated\n# M: A-01\ndef test_it(): ...",
        "@decorated([\n    1,  # M: A-01\n])\ndef test_it(): ...",
        "def test_it():  # M: A-01\n    pass",
        "def test_it(  # M: A-01\n    a: int,\n) -> None: ...",
        "def test_it(\n    a: int,\n) -> None:  # M: A-01\n    pass",
        "def test_it():\n    # M: A-01\n    pass",
        "def test_it():\n    if True:\n        pass  # noqa  # M: A-01",
        "def test_it():\n    pass\n    # M: A-01",
        "def test_it():\n    pass\n    # M: A-01\n\n\ndef test_other(): ...",
        "TEXT = '# M: A-02'\n\n\n# M: A-01\ndef test_it(): ...",
    ],
)
def test_a_mark_is_booked_on_the_test_it_is_in_or_right_above(tmp_path: Path, text: str) -> None:
    before = "def test_before(): ...\n\n\n"
    after = "\n\n\ndef test_after(): ...\n"
    assert booked(tmp_path, **{"test_a.py": before + text + after}) == [("A-01", "test_a.py::test_it", (), "")]


@pytest.mark.parametrize(
    ("text", "test"),
    [
        ("class TestIt:  # M: A-01\n    def test_a(self): ...", "TestIt"),
        ("# M: A-01\nclass TestIt:\n    def test_a(self): ...", "TestIt"),
        ("class TestIt(\n    Other,  # M: A-01\n):\n    def test_a(self): ...", "TestIt"),
        ("class TestIt:\n    # M: A-01\n    def test_a(self): ...", "TestIt::test_a"),
        ("class TestIt:\n    def test_a(self): ...\n\n    # M: A-01\n    def test_b(self): ...", "TestIt::test_b"),
        ("class TestIt:\n    def test_a(self):\n        pass\n        # M: A-01", "TestIt::test_a"),
    ],
)
def test_a_mark_in_a_class_is_booked_on_its_test_and_one_on_the_class_on_all_of_it(
    tmp_path: Path, text: str, test: str
) -> None:
    assert booked(tmp_path, **{"test_a.py": f"{text}\n\n\ndef test_after(): ...\n"}) == [
        ("A-01", f"test_a.py::{test}", (), "")
    ]


def test_a_mark_in_a_contract_names_the_classes_that_run_it(tmp_path: Path) -> None:
    assert booked(tmp_path, **CONTRACT) == [
        ("A-01", "contract.py::Contract::test_inherited", ("TestLocal", "TestRemote"), "")
    ]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("# m: A-01\ndef test_it(): ...", "wanted rows"),
        ("# M A-01\ndef test_it(): ...", "wanted rows"),
        ("# M: A-01\n@pytest.mark.skip\ndef test_it(): ...", "not run by make test: @pytest.mark.skip"),
        ("# M: A-01\n@pytest.mark.campaign\ndef test_it(): ...", "not run by make test: @pytest.mark.campaign"),
        ("# M: A-01\n@pytest.fixture\ndef test_it(): ...", "not run by make test: @pytest.fixture"),
        (
            "# M: A-01\ndef test_it(): ...\npytestmark = pytest.mark.campaign",
            "no test of this file is run by make test",
        ),
        (
            "# M: A-01\ndef test_it(): ...\npytestmark = [x, pytest.mark.campaign]",
            "pytestmark has pytest.mark.campaign",
        ),
        ("# M: A-01\ndef test_it(): ...\n\ndef test_it(): ...", "another one follows"),
    ],
)
def test_a_mark_that_is_misspelt_or_on_a_test_that_never_runs_is_an_error(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(BadMarks, match=f"test_a.py:1: .*{why}"):
        booked(tmp_path, **{"test_a.py": text})


def test_a_mark_may_name_several_rows_and_say_what_the_test_breaks(tmp_path: Path) -> None:
    text = """
        # M: A-01 A-03 (kills)
        def test_a(): ...

        # M: A-01, A-02
        # M: A-03 (loses)
        def test_b(): ...
        """
    assert booked(tmp_path, **{"test_a.py": text}) == [
        ("A-01", "test_a.py::test_a", (), "kills"),
        ("A-03", "test_a.py::test_a", (), "kills"),
        ("A-01", "test_a.py::test_b", (), ""),
        ("A-02", "test_a.py::test_b", (), ""),
        ("A-03", "test_a.py::test_b", (), "loses"),
    ]


@pytest.mark.parametrize(
    ("text", "line", "why"),
    [
        ("# M: A-09\ndef test_it(): ...", 1, "no row A-09"),
        ("# M: A-01 in part\ndef test_it(): ...", 1, "wanted rows and nothing else"),
        ("# M: A-01 (hurts)\ndef test_it(): ...", 1, "wanted rows and nothing else"),
        ("#M: A-01\ndef test_it(): ...", 1, "wanted rows and nothing else"),
        ("# M: A-1\ndef test_it(): ...", 1, "wanted rows and nothing else"),
        ("# M:\ndef test_it(): ...", 1, "wanted rows and nothing else"),
        ("def test_it(): ...\n\n\n# M: A-01", 4, "neither in a test nor right above one"),
        ("# M: A-01\nimport os\n\n\ndef test_it(): ...", 1, "neither in a test nor right above one"),
        ("CASES = [\n    1,  # M: A-01\n]\n\n\ndef test_it(): ...", 2, "neither in a test nor right above one"),
        ("def helper():\n    pass  # M: A-01\n\n\ndef test_it(): ...", 2, "neither in a test nor right above one"),
        ("    # M: A-01\ndef test_it(): ...", 1, "neither in a test nor right above one"),
        ("class TestIt:\n    def test_it(self): ...\n\n    # M: A-01\n    other = 1", 4, "neither in a test"),
        ("class Contract:\n    # M: A-01\n    def test_it(self): ...", 2, "no test class inherits Contract"),
    ],
)
def test_a_mark_that_fits_nowhere_is_named_with_file_and_line(tmp_path: Path, text: str, line: int, why: str) -> None:
    with pytest.raises(BadMarks, match=rf"^tests/test_a\.py:{line}: .*{why}"):
        booked(tmp_path, **{"test_a.py": text + "\n"})


def test_a_test_in_a_file_that_pytest_does_not_collect_proves_nothing(tmp_path: Path) -> None:
    with pytest.raises(BadMarks, match=r"pytest does not collect kit\.py"):
        booked(tmp_path, **{"kit.py": "# M: A-01\ndef test_it(): ...\n"})


def test_all_wrong_marks_are_named_at_once(tmp_path: Path) -> None:
    with pytest.raises(BadMarks) as caught:
        booked(tmp_path, **{"test_a.py": "# M: A-09\ndef test_a(): ...\n# M: A-08\ndef test_b(): ...\n"})
    assert str(caught.value).count("\n") == 1


def test_every_row_has_a_section_and_what_is_missing_is_said_of_rows_with_tests_only() -> None:
    assert {row[0] for row in ROWS} == set(SECTIONS)
    assert {row for row, each in ROWS.items() if each.missing} <= set(mechanisms.booked())
