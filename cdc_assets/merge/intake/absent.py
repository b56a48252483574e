"""Decides about columns missing from records, so that none is silently overwritten with NULL.

A record's row image holds every column that the source publishes, so an absent column was dropped,
is not published (any more), or was added later than the record. Only the last is harmless, and
only the first changes the source's rows. In this order:

1. dropped, according to the database's catalog, or named under ``absent_columns``: marked in the
   table's schema; its values are emptied in the rows that change from now on. A column that the
   catalog has under another name is not dropped, though no record of the batch may have that name;
2. in the catalog, but not published: the table stops;
3. otherwise in doubt until the batch is folded: the table stops if a row would lose a value to a
   newer record without the column (`cdc_assets.merge.guards.lost_values`). Records from before the
   column's addition overwrite no value. Where a statement or the catalog would have shown a drop of
   the column, the table also stops at a record without the column that is newer than a record of
   any row with a value for it: the newer record is not a whole row, and merging it would store NULL
   in place of the source's value.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from cdc_assets.changes.mode import Mode
from cdc_assets.errors import TerminalError
from cdc_assets.merge.intake.decoding import Doubt
from cdc_assets.merge.intake.describe import TypeSource
from cdc_assets.merge.intake.layouts import LakeTables
from cdc_assets.merge.plan.plan import BatchPlan
from cdc_assets.schema.types import TableSchema

_log = logging.getLogger(__name__)
ACCEPT: Final = "name it under tables.<schema.table>.absent_columns to have it emptied"


@dataclass(frozen=True, slots=True)
class AbsentColumns:
    """The decision about the absent columns of one table's batch."""

    types: TypeSource
    tables: LakeTables

    def decide(self, plan: BatchPlan, names: Sequence[str]) -> tuple[TableSchema, Doubt | None]:
        """Returns the table's schema with the facts about these columns, and the remaining doubt.

        Args:
            plan: of the batch whose records lack them.
            names: the columns.

        Raises:
            TerminalError: if the source still has one of them and does not publish it.
        """
        schema = plan.schema
        called = {schema.column(name).sent_as: name for name in names}
        numbers = {sent: schema.column(name).identity.number for sent, name in called.items()}
        verdict = self.types.answers.absence(plan.entry, numbers)
        if verdict.unpublished:
            raise _not_published(plan, verdict.unpublished)
        dropped, given_up = (
            [called[each] for each in n] for n in (verdict.dropped, verdict.given_up)
        )
        gone = (*given_up, *dropped)
        if gone:
            _log.warning(
                "table=%s: records lack %s, which the source dropped or the configuration gives "
                "up: emptied in the rows that change", plan.entry.table, ", ".join(gone),
            )  # fmt: skip
        doubtful = tuple(schema.column(name) for name in names if name not in gone)
        # Without a key, or in a changelog, no row is written twice, so none can lose a value.
        is_doubtful = bool(doubtful and schema.key and plan.mode is not Mode.CHANGELOG)
        are_sent = self.types.sends_columns(plan.entry, plan.layout, is_known=verdict.is_known)
        doubt = Doubt(doubtful, verdict.is_known, are_sent) if is_doubtful else None
        return self.tables.with_absent(schema, dropped, given_up, plan.state), doubt


def _not_published(plan: BatchPlan, columns: dict[str, str]) -> TerminalError:
    reasons = "; ".join(f"column {name}: {why}" for name, why in columns.items())
    what = f"columns of the table are missing from records: {reasons}"
    remedy = (
        "rebuild the table, which omits the column unless it is published by then (ALTER "
        "PUBLICATION … SET (publish_generated_columns = stored), or the column list); or "
        f"{ACCEPT}"
    )
    return TerminalError(what, where=plan.where, remedy=remedy, page="columns-missing")
