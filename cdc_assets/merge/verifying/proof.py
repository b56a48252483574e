"""Ends the doubt about a table's rows, once all of them were compared with the source.

1. Before a row is looked at, the silent changes that the lake table remembers are noted, and the
   catalog is looked at.
2. All rows are compared, and put right. Each row is right at a moment after 1.
3. The changes noted in 1 are recorded as proven. One that was found since stays: its rows may have
   been compared before it happened.

See `cdc_assets.schema.silent`.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from cdc_assets.config import SourceConfig
from cdc_assets.effects import effect
from cdc_assets.lake import Lake
from cdc_assets.lake.at_source import AtSource
from cdc_assets.merge.intake.unlogged_changes import look_at
from cdc_assets.merge.statements import sql
from cdc_assets.merge.statements.failures import translated
from cdc_assets.merge.verifying.putting import Lakes
from cdc_assets.registry import TableEntry
from cdc_assets.schema.silent import CatalogLook


@dataclass(frozen=True, slots=True)
class Proof:
    """What was known of a table before its rows were looked at.

    Attributes:
        entry: the table.
        before: the state that its lake table remembered.
        look: at the catalog; None if there is none.
    """

    entry: TableEntry
    before: AtSource
    look: CatalogLook | None

    @classmethod
    def begun(cls, lake: Lake, source: SourceConfig, entry: TableEntry) -> Proof:
        """Notes what is known now.

        Raises:
            CdcError: if the lake or the database does not answer.
        """
        before = AtSource.of(lake.state(entry.target, entry.shard_value), entry.shard_value)
        return cls(entry, before, look_at(source, entry))

    @classmethod
    def of_known(cls, lake: Lake, entry: TableEntry, ids: Collection[str]) -> Proof:
        """Returns the proof of a reading whose beginning an earlier process may have noted.

        Args:
            lake: has the table.
            entry: the table.
            ids: of the silent changes that were known then.
        """
        now = AtSource.of(lake.state(entry.target, entry.shard_value), entry.shard_value)
        known = tuple(each for each in now.silent if each.id in ids)
        return cls(entry, replace(now, silent=known), None)

    def record(self, lakes: Lakes, uncompared: Collection[str]) -> None:
        """Records that all rows were right at some moment since.

        Args:
            lakes: has the table.
            uncompared: columns that were not looked at.

        Raises:
            CdcError: if the lake does not answer.
        """
        name, shard = self.entry.target, self.entry.shard_value
        now = AtSource.of(lakes.lake.state(name, shard), shard)
        said = now.proven_since(self.before, self.look, shard, uncompared)
        if not said:
            return
        where = f"table={self.entry.table} lake={name}"
        with translated("record that rows were compared", where), effect("spark: remember"):
            lakes.spark().sql(sql.set_properties(lakes.catalog, name, said))
