"""Configures where things run: the lake's catalog, Spark, the local stack, alerts."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from datetime import timedelta
from typing import Annotated, Final, Literal, Self, cast
from urllib.parse import quote, urlsplit

from pydantic import (
    Discriminator,
    Field,
    Tag,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from cdc_assets.changes.slo import PublishPace, SloTarget, pace_of
from cdc_assets.config.paths import absolute_sqlite, absolute_url
from cdc_assets.config.secret import (
    HOOK,
    Properties,
    Secret,
    SecretUrl,
    Url,
    called,
    reveal,
)
from cdc_assets.config.strict import Strict, as_mapping, did_you_mean, refuse
from cdc_assets.errors import ConfigError
from cdc_assets.schema.readers import READERS, version_for

TABLES_AT_ONCE: Final = 16
"""Number of tables merged at the same time on a Spark elsewhere."""

_PARAMETERS: Final = frozenset({"token", "use_ssl", "user_id", "user_agent", "session_id"})
"""Parameters of a Connect URL that are no headers."""

_THIS_MACHINE: Final = frozenset({"localhost", "127.0.0.1"})


class CatalogConfig(Strict):
    """The Iceberg catalog, which both PyIceberg and Spark open.

    Attributes:
        type: kind of catalog. Nessie's is refused.
        uri: address of the catalog: ``sqlite:///relative.db``, a URL, or ``{env: NAME}``. Required
            unless ``type`` is ``glue``.
        name: name of the catalog in Spark SQL: lower-case letters, digits and underscores.
        properties: properties for PyIceberg and Spark alike.
    """

    type: Literal["sql", "rest", "glue", "hive"]
    uri: SecretUrl | None = None
    name: str = Field(default="lake", pattern=r"^[a-z][a-z0-9_]*$")
    properties: Properties = Field(default_factory=dict)

    @field_validator("uri")
    @classmethod
    def _absolute(cls, uri: str | Secret | None, info: ValidationInfo) -> str | Secret | None:
        return absolute_sqlite(uri, info) if isinstance(uri, str) else uri

    @model_validator(mode="after")
    def _has_uri(self) -> Self:
        if self.uri is None and self.type != "glue":
            what = f"a catalog of type {self.type} needs a uri"
            raise refuse(what, "add uri: … (or {env: NAME} if it holds a password)")
        return self

    def resolved(self) -> dict[str, str]:
        """Returns ``properties`` and ``uri`` with secrets revealed.

        Raises:
            ConfigError: if a secret's variable is not set.
        """
        values = {name: reveal(value) for name, value in self.properties.items()}
        return values if self.uri is None else {**values, "uri": reveal(self.uri)}


class LakeConfig(Strict):
    """The catalog and the root of the tables' files. ``warehouse`` is an absolute URL.

    Attributes:
        catalog: the Iceberg catalog.
        warehouse: path or URL of the tables' files. In S3, the local Spark server needs
            ``cdc-assets stack install spark-s3``.
        readers: engines that read the tables, such as ``[spark, athena]``: choose format version
            and delete mode. ``without_deletes``: an unknown engine without deletes.
        format_version: format version of new tables: 3 has deletion vectors. Default: the newest
            that all ``readers`` read.
    """

    catalog: CatalogConfig
    warehouse: Url
    readers: Annotated[tuple[str, ...], Field(strict=False)] = ()
    format_version: Literal[2, 3] = 3

    @model_validator(mode="before")
    @classmethod
    def _chosen(cls, data: object) -> object:
        said = as_mapping(data)
        given = said.get("readers")
        readers = cast("Iterable[object]", given) if isinstance(given, list | tuple) else ()
        known = [each for each in readers if isinstance(each, str) and each in READERS]
        if "format_version" in said or not known:
            return data
        return {**said, "format_version": version_for(known)}

    @field_validator("readers")
    @classmethod
    def _known(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        for name in names:
            if name not in READERS:
                what = f"{name!r} is not a known reader"
                raise refuse(what, did_you_mean(name, READERS))
        return names

    @field_validator("format_version")
    @classmethod
    def _is_read(cls, version: int, info: ValidationInfo) -> int:
        unread = next((READERS[n] for n in info.data.get("readers", ())
                       if READERS[n].newest < version), None)  # fmt: skip
        if unread is not None:
            what = f"{unread.name}, of lake.readers, does not read format version {version}"
            raise refuse(what, f"write {unread.newest}, or leave it out: readers choose it")
        return version

    @field_validator("warehouse")
    @classmethod
    def _absolute(cls, warehouse: str, info: ValidationInfo) -> str:
        return absolute_url(warehouse, info)


class _SparkServer(Strict):
    """The answer of a `SparkHook`: a URL, and what logs in there."""

    url: str = Field(pattern="^sc://")
    token: str | None = Field(default=None, min_length=1)
    headers: dict[
        Annotated[str, Field(pattern="^[a-z0-9._-]+$")], Annotated[str, Field(min_length=1)]
    ] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _is_safe(self) -> Self:
        is_encrypted = self.token is not None or "use_ssl=true" in self.url
        if self.headers.keys() & _PARAMETERS:
            what = "a name of headers is a parameter of the URL"
            raise refuse(what)
        if self.headers and not is_encrypted and urlsplit(self.url).hostname not in _THIS_MACHINE:
            what = "headers would be sent unencrypted"
            raise refuse(what)
        return self

    @property
    def full_url(self) -> str:
        """The URL with token and headers as its parameters, as Spark's client takes them."""
        url, token = self.url, {"token": self.token} if self.token else {}
        for name, value in {**token, **self.headers}.items():
            url = with_parameter(url, f"{name}={quote(value, safe='')}")
        return url


