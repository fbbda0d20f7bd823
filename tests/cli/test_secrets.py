"""No secret of an S3 store is in anything that the command line prints or logs, or that it leaves in the store."""

from __future__ import annotations

import contextlib
import dataclasses
import html
import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from sparklog.storage import probe
from sparklog.storage.open_store import open_store
from tests.cli.conftest import Cli
from tests.secret_search import leaks, new_secret
from tests.servers import s3_servers
from tests.servers.local_server import free_port
from tests.servers.made_once import CannotFetch
from tests.servers.s3_servers import ACCESS_KEY_ID, S3Server
from tests.storage.scripted_s3 import HANG, RESET, Reply, Request, Step, refusal, scripted_s3

SECRETS = {name: new_secret(name) for name in ("right", "wrong", "session")}
LOUD = ("sparklog", "s3fs", "fsspec", "urllib3", "asyncio")
DOCTOR = ("cluster", "doctor", "--no-spark")
VERBS = (
    ("cluster", "init"),
    ("cluster", "info"),
    ("cluster", "health"),
    ("topic", "create", "orders"),
    ("topic", "describe", "orders"),
    ("produce", "orders"),
    ("consume", "orders"),
    ("chain", "tail"),
    ("chain", "snapshot"),
    ("chain", "state"),
)


MOST_VERBS = (*VERBS, DOCTOR)
# They ask, create and write. What one verb shows of a failure, others that open the cluster as it does show as well.
FEW_VERBS = (VERBS[0], VERBS[4], VERBS[5], DOCTOR)


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    """A server whose secret is nowhere else, and which lets session tokens pass."""
    try:
        s3_servers.s3proxy_jar()
    except CannotFetch as error:
        pytest.skip(str(error))
    with s3_servers.s3proxy(SECRETS["right"], any_token=True) as running:
        yield running


