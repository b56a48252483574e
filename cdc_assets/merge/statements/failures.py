"""Translates Spark's exceptions into ours, without plans, row values or stack frames."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import grpc
from google.protobuf.message import Error as ProtobufError
from pyspark.errors import PySparkException

from cdc_assets.errors import (
    CdcError,
    ConflictError,
    LoginRefusedError,
    TerminalError,
    TransientError,
    UnreachableError,
)

_CONFLICTS = (
    "is not an ancestor of",
    "CommitFailedException",
    "ValidationException",
    "Branch does not exist",
    "Ref does not exist",
    "Cannot commit",
    # Another writer has just made or altered the table in the same way.
    "FIELD_ALREADY_EXISTS",
    "TABLE_OR_VIEW_ALREADY_EXISTS",
    "NAMESPACE_ALREADY_EXISTS",
    "Cannot add duplicate partition field",
    "Cannot find partition field to remove",
    # A JDBC catalog checks for a namespace before it inserts it, so two writers may both insert.
    "INSERT INTO iceberg_namespace_properties",
)
_LOST_SERVER = (
    "UNAVAILABLE",
    "INVALID_HANDLE.SESSION",
    "INVALID_HANDLE.OPERATION",
    "SESSION_CLOSED",
)
_REFUSED: Final = (
    (
        re.compile(
            r"\b(?:Sasl|Ssl)?AuthenticationException|\w+AuthorizationException\b"
            r"|javax\.security\.auth\.login\.LoginException"
        ),
        "Kafka",
    ),
    (re.compile(r"\bNotAuthorizedException|\bForbiddenException"), "the catalog"),
    (
        re.compile(
            r"Status Code: 40[13]\b|\bAccessDenied|InvalidAccessKeyId|SignatureDoesNotMatch"
            r"|ExpiredToken|\bAccessControlException"
        ),
        "the warehouse",
    ),
    (
        re.compile(
            r"password authentication failed|no pg_hba\.conf entry|Access denied for user"
            r"|SQLInvalidAuthorizationSpecException"
        ),
        "a database",
    ),
)
"""How the drivers and clients on Spark say that a login was refused, and by whom."""

_NO_LOGIN: Final = (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED)
_SHOWN: Final = {
    "Spark": "the session is opened (spark.token, or the function of spark.remote)",
    "Kafka": "Spark reads topics (kafka.properties)",
    "the catalog": "Spark opens the catalog (lake.catalog.properties)",
    "the warehouse": "Spark reads and writes files (lake.catalog.properties, or the server's own)",
    "a database": "Spark reads the catalog or the source (lake.catalog.uri, database.dsn)",
}
_TOO_LARGE = (
    "exceeds maximum protobuf size",
    "message larger than max",
    "message exceeds maximum size",
    "StackOverflowError",
)
_ENOUGH = 160
_log = logging.getLogger(__name__)


@contextmanager
def translated(step: str, where: str) -> Iterator[None]:
    """Translates Spark's exceptions in this block into our errors.

    Raises:
        ConflictError: if Iceberg refused the commit because another one came first.
        TerminalError: if the plan is too deep or too large to be sent, which depends on the
            table and the batch, so that a retry would not help.
        LoginRefusedError: if Spark, or a part that it talks to, refused the login.
        UnreachableError: if the Spark server went away.
        TransientError: for everything else; its cause is named, not quoted.
    """
    try:
        yield
    except CdcError:
        raise
    except (ProtobufError, RecursionError, MemoryError) as error:
        raise _too_large(error, step, where) from None
    except (PySparkException, grpc.RpcError) as error:
        raise _translate(error, step, where) from None
    except ValueError as error:  # protobuf and gRPC have no errors of their own for these
        if _is_closed(error):
            raise _lost(step, where) from None
        if not _is_too_large(error):
            raise
        raise _too_large(error, step, where) from None


@contextmanager
def released_after(release: Callable[[], object]) -> Iterator[None]:
    """Releases something after the block, however it ends, without hiding the block's error.

    Does nothing if the Spark server went away: it has released everything itself, and a request
    in vain takes long.
    """
    with released_on_failure(release):
        yield
    could_release(release)


@contextmanager
def released_on_failure(release: Callable[[], object]) -> Iterator[None]:
    """Releases something if the block fails, as `released_after` does."""
    try:
        yield
    except UnreachableError:
        raise
    except BaseException:
        could_release(release)
        raise


def could_release(release: Callable[[], object]) -> bool:
    """Releases something if Spark answers; returns whether it did."""
    try:
        release()
    except (PySparkException, grpc.RpcError, ValueError) as error:
        if isinstance(error, ValueError) and not _is_closed(error):
            raise
        _log.debug("could not release a cached frame or view: %s", _cause(error))
        return False
    return True


def _is_too_large(error: Exception) -> bool:
    return any(sign in str(error) for sign in _TOO_LARGE)


def _too_large(error: Exception, step: str, where: str) -> TerminalError:
    """Returns the error for a plan that the client, too, may refuse while it builds it."""
    what = f"the plan of a step is too deep or too large for Spark: {step} ({_cause(error)})"
    remedy = (
        "nothing was published; report this with the number of columns and partitions, and "
        "exclude columns at the connector if you cannot wait"
    )
    return TerminalError(what, where=where, remedy=remedy)


def refusal_of(error: Exception, where: str) -> LoginRefusedError | None:
    """Returns the error for a login that Spark, or a part that it talks to, has refused.

    None if the error is another one.
    """
    text = "\n".join((str(error), *_causes(error)))
    code = _status_of(error)
    named = ("Spark" for each in _NO_LOGIN if code is each or f"StatusCode.{each.name}" in text)
    by = next(named, None) or next((part for sign, part in _REFUSED if sign.search(text)), None)
    if by is None:
        return None
    what = f"{by} refused the login" if by == "Spark" else f"{by} refused the login of Spark"
    remedy = f"renew the token or password with which {_SHOWN[by]}, and check its rights"
    return LoginRefusedError(what, where=where, remedy=remedy)


def _causes(error: Exception) -> Iterator[str]:
    """Yields the causes on the server, which an error's own text often leaves out."""
    if isinstance(error, PySparkException):
        stack = getattr(error, "getStackTrace", lambda: None)() or ""
        yield from (line for line in stack.splitlines() if line.startswith("Caused by: "))