class SparkHook(Strict):
    """A function of the operator's that says where Spark is, called for each session.

    Attributes:
        hook: ``module:function``, called without arguments. Returns a URL, or a mapping with
            ``url`` and optionally ``token`` and ``headers``.
    """

    hook: str

    @field_validator("hook")
    @classmethod
    def _is_function(cls, hook: str) -> str:
        if not re.fullmatch(HOOK, hook):
            what = "must name a function: module:function"
            raise refuse(what)
        return hook

    def __str__(self) -> str:
        return f"function {self.hook}"

    def url(self) -> str:
        """Returns the URL of a session, with token and headers as its parameters.

        Raises:
            ConfigError: if there is no such function, or it returns something else.
            UnreachableError: if the function fails.
        """
        said = called(self.hook)
        try:
            parts = {"url": said} if isinstance(said, str) else said
            return _SparkServer.model_validate(parts).full_url
        except ValidationError:  # it holds the answer, so it is not chained
            what = (
                "the function returns neither a URL (sc://…) nor a mapping of url, token, headers"
            )
            remedy = (
                "return {'url': 'sc://host:443/;use_ssl=true', 'headers': {'name': 'text'}}, names "
                "in lower case"
            )
            where = f"spark.remote hook={self.hook}"
            raise ConfigError(what, where=where, remedy=remedy) from None


def _kind_of_remote(data: object) -> str:
    return "SparkHook" if isinstance(data, SparkHook | dict) else "str"


