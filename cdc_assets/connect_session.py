"""Opens sessions of a Spark Connect server that run the code Spark has generated for others.

Spark generates Java classes for a statement, and keeps them by the class loader that will run them.
Spark Connect's sessions are isolated: each has a class loader of its own, for the jars that its
client may add. So each session compiled the same classes again: 52 of a table's 87, which Java then
runs interpreted until it has compiled them, too; and the server kept them all.

A session that is not isolated uses the server's own class loader. The server decides when it
makes a session and by the settings that are there by then: its own say that sessions are isolated,
and a client's come too late. A clone begins with the settings of the session it was cloned from.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final, cast
from uuid import uuid4

import grpc
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.connect.client.retries import DefaultPolicy

from cdc_assets.config.platform import with_parameter

if TYPE_CHECKING:
    from pyspark.sql.connect.session import SparkSession as ConnectSession

_ISOLATION: Final = (
    "spark.sql.artifact.isolation.enabled",
    "spark.sql.artifact.isolation.alwaysApplyClassloader",
)
_KEPT: Final[list[SparkSession]] = []
"""All sessions of this process, closed or not, so that none is finalized while others work.

The finalizer of PySpark 4.1 (``SparkSession.__del__``) takes a lock of a thread pool that all
sessions share. The garbage collector may run it inside a call that holds this lock: the thread
then deadlocks with itself.
"""


def open_session(url: str, retries: int | None = None, *, isolated: bool = False) -> SparkSession:
    """Returns a new session, so that closing it affects nobody else.

    A server that cannot clone sessions, as before Spark 4.1, gives one that is isolated.

    Args:
        url: the server's, ``sc://host:port/;…``.
        retries: how often a call is tried again, within seconds; None for what the client does by
            itself, which tries for ten minutes.
        isolated: whether a jar may be added to it (`add_jar`). What is added to another one stays
            on the server, for all that are not isolated.
    """
    first = _kept(SparkSession.builder.remote(url).create(), retries)
    leave_as_written(first)
    if isolated:
        return first
    for name in _ISOLATION:
        first.conf.set(name, "false")
    session_id = str(uuid4())
    try:
        # What this returns lacks half of what a session has, so the clone is opened by its id.
        client = cast("ConnectSession", first).client.clone(session_id)
    except (PySparkException, grpc.RpcError):
        return first
    client.close()
    first.stop()
    named = with_parameter(url, f"session_id={session_id}")
    return _kept(SparkSession.builder.remote(named).create(), retries)


def leave_as_written(session: SparkSession) -> None:
    """Makes a session run statements as they are written.

    Spark would first replace each ``${…}``, within quotes too: by a setting, by an empty text, or
    by a variable of the server's environment. Names, comments and defaults of the source's columns
    are parts of statements.
    """
    session.conf.set("spark.sql.variable.substitute", "false")


def add_jar(session: SparkSession, jar: Path) -> None:
    """Adds a jar to a session that was opened for it, with ``isolated``.

    The server would list a jar of any other session for all tasks of all such sessions, and delete
    it with its session: from then on it would run no task for them until it is started again.

    Raises:
        RuntimeError: if the session is not isolated.
    """
    from pyspark.sql.connect.session import SparkSession as ConnectSession

    is_connect = isinstance(session, ConnectSession)
    if is_connect and session.conf.get(_ISOLATION[0], "true") != "true":
        msg = f"{jar.name} needs a session that was opened as an isolated one"
        raise RuntimeError(msg)
    session.addArtifacts(str(jar))


def _kept(session: SparkSession, retries: int | None) -> SparkSession:
    if retries is not None:
        session.client.set_retry_policies([DefaultPolicy(max_retries=retries, max_backoff=2000)])
    _KEPT.append(session)
    return session
