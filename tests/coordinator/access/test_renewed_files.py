"""Files that are taken again when they change: the last good version stays, also for connections under way."""

from __future__ import annotations

import os
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from sparklog.coordinator.access.access_file import lines_of, token_hash
from sparklog.coordinator.access.renewed_files import Certificate, RenewedFiles, access_in
from sparklog.core.access import Access
from sparklog.core.errors import InvalidConfig
from tests.servers.certificates import Authority, Issued, private_pem


class Said(list[tuple[str, str]]):
    def __call__(self, event: str, text: str) -> None:
        self.append((event, text))


def lines(*tokens: str) -> str:
    return lines_of("anna", [token_hash(token) for token in tokens], ["write:orders"])


def knows(access: RenewedFiles[Access], token: str) -> bool:
    return access.value.of_token(token_hash(token)) is not None


# M: N-05
def test_a_token_is_replaced_while_the_old_one_is_still_good(tmp_path: Path) -> None:
    file, said = tmp_path / "access.toml", Said()
    file.write_text(lines("old"))
    access = access_in(str(file), said)
    for text, good in ((lines("old", "new"), (True, True)), (lines("new"), (False, True))):
        file.write_text(text)
        access.look()
        access.look()
        assert (knows(access, "old"), knows(access, "new")) == good
    assert said == [("renewed", f"the access file from {file}")] * 2


def test_a_change_that_leaves_size_and_time_as_they_were_is_seen(tmp_path: Path) -> None:
    file = tmp_path / "access.toml"
    file.write_text(lines("old"))
    before = file.stat()
    access = access_in(str(file), Said())
    file.write_text(lines("new"))
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert file.stat().st_size == before.st_size
    access.look()
    assert (knows(access, "old"), knows(access, "new")) == (False, True)


def test_a_file_that_was_unreadable_and_is_as_before_is_reported_each_time(tmp_path: Path) -> None:
    file, said = tmp_path / "access.toml", Said()
    file.write_text(lines("good"))
    access = access_in(str(file), said)
    for _ in range(2):
        file.rename(tmp_path / "elsewhere")
        access.look()
        (tmp_path / "elsewhere").rename(file)
        access.look()
    assert [event for event, _ in said] == ["error", "renewed"] * 2
    assert knows(access, "good")


@pytest.mark.parametrize("broken", ["", "[principal", "[principal.ben]\n", None])
def test_a_broken_version_is_reported_once_and_the_last_good_one_stays(tmp_path: Path, broken: str | None) -> None:
    file, said = tmp_path / "access.toml", Said()
    file.write_text(lines("good"))
    access = access_in(str(file), said)
    if broken is None:
        file.unlink()
    else:
        file.write_text(broken)
    for _ in range(3):
        access.look()
        assert knows(access, "good")
    ((event, text),) = said
    assert event == "error"
    assert text.startswith("the access file: ")
    assert text.endswith("; the version before stays in force")
    file.write_text(lines("next"))
    access.look()
    assert knows(access, "next")
    assert said[-1][0] == "renewed"


def test_a_file_that_is_broken_at_the_start_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfig, match=r"the access file: .*access\.toml can't be read: No such file"):
        access_in(str(tmp_path / "access.toml"), Said())
    (tmp_path / "access.toml").write_text("x = 1")
    with pytest.raises(InvalidConfig, match=r"the access file: .*access\.toml: wanted tables \[principal.NAME\]"):
        access_in(str(tmp_path / "access.toml"), Said())


# ---- certificates ---------------------------------------------------------------------------------------


@contextmanager
def serving(certificate: Certificate) -> Iterator[tuple[str, int]]:
    """A server that says "hello" to each connection."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def accept() -> None:
            while True:
                try:
                    plain, _ = listener.accept()
                except OSError:
                    return
                try:
                    with certificate.context.wrap_socket(plain, server_side=True) as secured:
                        secured.sendall(b"hello")
                except OSError:  # a client that does not trust it
                    plain.close()

        thread = threading.Thread(target=accept)
        thread.start()
        try:
            yield listener.getsockname()
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


def serial_seen(address: tuple[str, int], ca: str, host: str | None = "localhost") -> str:
    """The number of the certificate that a client is shown; `host` None: it names none."""
    context = ssl.create_default_context(cafile=ca)
    context.check_hostname = host is not None
    with socket.create_connection(address, 10) as plain, context.wrap_socket(plain, server_hostname=host) as secured:
        assert secured.recv(5) == b"hello"
        found = secured.getpeercert()
        assert found is not None
        return str(found["serialNumber"])


def replace(issued: Issued, by: Issued) -> None:
    os.replace(by.certificate, issued.certificate)
    os.replace(by.key, issued.key)


# M: N-05
@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", None])
def test_a_renewed_certificate_is_taken_by_new_connections(tmp_path: Path, host: str | None) -> None:
    ca, said = Authority(tmp_path), Said()
    issued = ca.issue()
    certificate = Certificate(issued.certificate, issued.key, said)
    with serving(certificate) as address:
        first = serial_seen(address, ca.file, host)
        assert serial_seen(address, ca.file, host) == first
        replace(issued, ca.issue("renewed"))
        certificate.files.look()
        second = serial_seen(address, ca.file, host)
        assert second != first
        os.replace(ca.issue("half").certificate, issued.certificate)  # its key is not there yet
        certificate.files.look()
        assert serial_seen(address, ca.file, host) == second
        assert said[-1][0] == "error"
        assert "KEY_VALUES_MISMATCH" in said[-1][1]
        os.replace(tmp_path / "half.key", issued.key)
        certificate.files.look()
        assert serial_seen(address, ca.file, host) not in (first, second)


def test_what_is_no_certificate_with_its_key_is_refused(tmp_path: Path) -> None:
    ca = Authority(tmp_path)
    issued, other = ca.issue(), ca.issue("other")
    encrypted = tmp_path / "encrypted.key"
    encrypted.write_bytes(private_pem(ec.generate_private_key(ec.SECP256R1()), b"password"))
    (tmp_path / "empty").touch()
    for certificate, key, found in (
        (issued.certificate, other.key, "no certificate with its private key in PEM: KEY_VALUES_MISMATCH"),
        (issued.key, issued.key, "no certificate with its private key in PEM"),
        (issued.certificate, issued.certificate, "no certificate with its private key in PEM"),
        (str(tmp_path / "empty"), issued.key, "no certificate with its private key in PEM"),
        (issued.certificate, str(encrypted), "the private key is encrypted"),
        (issued.certificate, str(tmp_path / "none"), "none can't be read: No such file"),
    ):
        with pytest.raises(InvalidConfig) as raised:
            Certificate(certificate, key, Said())
        assert found in raised.value.message


def test_versions_of_tls_that_are_not_safe_are_refused(tmp_path: Path) -> None:
    ca = Authority(tmp_path)
    issued = ca.issue()
    assert Certificate(issued.certificate, issued.key, Said()).context.minimum_version >= ssl.TLSVersion.TLSv1_2
