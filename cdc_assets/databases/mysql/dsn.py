"""Parses DSNs of MySQL and MariaDB: ``mysql://user:password@host:3306/database?ssl-mode=…``.

The parameters are those of MySQL's own URI-like strings:
https://dev.mysql.com/doc/refman/8.4/en/connecting-using-uri-or-key-value-pairs.html
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final
from urllib.parse import parse_qsl, unquote, urlsplit

from cdc_assets.errors import ConfigError

DEFAULT_PORT: Final = 3306
WHERE: Final = "sources.*.database.dsn"

_SCHEMES: Final = ("mysql", "mariadb")
_REMEDY: Final = "write mysql://user:password@host:3306/database, special signs percent-coded"
_PARAMETERS: Final = ("ssl-mode", "ssl-ca", "ssl-cert", "ssl-key")


class TlsMode(StrEnum):
    """``ssl-mode``: whether the connection is encrypted, and what is checked of the server."""

    DISABLED = "disabled"
    PREFERRED = "preferred"
    REQUIRED = "required"
    VERIFY_CA = "verify_ca"
    VERIFY_IDENTITY = "verify_identity"


@dataclass(frozen=True, slots=True)
class Tls:
    """Settings for encryption; paths of PEM files, "" for none."""

    mode: TlsMode = TlsMode.PREFERRED
    ca: str = ""
    cert: str = ""
    key: str = ""

    def arguments(self) -> dict[str, Any]:
        """PyMySQL's arguments.

        Raises:
            ConfigError: if a file cannot be read.
        """
        if self.mode is TlsMode.DISABLED:
            return {"ssl_disabled": True}
        if self.mode is TlsMode.PREFERRED and not self.cert:
            return {}
        try:
            return {"ssl": self._context()}
        except OSError as error:  # ssl.SSLError is one
            msg = "a file that the database's DSN names for TLS cannot be read"
            remedy = "check ssl-ca, ssl-cert and ssl-key: PEM files, readable for this user"
            raise ConfigError(msg, where=WHERE, remedy=remedy) from error

    def _context(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=self.ca or None)
        # Certificates that MySQL makes for itself do not pass; Python 3.13 would check this.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        context.check_hostname = self.mode is TlsMode.VERIFY_IDENTITY
        if self.mode not in {TlsMode.VERIFY_CA, TlsMode.VERIFY_IDENTITY}:
            context.verify_mode = ssl.CERT_NONE
        if self.cert:
            context.load_cert_chain(self.cert, self.key or None)
        return context


@dataclass(frozen=True, slots=True)
class Dsn:
    """The parts of a DSN. `repr` does not show who logs in."""

    host: str
    port: int
    database: str
    user: str = field(repr=False)
    password: str = field(repr=False)
    tls: Tls = Tls()

    @property
    def address(self) -> str:
        """``host:port/database`` for messages."""
        return f"{self.host}:{self.port}/{self.database}"


def parse_dsn(dsn: str) -> Dsn:
    """Reads a DSN.

    Raises:
        ConfigError: if it is none; does not repeat it.
    """
    try:
        parts = urlsplit(dsn)
        port = parts.port or DEFAULT_PORT
        given = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
    except ValueError:
        raise _unparsed() from None
    if parts.scheme not in _SCHEMES or not parts.hostname or parts.fragment:
        raise _unparsed()
    return Dsn(
        parts.hostname,
        port,
        unquote(parts.path.removeprefix("/")),
        unquote(parts.username or ""),
        unquote(parts.password or ""),
        _tls(dict(given)),
    )


def _tls(given: Mapping[str, str]) -> Tls:
    if not given.keys() <= set(_PARAMETERS):
        msg = "the database's DSN has a parameter that is not known"
        raise ConfigError(msg, where=WHERE, remedy=f"known: {', '.join(_PARAMETERS)}")
    ca = given.get("ssl-ca", "")
    usual = TlsMode.VERIFY_CA if ca else TlsMode.PREFERRED
    try:
        mode = TlsMode(given.get("ssl-mode", usual).lower())
    except ValueError:
        msg = "the database's DSN has an ssl-mode that is not known"
        raise ConfigError(msg, where=WHERE, remedy=f"known: {', '.join(TlsMode)}") from None
    return Tls(mode, ca, given.get("ssl-cert", ""), given.get("ssl-key", ""))


def _unparsed() -> ConfigError:
    msg = "the database's DSN cannot be parsed; it is not shown here"
    return ConfigError(msg, where=WHERE, remedy=_REMEDY)
