"""Configures how replication is assessed before and while it runs."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import Field, field_validator

from cdc_assets.config.strict import Strict, did_you_mean, refuse

FINDINGS: Final = frozenset({
    "append_time", "binlog_off", "binlog_retention", "binlog_row_metadata", "binlog_rows",
    "by_partition", "catalog", "catalog_branches", "catalog_conflicts", "catalog_snapshots",
    "catalog_version", "changes_filtered", "changes_skipped", "clock", "columns_left_out",
    "compacted", "condition_unfit", "connect", "connector_missing", "connector_state",
    "connector_unseen",
    "connector_user", "connector_user_unseen", "conversion_failures", "converter_differs",
    "cut_tags", "database", "decimals_as_double", "deletes_dropped", "dirty_snapshot",
    "errors_tolerated", "events_skipped", "gtid", "heartbeat", "history_without_key", "iceberg",
    "jdbc_driver", "kafka", "kafka_login", "large_records_stop", "lobs_left_out", "log_begins_late",
    "modes_differ", "no_row_identity", "no_cuts", "no_transactions", "nulls_replaced",
    "nulls_unseen", "numbers_stop", "partial_updates",
    "partitions_added", "placeholder_differs", "plaintext_login", "publication_autocreate",
    "publication_missing",
    "publication_operations", "reader_deletes", "reader_version", "records_without_key",
    "refused_column", "refused_table", "registry",
    "remembered_deletes", "retention", "retention_bytes", "row_filter", "rows_chosen_otherwise",
    "s3_tables",
    "schema_changes_off",
    "server_id", "signals_unanswered", "silent_cascades", "silent_unlogged", "slot_dropped",
    "slot_holds_wal", "slot_idle", "slot_lost",
    "slot_missing", "snapshot_filtered", "snapshot_mode", "spark", "spark_namespaces",
    "spark_tables", "statements_skipped", "stored_as_text", "table_gone", "table_not_published",
    "table_unknown", "tables_unseen", "times_cut", "topic_missing", "topic_settings",
    "transactions_dropped", "transformations", "truncates_skipped", "types_guessed", "unlogged",
    "unpublished_column", "unsigned_as_long", "updates_looked_up", "values_left_alone",
    "values_not_convertible",
    "values_out_of_range", "values_unseen", "wal_level", "warehouse", "years_moved", "years_stop",
})  # fmt: skip
"""The names of all findings."""

Names = Annotated[tuple[str, ...], Field(strict=False)]


class AssessConfig(Strict):
    """Settings for the sensor `assess`, which looks at all parts, and for the command.

    Attributes:
        every_minutes: minutes between two looks of the sensor.
        rows: maximum number of a table's rows searched for values that cannot arrive.
    """

    every_minutes: float = Field(default=15, ge=1)
    rows: int = Field(default=100_000, ge=1)


class SourceAssessConfig(Strict):
    """The accepted findings of a source: findings of these names count for nothing.

    Attributes:
        accept: names of accepted findings: they neither count nor stop a first batch.
    """

    accept: Names = ()

    @field_validator("accept")
    @classmethod
    def _known(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        for name in names:
            if name not in FINDINGS:
                what = f"{name!r} is not a finding of assess"
                raise refuse(what, did_you_mean(name, FINDINGS))
        return names
