"""A properties file has a setting in each line; an error names the line, and does not show it."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparklog.cli.properties_file import read_properties
from sparklog.core.errors import InvalidOption, NotFound


def test_settings_are_read(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text('# Kafka\n\nsecurity.protocol = SASL_SSL\nsasl.jaas.config=a required user="u" password="x=y";\n')
    assert read_properties("--kafka-config", str(file)) == {
        "security.protocol": "SASL_SSL",
        "sasl.jaas.config": 'a required user="u" password="x=y";',
    }


def test_a_line_that_ends_with_a_backslash_continues_in_the_next_one(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text(
        'sasl.jaas.config=org.example.Module required \\\n   username="u" \\\n\tpassword="a=b\\\\c";\nclient.id=x\n'
    )
    assert read_properties("--kafka-config", str(file)) == {
        "sasl.jaas.config": 'org.example.Module required username="u" password="a=b\\\\c";',
        "client.id": "x",
    }
    file.write_text("client.id=\\\nx\na secret\\\n")
    with pytest.raises(InvalidOption, match=r"line 3: wanted key=value$"):
        read_properties("--kafka-config", str(file))


def test_a_line_without_a_setting_is_named_and_not_shown(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    for line in ("s3cret", "=s3cret"):
        file.write_text(f"a=b\n{line}\n")
        with pytest.raises(InvalidOption, match=r"--kafka-config: .*client\.properties, line 2: wanted key=value$"):
            read_properties("--kafka-config", str(file))


def test_a_file_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="wanted a file of lines key=value for --kafka-config, found none: "):
        read_properties("--kafka-config", str(tmp_path / "missing"))
    with pytest.raises(InvalidOption, match="--kafka-config: wanted a file of lines key=value, found "):
        read_properties("--kafka-config", str(tmp_path))
