"""Reads one table again with Spark, wave after wave, until each of its keys is put right."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import Any

from cdc_assets.changes.names import TableName
from cdc_assets.changes.publish_kind import PublishKind
from cdc_assets.errors import TransientError
from cdc_assets.lake.at_source import AtSource
from cdc_assets.merge.verifying.pace import Pace
from cdc_assets.merge.verifying.proof import Proof
from cdc_assets.merge.verifying.repair import generation_of
from cdc_assets.merge.verifying.verification import Verification
from cdc_assets.operations.resnapshot.comparing import KeyState
from cdc_assets.operations.resnapshot.notes import MOST, ResnapshotProgress
from cdc_assets.operations.resnapshot.one_by_one import repair_keys
from cdc_assets.operations.resnapshot.reading import require_key, require_mirror
from cdc_assets.operations.resnapshot.wave import Waves, WaveSizes
from cdc_assets.operations.session import TableSession
from cdc_assets.schema.comparing import Uncompared

KeepProgress = Callable[[ResnapshotProgress], None]
"""Stores the progress for a later run."""


@dataclass(frozen=True, slots=True)
class ResnapshotReport:
    """The report on a table that Spark has read again: counts and columns, never a row's value.

    Attributes:
        table: the table.
        progress: the results of its waves.
        looked_at: the number of doubtful keys that were put right one by one.
        left: the number of keys that were not proven: they changed each time, or are too many.
        unable: the number of rows that could not be put.
        left_out: columns that are not read.
        seconds: durations by step.
    """

    table: TableName
    progress: ResnapshotProgress
    looked_at: int = 0
    left: int = 0
    unable: int = 0
    left_out: tuple[Uncompared, ...] = ()
    seconds: Mapping[str, float] = field(default_factory=dict[str, float])

    @property
    def is_whole(self) -> bool:
        """Whether each row is equal to the source's."""
        return not (self.left or self.unable)

    @property
    def removed(self) -> int:
        """The number of rows that the source no longer had."""
        return self.progress.counts.get(KeyState.VANISHED, 0)

    def words(self) -> Iterator[str]:
        """Yields the report for people, most important first."""
        done, counts = self.progress, self.progress.counts
        yield (
            f"{done.rows:,} rows read in {done.waves} waves: {done.put:,} keys put right, "
            f"{self.removed:,} of them removed; {counts.get(KeyState.EQUAL, 0):,} were equal, "
            f"{counts.get(KeyState.NEWER, 0):,} had newer changes"
        )
        if self.looked_at:
            yield f"{self.looked_at:,} keys that changed meanwhile were put right one by one"
        if self.left:
            yield (
                f"{self.left:,} keys changed each time that they were looked at, and a column that "
                "no change has set may be as it was: run it again when they rest"
            )
        if self.unable:
            yield (
                f"{self.unable:,} rows could not be put: the lake cannot hold a value of them, or "
                "they are missing there and the table has columns that are not read"
            )
        for each in self.left_out:
            yield f"column {each.name} was not read: {each.why}"

    def to_dict(self) -> dict[str, Any]:
        """Returns the report for ``--json``."""
        done = self.progress
        return {
            "table": str(self.table),
            "via": "read",
            "whole": self.is_whole,
            "rows": done.rows,
            "waves": done.waves,
            "put_right": done.put + self.looked_at,
            "removed": self.removed,
            "keys": {each.value: done.counts.get(each, 0) for each in KeyState},
            "left": self.left,
            "not_put": self.unable,
            "columns_not_read": {each.name: each.why for each in self.left_out},
            "seconds": {name: round(spent, 3) for name, spent in self.seconds.items()},
        }


