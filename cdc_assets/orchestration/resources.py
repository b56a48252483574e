"""Provides a run's Spark sessions.

The endpoint and its token are resolved when the session is first needed and not when definitions
load, so that the token never becomes part of the resource's configuration, which the UI shows; the
local server is started if none runs; and sessions are closed when the run ends, because a Connect
server keeps each one. Tables of a run that are merged at the same time have a session each:
`cdc_assets.orchestration.scheduler`. A classic master has its session from dagster-pyspark.

Sessions are not shared between runs: a session carries settings such as Iceberg's snapshot
properties, and the settings of a run that was killed must not reach another run's commits.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

import grpc
from dagster import ConfigurableResource, InitResourceContext
from pydantic import PrivateAttr

from cdc_assets import decode
from cdc_assets.config import ReplicationConfig
from cdc_assets.config.secret import looks_secret
from cdc_assets.errors import CdcError, ConfigError, UnreachableError
from cdc_assets.local_stack import devstack, require
from cdc_assets.operate.spark_jar import require_jar
from cdc_assets.orchestration.scheduler import TableScheduler

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


APP_NAME = "cdc_assets"
_JARS: Final = "spark.jars"
_ELSEWHERE = (
    *("SPARK_REMOTE", "SPARK_LOCAL_REMOTE", "SPARK_API_MODE", "SPARK_CONNECT_MODE", "MASTER"),
    *("PYSPARK_NO_NAMESPACE_SHARE", "PYSPARK_REMOTE_INIT_CONF_LEN", "SPARK_TESTING"),
)
"""Variables by which a shell points pyspark to another Spark, or changes its behaviour."""
PATIENCE_SECONDS: Final = 1.5
"""gRPC retries after one second, so a server that comes up a moment later is found."""
ANSWER_SECONDS: Final = 60.0
"""How long a server may take to answer when a session is created; a busy one takes seconds."""


RETRIES: Final = 5
"""Of a call, within seconds; the client's own policy tries for ten minutes. A dead local server is
restarted when a session is created, so a run must soon get that far."""


class ReplicationSpark(ConfigurableResource[Any]):
    """The resource with the run's session, which is created at its first use.

    Attributes:
        spark_config: only settings that may be shown: Spark's address, without tokens.
    """

    spark_config: dict[str, Any]
    _spark_session: SparkSession | None = PrivateAttr(default=None)
    _scheduler: TableScheduler | None = PrivateAttr(default=None)
    _scheduling: Lock = PrivateAttr(default_factory=Lock)
    _opening: Lock = PrivateAttr(default_factory=Lock)
    _is_side_by_side: bool = PrivateAttr(default=False)

    def late_config(self) -> Mapping[str, str]:
        """Returns settings known or needed only for creating a session. May start the server."""
        return {}

    def sends_jar(self) -> bool:
        """Returns whether our jar is added to each session of a Connect server."""
        return False

    def requires_jar(self) -> bool:
        """Returns whether a session of a server without our jar is refused."""
        return True

    def after_start(self, session: SparkSession) -> None:
        """Completes a new session."""

    @property
    def spark_session(self) -> SparkSession:
        """The session by the name that dagster-pyspark's resources have for it."""
        return self.session()

    def session(self) -> SparkSession:
        """Returns the session; creates it if there is none."""
        if self._spark_session is None:
            self._spark_session = self.new_session()
        return self._spark_session

    def new_session(self) -> SparkSession:
        """Creates another session; creates one at a time.

        Raises:
            UnreachableError: if Spark does not answer, or refuses the login.
            ConfigError: if it lacks our jar, or has another build of it.
        """
        with self._opening:
            late = self.late_config()
            try:
                session = _new_session({**self.spark_config, **late}, sends_jar=self.sends_jar())
                if self.requires_jar():
                    _require_jar(session, _place(self.spark_config))
                self.after_start(session)
            except CdcError:
                raise
            except Exception as error:
                raise _unreachable(self.spark_config, error) from None
            return session

    def scheduler(self, make: Callable[[bool], TableScheduler]) -> TableScheduler:
        """Returns the scheduler of the run's tables.

        Args:
            make: creates it; called once, with whether the run's steps run side by side.
        """
        with self._scheduling:
            if self._scheduler is None:
                self._scheduler = make(self._is_side_by_side)
            return self._scheduler

    @property
    def is_side_by_side(self) -> bool:
        """Whether the run's steps are threads of this process, which is then the whole run."""
        return self._is_side_by_side

    def begins(self) -> None:
        """Records that steps of the run will use the resource at the same time."""
        self._is_side_by_side = True

    def interrupt(self) -> None:
        """Stops the run's scheduler, because the run is to stop; waits for no session to open."""
        with self._scheduling:
            scheduler = self._scheduler
        if scheduler is not None:
            scheduler.stop()

    def forget(self) -> None:
        """Gives up the session, usable or not; the next use creates a new one."""
        session, self._spark_session = self._spark_session, None
        if session is not None:
            with contextlib.suppress(Exception):  # the session may be what has just failed
                session.stop()

    def teardown_after_execution(self, context: InitResourceContext) -> None:
        """Closes the session, and those of the worker slots."""
        scheduler, self._scheduler, self._is_side_by_side = self._scheduler, None, False
        if scheduler is not None:
            scheduler.close()
        self.forget()


