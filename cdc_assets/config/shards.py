"""Configures the merging of several tables of one shape into one: shards of a database."""

from __future__ import annotations

import re

from pydantic import Field, field_validator, model_validator

from cdc_assets.changes.lake_names import stored_lake_name, stored_value
from cdc_assets.changes.names import LakeName, Shard, TableName
from cdc_assets.config.strict import Strict, require_pattern
from cdc_assets.config.target import TABLE_FIELDS, fields_of, require_fields


class MergeIntoConfig(Strict):
    r"""The tables that are merged into one, and the column that distinguishes their rows.

    ``tables`` is a regular expression over ``schema.table``. The others but ``shard_column`` are
    templates: fields ``{source}``, ``{schema}``, ``{table}``, and the groups that ``tables`` names:
    ``shop_(?P<number>\d+)\..*`` gives ``{number}``. ``shard_column`` is the first column of the
    lake table and of its key; it holds ``shard``.
    """

    tables: str = Field(min_length=1)
    namespace: str = Field(min_length=1)
    table: str = Field(default="{table}", min_length=1)
    shard: str = Field(default="{source}.{schema}.{table}", min_length=1)
    shard_column: str = Field(default="shard", min_length=1)

    @field_validator("tables")
    @classmethod
    def _compiles(cls, pattern: str) -> str:
        require_pattern(pattern, r"for all tables of shop_1, shop_2, … write 'shop_\d+\..*'")
        return pattern

    @model_validator(mode="after")
    def _known_fields(self) -> MergeIntoConfig:
        known = (*TABLE_FIELDS, *re.compile(self.tables).groupindex)
        for name in ("namespace", "table", "shard"):
            require_fields(getattr(self, name), known, f"merge_into.{name}: ")
        return self

    def matches(self, table: TableName) -> bool:
        """Returns whether a table is one of them."""
        return re.fullmatch(self.tables, table.qualified) is not None

    def lake_name(self, table: TableName) -> LakeName:
        """Returns the lake table that it is merged into."""
        return stored_lake_name(
            self._filled(self.namespace, table), self._filled(self.table, table)
        )

    def shard_of(self, table: TableName) -> Shard:
        """Returns the shard that distinguishes its rows from those of the others.

        A value that cannot name a folder is substituted, see `cdc_assets.changes.lake_names`.
        """
        return Shard(self.shard_column, stored_value(self._filled(self.shard, table)))

    def _filled(self, template: str, table: TableName) -> str:
        """Fills in a template with the fields of a matching table."""
        match = re.fullmatch(self.tables, table.qualified)
        groups = {name: text or "" for name, text in (match.groupdict() if match else {}).items()}
        return template.format_map({**groups, **fields_of(table)})
