"""The lists of tests/scheduling.py hold for the files that there are, and what is begun ahead ends."""

from __future__ import annotations

from pathlib import Path

from tests.scheduling import GROUPS, LONGER_IN_CAMPAIGN, RandomOrder, group_of, is_whole_run, turn_of

PROJECT = Path(__file__).parents[1]


def test_every_member_of_a_group_is_there() -> None:
    assert [name for members in GROUPS.values() for name in members if not (PROJECT / name).exists()] == []


def test_a_file_that_asks_for_hdfs_is_in_a_group() -> None:
    files = PROJECT.glob("tests/*/**/test_*.py")
    asking = [str(file.relative_to(PROJECT)) for file in files if _asks_for_hdfs(file)]
    assert len(asking) > 5
    assert [name for name in asking if "HDFS" not in group_of(name)] == []


def _asks_for_hdfs(file: Path) -> bool:
    return "hadoop: Hadoop" in (text := file.read_text(encoding="utf-8")) or '"hadoop"' in text


def test_groups_come_first_then_slow_files() -> None:
    first, slow, quick = "tests/spark/test_schema.py", "tests/docs/test_readme.py", "tests/core/test_types.py"
    assert turn_of(first, slow=False) < turn_of(slow, slow=True) < turn_of(quick, slow=False)


def test_a_run_that_lacks_a_group_is_not_a_whole_one() -> None:
    one_of_each = [f"{members[-1]}::test_a" for members in GROUPS.values()]
    assert is_whole_run([*one_of_each, "tests/core/test_types.py::test_a"])
    for left_out in one_of_each:
        assert not is_whole_run(each for each in one_of_each if each != left_out)


def test_another_seed_is_another_order_of_the_same_groups() -> None:
    paths = [str(file.relative_to(PROJECT)) for file in PROJECT.glob("tests/**/test_*.py")]
    first, again, second = (sorted(paths, key=RandomOrder(seed).turn_of) for seed in (1, 1, 2))
    assert first == again != second
    groups = [group_of(path) for path in first]
    begun = [group for group, before in zip(groups, ["", *groups], strict=False) if group != before]
    assert sorted(begun) == sorted(set(groups))  # each in one piece
    assert begun != [*dict.fromkeys(map(group_of, paths))]


def test_what_asks_for_a_campaign_is_in_it() -> None:
    asking = [path for path in (PROJECT / "tests").rglob("*.py") if 'getoption("--campaign")' in path.read_text()]
    names = {path.relative_to(PROJECT).as_posix() for path in asking} - {
        "tests/conftest.py",
        "tests/test_scheduling.py",
    }
    assert len(names) > 10
    assert not [name for name in sorted(names) if not name.startswith(LONGER_IN_CAMPAIGN)]