class SparkConfig(Strict):
    """The Spark to work with: ``remote`` or a classic ``master``.

    Attributes:
        remote: Spark Connect server: ``local`` reuses or starts the local stack's;
            ``sc://host:port/;use_ssl=true`` names another; ``{hook: "module:function"}`` is called
            for each session.
        master: classic master such as ``local[2]``, instead of ``remote``. ``conf`` must set
            ``spark.sql.extensions`` and ``spark.sql.session.timeZone: UTC``.
        token: token of a remote server, sent only over TLS or to ``localhost``.
        memory: heap of the local server, such as ``2g``.
        conf: Spark settings. With ``local`` they start the server, and changes restart it;
            otherwise they are set in each session.
        parallel_tables: maximum number of tables that a run merges at once, each in its own
            session. With ``master`` 1.
        send_jar: whether each session sends ``decode.jar`` to a remote server. Such sessions
            compile all generated code again.
    """

    remote: (
        Annotated[
            Annotated[str, Tag("str")] | Annotated[SparkHook, Tag("SparkHook")],
            Discriminator(_kind_of_remote),
        ]
        | None
    ) = None
    master: str | None = None
    token: Secret | None = None
    memory: str = Field(default="2g", pattern=r"^[1-9][0-9]*[mg]$")
    conf: Properties = Field(default_factory=dict)
    parallel_tables: int | None = Field(default=None, ge=1, le=1000)
    send_jar: bool = False

    @field_validator("remote")
    @classmethod
    def _remote(cls, remote: str | SparkHook | None) -> str | SparkHook | None:
        if not isinstance(remote, str) or remote == "local":
            return remote
        if not remote.startswith("sc://"):
            what = "must be 'local' or start with sc://"
            raise refuse(what, "remote: local, remote: sc://host:15002, or master: local[2]")
        if "token=" in remote:
            what = "the URL holds a token in plain text; it is not shown here"
            raise refuse(what, "leave it out and write token: {env: NAME}")
        return remote

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if self.remote is not None and self.master is not None:
            what = "remote and master exclude each other"
            raise refuse(what, "keep one of them")
        if isinstance(self.remote, SparkHook) and self.token is not None:
            what = "token is of a URL: a hook returns its own"
            raise refuse(what, "leave spark.token out")
        if self.send_jar and (self.is_local_server or self.master is not None):
            what = "send_jar is for a server of your own: all others have the jar"
            raise refuse(what, "leave it out, or set remote: sc://…")
        return self

    @property
    def is_local_server(self) -> bool:
        """Whether Spark is the local Spark Connect server: reused, or started by us."""
        return self.master is None and self.remote in (None, "local")

    def server_url(self) -> str:
        """Returns the URL for one session of a server elsewhere, with what logs in there.

        Raises:
            ConfigError: if a secret is missing, or a hook does not say where.
            UnreachableError: if the secret or the hook fails.
        """
        if isinstance(self.remote, SparkHook):
            return self.remote.url()
        url = self.remote or ""
        if self.token is None:
            return url
        return with_parameter(url, f"token={quote(self.token.reveal(), safe='')}")

    @property
    def tables_at_once(self) -> int:
        """The number of tables of a run that are merged at the same time.

        If not configured: on this machine one more than it has cores, since a small batch does not
        keep any of them busy all the time; elsewhere `TABLES_AT_ONCE`. One with ``master``, where a
        process has one session that can be closed.
        """
        if self.master is not None:
            return 1
        if self.parallel_tables is not None:
            return self.parallel_tables
        return (os.cpu_count() or 1) + 1 if self.is_local_server else TABLES_AT_ONCE

    def resolved_conf(self) -> dict[str, str]:
        """Returns ``conf`` with secrets revealed.

        Raises:
            ConfigError: if a secret's variable is not set.
        """
        return {name: reveal(value) for name, value in self.conf.items()}


def with_parameter(url: str, parameter: str) -> str:
    """Returns a Connect URL, ``sc://host:port/;name=value;…``, with one parameter more."""
    host, slash, parameters = url.removeprefix("sc://").partition("/")
    joined = f"{parameters.rstrip(';')};{parameter}" if slash else f";{parameter}"
    return f"sc://{host}/{joined}"


class RunsConfig(Strict):
    """The lifetime of a run started by a sensor, which stays to take work that becomes due.

    Attributes:
        idle_seconds: seconds without changes in its tables after which a run ends. 0: once its
            tables have caught up.
        most_seconds: maximum age of a run in seconds. Every run also ends with its hour.
        look_seconds: seconds between two requests to Kafka, for all topics at once.
        every_seconds: minimum seconds between two batches of a table. ``auto``: a quarter of the
            SLO's time, down to 6 as the error budget is spent.
        many_changes: number of waiting changes that triggers a batch immediately.
        retry_hours: hours for which a table's passing failures are retried before it stops. 0: for
            ever.
    """

    idle_seconds: float = Field(default=60, ge=0)
    most_seconds: float = Field(default=900, ge=0)
    look_seconds: float = Field(default=1, gt=0)
    every_seconds: Annotated[float, Field(ge=0)] | Literal["auto"] = "auto"
    many_changes: int = Field(default=10_000, ge=1)
    retry_hours: float = Field(default=24, ge=0)

    @property
    def give_up_after(self) -> timedelta | None:
        """`retry_hours` as a duration; None for ever."""
        return timedelta(hours=self.retry_hours) if self.retry_hours else None

    def pace(self, target: SloTarget, budget_left: float) -> PublishPace:
        """Returns the pace of a table's turns.

        Args:
            target: of its SLO.
            budget_left: see `SloReport`.
        """
        if self.every_seconds == "auto":
            return pace_of(target, budget_left)
        return PublishPace(self.every_seconds, "runs.every_seconds")

    def wait(self, changes: int, seconds: float, pace: PublishPace) -> float | None:
        """Returns in how many seconds to merge so many changes; 0 for now, None for no changes.

        Args:
            changes: the number that is unread.
            seconds: the time since the last turn began.
            pace: of the table.
        """
        if changes <= 0:
            return None
        return 0.0 if changes >= self.many_changes else max(0.0, pace.seconds - seconds)


