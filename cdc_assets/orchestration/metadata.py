"""Builds a batch's metadata for the UI: numbers (to plot), offsets, columns, lineage, the plan."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import dagster as dg

from cdc_assets.changes.latency import LatencyHistogram
from cdc_assets.changes.offsets import OffsetRange, OffsetVector
from cdc_assets.changes.slo import PublishPace
from cdc_assets.config import ReplicationConfig
from cdc_assets.orchestration.keys import database_key
from cdc_assets.registry import TableEntry
from cdc_assets.schema.types import TableSchema

if TYPE_CHECKING:
    from cdc_assets.lake import TableState
    from cdc_assets.lake.shadow_progress import ShadowProgress
    from cdc_assets.merge import BatchResult

DATA_VERSION_TAG: Final = "dagster/data_version"
PERCENTILES: Final = (50, 95, 99)

OWN_COLUMNS: Final = "_cdc_"
"""The prefix of our own columns, which the source does not have."""

Metadata = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Lag:
    """The table's lag behind the log: the number of unread offsets and the age of the oldest."""

    changes: int
    seconds: float

    def metadata(self) -> Metadata:
        """Returns the lag as numbers."""
        return {"lag_changes": self.changes, "lag_seconds": round(self.seconds, 3)}


NO_LAG: Final = Lag(0, 0.0)
"""Nothing is unread."""


def batch_metadata(
    config: ReplicationConfig, entry: TableEntry, batch: BatchResult, lag: Lag | None
) -> Metadata:
    """Returns all metadata of one published batch; without the lag if that is unknown."""
    return {
        **_counts(batch),
        **lag_metadata(lag),
        **latency_metadata(batch.latency),
        **_durations(batch),
        "offsets": offsets_table(batch.ranges),
        "committed_offsets": dg.MetadataValue.text(batch.end.to_json()),
        "snapshot_id": dg.MetadataValue.text(str(batch.snapshot_id)),
        "attempt_id": dg.MetadataValue.text(batch.attempt_id),
        "replay": dg.MetadataValue.bool(batch.replay),
        "plan": dg.MetadataValue.md(f"```\n{batch.plan_text}\n```"),
        **schema_metadata(config, entry, batch_columns(batch.schema), batch.schema),
        **_absent(batch),
        **valid_through_metadata(batch.valid_through),
        **({"dagster/row_count": batch.row_count} if batch.row_count is not None else {}),
    }


def lag_metadata(lag: Lag | None) -> Metadata:
    """Returns the lag as numbers; nothing if it is unknown."""
    return lag.metadata() if lag else {}


def reading_metadata(progress: ShadowProgress) -> Metadata:
    """Returns how far a table's first rows are read from its source, as numbers."""
    rate, left, percent = progress.rows_per_second, progress.seconds_left, progress.percent
    return {
        "rows_read": progress.rows,
        **({"rows_estimated": progress.about} if progress.about else {}),
        **({"percent_read": round(percent, 1)} if percent is not None else {}),
        **({"rows_per_second": round(rate, 1)} if rate is not None else {}),
        **({"seconds_left": round(left, 1)} if left is not None else {}),
    }


def pace_metadata(pace: PublishPace) -> Metadata:
    """Returns how often the table is merged, and why not more often."""
    return {"merged_every_seconds": round(pace.seconds, 1), "merged_every_why": pace.why}


def valid_through_metadata(through: datetime | None) -> Metadata:
    """Returns the proven `valid_through`; nothing if there is none.

    Everything committed at the source before it is in the table.
    """
    return {"valid_through": dg.MetadataValue.timestamp(through)} if through else {}


def _counts(batch: BatchResult) -> Metadata:
    return {
        "records": batch.records,
        "rows_inserted": batch.inserted,
        "rows_updated": batch.updated,
        "rows_deleted": batch.deleted,
        "records_rejected": batch.rejected,
        "records_passed_over": batch.passed_over,
        "records_of_other_tables": batch.of_others,
        "records_stale": batch.stale,
    }


