"""Opens catalogs whose every request ends, also if the server takes it and says nothing.

PyIceberg has no setting for that. A request to a REST catalog waits for `LOOK_SECONDS`, so that a
sensor's tick names a silent catalog before Dagster ends the tick, which is after a minute; one that
commits waits for `SILENT_SECONDS`. A statement of a SQL catalog waits for `LOOK_SECONDS`, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlparse

import requests
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.catalog.sql import SqlCatalog
from requests.adapters import HTTPAdapter
from sqlalchemy import Engine, event

from cdc_assets.databases.postgres.connection import LIMITS, Connection

SILENT_SECONDS: Final = 60.0
"""How long a catalog may be silent about a commit; those of large tables take seconds."""

LOOK_SECONDS: Final = 20.0

_COMMITS: Final = ("/namespaces", "/transactions/")
_OF_LIBPQ: Final = frozenset({"psycopg", "psycopg2"})
_OF_MYSQL: Final = frozenset({"pymysql", "mysqldb"})


def open_catalog(name: str, properties: Mapping[str, str]) -> Catalog:
    """Opens a catalog by PyIceberg's properties, ``type`` among them."""
    match properties["type"]:
        case "rest":
            return _Rest(name, **properties)
        case "sql":
            return _Sql(name, **properties)
        case "hive":
            return _hive(name, properties)
        case _:
            return load_catalog(name, **properties)


class _Patient(HTTPAdapter):
    """An adapter that gives up on a silent server, for which requests would wait for ever."""

    def send(
        self,
        request: requests.PreparedRequest,
        stream: bool = False,
        timeout: Any = None,
        verify: bool | str = True,
        cert: Any = None,
        proxies: Mapping[str, str] | None = None,
    ) -> requests.Response:
        """Sends with a time-out."""
        seconds = SILENT_SECONDS if _commits(request) else LOOK_SECONDS
        return super().send(request, stream, timeout or seconds, verify, cert, proxies)


def _commits(request: requests.PreparedRequest) -> bool:
    is_look = request.method in {"GET", "HEAD"}
    return not is_look and any(each in (request.url or "") for each in _COMMITS)


class _Rest(RestCatalog):
    """A REST catalog whose every request ends, including those that open it."""

    def _config_headers(self, session: requests.Session) -> None:
        """Prepares a new session; PyIceberg calls it first, before it asks for a token."""
        for scheme in ("http://", "https://"):
            session.mount(scheme, _Patient())
        super()._config_headers(session)


class _Sql(SqlCatalog):
    """A catalog in a database, whose connections are looked after."""

    def __init__(self, name: str, **properties: str) -> None:
        is_file = properties.get("uri", "").startswith("sqlite")
        tested = {} if is_file else {"pool_pre_ping": "true"}
        super().__init__(name, **{**tested, **properties})

    def _init_catalog(self) -> None:
        """Makes or finds the catalog's tables, by the engine's first connection."""
        _limit(self.engine)
        super()._init_catalog()


def _limit(engine: Engine) -> None:
    """Gives an engine's connections the limits of time that those of sources have."""

    @event.listens_for(engine, "do_connect")
    def connect(dialect: Any, _: object, args: Any, given: dict[str, Any]) -> Any:
        driver = dialect.driver
        usual: dict[str, Any] = {}
        if driver in _OF_LIBPQ:
            usual = dict(LIMITS)
        elif driver in _OF_MYSQL:
            usual = {"connect_timeout": LIMITS["connect_timeout"]}
            usual |= {name: int(LOOK_SECONDS) for name in ("read_timeout", "write_timeout")}
        for parameter, value in usual.items():
            given.setdefault(parameter, value)
        if driver != "psycopg":
            return None  # the dialect itself connects, by the arguments as they are now
        made = Connection.connect(*args, **given)
        made.silent_seconds = LOOK_SECONDS
        return made


def _hive(name: str, properties: Mapping[str, str]) -> Catalog:
    """Returns a catalog of Hive's metastore, whose client needs a package that may be missing."""
    from pyiceberg.catalog import hive
    from thrift.transport import TSocket, TTransport  # pyright: ignore[reportMissingImports]

    class Client(hive._HiveClient):  # noqa: SLF001 - nothing public has a time-out
        def _init_thrift_transport(self) -> Any:
            place = urlparse(self._uri)
            socket = TSocket.TSocket(place.hostname, place.port, socket_keepalive=True)
            socket.setTimeout(SILENT_SECONDS * 1000)
            if not self._kerberos_auth:
                return TTransport.TBufferedTransport(socket)
            return TTransport.TSaslClientTransport(
                socket, host=place.hostname, service=self._kerberos_service_name
            )

    class Limited(hive.HiveCatalog):
        @staticmethod
        def _create_hive_client(properties: dict[str, str]) -> Any:
            made = hive.HiveCatalog._create_hive_client(properties)  # noqa: SLF001
            made.__class__ = Client
            made._transport = made._init_thrift_transport()  # noqa: SLF001 - not opened yet
            return made

    return Limited(name, **properties)
