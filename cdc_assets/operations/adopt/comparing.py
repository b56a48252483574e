"""Compares a table with its source by ranges of keys, and puts right the rows that differ.

Nobody else writes to the table meanwhile. So a range whose checksum equals the source's has the
source's rows of one moment, and none of them is read. Of the other ranges the source's rows are
read, each as of one moment, and put in the place of the lake's that differ.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from cdc_assets.databases.rows import SourceRows
from cdc_assets.databases.statements import Range
from cdc_assets.effects import effect
from cdc_assets.errors import TerminalError
from cdc_assets.merge.plan.plan import BatchPlan
from cdc_assets.merge.statements.failures import translated
from cdc_assets.merge.verifying.narrowing import ComparedRanges, Sizes, compared_ranges
from cdc_assets.merge.verifying.pace import Pace
from cdc_assets.merge.verifying.putting import Putting
from cdc_assets.operations.resnapshot.comparing import KeyState, compare
from cdc_assets.operations.resnapshot.reading import read, require_sound
from cdc_assets.operations.session import TableSession

_RANGES_OF_A_PART: Final = 16
"""Most ranges of keys that one statement reads."""

Part = Sequence[Range]
"""Ranges of keys that one statement reads, ascending."""


@dataclass(frozen=True, slots=True)
class TableComparison:
    """The comparison of a table that nobody else writes to.

    Attributes:
        session: the means, and the table.
        putting: the table's rows in the lake, and their replacement.
        source: the table's rows at the source.
        position: of the rows that are put, hexadecimal: below every change.
        plan: returns a plan on the present head of the table.
        say: receives messages about progress.
    """

    session: TableSession
    putting: Putting
    source: SourceRows
    position: str
    plan: Callable[[], BatchPlan]
    say: Callable[[str], None]

    def waves(self) -> Iterator[Sequence[Part]]:
        """Yields the parts of each wave; those of one wave are read at once.

        Raises:
            CdcError: if a part does not answer.
        """
        said = self.session.config.source(self.session.entry.table.source)
        sizes = Sizes(said.verify.bucket_rows, said.verify.chunk_rows, said.verify.most_keys)
        pace = Pace(said.verify.rows_per_second)
        found = compared_ranges(self.source, self.putting.rows(self.plan()), sizes, pace, self.say)
        parts = tuple(_parts(self.source, found, said.resnapshot.chunk_rows))
        self.say(f"{found.rows:,} rows compared by checksum")
        at_once = said.resnapshot.parallel
        yield from (parts[n : n + at_once] for n in range(0, len(parts), at_once))

    def put(self, parts: Sequence[Part]) -> Counter[KeyState]:
        """Reads a wave, and puts its rows where the lake's differ, by one publish.

        Returns:
            The number of keys by their state before.

        Raises:
            TerminalError: if the lake cannot hold a value.
            ConflictError: if another writer came first.
            CdcError: as for any batch; nothing was published, or all of it.
        """
        where, reading = self.session.where, self.source.reading()
        within = [each for part in parts for each in part]
        with effect("source: read a wave"), reading.parts(parts) as wave:
            rows = read(self.putting.lakes.spark(), wave, where)
        require_sound(rows, self.source.comparison, within, where)
        plan = self.plan()
        lake = self.putting.rows(plan).among(within)
        with translated("compare rows", where):
            found = compare(
                rows, lake, self.source.comparison, self.position, omitted=(), most=0
            )  # fmt: skip
        if unable := found.counts.get(KeyState.UNABLE):
            what = f"{unable} rows have a value that the lake's type cannot hold"
            remedy = "give the columns wider types (tables.<schema.table>.columns)"
            raise TerminalError(what, where=where, remedy=remedy)
        if found.to_put:
            with translated("put rows in their places", where):
                self.putting.put(plan, lake, found.differing, found.to_put, self.position)
        return Counter({KeyState(state): count for state, count in found.counts.items()})


def _parts(source: SourceRows, found: ComparedRanges, most: int) -> Iterator[Part]:
    """Yields the parts with the rows of all ranges that differ.

    Args:
        source: asked for keys within ranges that are too long for one part.
        found: the ranges.
        most: about how many rows of the source a part may have.
    """
    part, rows = list[Range](), 0
    for number in found.differing:
        count = found.rows_in(number)
        for each in _cut(source, found.of(range(number, number + 1)), count, most):
            share = min(count, most)
            if part and (rows + share > most or len(part) == _RANGES_OF_A_PART):
                yield tuple(part)
                part, rows = [], 0
            is_next = bool(part) and part[-1].end == each.start
            part.append(Range(part.pop().start, each.end) if is_next else each)
            rows += share
    if part:
        yield tuple(part)


def _cut(source: SourceRows, within: Range, rows: int, most: int) -> Iterator[Range]:
    """Yields a range in pieces of about so many of the source's rows; the last one has up to two.

    Rows that were deleted since they were counted leave fewer pieces.
    """
    pieces = rows // most
    bounds = source.bounds(within, most, pieces - 1) if pieces > 1 else ()
    start = within.start
    for bound in bounds:
        yield Range(start, bound)
        start = bound
    yield Range(start, within.end)
