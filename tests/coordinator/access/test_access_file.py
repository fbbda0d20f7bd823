"""The access file: what it says, what is refused, and that no error shows a token or a hash."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sparklog.coordinator.access.access_file import lines_of, parse_access, token_hash, with_principal
from sparklog.core.access import Principal, parse_right
from sparklog.core.errors import InvalidConfig

HASH, OTHER = token_hash("one"), token_hash("two")
SECRET = "sparklog_a-token-in-the-wrong-place"
ANNA = f'[principal.anna]\ntoken_sha256 = ["{HASH}", "{OTHER}"]\nrights = ["write:orders", "read:*"]\n'


def test_principals_have_names_tokens_and_rights() -> None:
    access = parse_access(ANNA.encode())
    anna = Principal("anna", (parse_right("write:orders"), parse_right("read:*")))
    assert access.principals == ((anna, (HASH, OTHER)),)
    assert access.of_token(token_hash("two")) == anna
    assert access.of_token(token_hash("three")) is None


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (f"[principal.anna\n{SECRET}", "it is not TOML"),
        (f"[principal.anna]\ntoken_sha256 = {SECRET}", "it is not TOML"),
        ("", "wanted at least one table [principal.NAME], found none"),
        ("principal = 5", "wanted at least one table"),
        ("[principals.anna]\n", "wanted tables [principal.NAME], found another key; did you mean principal?"),
        (f"{SECRET} = 1", "wanted tables [principal.NAME], found another key"),
        (f'principal."{SECRET} x".rights = []', "a principal has a name of a-z"),
        ("[principal.anonymous]\n", "not anonymous or sparklog-jobs, found another one"),
        ("[principal.sparklog-jobs]\n", "not anonymous or sparklog-jobs, found another one"),
        ("principal.anna = 5", "[principal.anna]: wanted a table, found another value"),
        (ANNA + f'token = "{SECRET}"', "[principal.anna]: wanted token_sha256 and rights, found another key"),
        ("[principal.anna]\nrights = []", "token_sha256 wants a list of strings"),
        (f'[principal.anna]\ntoken_sha256 = "{HASH}"', "token_sha256 wants a list of strings"),
        ("[principal.anna]\ntoken_sha256 = []", "token_sha256 wants one or more SHA-256"),
        (f'[principal.anna]\ntoken_sha256 = ["{SECRET}"]\nrights = []', "token_sha256 wants one or more SHA-256"),
        (f'[principal.anna]\ntoken_sha256 = ["{HASH.upper()}"]\nrights = []', "64 lower-case hexadecimal digits"),
        (f'[principal.anna]\ntoken_sha256 = ["{HASH}"]', "rights wants a list of strings"),
        (f'[principal.anna]\ntoken_sha256 = ["{HASH}"]\nrights = ["wirte:x"]', "rights: wanted read, write"),
        (f'[principal.anna]\ntoken_sha256 = ["{HASH}"]\nrights = ["{SECRET}"]', "found a text without ':'"),
        (f'{ANNA}[principal.ben]\ntoken_sha256 = ["{OTHER}"]\nrights = []', "anna and ben have the same token"),
    ],
)
def test_a_wrong_file_is_refused_and_no_value_is_shown(text: str, found: str) -> None:
    with pytest.raises(InvalidConfig) as raised:
        parse_access(text.encode())
    assert found in raised.value.message
    for hidden in (SECRET, HASH, OTHER, HASH.upper()):
        assert hidden not in f"{raised.value}"


def test_bytes_that_are_no_text_are_refused() -> None:
    with pytest.raises(InvalidConfig, match="it is not TOML"):
        parse_access(b"\xff\xfe")


# ---- lines for it ---------------------------------------------------------------------------------------


def test_the_lines_of_a_principal_are_taken_as_they_are(tmp_path: Path) -> None:
    file = tmp_path / "access.toml"
    with_principal(file, lines_of("anna", [HASH], ["write:orders"]))
    assert file.stat().st_mode & 0o777 == 0o600
    file.chmod(0o640)
    with_principal(file, lines_of("ben@example.org", [OTHER], []))
    assert [principal.name for principal, _ in parse_access(file.read_bytes()).principals] == [
        "anna",
        "ben@example.org",
    ]
    assert file.stat().st_mode & 0o777 == 0o640
    assert [path.name for path in tmp_path.iterdir()] == ["access.toml"]


@pytest.mark.parametrize(
    ("before", "name"), [(ANNA, "anna"), ("no TOML", "ben"), (None, "a b"), (None, "anonymous"), (ANNA, "ben")]
)
def test_what_would_break_the_file_is_refused_and_the_file_is_as_it_was(
    tmp_path: Path, before: str | None, name: str
) -> None:
    file = tmp_path / "access.toml"
    if before is not None:
        file.write_text(before)
    with pytest.raises(InvalidConfig):
        with_principal(file, lines_of(name, [HASH], ["write:orders"]))
    assert (file.read_text() if before is not None else file.exists()) == (before or False)


def test_a_right_that_is_none_is_refused_before_anything_is_written() -> None:
    with pytest.raises(InvalidConfig, match=json.dumps("x:y")[1:-1]):
        lines_of("anna", [HASH], ["x:y"])
