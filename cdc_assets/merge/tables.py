"""Creating and changing the lake's tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyspark.sql import SparkSession

from cdc_assets.changes.position import Scheme
from cdc_assets.config import ReplicationConfig
from cdc_assets.errors import TerminalError
from cdc_assets.lake import TableState
from cdc_assets.merge import sql
from cdc_assets.merge.describe import FirstSchema, RecordLayout, TypeSource
from cdc_assets.merge.failures import translated
from cdc_assets.merge.ledger import Ledger
from cdc_assets.merge.tombstones import Tombstones
from cdc_assets.registry import TableEntry
from cdc_assets.schema.evolution import Evolution, evolution, evolved
from cdc_assets.schema.stored import from_json, to_json
from cdc_assets.schema.types import TableSchema

_SCHEMA: Final = "cdc-assets.schema"
_INLINE: Final = "cdc-assets.inline-schema"
_KEYED: Final = "cdc-assets.keyed-by-record"
_SPLIT: Final = "cdc-assets.key-changes-in-updates"
_SCHEME: Final = "cdc-assets.positions"
_DELETES: Final = "cdc-assets.deletes"
_MERGE_ON_READ: Final = {
    "write.delete.mode": "merge-on-read",
    "write.update.mode": "merge-on-read",
    "write.merge.mode": "merge-on-read",
    "write.distribution-mode": "none",  # batches arrive hashed by key; no second shuffle
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "50",
}


class LakeTables:
    """The lake table of one source table."""

    def __init__(
        self, config: ReplicationConfig, spark: SparkSession, types: TypeSource, entry: TableEntry
    ) -> None:
        self._lake = config.lake
        source = config.source(entry.table.source)
        self._mode = source.schema_changes
        self._deletes = source.overrides(entry.table).deletes
        self._spark = spark
        self._types = types
        self._entry = entry

    def create(self) -> FirstSchema:
        """Make namespace, table, identifier fields and the side table of deletes or events."""
        first = self._types.first_schema(self._entry)
        schema = first.schema
        catalog, target = self._lake.catalog.name, self._entry.target
        with translated("create table", f"table={self._entry.table} lake={target}"):
            self._spark.sql(sql.create_namespace(catalog, target))
            own = sql.OWN_COLUMNS | (sql.SOFT_DELETE_COLUMNS if self._deletes == "soft" else {})
            properties = self._properties(first)
            self._spark.sql(sql.create_table(catalog, target, schema, own, properties))
            if schema.key:
                self._spark.sql(sql.set_identifier(catalog, target, schema.key))
                Tombstones(self._spark, catalog, target, schema).create()
            else:
                Ledger(self._spark, catalog, target).create()
        return first

    def stored(self, state: TableState) -> FirstSchema:
        """What `create` recorded with the table.

        Raises:
            TerminalError: if the table does not say how its records are to be decoded, or the
                configuration wants other deletes than it was made with.
        """
        said = state.properties
        text = said.get(_SCHEMA)
        if text is None:
            what = "the lake table does not say how its records are decoded: it is not ours"
            remedy = "drop it, or give this table another target in the configuration"
            raise TerminalError(
                what, where=f"table={self._entry.table} lake={state.name}", remedy=remedy
            )
        if said[_DELETES] != self._deletes:
            what = f"the table was made with deletes: {said[_DELETES]}, which cannot be changed"
            remedy = f"configure deletes: {said[_DELETES]}, or re-create the table"
            raise TerminalError(what, where=f"table={self._entry.table}", remedy=remedy)
        layout = RecordLayout(
            inline=said[_INLINE] == "true",
            keyed=said[_KEYED] == "true",
            split_keys=said[_SPLIT] == "true",
            scheme=Scheme(said[_SCHEME]),
        )
        return FirstSchema(from_json(text), layout)

    def evolve(self, table: TableSchema, records: Sequence[TableSchema]) -> TableSchema:
        """Change the table so that it holds what these records have.

        Raises:
            TerminalError: if that would lose something, or the configuration forbids changes.
        """
        plans: list[Evolution] = []
        for record in records:
            plans.append(evolution(table, record))
            table = evolved(table, plans[-1])
        for plan in plans:
            self._require_allowed(plan)
        if any(not plan.is_empty for plan in plans):
            self._execute(plans, table)
        return table

    def _execute(self, plans: Sequence[Evolution], schema: TableSchema) -> None:
        catalog, target = self._lake.catalog.name, self._entry.target
        with translated("change columns", f"table={self._entry.table} lake={target}"):
            for plan in plans:
                if plan.added:
                    self._spark.sql(sql.add_columns(catalog, target, plan.added))
                for column in plan.widened:
                    self._spark.sql(sql.widen_column(catalog, target, column))
            self._spark.sql(sql.set_properties(catalog, target, {_SCHEMA: to_json(schema)}))

    def _require_allowed(self, plan: Evolution) -> None:
        if plan.is_empty or (self._mode == "evolve" and not plan.incompatible):
            return
        what = f"the source's columns have changed: {plan.describe()}"
        remedy = "re-create the table from a new snapshot, or set schema_changes: evolve if it fits"
        raise TerminalError(what, where=f"table={self._entry.table}", remedy=remedy)

    def _properties(self, first: FirstSchema) -> dict[str, str]:
        table = self._entry.table
        return {
            **_MERGE_ON_READ,
            "format-version": str(self._lake.format_version),
            "cdc-assets.source": table.source,
            "cdc-assets.source-table": table.qualified,
            "cdc-assets.topic": self._entry.topic,
            _SCHEMA: to_json(first.schema),
            _INLINE: str(first.layout.inline).lower(),
            _KEYED: str(first.layout.keyed).lower(),
            _SPLIT: str(first.layout.split_keys).lower(),
            _SCHEME: first.layout.scheme.value,
            _DELETES: self._deletes,
        }