class SparkResnapshot:
    """A reading of one table with Spark.

    Args:
        session: the means, and the table.
        say: receives messages about progress.
    """

    def __init__(self, session: TableSession, say: Callable[[str], None] = lambda _: None) -> None:
        self._session, self._entry, self._say = session, session.entry, say
        self._source = session.config.source(session.entry.table.source)
        self._verification = Verification(
            session.attempts, session.host.run_id, say=say, way=session.lease
        )

    def intention(self, begun: ResnapshotProgress | None) -> str:
        """Describes `read`; changes nothing.

        Args:
            begun: the progress of an earlier run; None to begin.

        Raises:
            CdcError: if the table cannot be read again.
        """
        with self._opened() as waves:
            begun = self.continued(begun, waves)
            said, rows = self._source.resnapshot, waves.reading.estimate()
            at_once = said.chunk_rows * said.parallel
            continues = f" continues after {begun.waves} waves;" if begun else ""
            left_out = ", ".join(each.name for each in waves.source.comparison.left_out)
            return (
                f"would read about {rows:,} rows again,{continues} {said.parallel} parts of "
                f"{said.chunk_rows:,} rows at once, about {max(1, -(-rows // at_once))} waves; put "
                "in what differs, and remove what the source no longer has"
                + (f"; columns that are not read: {left_out}" if left_out else "")
            )

    def read(self, begun: ResnapshotProgress | None, keep: KeepProgress) -> ResnapshotReport:
        """Reads the table again, or continues with an earlier run.

        Args:
            begun: the progress of that run; None to begin.
            keep: stores the progress after each wave but the last one.

        Raises:
            CdcError: if a part does not answer, or the table cannot be read again; rows that were
                put right before stay so.
        """
        self._session.lease.require_free()
        pace = Pace(self._source.resnapshot.rows_per_second)
        with self._opened() as waves:
            progress = self.continued(begun, waves) or self._begin(waves)
            while True:
                since, began = progress.rows, pace.clock()
                with pace.step("waves"):
                    wave = waves.wave(progress.next)
                if progress.waves:
                    self._require_kept(progress)
                progress = progress.after(wave)
                self._say(
                    f"wave {progress.waves}: {progress.rows:,} rows read, {progress.put:,} keys put"
                )
                if wave.end is None:
                    break
                keep(progress)
                pace.rest(progress.rows - since, began)
            with pace.step("one by one"):
                return self._ended(waves, progress, pace)

    def _ended(self, waves: Waves, progress: ResnapshotProgress, pace: Pace) -> ResnapshotReport:
        of = (self._verification, self._entry, waves.source)
        settled = repair_keys(*of, progress.doubtful, self._source.verify.looks, self._say)
        self._require_kept(progress)
        report = ResnapshotReport(
            table=self._entry.table,
            progress=progress,
            looked_at=settled.put,
            left=progress.unnamed + settled.left,
            unable=progress.counts.get(KeyState.UNABLE, 0),
            left_out=waves.source.comparison.left_out,
            seconds=pace.seconds,
        )
        if report.is_whole:
            proof = Proof.of_known(self._session.lake, self._entry, progress.silent)
            proof.record(self._verification.lakes, waves.source.comparison.unread)
        return report

    def _begin(self, waves: Waves) -> ResnapshotProgress:
        plan = waves.plan()
        known = AtSource.of(plan.state, self._entry.shard_value).silent
        silent = tuple(each.id for each in known)
        key, generation = tuple(plan.schema.key), generation_of(plan)
        return ResnapshotProgress(self._session.clock(), key, generation, silent=silent)

    def continued(
        self, begun: ResnapshotProgress | None, waves: Waves
    ) -> ResnapshotProgress | None:
        """Returns the progress of an earlier run if the table still has the rows of its waves."""
        if begun is None:
            return None
        plan = waves.plan()
        is_same = (begun.key, begun.generation) == (tuple(plan.schema.key), generation_of(plan))
        if is_same and self._session.lake.has_attempt(self._entry.target, begun.attempt):
            return begun
        self._say("the table was rebuilt, rewound or made again since: beginning again")
        return None

    def _require_kept(self, progress: ResnapshotProgress) -> None:
        """Requires that the rows of the waves so far are not taken back.

        Raises:
            TransientError: if the table was rewound, or made again, in the meantime.
        """
        if self._session.lake.is_taken_back(self._entry.target, progress.attempt):
            what = "the table was rewound or made again since rows were put right"
            remedy = "run the same command again, which begins again"
            raise TransientError(what, where=self._session.where, remedy=remedy)

    @contextmanager
    def _opened(self) -> Iterator[Waves]:
        where, verification = f"table={self._entry.table}", self._verification
        require_mirror(self._session)
        plan, said = verification.plan(self._entry), self._source.resnapshot
        with closing(verification.source(self._entry, plan.schema)) as source:
            require_key(source, where)
            kind = PublishKind.RESNAPSHOT
            yield Waves(
                waits=verification.waits,
                putting=verification.putting(self._entry, source.comparison, kind),
                source=source,
                reading=source.reading(),
                sizes=WaveSizes(said.chunk_rows, said.parallel, MOST),
                say=self._say,
                generation=generation_of(plan),
            )
