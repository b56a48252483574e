"""Writes a Java truststore from a PEM bundle, for networks whose proxy has its own authority.

Python programs learn of such an authority through ``SSL_CERT_FILE``; a Java installed by pip does
not know it, reads no PEM bundles, and has no keytool.
"""

from __future__ import annotations

import hashlib
import re
import ssl
import struct
from pathlib import Path

_CERTIFICATE = re.compile(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)
_MAGIC, _VERSION, _TRUSTED_CERTIFICATE = 0xFEEDFEED, 2, 2
PASSWORD = "changeit"  # noqa: S105 - Java's documented default; a truststore holds no secret


def write_truststore(bundle: Path, target: Path) -> None:
    """Writes the certificates of a PEM bundle as a JKS truststore."""
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(jks(_CERTIFICATE.findall(bundle.read_text(errors="replace"))))


def jks(certificates: list[str]) -> bytes:
    """Encodes PEM certificates in the format of `sun.security.provider.JavaKeyStore`.

    It ends with a keyed SHA-1, in which "Mighty Aphrodite" is part of the format.
    """
    head = struct.pack(">III", _MAGIC, _VERSION, len(certificates))
    body = head + b"".join(_entry(f"ca{i}", pem) for i, pem in enumerate(certificates))
    keyed = PASSWORD.encode("utf-16-be") + b"Mighty Aphrodite" + body
    return body + hashlib.sha1(keyed, usedforsecurity=False).digest()


def _entry(alias: str, pem: str) -> bytes:
    der = ssl.PEM_cert_to_DER_cert(pem)
    created = struct.pack(">q", 0)
    head = struct.pack(">I", _TRUSTED_CERTIFICATE) + _text(alias) + created + _text("X.509")
    return head + struct.pack(">I", len(der)) + der


def _text(text: str) -> bytes:
    return struct.pack(">H", len(text)) + text.encode()
