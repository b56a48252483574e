"""Opens the Iceberg catalog through PyIceberg.

Opens catalogs whose every request ends, also if the server takes it and says nothing.

PyIceberg has no setting for that. A request to a REST catalog waits for `LOOK_SECONDS`, so that a
sensor's tick names a silent catalog before Dagster ends the tick, which is after a minute; one that
commits waits for `SILENT_SECONDS`. A statement of a SQL catalog waits for `LOOK_SECONDS`, too.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path
from threading import Lock
from typing import Any, Final, TypeVar, cast
from urllib.parse import urlparse

import requests
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.catalog.rest import Endpoint, HttpMethod, RestCatalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import (
    AuthorizationExpiredError,
    CommitFailedException,
    ForbiddenError,
    NoSuchNamespaceError,
    NoSuchTableError,
    NotInstalledError,
    OAuthError,
    RESTError,
    UnauthorizedError,
)
from pyiceberg.table import CommitTableRequest, Table, TableIdentifier
from pyiceberg.table.update import TableRequirement, TableUpdate
from requests.adapters import HTTPAdapter
from sqlalchemy import Engine, event
from sqlalchemy.exc import NoSuchModuleError, OperationalError, SQLAlchemyError
from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_random

from cdc_assets.changes.names import LakeName
from cdc_assets.config import LakeConfig
from cdc_assets.databases.postgres.connection import LIMITS, Connection
from cdc_assets.effects import effect
from cdc_assets.errors import (
    CdcError,
    ConfigError,
    LoginRefusedError,
    TerminalError,
    UnreachableError,
)

T = TypeVar("T")

_OF_CONTENT: Final = (
    ValueError, LookupError, TypeError, AttributeError, ArithmeticError, NotImplementedError,
    AssertionError, EOFError, zlib.error,
)  # fmt: skip
_CLIENTS: Final = frozenset({"thrift", "hive_metastore", "botocore", "azure", "google"})
"""Packages of clients whose errors have no common root."""

_RUNS: Final = "check that the catalog runs and that its warehouse can be read"
_BUSY_SECONDS: Final = 3.0
_SQLITE_FILE: Final = "sqlite:////"
_RESTORE: Final = (
    "restore its folder, or drop it from the catalog: it is then made again from its topic"
)
_UNDO: Final = (
    "undo what another program did to the table (a column of a type that PyIceberg does not know, "
    "a changed property of a snapshot, a file that was cut), or restore an older metadata file"
)
_OF_LOGIN: Final = (UnauthorizedError, ForbiddenError, AuthorizationExpiredError, OAuthError)
_NO_LOGIN: Final = re.compile(
    r"\bACCESS[_ ]?DENIED|INVALID_ACCESS_KEY_ID|InvalidAccessKeyId|EXPIRED_?TOKEN"
    r"|SIGNATURE_?DOES_?NOT_?MATCH|certificate verify failed|password authentication failed"
    r"|no password supplied|no pg_hba\.conf entry",
    re.IGNORECASE,
)
"""Texts by which stores and databases report a refused login; these are not shown."""


class CatalogConnection:
    """A connection that opens the catalog at its first use. Threads may share it."""

    def __init__(self, config: LakeConfig) -> None:
        self._config = config
        self._catalog: Catalog | None = None
        self._last: tuple[LakeName, Table] | None = None
        self._opening = Lock()

    @property
    def address(self) -> str:
        """The catalog's address without credentials, for messages."""
        return f"{self._config.catalog.type} catalog {_without_userinfo(self._config)}"

    @property
    def catalog(self) -> Catalog:
        """The opened catalog."""
        with self._opening:
            if self._catalog is None:
                self._catalog = _opened(self._config)
            return self._catalog

    def call(self, what: str, ask: Callable[[], T]) -> T:
        """Returns the answer; retries for a while if another writer keeps a catalog's file busy.

        Raises:
            UnreachableError: if there is no answer.
        """
        with self.reachable(), effect(what):
            return _patiently()(ask)

    def load(self, name: LakeName) -> Table | None:
        """Loads a table; None if it does not exist.

        Raises:
            UnreachableError: if the catalog or the table's metadata cannot be read.
        """
        table = self.call("lake: load table", lambda: self.loaded(name))
        self.note(name, table)
        return table

    def note(self, name: LakeName, table: Table | None) -> None:
        """Records a loaded table, for `last`."""
        self._last = (name, table) if table else None

    def last(self, name: LakeName) -> Table | None:
        """Returns the table that `load` loaded last, if it has this name; else None."""
        last = self._last
        return last[1] if last and last[0] == name else None

    def loaded(self, name: LakeName) -> Table | None:
        """Loads a table like `load`, for calls within `call`."""
        catalog = self.catalog
        with self.reading(name):
            try:
                return catalog.load_table((name.namespace, name.name))
            except (NoSuchTableError, NoSuchNamespaceError):
                return None

    @contextmanager
    def reading(self, name: LakeName, file: str = "") -> Iterator[None]:
        """Translates errors in one table's metadata, and names the table in them.

        Errors of the catalog itself are not translated: `reachable` does that.

        Args:
            name: of the table.
            file: its metadata file, if known.

        Raises:
            UnreachableError: if the metadata is not to be had now.
            TerminalError: if the file is gone, cannot be understood, or is of a newer version.
        """
        where = _place(name, file)
        try:
            yield
        except (SQLAlchemyError, requests.RequestException):
            raise
        except CdcError as error:
            where = " ".join(filter(None, (where, error.where)))
            raise error.but(where=where) from None
        except FileNotFoundError as error:
            what = f"the catalog has table {name}, and its metadata file is gone"
            where = _place(name, file or error.filename or "")
            raise TerminalError(what, where=where, remedy=_RESTORE, page="metadata-gone") from None
        except Exception as error:  # PyIceberg and its parts have no common one
            if _refuses_login(error):
                raise self._refused(where) from None
            if _is_of_content(error):
                what = f"the lake's metadata of {name} cannot be read ({type(error).__name__})"
                raise TerminalError(
                    what, where=where, remedy=_UNDO, page="metadata-unreadable"
                ) from error
            what = f"cannot read the metadata of {name} ({type(error).__name__})"
            remedy = "check that the catalog answers, and that the table's folder can be read"
            raise UnreachableError(
                what, where=where, remedy=remedy, page="metadata-silent"
            ) from None

    @contextmanager
    def reachable(self) -> Iterator[None]:
        """Translates errors of whatever does not answer into `UnreachableError`."""
        try:
            yield
        except LoginRefusedError:
            self._forget()
            raise
        except (SQLAlchemyError, RESTError, OSError, requests.RequestException) as error:
            if _refuses_login(error):
                raise self._refused(self.address) from None
            if _lacks_folder(self._config):
                what = "the catalog's file does not exist, nor the folder for it"
                remedy = (
                    "correct lake.catalog.uri, or make the folder; starting the local stack does"
                )
                raise UnreachableError(
                    what, where=self.address, remedy=remedy, page="catalog-missing"
                ) from None
            what = f"the lake did not answer ({type(error).__name__})"
            raise UnreachableError(what, where=self.address, remedy=_RUNS) from None
        except Exception as error:
            if type(error).__module__.partition(".")[0] not in _CLIENTS:
                raise
            if _refuses_login(error):
                raise self._refused(self.address) from None
            what = f"the lake did not answer ({type(error).__name__})"
            raise UnreachableError(what, where=self.address, remedy=_RUNS) from None

    def _refused(self, where: str) -> LoginRefusedError:
        """Returns the error for a refused login; the next use opens a new connection."""
        self._forget()
        what = "the lake refused the login (the catalog, or the store of its files)"
        remedy = "renew the token or password in lake.catalog (uri, properties); check its rights"
        return LoginRefusedError(what, where=where, remedy=remedy)

    def _forget(self) -> None:
        with self._opening:
            self._catalog = self._last = None


