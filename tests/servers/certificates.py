"""Certificates for tests: a CA, and servers' certificates that are right or wrong in one way."""

from __future__ import annotations

import datetime
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

NOW = datetime.datetime.now(datetime.UTC)


@dataclass(frozen=True)
class Issued:
    """The files of a certificate and its key."""

    certificate: str
    key: str


class Authority:
    """A CA. `file` is its certificate."""

    def __init__(self, folder: Path, name: str = "ca") -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _named(f"sparklog test {name}")
        builder = self._builder(self._name, self._key.public_key(), NOW + datetime.timedelta(days=1)).add_extension(
            x509.BasicConstraints(ca=True, path_length=None), critical=True
        )
        self.file = str(folder / f"{name}.crt")
        Path(self.file).write_bytes(_pem(builder.sign(self._key, hashes.SHA256())))

    def issue(
        self, name: str = "server", *, hosts: tuple[str, ...] = ("localhost", "127.0.0.1"), days: float = 1
    ) -> Issued:
        """A certificate for these hosts that ends after so many days: with a negative number it has expired."""
        key = ec.generate_private_key(ec.SECP256R1())
        ends = NOW + datetime.timedelta(days=days)
        names: list[x509.GeneralName] = [_host(host) for host in hosts]
        builder = self._builder(_named(name), key.public_key(), ends).add_extension(
            x509.SubjectAlternativeName(names), critical=False
        )
        issued = Issued(str(self._folder / f"{name}.crt"), str(self._folder / f"{name}.key"))
        Path(issued.certificate).write_bytes(_pem(builder.sign(self._key, hashes.SHA256())))
        Path(issued.key).write_bytes(private_pem(key))
        return issued

    def _builder(
        self, subject: x509.Name, key: ec.EllipticCurvePublicKey, ends: datetime.datetime
    ) -> x509.CertificateBuilder:
        own = self._key.public_key()
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(NOW - datetime.timedelta(days=100))
            .not_valid_after(ends)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(own), critical=False)
        )


def private_pem(key: ec.EllipticCurvePrivateKey, password: bytes | None = None) -> bytes:
    encryption = serialization.BestAvailableEncryption(password) if password else serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)
