"""What an S3 store is opened with and where it lives: keys, certificates, endpoints, forks; no secret is ever said."""

from __future__ import annotations

import os
import ssl
import subprocess
import sys
import traceback
from collections.abc import Callable
from datetime import UTC, datetime
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from sparklog.core.errors import (
    InvalidInput,
    KeyExists,
    SparklogError,
    StoreUnavailable,
)
from sparklog.storage.object_store import ObjectStore
from sparklog.storage.open_store import open_store
from tests.servers.s3_servers import S3Server
from tests.storage.scripted_s3 import RESET, Step, refusal, scripted_s3
from tests.storage.test_s3 import (
    BEGUN,
    BODIES,
    COMPLETED,
    CREATED,
    MIB,
    PAGE,
    PART,
    READS,
    REFUSALS,
    store_at,
    upload,
    whole,
)


def all_that_is_said(call: Callable[[ObjectStore], object], store: ObjectStore) -> str:
    try:
        return repr(call(store))
    except SparklogError as error:
        return "".join(traceback.format_exception(error))


def test_no_secret_is_in_any_error_or_name() -> None:
    for answer in (REFUSALS[0][0], REFUSALS[4][0], RESET, PAGE, refusal(403, "AccessDenied")):
        with scripted_s3(answer) as server:
            store = store_at(server, timeout_ms="400", session_token="kept-secret-token")
            for call in [*READS, lambda store: store.put_if_absent("a", b"x"), lambda store: store.delete("a")]:
                assert "kept-secret" not in all_that_is_said(call, store)
            assert "kept-secret" not in repr(store) + repr(vars(store)) + store.url


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """A certificate of 127.0.0.1 that nobody vouches for, with its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    built = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(datetime(2020, 1, 1, tzinfo=UTC))
        .not_valid_after(datetime(2100, 1, 1, tzinfo=UTC))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path = tmp_path / "certificate.pem"
    path.write_bytes(built.public_bytes(serialization.Encoding.PEM) + secret)
    return path


def test_certificates_are_checked_on_every_way(certificate: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate)
    calls: list[tuple[Step, Callable[[ObjectStore], object]]] = [
        (CREATED, lambda store: store.put_if_absent("a", b"small")),
        (CREATED, lambda store: store.put_if_absent("a", bytes(MIB))),
        (whole(b"body"), lambda store: store.get("a")),
    ]
    for answer, call in calls:
        with scripted_s3(answer, tls=tls) as server:
            monkeypatch.delenv("AWS_CA_BUNDLE", raising=False)
            with pytest.raises(StoreUnavailable, match=r"(?i)ssl|certificate"):
                call(store_at(server))
            assert server.requests == []
            monkeypatch.setenv("AWS_CA_BUNDLE", str(certificate))
            call(store_at(server))
            assert len(server.requests) == 1


@pytest.mark.parametrize("text", [None, "no certificate"])
def test_a_bundle_of_certificates_that_is_none_is_named(
    text: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "bundle.pem"
    if text is not None:
        path.write_text(text)
    monkeypatch.setenv("AWS_CA_BUNDLE", str(path))
    with scripted_s3(CREATED) as server:
        for body in BODIES:
            with pytest.raises(InvalidInput, match=f"AWS_CA_BUNDLE.*found {path}: [Nn]o "):
                store_at(server).put_if_absent("a", body)


def test_settings_are_in_every_request_that_they_are_for() -> None:
    settings = {"encryption": "aws:kms", "kms_key_id": "key-1", "request_payer": "requester"}
    with scripted_s3(BEGUN, PART, PART, COMPLETED, CREATED, whole(b"body")) as server:
        store = store_at(server, **settings)
        upload(store, 9 * MIB)
        store.put_if_absent("b", b"body")
        store.get("b")
        begun, put = server.requests[0], server.requests[4]
        for each in (begun, put):
            assert each.headers["x-amz-server-side-encryption"] == "aws:kms"
            assert each.headers["x-amz-server-side-encryption-aws-kms-key-id"] == "key-1"
        assert {each.headers["x-amz-request-payer"] for each in server.requests} == {"requester"}
        for each in server.requests:
            assert "AKIDEXAMPLE" in each.headers["authorization"]
            signed = each.headers["authorization"].split("SignedHeaders=")[1].split(",")[0].split(";")
            assert {name for name in each.headers if name.startswith("x-amz-")} <= set(signed)


def test_the_name_of_the_bucket_is_in_the_path_where_the_endpoint_is_not_amazons() -> None:
    with scripted_s3(CREATED) as server:
        store = store_at(server, endpoint_url=server.endpoint_url.replace("127.0.0.1", "localhost"))
        store.put_if_absent("a", b"body")
        assert server.requests[0].target == "/bucket/cluster/a"


@pytest.mark.parametrize(
    ("variables", "given", "wanted"),
    [
        ({"AWS_REGION": "eu-central-1", "AWS_DEFAULT_REGION": "eu-west-1"}, {}, "eu-central-1"),
        ({"AWS_DEFAULT_REGION": "eu-west-1"}, {}, "eu-west-1"),
        ({"AWS_REGION": "eu-central-1"}, {"region": "eu-north-1"}, "eu-north-1"),
    ],
)
def test_the_region_is_that_of_the_settings_or_else_of_the_environment(
    variables: dict[str, str], given: dict[str, str], wanted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with scripted_s3(CREATED, whole(b"body")) as server:
        store = open_store(
            "s3://bucket/cluster",
            {
                "endpoint_url": server.endpoint_url,
                "access_key_id": "AKIDEXAMPLE",
                "secret_access_key": "secret",
                **given,
            },
        )
        store.put_if_absent("a", b"body")
        store.get("a")
        assert {each.headers["authorization"].split("/")[2] for each in server.requests} == {wanted}


def test_keys_found_nowhere_are_one_sentence(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path_factory.mktemp("aws") / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path_factory.mktemp("aws") / "credentials"))
    with scripted_s3(CREATED) as server:
        store = open_store("s3://bucket", {"endpoint_url": server.endpoint_url})
        for call in [*READS, lambda store: store.put_if_absent("a", b"x")]:
            with pytest.raises(InvalidInput, match="credentials"):
                call(store)
        missing = open_store("s3://bucket", {"endpoint_url": server.endpoint_url, "profile": "nobody"})
        for call in READS:
            with pytest.raises(InvalidInput, match="nobody"):
                call(missing)
        assert server.requests == []


def test_a_store_works_in_a_process_forked_from_one_that_used_it(ministack: S3Server) -> None:
    store = open_store(f"s3://{ministack.new_bucket()}", ministack.settings)
    store.put_if_absent("parent", b"parent" * MIB)
    assert bytes(store.get("parent")) == b"parent" * MIB
    child = os.fork()
    if child == 0:
        worked = False
        try:
            store.put_if_absent("child", b"child")
            worked = bytes(store.get("parent")) == b"parent" * MIB and store.size("child") == 5
            worked = worked and [each.key for each in store.list_keys("")] == ["child", "parent"]
        finally:
            os._exit(0 if worked else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert bytes(store.get("child")) == b"child"
    with pytest.raises(KeyExists):
        store.put_if_absent("child", b"parent")


def test_a_store_that_is_only_named_loads_no_client() -> None:
    code = (
        "import sys; from sparklog.storage.open_store import open_store; open_store('s3://bucket/a', {});"
        "sys.exit(bool({'boto3', 'botocore', 's3fs', 'aiohttp', 'aiobotocore'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("server", ["s3proxy", "ministack"])
def test_a_real_server_s_refusals_are_told_apart(server: str, request: pytest.FixtureRequest) -> None:
    running: S3Server = request.getfixturevalue(server)
    missing = open_store(f"s3://{'no-such-bucket' * 2}/a", running.settings)
    for call in [*READS, lambda store: store.put_if_absent("a", b"x")]:
        with pytest.raises(InvalidInput, match="found no bucket"):
            call(missing)


def test_wrong_keys_are_named_as_the_reason(s3proxy: S3Server) -> None:
    bucket = s3proxy.new_bucket()
    for wrong in (
        {"secret_access_key": "kept-secret"},
        {"access_key_id": "nobody", "secret_access_key": "kept-secret"},
    ):
        store = open_store(f"s3://{bucket}", {**s3proxy.settings, **wrong})
        for call in [*READS, lambda store: store.put_if_absent("a", b"x")]:
            with pytest.raises(InvalidInput, match="access keys are not accepted"):
                call(store)