def _refuses_login(error: Exception) -> bool:
    """Whether a catalog, a SQL catalog's database or an object store refused the login."""
    if isinstance(error, _OF_LOGIN):
        return True
    response = getattr(error, "response", None)
    status = getattr(response, "status_code", None)
    if isinstance(response, dict):  # of AWS's client
        status = cast("dict[str, Any]", response).get("ResponseMetadata", {}).get("HTTPStatusCode")
    return status in {401, 403} or bool(_NO_LOGIN.search(str(error)))


def _lacks_folder(lake: LakeConfig) -> bool:
    """Whether the catalog is a file of SQLite in a folder that does not exist."""
    uri = lake.catalog.uri
    if not isinstance(uri, str) or not uri.startswith(_SQLITE_FILE):
        return False
    return not Path(uri.removeprefix("sqlite:///")).parent.exists()


def _is_of_content(error: Exception) -> bool:
    """Whether an error concerns the content that was read, not the reading.

    The clients of catalogs and stores have errors of their own for an outage (botocore's, Thrift's,
    Azure's), most of which are no `OSError`.
    """
    if isinstance(error, (RESTError, OSError)):
        return False
    return isinstance(error, _OF_CONTENT) or type(error).__module__.startswith("pyiceberg.")


def _place(name: LakeName, file: str) -> str:
    return f"table={name} metadata={file}" if file else f"table={name}"


def _patiently() -> Retrying:
    return Retrying(
        retry=retry_if_exception_type(OperationalError),
        stop=stop_after_delay(_BUSY_SECONDS),
        wait=wait_random(0.05, 0.3),
        reraise=True,
    )