def _absent(batch: BatchResult) -> Metadata:
    """Returns the columns that the source has dropped, if any; rows that change have null there."""
    names = [column.name for column in batch.schema.columns if column.absent]
    return {"dropped_columns": ", ".join(names)} if names else {}


def _durations(batch: BatchResult) -> Metadata:
    steps = {f"step_{_word(name)}_seconds": round(s, 3) for name, s in batch.steps.items()}
    again = {"read_again": "; ".join(batch.read_again)} if batch.read_again else {}
    return {"duration_seconds": round(batch.duration_seconds, 3), **steps, **again}


def _word(text: str) -> str:
    return re.sub(r"\W+", "_", text)


def latency_metadata(latency: LatencyHistogram) -> Metadata:
    """Returns percentiles of commit-to-visible latency; nothing if there were no changes."""
    values = {f"latency_p{q}_seconds": latency.percentile(q) for q in PERCENTILES}
    return {name: round(value, 3) for name, value in values.items() if not math.isnan(value)}


def offsets_table(ranges: tuple[OffsetRange, ...]) -> dg.MetadataValue:
    """Returns a table with a row per Kafka partition: start (inclusive), end (exclusive)."""
    records = [
        dg.TableRecord(
            {"partition": each.partition, "start": each.start, "end": each.end,
             "offsets": each.length}
        )
        for each in ranges
    ]  # fmt: skip
    columns = [dg.TableColumn(name, "int") for name in ("partition", "start", "end", "offsets")]
    return dg.MetadataValue.table(records, schema=dg.TableSchema(columns))


def schema_metadata(
    config: ReplicationConfig,
    entry: TableEntry,
    columns: Sequence[dg.TableColumn],
    schema: TableSchema | None,
) -> Metadata:
    """Returns columns and their lineage from source columns; our own columns have none.

    Args:
        config: the configuration.
        entry: the table.
        columns: the lake's columns.
        schema: the schema with their names at the source; None if the table does not have one.
    """
    origin = database_key(config, entry.table)
    copied = [column.name for column in columns if not column.name.startswith(OWN_COLUMNS)]
    called = {each.name: each.sent_as for each in schema.columns} if schema else {}
    lineage = {name: [dg.TableColumnDep(origin, called.get(name, name))] for name in copied}
    return {
        "dagster/column_schema": dg.TableSchema(columns=list(columns)),
        "dagster/column_lineage": dg.TableColumnLineage(lineage),
    }


def batch_columns(schema: TableSchema) -> list[dg.TableColumn]:
    """Returns the columns with which a batch was decoded."""
    return [
        _column(each.name, str(each.type), each.comment, each.required, each.name in schema.key)
        for each in schema.columns
    ]


def lake_columns(state: TableState) -> list[dg.TableColumn]:
    """Returns the columns of the lake table."""
    return [
        _column(each.name, each.type, each.comment, each.required, each.name in state.key)
        for each in state.columns
    ]


def _column(name: str, type_: str, comment: str, required: bool, key: bool) -> dg.TableColumn:
    return dg.TableColumn(
        name=name,
        type=type_,
        description=comment or None,
        constraints=dg.TableColumnConstraints(
            nullable=not required, other=["primary key"] if key else []
        ),
    )


def quiet_metadata(committed: OffsetVector, lag: Lag | None) -> Metadata:
    """Returns metadata of a materialization that merged nothing; its zeros keep sums exact."""
    return {
        "records": 0,
        "rows_inserted": 0,
        "rows_updated": 0,
        "rows_deleted": 0,
        **lag_metadata(lag),
        "committed_offsets": dg.MetadataValue.text(committed.to_json()),
    }


def materialization(
    key: dg.AssetKey, partition: str, metadata: Mapping[str, Any], snapshot_id: int | None
) -> dg.AssetMaterialization:
    """Returns a materialization; the snapshot is its data version."""
    tags = {DATA_VERSION_TAG: str(snapshot_id)} if snapshot_id is not None else None
    return dg.AssetMaterialization(key, partition=partition, metadata=metadata, tags=tags)