def spark_resource(config: ReplicationConfig, *, requires_jar: bool = True) -> ReplicationSpark:
    """Returns the resource for a configuration.

    Dagster copies resources field by field, so settings that must not be shown are in the class.

    Args:
        config: the configuration.
        requires_jar: whether to refuse a server without our jar, which cannot read records.
    """

    class ConfiguredSpark(ReplicationSpark):
        """The Spark session of the replication's configuration."""

        def late_config(self) -> Mapping[str, str]:
            return _late_config(config)

        def sends_jar(self) -> bool:
            return config.spark.send_jar

        def requires_jar(self) -> bool:
            return requires_jar

        def after_start(self, session: SparkSession) -> None:
            _define_catalog(config, session)
            _open_catalog(config, session)

    return ConfiguredSpark(spark_config=_shown_config(config))


def _shown_config(config: ReplicationConfig) -> dict[str, str]:
    spark = config.spark
    conf = {
        name: value
        for name, value in spark.conf.items()
        if isinstance(value, str) and not looks_secret(name)
    }
    place = (
        {"spark.master": spark.master}
        if spark.master
        else {"spark.remote": str(spark.remote or "local")}
    )
    return {"spark.app.name": APP_NAME, **place, **conf}


def _late_config(config: ReplicationConfig) -> dict[str, str]:
    spark = config.spark
    if spark.is_local_server:
        devstack("environment").without_proxy_to_this_machine()
        return {"spark.remote": devstack("configured").spark_of(config).url}
    if spark.master is not None:
        return _classic_config(config)
    return {"spark.remote": spark.server_url(), **spark.resolved_conf()}


def _classic_config(config: ReplicationConfig) -> dict[str, str]:
    """Returns settings for ``master``: the driver is this process, so it needs catalog and jars."""
    from cdc_assets.lake.spark_conf import spark_conf

    given = config.spark.resolved_conf()
    jars = [given[_JARS]] if given.get(_JARS) else []
    if not given.keys() & {_JARS, "spark.jars.packages"}:
        jars = sorted(map(str, Path(config.home, "jars", "spark").glob("*.jar")))
    extensions = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
    ours = {"spark.sql.extensions": extensions, **spark_conf(config)}
    return {**ours, **given, _JARS: ",".join([*jars, str(decode.JAR)])}


def _new_session(config: Mapping[str, str], *, sends_jar: bool) -> SparkSession:
    """Creates a session of its own, so that closing it affects nobody else.

    dagster-pyspark's function would return the process's session if it has one; with a classic
    master there can be only one.
    """
    from pyspark.errors import AnalysisException

    from cdc_assets.connect_session import add_jar, leave_as_written, open_session

    _forget_elsewhere()
    if "spark.remote" not in config:
        require("dagster_pyspark", "spark.master needs Spark itself, which is", "local")
        from dagster_pyspark.resources import spark_session_from_config

        os.environ.pop("SPARK_CONNECT_MODE_ENABLED", None)
        session = spark_session_from_config(dict(config))
        leave_as_written(session)
        return session
    require_listener(config["spark.remote"])
    session = open_session(config["spark.remote"], RETRIES, isolated=sends_jar)
    for name in config.keys() - {"spark.remote", "spark.app.name"}:
        with contextlib.suppress(AnalysisException):  # a server's setting, not a session's
            session.conf.set(name, config[name])
    leave_as_written(session)
    if sends_jar:
        add_jar(session, decode.JAR)
    return session


