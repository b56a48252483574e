"""Reading one table again, wave after wave, until each of its keys is put right."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime

from pyspark.sql import SparkSession

from cdc_assets.changes.mode import Mode
from cdc_assets.config import ReplicationConfig
from cdc_assets.databases.rows import SourceRows
from cdc_assets.errors import ConfigError, TerminalError
from cdc_assets.lake.at_source import AtSource
from cdc_assets.merge.attempt import Attempts, Connections
from cdc_assets.merge.replicate import utc_now
from cdc_assets.merge.resnapshot.comparing import State
from cdc_assets.merge.resnapshot.one_by_one import put_right
from cdc_assets.merge.resnapshot.progress import MOST, Progress
from cdc_assets.merge.resnapshot.report import Report
from cdc_assets.merge.resnapshot.wave import Sizes, Waves
from cdc_assets.merge.verifying.pace import Pace
from cdc_assets.merge.verifying.proof import Proof
from cdc_assets.merge.verifying.putting import Lakes
from cdc_assets.merge.verifying.repair import generation_of
from cdc_assets.merge.verifying.verification import Verification
from cdc_assets.merge.verifying.way import NO_WAY, Way
from cdc_assets.registry import TableEntry

Say = Callable[[str], None]
Keep = Callable[[Progress], None]


@dataclass(frozen=True, slots=True)
class Intention:
    """The intended reading of a table.

    Attributes:
        rows: about how many there are at the source.
        begun: what was done before; None to begin.
        words: says it.
    """

    rows: int
    begun: Progress | None
    words: str


class Resnapshot:
    """Reads tables of one configuration again, with one Spark session.

    Args:
        config: the configuration.
        spark: gives the session.
        run_id: recorded with each publish.
        say: told of progress.
        way: has others wait, so that a publish comes through.
        clock: wall clock.
    """

    def __init__(
        self,
        config: ReplicationConfig,
        spark: Callable[[], SparkSession],
        run_id: str,
        *,
        say: Say = lambda _: None,
        way: Way = NO_WAY,
        clock: Callable[[], datetime] = utc_now,
    ) -> None:
        connections = Connections.of(config)
        attempts = Attempts(config, connections, spark, clock)
        self._config = config
        self._lakes = Lakes(
            attempts.session, config.lake.catalog.name, connections.lake, attempts.planner
        )
        self._verification = Verification(attempts, run_id, say=say, way=way)
        self._run_id = run_id
        self._say = say
        self._way = way
        self._clock = clock

    def intention(self, entry: TableEntry, begun: Progress | None) -> Intention:
        """Returns what `of` would do; changes nothing.

        Raises:
            CdcError: if the table cannot be read again.
        """
        with self._opened(entry) as waves:
            begun = self._still(begun, entry, waves)
            said, rows = (
                self._config.source(entry.table.source).resnapshot,
                waves.reading.estimate(),
            )
            at_once = said.chunk_rows * said.parallel
            goes_on = f" goes on after {begun.waves} waves;" if begun else ""
            left_out = ", ".join(each.name for each in waves.source.comparison.left_out)
            words = (
                f"would read about {rows:,} rows again,{goes_on} {said.parallel} parts of "
                f"{said.chunk_rows:,} rows at once, about {max(1, -(-rows // at_once))} waves; put "
                "in what differs, and remove what the source no longer has"
                + (f"; columns that are not read: {left_out}" if left_out else "")
            )
            return Intention(rows, begun, words)

    def of(self, entry: TableEntry, begun: Progress | None, keep: Keep) -> Report:
        """Reads a table again, or goes on with it.

        Args:
            entry: the table.
            begun: what was kept; None to begin.
            keep: called after each wave but the last one, with what to go on with.

        Raises:
            CdcError: if a part does not answer, or the table cannot be read again; what was put
                right before stays so.
        """
        self._way.require_free()
        said = self._config.source(entry.table.source)
        pace = Pace(said.resnapshot.rows_per_second)
        with self._opened(entry) as waves:
            progress = self._still(begun, entry, waves) or self._begin(waves)
            while True:
                since, began = progress.rows, pace.clock()
                with pace.step("waves"):
                    wave = waves.wave(progress.next)
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

    def _ended(self, waves: Waves, progress: Progress, pace: Pace) -> Report:
        looks = self._config.source(waves.entry.table.source).verify.looks
        of = (self._verification, waves.entry, waves.source)
        settled = put_right(*of, progress.doubtful, looks, self._say)
        report = Report(
            table=waves.entry.table,
            progress=progress,
            looked_at=settled.put,
            left=progress.unnamed + settled.left,
            unable=progress.counts.get(State.UNABLE, 0),
            left_out=waves.source.comparison.left_out,
            seconds=pace.seconds,
        )
        if not (report.left or report.unable):
            proof = Proof.of_known(self._lakes.lake, waves.entry, progress.in_doubt)
            uncompared = waves.source.comparison.unread
            proof.record(self._lakes.lake, self._lakes.spark, self._lakes.catalog, uncompared)
        return report

    def _begin(self, waves: Waves) -> Progress:
        plan = waves.plan()
        known = AtSource.of(plan.state, waves.entry.shard_value).silent
        in_doubt = tuple(each.id for each in known)
        key, generation = tuple(plan.schema.key), generation_of(plan)
        return Progress(self._clock(), key, generation, in_doubt=in_doubt)

    def _still(self, begun: Progress | None, entry: TableEntry, waves: Waves) -> Progress | None:
        """Returns the kept progress if the table still has what was done then."""
        if begun is None:
            return None
        plan = waves.plan()
        is_same = (begun.key, begun.generation) == (tuple(plan.schema.key), generation_of(plan))
        lake = self._lakes.lake
        if is_same and (not begun.attempt or lake.has_attempt(entry.target, begun.attempt)):
            return begun
        self._say("the table was built anew or taken back since: beginning again")
        return None

    @contextmanager
    def _opened(self, entry: TableEntry) -> Iterator[Waves]:
        said, where = self._config.source(entry.table.source), f"table={entry.table}"
        if said.mode_of(entry.table) is not Mode.MIRROR:
            what = "its lake table has the source's changes, not its rows"
            raise ConfigError(what, where=where, remedy="leave it out")
        plan = self._verification.plan(entry)
        source = self._verification.source(entry, plan.schema)
        try:
            require_key(source, where)
            yield Waves(
                self._verification,
                self._lakes,
                entry,
                source,
                source.reading(),
                Sizes(said.resnapshot.chunk_rows, said.resnapshot.parallel, MOST),
                self._run_id,
                self._clock,
                self._say,
                self._way,
                generation_of(plan),
            )
        finally:
            source.close()


def require_key(source: SourceRows, where: str) -> None:
    """Rows must be told apart by a key that is read.

    Raises:
        TerminalError: if they are not.
    """
    if not source.comparison.key:
        what = (
            "rows cannot be told apart by its key, of which a column is not read"
            if source.comparison.is_keyed
            else "the table has no key"
        )
        remedy = "have the connector make a snapshot, and: cdc-assets rebuild --from-snapshot"
        raise TerminalError(what, where=where, remedy=remedy)