@pytest.fixture
def cli(nowhere: Cli, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> Cli:
    """The command line with loggers that say all, and a traceback before the line that it shows without."""
    monkeypatch.setenv("SPARKLOG_DEBUG", "1")
    for name in LOUD:
        caplog.set_level(logging.DEBUG, name)
    return nowhere


def keys(which: str) -> dict[str, str]:
    return {
        "access_key_id": ACCESS_KEY_ID,
        "secret_access_key": SECRETS[which],
        "session_token": SECRETS["session"],
        "region": "us-east-1",
    }


def config_file(path: Path, settings: dict[str, str]) -> str:
    path.write_text("[storage.metadata]\n" + "".join(f"{key} = {json.dumps(settings[key])}\n" for key in settings))
    return str(path)


def said(cli: Cli, caplog: pytest.LogCaptureFixture, *arguments: str, fails: bool = True) -> str:
    """All that a command line prints and logs."""
    caplog.clear()
    found = cli(*arguments, stdin="a\nb\n")
    assert bool(found.code) == fails, found
    assert ("Traceback" in found.err) == fails
    return f"{found.code} {found.out} {found.err} {caplog.text}"


@pytest.mark.parametrize("way", ["environment", "SPARKLOG_CONFIG", "--config"])
def test_right_keys_are_neither_shown_nor_stored(
    cli: Cli,
    way: str,
    server: S3Server,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    url = f"s3://{server.new_bucket()}/cluster"
    settings = {**keys("right"), "endpoint_url": server.endpoint_url}
    more: tuple[str, ...] = ()
    if way == "environment":
        for name, value in {**server.variables, "AWS_SESSION_TOKEN": SECRETS["session"]}.items():
            monkeypatch.setenv(name, value)
    elif way == "SPARKLOG_CONFIG":
        monkeypatch.setenv(way, config_file(tmp_path / "c.toml", settings))
    else:
        more = ("--config", config_file(tmp_path / "c.toml", settings))
    cli = dataclasses.replace(cli, url=url)
    monkeypatch.setattr(probe, "THOROUGH", probe.AT_INIT)  # a few races show as much as many
    verbs = MOST_VERBS if way == "environment" else VERBS
    texts = [(" ".join(verb), said(cli, caplog, *verb, *more, fails=False)) for verb in verbs]
    assert leaks(texts, SECRETS) == set()
    store = open_store(url, settings)
    objects = [(each.key, bytes(store.get(each.key))) for each in store.list_keys("")]
    assert len(objects) > 5
    assert leaks(objects, {**SECRETS, "id": ACCESS_KEY_ID}) == set()


def echo(requests: list[Request]) -> Reply:
    """No S3: it shows people what they sent."""
    return Reply(200, repr(requests[-1].headers).encode(), {"Content-Type": "text/plain"})


# As Amazon says it.
TOKEN_REFUSED = (
    "<?xml version='1.0'?><Error><Code>InvalidToken</Code><Message>The provided token is malformed or otherwise "
    f"invalid.</Message><Token-0>{html.escape(SECRETS['session'])}</Token-0></Error>"
).encode()
SCRIPTS: dict[str, Step] = {
    "a page": Reply(200, b"<html>Welcome</html>", {"Content-Type": "text/html"}),
    "an echo": echo,
    "a refused token": Reply(400, TOKEN_REFUSED, {"Content-Type": "application/xml"}),
    "an error": refusal(503, "SlowDown"),
    "a reset": RESET,
    "a hang": HANG,
}


@contextlib.contextmanager
def bad_place(place: str, server: S3Server) -> Iterator[tuple[str, dict[str, str]]]:
    """(the address of a cluster, settings) that lead to a failure."""
    if place in SCRIPTS:
        with scripted_s3(SCRIPTS[place]) as scripted:
            yield "s3://bucket/c", {**keys("right"), "endpoint_url": scripted.endpoint_url, "timeout_ms": "300"}
        return
    bucket = server.new_bucket() if place == "wrong keys" else "no-such-bucket-here"
    endpoint = f"http://127.0.0.1:{free_port()}" if place == "no server" else server.endpoint_url
    which = "wrong" if place == "wrong keys" else "right"
    yield f"s3://{bucket}/c", {**keys(which), "endpoint_url": endpoint, "timeout_ms": "1000"}


@pytest.mark.parametrize("place", ["wrong keys", "no bucket", "no server", *SCRIPTS])
def test_no_failure_shows_a_secret(
    cli: Cli,
    place: str,
    server: S3Server,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    request: pytest.FixtureRequest,
) -> None:
    """All verbs meet wrong keys and a server that shows what it is sent, with --campaign every place."""
    verbs = MOST_VERBS if place in ("wrong keys", "an echo") or request.config.getoption("--campaign") else FEW_VERBS
    with bad_place(place, server) as (url, settings):
        config = config_file(tmp_path / "c.toml", settings)
        cli = dataclasses.replace(cli, url=url)
        texts = [(" ".join(verb), said(cli, caplog, *verb, "--config", config)) for verb in verbs]
    assert leaks(texts, SECRETS) == set()


SECRET = SECRETS["right"]
IN_TOML = json.dumps(SECRET)
UNREADABLE = {
    "no quotes": f"[storage.metadata]\nsecret_access_key = {SECRET}",
    "an open quote": f'[storage.metadata]\nsecret_access_key = "{SECRET}',
    "no table": f"secret_access_key = {IN_TOML}",
    "a wrong table": f"[store.metadata]\nsecret_access_key = {IN_TOML}",
    "a table in it": f"[storage.metadata.secret_access_key]\nvalue = {IN_TOML}",
    "a list": f"[storage.metadata]\nsecret_access_key = [{IN_TOML}]",
    "no table of a store": f"[storage]\nsecret_access_key = {IN_TOML}",
    "twice": f"[storage.metadata]\nsecret_access_key = {IN_TOML}\nsecret_access_key = {IN_TOML}",
    "alone": f"[storage.metadata]\nsecret_access_key = {IN_TOML}",
    "a token alone": f"[storage.metadata]\nsession_token = {IN_TOML}",
    "beside a profile": f'[storage.metadata]\nprofile = "p"\naccess_key_id = "id"\nsecret_access_key = {IN_TOML}',
    "a misspelt name": f"[storage.metadata]\nsecret_acces_key = {IN_TOML}",
    "another store's name": f"[storage.metadata]\npassword = {IN_TOML}",
    "in the endpoint": f"[storage.metadata]\nendpoint_url = {json.dumps(f'http://id:{SECRET}@host:9000')}",
    "in an endpoint without a scheme": f"[storage.metadata]\nendpoint_url = {json.dumps(f'id:{SECRET}@host:9000')}",
}


@pytest.mark.parametrize("text", UNREADABLE.values(), ids=UNREADABLE)
def test_no_unreadable_config_shows_a_secret(
    cli: Cli, text: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "c.toml").write_text(text)
    cli = dataclasses.replace(cli, url="s3://bucket/c")
    texts = [(" ".join(verb), said(cli, caplog, *verb, "--config", str(tmp_path / "c.toml"))) for verb in VERBS[:2]]
    assert leaks(texts, SECRETS) == set()


@pytest.mark.parametrize(
    "address",
    ["s3://id:{}@bucket/c", "S3A://id:{}@bucket/c", "s3:/id:{}@bucket/c", "s3://{}@bucket", "s3://id:{}@bucket:80/c"],
)
def test_keys_in_an_address_are_refused_and_not_shown(
    cli: Cli, address: str, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    """Keys of Amazon hold '/': what comes before it looks like the bucket."""
    url = address.format(SECRET)
    texts = [(" ".join(verb), said(dataclasses.replace(cli, url=url), caplog, *verb)) for verb in VERBS[:2]]
    cluster = ("cluster", "init", "--store", f"a={url}")
    texts.append(("init --store", said(dataclasses.replace(cli, url=str(tmp_path / "c")), caplog, *cluster)))
    assert leaks(texts, SECRETS) == set()
