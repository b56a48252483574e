"""Tells columns that only older records have, as the source has dropped them, from renamed ones.

A column that was renamed before anything of it was merged looks like one that was dropped and
another one that was added: its values would be lost. Two names are of two columns if a record has
both; else a person has to say it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from cdc_assets.databases.facts import Facts
from cdc_assets.errors import TerminalError
from cdc_assets.formats.format import Format
from cdc_assets.formats.lacking import texts
from cdc_assets.lake.columns import DROPPED
from cdc_assets.merge.intake.asked import Asked
from cdc_assets.merge.intake.decoding import BatchDecoder
from cdc_assets.merge.plan.plan import BatchPlan
from cdc_assets.merge.statements.failures import translated

_log: Final = logging.getLogger(__name__)
_MOST_SHAPES: Final = 10_000
"""Combinations of columns that are looked at. Should there be more, more columns stay in doubt."""


@dataclass(frozen=True, slots=True)
class PastColumns:
    """The decision about the new columns of one batch.

    Attributes:
        asked: what the source says.
        plan: of the batch.
        format: of its records.
        raw: the records.
        shapes: the columns of each schema of the records; None where they carry none.
    """

    asked: Asked
    plan: BatchPlan
    format: Format
    raw: DataFrame
    shapes: Sequence[Sequence[str]] | None

    def among(self, names: Sequence[str]) -> tuple[str, ...]:
        """Returns those of the new columns that the source has dropped and the lake does not need.

        If records carry their schema, only those that the lake had and dropped; but all if the
        source has dropped a column of the lake too, which might be one of them.

        Raises:
            TerminalError: if one may have been renamed since, so that its values are another
                column's.
        """
        entry = self.plan.entry
        is_asked = names and self.asked.table(entry) is not None
        facts = self.asked.facts(entry) if is_asked else None
        vanished = [name for name in names if facts is not None and name not in facts]
        if facts is None or not vanished:
            return ()
        is_numbered = any(each.number for each in facts.values())
        if is_numbered or self.shapes is None:
            self._require_told(vanished, facts)
        once = self.plan.state.properties if self.plan.state else {}
        past = vanished
        there = {each.number for each in facts.values()}
        is_one_gone = is_numbered and bool(_numbers(self.plan) - there)
        if self.shapes is not None and not is_one_gone:
            past = [name for name in vanished if once.get(DROPPED + name) == "true"]
        for name in past:
            _log.warning("table=%s: %s was dropped at the source", self.plan.entry.table, name)
        return tuple(past)

    def _require_told(self, vanished: Sequence[str], facts: Mapping[str, Facts]) -> None:
        """Checks that what vanished is none of the columns that may have its values.

        Raises:
            TerminalError: if nothing tells, and the configuration does not.
        """
        given_up = self.asked.given_up(self.plan.entry, vanished)
        doubtful = [name for name in vanished if name not in given_up]
        strange = self._strange(facts)
        if not doubtful or not strange:
            return
        shapes = self._shown(doubtful) if self.shapes is None else self.shapes
        apart = [n for n in strange if any(_are_apart(n, each, shapes) for each in doubtful)]
        if apart:
            what = (
                f"the records have {', '.join(doubtful)}, which the database no longer has, and it "
                f"has {', '.join(apart)}: whether that is the same column nothing tells"
            )
            remedy = (
                "what was dropped, name under tables.<schema.table>.absent_columns. If it was "
                "renamed, do so too, and build the table anew once it is merged (cdc-assets "
                "rebuild --from-source, or --from-snapshot)"
            )
            raise TerminalError(what, where=self.plan.where, remedy=remedy)

    def _strange(self, facts: Mapping[str, Facts]) -> list[str]:
        """Returns the columns whose values older records may have under another name.

        Those that the lake has from records are known by their numbers. Where records carry no
        schema it may have one from the catalog alone. A replay takes nothing from a row.
        """
        table = self.plan.schema.of_source
        left_out = {*table.left_out, *self.asked.unpublished(self.plan.entry, [*facts])}
        if self.shapes is None and not self.plan.replay:
            present = self.asked.names(self.plan.entry) or tuple(facts)
            return [name for name in present if name not in left_out]
        known, numbers = {*table.by_any_name, *left_out}, _numbers(self.plan)
        return [n for n, f in facts.items() if n not in known and f.number not in numbers]

    def _shown(self, names: Sequence[str]) -> list[frozenset[str]]:
        """Returns the columns of the records without a schema that have one of these."""
        expected = [each.sent_as for each in self.plan.schema.of_source.columns]
        decoded = BatchDecoder(self.raw, self.plan, self.format).decode({})
        has_one = F.col("reject").isNull() & F.arrays_overlap(F.col("unknown"), texts(names))
        shapes = decoded.where(has_one).select("unknown", "absent").distinct().limit(_MOST_SHAPES)
        with translated("look at the columns of older records", self.plan.where):
            found = shapes.collect()
        return [frozenset({*row["unknown"], *expected} - {*(row["absent"] or ())}) for row in found]


def _numbers(plan: BatchPlan) -> set[int]:
    return {each.identity.number for each in plan.schema.of_source.columns} - {0}


def _are_apart(one: str, other: str, shapes: Iterable[Sequence[str] | frozenset[str]]) -> bool:
    """Returns whether no record shows that two names are of two columns."""
    return not any(one in shape and other in shape for shape in shapes)
