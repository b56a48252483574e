"""Builds the options with which Spark reads MySQL or MariaDB, by MariaDB's JDBC driver.

The URL is one of MySQL: by it Spark quotes names as MySQL does. With ``jdbc:mariadb:`` Spark 4.1
writes them in double quotes, which are texts there. All else is given as properties of the driver:
https://mariadb.com/docs/connectors/mariadb-connector-j/about-mariadb-connector-j
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from cdc_assets.databases.mysql.dsn import WHERE, Dsn, Tls, TlsMode
from cdc_assets.errors import ConfigError

DRIVER: Final = "org.mariadb.jdbc.Driver"
FETCH: Final = 5_000
"""So many rows come at a time, and are held by a task."""

_BEGIN: Final = "-----BEGIN CERTIFICATE-----"
_CONNECT_MILLIS: Final = "10000"


def reader_options(server: Dsn, where: str, *, is_encrypted: bool) -> Mapping[str, str]:
    """Returns the reader's options for a server that a connection of ours was made to.

    Args:
        server: where it is.
        where: for errors.
        is_encrypted: whether that connection is; where the DSN leaves it open, readers' are, too.

    Raises:
        ConfigError: if its user shows a certificate, which the driver (3.5) takes with its key from
            a keystore at a path or URL only; or if the authority's cannot be read.
    """
    if server.tls.cert:
        what = (
            "database.dsn names a certificate of its user (ssl-cert), which Spark's readers cannot "
            "show: MariaDB's driver takes it and its key from a keystore file alone, which each "
            "executor would need, and not as text like the authority's"
        )
        remedy = (
            "name a user in database.dsn who logs in by a password (REQUIRE SSL, not REQUIRE X509) "
            "and leave out ssl-cert and ssl-key, or have the connector read: resnapshot --via "
            "signal, rebuild --from-snapshot"
        )
        raise ConfigError(what, where=where, remedy=remedy)
    host = f"[{server.host}]" if ":" in server.host else server.host
    return {
        "url": f"jdbc:mysql://{host}:{server.port}/?permitMysqlScheme",
        "driver": DRIVER,
        "user": server.user,
        "password": server.password,
        "fetchsize": str(FETCH),
        "connectTimeout": _CONNECT_MILLIS,
        "connectionAttributes": "program_name:cdc-assets resnapshot",
        **_encryption(server.tls, is_encrypted=is_encrypted),
    }


def _encryption(tls: Tls, *, is_encrypted: bool) -> Mapping[str, str]:
    """Passes on the authority's certificate as text: executors need no file."""
    match tls.mode:
        case TlsMode.VERIFY_CA | TlsMode.VERIFY_IDENTITY:
            mode = "verify-ca" if tls.mode is TlsMode.VERIFY_CA else "verify-full"
            given = {"serverSslCert": _certificates(tls.ca)} if tls.ca else {}
            return {"sslMode": mode, **given}
        case TlsMode.REQUIRED:
            return {"sslMode": "trust"}
        case _ if is_encrypted:
            return {"sslMode": "trust"}
        case _:  # as PyMySQL does, MySQL's key is asked for by which the password is encrypted
            return {"sslMode": "disable", "allowPublicKeyRetrieval": "true"}


def _certificates(file: str) -> str:
    try:
        text = Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        what = "the file ssl-ca of the database's DSN cannot be read"
        remedy = "name a PEM file that this user may read"
        raise ConfigError(what, where=WHERE, remedy=remedy) from error
    if _BEGIN not in text:
        what = "the file ssl-ca of the database's DSN has no certificate"
        raise ConfigError(what, where=WHERE, remedy="name a PEM file")
    return text[text.index(_BEGIN) :]
