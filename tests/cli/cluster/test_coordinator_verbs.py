"""`sparklog coordinator`: where it refuses to listen, which files it refuses, and tokens for its access file."""

from __future__ import annotations

import logging
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from sparklog.cli.cluster import coordinator_verbs as subject
from sparklog.coordinator import run as run_module
from sparklog.coordinator.access.access_file import parse_access, token_hash
from sparklog.coordinator.access.audit import LOGGER
from sparklog.coordinator.leading.service import Service
from sparklog.coordinator.page.records.masks import MaskRule
from sparklog.coordinator.run import Protection
from tests.cli.conftest import Cli
from tests.servers.certificates import Authority

TLS = ("--tls-certificate", "{certificate}", "--tls-key", "{key}")
ACCESS = ("--access", "{access}")


@pytest.fixture(autouse=True)
def no_audit_is_left() -> Iterator[None]:
    yield
    for handler in logging.getLogger(LOGGER).handlers[:]:
        logging.getLogger(LOGGER).removeHandler(handler)
        handler.close()


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Good files; a coordinator that starts ends at once."""

    def serve(service: Service, *_: object) -> None:
        subject._show("address", service.control.leadership.address)

    monkeypatch.setattr(run_module, "serve", serve)
    issued = Authority(tmp_path).issue()
    access = tmp_path / "access.toml"
    access.write_text(f'[principal.anna]\ntoken_sha256 = ["{token_hash("x")}"]\nrights = []\n')
    return {"certificate": issued.certificate, "key": issued.key, "access": str(access), "folder": str(tmp_path)}


# M: N-05
@pytest.mark.parametrize("host", ["0.0.0.0", "[::]", "192.0.2.1", "example.org", "127.0.0.1.example.org"])
@pytest.mark.parametrize(
    ("options", "missing"),
    [
        ((), "add --tls-certificate FILE --tls-key FILE and --access FILE, or listen on this machine only"),
        (ACCESS, "add --tls-certificate FILE --tls-key FILE, or listen"),
        (TLS, "add --access FILE, or listen"),
    ],
)
def test_it_listens_beyond_this_machine_with_tls_and_an_access_file_only(
    sparklog: Cli, files: dict[str, str], options: tuple[str, ...], missing: str, host: str
) -> None:
    said = sparklog("coordinator", "--listen", f"{host}:0", *(option.format(**files) for option in options))
    assert (said.code, said.out) == (2, "")
    assert missing in said.err


@pytest.mark.parametrize(
    ("options", "found"),
    [
        (TLS[:2], "--tls-certificate and --tls-key go together"),
        (TLS[2:], "--tls-certificate and --tls-key go together"),
        ((*TLS, *ACCESS), "name the one that clients use with --advertise https://HOST:"),
        ((*TLS, *ACCESS, "--advertise", "http://h:1"), "--advertise: wanted https://HOST:PORT, found 'http://h:1'"),
        ((*TLS, *ACCESS, "--advertise", "https://user:pass@host:1"), "--advertise: wanted https://HOST:PORT"),
        ((*TLS, *ACCESS, "--advertise", "https://host:1/path"), "--advertise: wanted https://HOST:PORT"),
        ((*TLS, *ACCESS, "--advertise", "https://host:port"), "--advertise: wanted https://HOST:PORT"),
        ((*TLS, *ACCESS, "--advertise", "host:1"), "--advertise: wanted https://HOST:PORT"),
        ((*TLS, "--access", "{folder}/none"), "none can't be read: No such file or directory"),
        ((*TLS[:2], "--tls-key", "{access}", *ACCESS), "no certificate with its private key in PEM"),
        ((*TLS, *ACCESS, "--audit", "{folder}"), "--audit: "),
    ],
)
def test_what_it_can_not_serve_with_is_refused(
    sparklog: Cli, files: dict[str, str], options: tuple[str, ...], found: str
) -> None:
    said = sparklog("coordinator", "--listen", "0.0.0.0:0", *(option.format(**files) for option in options))
    assert (said.code, said.out) == (2, "")
    assert found in said.err


def test_with_both_it_listens_everywhere(sparklog: Cli, files: dict[str, str]) -> None:
    options = [option.format(**files) for option in (*TLS, *ACCESS)]
    said = sparklog("coordinator", "--listen", "0.0.0.0:0", "--advertise", "https://log.example.org:7400", *options)
    assert said.code == 0
    assert said.out.endswith("address: https://log.example.org:7400\n")


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "127.0.0.2"])
def test_on_this_machine_it_needs_neither(sparklog: Cli, files: dict[str, str], host: str) -> None:
    said = sparklog("coordinator", "--listen", f"{host}:0")
    assert said.code == 0
    assert f"address: http://{host}:" in said.out


def test_its_settings_may_be_in_the_environment(
    sparklog: Cli, files: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (
        ("LISTEN", "0.0.0.0:0"),
        ("ADVERTISE", "https://log.example.org:7400"),
        ("TLS_CERTIFICATE", files["certificate"]),
        ("TLS_KEY", files["key"]),
        ("ACCESS", files["access"]),
        ("AUDIT", f"{files['folder']}/audit.jsonl"),
    ):
        monkeypatch.setenv(f"SPARKLOG_{name}", value)
    assert sparklog("coordinator").out.endswith("address: https://log.example.org:7400\n")


# ---- tokens ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("given", ["option", "environment"])
def test_rules_of_masks_reach_the_pages(
    sparklog: Cli, files: dict[str, str], monkeypatch: pytest.MonkeyPatch, given: str
) -> None:
    served: list[Protection] = []
    monkeypatch.setattr(run_module, "serve", lambda service, listener, protection, *_: served.append(protection))
    options = ("--mask", "pay-*:card", "--mask", "customers")
    if given == "environment":
        options = ()
        monkeypatch.setenv("SPARKLOG_MASK", "pay-*:card customers")
    assert sparklog("coordinator", *options).code == 0
    assert served[0].masks == (MaskRule("pay-*", "card"), MaskRule("customers"))
    refused = sparklog("coordinator", "--mask", "pay-*:")
    assert (refused.code, "wanted a rule like customers" in refused.err) == (2, True)


def test_a_token_is_shown_once_with_the_lines_for_the_file(sparklog: Cli) -> None:
    said = sparklog("coordinator", "token", "anna", "--right", "write:orders", "--right", "read:*")
    secret = said.out.splitlines()[1]
    lines = said.out.partition("for the access file:\n")[2]
    assert tomllib.loads(lines) == {
        "principal": {"anna": {"token_sha256": [token_hash(secret)], "rights": ["write:orders", "read:*"]}}
    }
    assert secret.startswith("sparklog_")
    assert len(secret) == len("sparklog_") + 43  # 256 bits in base64
    again = sparklog.json("coordinator", "token", "anna")
    assert again["token"] != secret
    assert token_hash(again["token"]) == again["token_sha256"]


def test_a_token_may_be_added_to_the_file_and_printed_alone(sparklog: Cli, tmp_path: Path) -> None:
    file = tmp_path / "access.toml"
    secrets = {
        name: sparklog("coordinator", "token", name, "--right", f"write:{name}", "--append", str(file)).out.strip()
        for name in ("anna", "ben")
    }
    access = parse_access(file.read_bytes())
    for name, secret in secrets.items():
        found = access.of_token(token_hash(secret))
        assert found is not None
        assert (found.name, [str(right) for right in found.rights]) == (name, [f"write:{name}"])
        assert secret not in file.read_text()
    before = file.read_bytes()
    for arguments in (("anna",), ("carl", "--right", "x"), ("a b",)):
        said = sparklog("coordinator", "token", *arguments, "--append", str(file))
        assert (said.code, said.out, file.read_bytes()) == (2, "", before)
