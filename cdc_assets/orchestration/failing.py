"""Converts errors into `dagster.Failure`: decides about retries, and shows nothing secret.

The original exception is not chained: Spark's and the drivers' messages may quote row values, and
Dagster stores the whole chain. Our own errors never contain any. Of a foreign exception, only its
type, Spark's error condition and the code's lines are shown.
"""

from __future__ import annotations

from typing import Any, Final

import dagster as dg

from cdc_assets.config import ReplicationConfig
from cdc_assets.errors import CdcError, HungError, frames_of
from cdc_assets.operate.failures import FailureKind, kind_of
from cdc_assets.orchestration.keys import table_key
from cdc_assets.reference import explained
from cdc_assets.registry import TableEntry

MAX_RETRIES: Final = 2
RETRY_POLICY: Final = dg.RetryPolicy(
    max_retries=MAX_RETRIES, delay=1, backoff=dg.Backoff.EXPONENTIAL, jitter=dg.Jitter.PLUS_MINUS
)
"""Retries within a run, for causes that pass in seconds, above all another writer's publish."""


def failure_of(entry: TableEntry, error: Exception) -> dg.Failure:
    """Returns the failure of a table's step; retried within the run only if safe and useful.

    Not retried after a step that hung: the other tables of the run have waited long enough.
    """
    kind = kind_of(error)
    return dg.Failure(
        description=f"{entry.table}: {explained(error)}",
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
        table_key(config, entry), description=f"{entry.table}: continues", metadata={}
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