def _require_jar(session: SparkSession, where: str) -> None:
    """Closes a session that is refused: the server would keep it."""
    try:
        require_jar(session, where)
    except ConfigError:
        with contextlib.suppress(Exception):
            session.stop()
        raise


def _forget_elsewhere() -> None:
    """Removes the variables, so that from now on only the configuration says where Spark is."""
    for name in _ELSEWHERE:
        os.environ.pop(name, None)


def require_listener(url: str) -> None:
    """Requires that a server accepts connections and answers: the client would try for long.

    The Connect client retries a request for many seconds, whatever the reason of its failure. gRPC
    itself distinguishes a connection that fails from one that takes long.

    Args:
        url: ``sc://host:port/;name=value``.

    Raises:
        UnreachableError: if attempts to connect fail for `PATIENCE_SECONDS`.
        TimeoutError: if the server accepts connections, and does not answer for `ANSWER_SECONDS`.
    """
    from pyspark.sql.connect.client import DefaultChannelBuilder

    builder, begun = DefaultChannelBuilder(url), time.monotonic()
    states: SimpleQueue[grpc.ChannelConnectivity] = SimpleQueue()
    ready, failing = grpc.ChannelConnectivity.READY, grpc.ChannelConnectivity.TRANSIENT_FAILURE
    with builder.toChannel() as channel:
        channel.subscribe(states.put, try_to_connect=True)
        state = _last_state(states, begun + PATIENCE_SECONDS, ready)
        if state is failing:
            msg = "Spark cannot be connected to: no server listens, or it refuses the connection"
            remedy = "check that the server runs, its address, and whether it wants TLS"
            raise UnreachableError(
                msg, where=f"Spark at {builder.endpoint}", remedy=remedy, page="spark-silent"
            )
        # One that refuses later is left to the client, which soon reports it.
        if state is not ready:
            state = _last_state(states, begun + ANSWER_SECONDS, ready, failing)
        if state not in {ready, failing}:
            msg = "no answer"
            raise TimeoutError(msg)


def _last_state(
    states: SimpleQueue[grpc.ChannelConnectivity], end: float, *awaited: grpc.ChannelConnectivity
) -> grpc.ChannelConnectivity | None:
    """Returns the channel's last state, once it is an awaited one or at the end (monotonic)."""
    state: grpc.ChannelConnectivity | None = None
    while state not in awaited:
        try:
            state = states.get(timeout=max(0, end - time.monotonic()))
        except Empty:
            break
    return state


def _define_catalog(config: ReplicationConfig, session: SparkSession) -> None:
    """Defines the catalog on a server that is not ours, unless its operator has defined it."""
    from cdc_assets.lake.spark_conf import spark_conf

    if config.spark.is_local_server or config.spark.master is not None:
        return
    name = f"spark.sql.catalog.{config.lake.catalog.name}"
    if session.conf.get(name, None) is None:
        for key, value in spark_conf(config).items():
            if key.startswith(name):
                session.conf.set(key, value)


def _open_catalog(config: ReplicationConfig, session: SparkSession) -> None:
    """Creates a new SQL catalog's own tables now, before two sessions at work both try to."""
    if config.lake.catalog.type == "sql":
        session.sql(f"SHOW NAMESPACES IN {config.lake.catalog.name}").collect()


def _unreachable(shown: Mapping[str, str], error: Exception) -> UnreachableError:
    from cdc_assets.merge.statements.failures import refusal_of

    where = _place(shown)
    refused = refusal_of(error, where)
    if refused is not None:
        return refused
    msg = f"Spark does not answer ({type(error).__name__})"
    remedy = "check that the server runs, that its address and token are right"
    return UnreachableError(msg, where=where, remedy=remedy, page="spark-silent")


def _place(shown: Mapping[str, str]) -> str:
    return f"Spark at {shown.get('spark.remote') or shown.get('spark.master', '')}"
