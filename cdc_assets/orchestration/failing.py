"""Converts errors into `dagster.Failure`: decides about retries, and shows nothing secret.

The original exception is not chained: Spark's and the drivers' messages may quote row values, and
Dagster stores the whole chain. Our own errors never contain any. Of a foreign exception, only its
type, Spark's error condition and the code's lines are shown.
"""

from __future__ import annotations

import traceback
from typing import Any, Final

import dagster as dg

from cdc_assets.config import ReplicationConfig
from cdc_assets.errors import CdcError, HungError
from cdc_assets.operate.failures import FailureKind, kind_of
from cdc_assets.orchestration.keys import table_key
from cdc_assets.registry import TableEntry

PACKAGE: Final = "cdc_assets"
MAX_RETRIES: Final = 2
RETRY_POLICY: Final = dg.RetryPolicy(
    max_retries=MAX_RETRIES, delay=1, backoff=dg.Backoff.EXPONENTIAL, jitter=dg.Jitter.PLUS_MINUS
)
"""Retries within a run, for causes that pass in seconds, above all another writer's publish."""


def message_of(error: Exception) -> str:
    """Returns an error's message without anything that must not be shown or stored."""
    if isinstance(error, CdcError):
        return str(error)
    condition = _spark_condition(error)
    about = f" ({condition})" if condition else ""
    return f"unexpected {type(error).__qualname__}{about} at {_place(error)}"


def failure_of(entry: TableEntry, error: Exception) -> dg.Failure:
    """Returns the failure of a table's step; retried within the run only if safe and useful.

    Not retried after a step that hung: the other tables of the run have waited long enough.
    """
    kind = kind_of(error)
    return dg.Failure(
        description=f"{entry.table}: {message_of(error)}",
        metadata=_metadata(entry, error, kind),
        allow_retries=kind is FailureKind.TRANSIENT and not isinstance(error, HungError),
    )


def failure_observation(
    config: ReplicationConfig, entry: TableEntry, failure: dg.Failure
) -> dg.AssetObservation:
    """Returns an observation for the asset's page, which shows no reason of a failed run itself."""
    return dg.AssetObservation(
        table_key(config, entry), description=failure.description, metadata=failure.metadata
    )


def recovery_observation(config: ReplicationConfig, entry: TableEntry) -> dg.AssetObservation:
    """Returns an observation that replaces the failure on the asset's page."""
    return dg.AssetObservation(
        table_key(config, entry), description=f"{entry.table}: goes on again", metadata={}
    )


def _metadata(entry: TableEntry, error: Exception, kind: FailureKind) -> dict[str, Any]:
    ours = isinstance(error, CdcError)
    texts = {
        "table": str(entry.table),
        "topic": entry.topic,
        "kind": kind.value,
        "error": type(error).__qualname__,
        "where": error.where if ours else "",
        "remedy": error.remedy if ours else "",
        "code": "" if ours else frames_of(error),
    }
    return {name: dg.MetadataValue.text(text) for name, text in texts.items() if text}


def _spark_condition(error: Exception) -> str:
    """Returns Spark's name of the error, such as ``CAST_INVALID_INPUT``, without parameters."""
    for name in ("getCondition", "getErrorClass"):
        read = getattr(error, name, None)
        if callable(read) and (condition := read()):
            return str(condition)
    return ""


def _place(error: Exception) -> str:
    """Returns the innermost line of our code in the traceback; of any code if none is ours."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if f"/{PACKAGE}/" in frame.filename] or frames
    return f"{ours[-1].filename.rpartition('/')[2]}:{ours[-1].lineno}" if ours else "?"


def frames_of(error: Exception) -> str:
    """Returns the lines of code of an error's traceback, without its text."""
    frames = traceback.extract_tb(error.__traceback__)
    return "\n".join(f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames)