def _opened(lake: LakeConfig) -> Catalog:
    properties = _pyiceberg(lake)
    try:
        opened = open_catalog(lake.catalog.name, properties)
    except (NotInstalledError, NoSuchModuleError, ImportError) as error:
        what = f"PyIceberg has no client for this catalog here ({type(error).__name__})"
        remedy = "install it, such as pip install 'pyiceberg[glue]', [hive] or [sql-postgres]"
        where = f"lake.catalog type={lake.catalog.type}"
        raise ConfigError(what, where=where, remedy=remedy) from None
    require_history(opened)
    return opened


def require_history(catalog: Catalog) -> None:
    """Refuses Nessie: without a table's snapshots and branches no batch can be proven exact.

    Its REST API gives clients the newest snapshot only. Up to version 0.99 it accepts a branch
    without making one, and commits to ``main`` what is written to a branch; later versions refuse.

    Raises:
        TerminalError: if the catalog says that it is Nessie's.
    """
    if catalog.properties.get("nessie.is-nessie-catalog") == "true":
        what = "the catalog is Nessie's, which keeps one snapshot of a table and makes no branches"
        remedy = "use a catalog that keeps Iceberg's snapshots and branches (docs/catalogs.md)"
        raise TerminalError(what, where=f"lake.catalog uri={catalog.properties['uri']}",
                            remedy=remedy)  # fmt: skip


def _pyiceberg(lake: LakeConfig) -> dict[str, str]:
    """Avoids pyarrow's file system for local files: importing that takes two seconds."""
    local = lake.warehouse.startswith("file:")
    io = {"py-io-impl": "pyiceberg.io.fsspec.FsspecFileIO"} if local else {}
    given = lake.catalog.resolved()
    return {"type": lake.catalog.type, "warehouse": lake.warehouse, **io, **given}


def _without_userinfo(lake: LakeConfig) -> str:
    uri = lake.catalog.uri
    if not isinstance(uri, str):
        return lake.warehouse if uri is None else "(address in a secret)"
    scheme, separator, rest = uri.partition("://")
    return f"{scheme}{separator}{rest.rsplit('@', 1)[-1]}"


SILENT_SECONDS: Final = 60.0
"""Seconds for which a catalog may be silent about a commit; large tables take several."""

LOOK_SECONDS: Final = 20.0

_TOGETHER: Final = "/v1/{prefix}/transactions/commit"
_COMMITS: Final = ("/namespaces", "/transactions/")
_OF_LIBPQ: Final = frozenset({"psycopg", "psycopg2"})
_HIVE_PORT: Final = 9083
"""At which a metastore listens unless its address says otherwise."""

_OF_MYSQL: Final = frozenset({"pymysql", "mysqldb"})


def open_catalog(name: str, properties: Mapping[str, str]) -> Catalog:
    """Opens a catalog by PyIceberg's properties, ``type`` among them."""
    match properties["type"]:
        case "rest":
            return EndingRestCatalog(name, **properties)
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


class EndingRestCatalog(RestCatalog):
    """A REST catalog whose every request ends, including those that open it."""

    @property
    def commits_tables_together(self) -> bool:
        """Whether the catalog says that it takes changes of several tables in one request."""
        endpoint = Endpoint(http_method=HttpMethod.POST, path=_TOGETHER)
        return endpoint in self._supported_endpoints

    def commit_together(
        self, changes: Iterable[tuple[Table, tuple[TableRequirement, ...], tuple[TableUpdate, ...]]]
    ) -> None:
        """Sends requirements and updates of several tables in one request.

        Raises:
            CommitFailedException: if a requirement is not met.
        """
        requests_ = [_change_of(table, required, updates) for table, required, updates in changes]
        url = self.url("transactions/commit", prefixed=True)
        document = {"table-changes": [each.model_dump(mode="json") for each in requests_]}
        answer = self._session.post(url, json=document)
        if answer.status_code == HTTPStatus.CONFLICT:
            raise CommitFailedException(answer.text)
        answer.raise_for_status()

    def _config_headers(self, session: requests.Session) -> None:
        """Prepares a new session; PyIceberg calls this method before asking for a token."""
        for scheme in ("http://", "https://"):
            session.mount(scheme, _Patient())
        super()._config_headers(session)


def _change_of(
    table: Table, required: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
) -> CommitTableRequest:
    namespace, name = table.name()
    identifier = TableIdentifier.model_validate({"namespace": [namespace], "name": name})
    return CommitTableRequest(identifier=identifier, requirements=required, updates=updates)


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
    """Sets the same time limits for an engine's connections as for connections to sources."""

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
            socket = TSocket.TSocket(
                place.hostname or "localhost", place.port or _HIVE_PORT, socket_keepalive=True
            )
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

    # Hive before version 3 knows no times with a zone; to readers of Iceberg its types say nothing.
    return Limited(name, **{hive.HIVE2_COMPATIBLE: "true", **properties})