class Ports(Strict):
    """The ports of the local stack's parts, all on 127.0.0.1.

    Attributes:
        postgres: PostgreSQL.
        kafka: Kafka's broker. Change ``kafka.bootstrap_servers`` with it.
        kafka_controller: Kafka's controller.
        connect: Kafka Connect's REST interface.
        spark: Spark Connect.
        mariadb: MariaDB.
        registry: schema registry.
    """

    postgres: int = Field(default=15432, ge=1, le=65535)
    kafka: int = Field(default=19092, ge=1, le=65535)
    kafka_controller: int = Field(default=19093, ge=1, le=65535)
    connect: int = Field(default=18083, ge=1, le=65535)
    spark: int = Field(default=15002, ge=1, le=65535)
    mariadb: int = Field(default=13306, ge=1, le=65535)
    registry: int = Field(default=18081, ge=1, le=65535)

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        owner: dict[int, str] = {}
        for part in type(self).model_fields:
            port: int = getattr(self, part)
            if port in owner:
                what = f"{owner[port]} and {part} have the same port {port}"
                raise refuse(what, "give each part its own port")
            owner[port] = part
        return self


class StackConfig(Strict):
    """The local stack.

    Attributes:
        ports: ports of its parts.
    """

    ports: Ports = Ports()


Operation = Literal[
    "pause_tables", "resume_tables", "drop_tables", "reset_tables", "rewind",
    "history", "rebuild_table", "resnapshot_tables", "verify_tables", "assess_tables",
    "compact_table", "adopt_table",
]  # fmt: skip
"""The jobs with which operators work on tables from Dagster's UI."""

Upkeep = Literal["maintain_tables", "housekeeping"]
"""What sensors and schedules do, and a person may start from there too: both remove what is old."""


class OperationsConfig(Strict):
    """The operations that Dagster's UI offers; commands are not limited.

    Attributes:
        from_ui: jobs that users may start in Dagster's UI. ``[]``: none. Scheduled maintenance runs
            in any case.
    """

    from_ui: Annotated[tuple[Operation | Upkeep, ...], Field(strict=False)] | None = None

    def offers(self, job: str) -> bool:
        """Whether the UI offers a job, by the job's name without the replication's."""
        return self.from_ui is None or job in self.from_ui


class AlertsConfig(Strict):
    """The address and form of alerts.

    Attributes:
        webhook: URL that alerts are posted to.
        apprise: URLs of services (mail, Teams, PagerDuty, Slack), each a secret, as ``apprise``
            writes them. Needs the extra ``alerts``.
        heartbeat: URL that is called (GET) after each complete look whose alerts were sent. Lets a
            service report missing calls.
        form: form of the posts. ``slack``: Slack's incoming webhooks.
        slot_bytes: retained WAL, in bytes, above which a replication slot is reported.
    """

    webhook: Secret | None = None
    apprise: Annotated[tuple[Secret, ...], Field(strict=False)] = ()
    heartbeat: SecretUrl | None = None
    form: Literal["json", "slack"] = "json"
    slot_bytes: int = Field(default=10 << 30, ge=1)

    @field_validator("apprise")
    @classmethod
    def _once(cls, urls: tuple[Secret, ...]) -> tuple[Secret, ...]:
        for n, each in enumerate(urls):
            if each in urls[:n]:
                what = f"names the {each.place} twice"
                raise refuse(what, "leave one of them out")
        return urls

    @field_validator("heartbeat")
    @classmethod
    def _http(cls, url: str | Secret | None) -> str | Secret | None:
        if isinstance(url, str) and not url.startswith(("http://", "https://")):
            what = "is not an http:// or https:// URL"
            raise refuse(what, "heartbeat: {env: NAME}, or a URL such as https://hc-ping.com/…")
        return url