def _status_of(error: Exception) -> object:
    for name in ("code", "getGrpcStatusCode"):
        read = getattr(error, name, None)
        if callable(read):
            return read()
    return None


def _translate(error: Exception, step: str, where: str) -> CdcError:
    text = str(error)
    if _is_too_large(error):
        return _too_large(error, step, where)
    refused = refusal_of(error, where)
    if refused is not None:
        return refused
    if any(sign in text for sign in _CONFLICTS):
        what = f"another writer published while this batch was at: {step}"
        return ConflictError(what, where=where, remedy="the range is merged again by the next try")
    if isinstance(error, grpc.RpcError) or any(sign in text for sign in _LOST_SERVER):
        return _lost(step, where)
    what = f"Spark failed at: {step} ({_cause(error)})"
    remedy = "nothing was published; the Spark server's log has the details"
    return TransientError(what, where=where, remedy=remedy, page="spark-failed")


def _lost(step: str, where: str) -> UnreachableError:
    what = f"the Spark server went away at: {step}"
    remedy = "check that it runs; nothing was published, the next try starts over"
    return UnreachableError(what, where=where, remedy=remedy)


def _is_closed(error: ValueError) -> bool:
    """Returns whether this is gRPC's error for a call on a channel that a deadline closed."""
    return "closed channel" in str(error).lower() or "channel closed" in str(error).lower()


def _cause(error: Exception) -> str:
    """Returns the condition's name, such as ``PATH_NOT_FOUND``; messages may quote values."""
    condition = error.getCondition() if isinstance(error, PySparkException) else None
    if condition:
        return condition
    classes = [word for word in str(error).split() if word.endswith(("Exception:", "Error:"))]
    return classes[-1].rstrip(":").rsplit(".", 1)[-1][:_ENOUGH] if classes else type(error).__name__
