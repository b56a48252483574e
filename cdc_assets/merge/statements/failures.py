"""Translates Spark's exceptions into ours, without plans, row values or stack frames."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import grpc
from google.protobuf.message import Error as ProtobufError
from pyspark.errors import PySparkException

from cdc_assets.errors import (
    CdcError,
    ConflictError,
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
    # A JDBC catalog checks for a namespace before it inserts it, so two writers may both insert.
    "INSERT INTO iceberg_namespace_properties",
)
_LOST_SERVER = (
    "UNAVAILABLE",
    "INVALID_HANDLE.SESSION",
    "INVALID_HANDLE.OPERATION",
    "SESSION_CLOSED",
)
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


def _translate(error: Exception, step: str, where: str) -> CdcError:
    text = str(error)
    if _is_too_large(error):
        return _too_large(error, step, where)
    if any(sign in text for sign in _CONFLICTS):
        what = f"another writer published while this batch was at: {step}"
        return ConflictError(what, where=where, remedy="the range is merged again by the next try")
    if isinstance(error, grpc.RpcError) or any(sign in text for sign in _LOST_SERVER):
        return _lost(step, where)
    what = f"Spark failed at: {step} ({_cause(error)})"
    remedy = "nothing was published; the Spark server's log has the details"
    return TransientError(what, where=where, remedy=remedy)


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
