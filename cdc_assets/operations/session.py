"""Opens the means of an operation on one table, each when it is first asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING

from cdc_assets.config import ReplicationConfig
from cdc_assets.operate.services import Clock, Services
from cdc_assets.operations.lease import Lease
from cdc_assets.registry import TableEntry

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from cdc_assets.lake import Lake
    from cdc_assets.log.kafka import KafkaLog
    from cdc_assets.merge import Replicator
    from cdc_assets.merge.attempt import Attempts, Connections
    from cdc_assets.merge.intake.planning import Planner
    from cdc_assets.merge.verifying.report import ComparisonReport


def _nothing() -> None:
    """Does nothing."""


def _never() -> bool:
    return False


def _none(*_: object) -> Iterator[str]:
    yield from ()


@dataclass(frozen=True, slots=True)
class SourceCheck:
    """The result of comparing a table with its source.

    Attributes:
        text: the result for people.
        is_equal: whether nothing differs; also if the table could not be compared.
    """

    text: str
    is_equal: bool


@dataclass(frozen=True, slots=True)
class Host:
    """The process in which an operation works: a command's, a job's run, or an asset's step.

    Attributes:
        run_id: recorded with publishes and requests.
        spark: returns the Spark session; opens one if there is none.
        forget_spark: gives the session up; the next use opens a new one.
        is_wanted: returns whether another run waits for the tables.
        hand_over: asks runs that stay with these tables to end, and returns what could not be
            done, for people; empty if all was.
        check_source: compares a table with its source, reports progress to the function given, and
            records the result as the table's check; returns None if the source has no database.
        require_runs_seen: requires that no unseen run is at work; yields warnings.
        wait_for_runs: waits until no other run works on a table; yields messages.
        on_compared: receives the comparison of a table with its source.
        job: the name of the job; empty in a command.
    """

    run_id: str
    spark: Callable[[], SparkSession]
    forget_spark: Callable[[], None] = _nothing
    is_wanted: Callable[[], bool] = _never
    hand_over: Callable[[Sequence[TableEntry]], str] = lambda _: ""
    check_source: Callable[[TableEntry, Callable[[str], None]], SourceCheck | None] = lambda *_: (
        None
    )
    require_runs_seen: Callable[[], Iterator[str]] = _none
    wait_for_runs: Callable[[TableEntry], Iterator[str]] = _none
    on_compared: Callable[[TableEntry, ComparisonReport], None] = lambda *_: None
    job: str = ""

    def recorded(self, command: str) -> str:
        """Returns the id that publishes record: the job's run, or else the command with an id."""
        return self.run_id if self.job else f"{command}-{self.run_id}"

    def author(self, command: str) -> str:
        """Returns the author of a directive: the job and its run, or else the command."""
        return f"{self.job} {self.run_id}" if self.job else command


class TableSession:
    """The means of an operation on one table. Made once, and passed; a context manager.

    The services and the Spark session are shared with the operation's other tables.

    Args:
        services: the log, the lake, the registry and the directives.
        tables: the table; or all that are merged into its lake table, the first of which counts.
        host: the process.
        say: receives messages about the progress within a step.
    """

    def __init__(
        self,
        services: Services,
        tables: Sequence[TableEntry],
        host: Host,
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.services, self.tables, self.host, self.say = services, tuple(tables), host, say
        self.entry = self.tables[0]

    def __enter__(self) -> TableSession:
        """Returns itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        """Lets other writers continue; gives up the Spark session if it may be what failed."""
        if isinstance(error, Exception):
            self.host.forget_spark()
        if "lease" in self.__dict__:
            self.lease.clear()

    @property
    def config(self) -> ReplicationConfig:
        """The configuration."""
        return self.services.config

    @property
    def clock(self) -> Clock:
        """The wall clock, aware."""
        return self.services.clock

    @property
    def lake(self) -> Lake:
        """The Iceberg catalog."""
        return self.services.lake

    @property
    def log(self) -> KafkaLog:
        """Kafka."""
        return self.services.log

    @property
    def where(self) -> str:
        """The table's coordinates, for errors."""
        return f"table={self.entry.table} lake={self.entry.target}"

    def spark(self) -> SparkSession:
        """Returns the Spark session; opens one if there is none."""
        return self.host.spark()

    @cached_property
    def lease(self) -> Lease:
        """Requests by which other writers of the table wait."""
        return Lease(self.services, self.entry.table, self.host.run_id)

    @cached_property
    def connections(self) -> Connections:
        """The connections over which batches are planned and read."""
        from cdc_assets.merge.attempt import Connections

        return Connections.of(self.config, self.log, self.lake)

    @cached_property
    def attempts(self) -> Attempts:
        """The maker of attempts at batches."""
        from cdc_assets.merge.attempt import Attempts

        return Attempts(self.config, self.connections, self.spark, self.clock)

    @property
    def planner(self) -> Planner:
        """The planner of batches."""
        return self.attempts.planner

    @cached_property
    def replicator(self) -> Replicator:
        """The replicator that merges batches of the table."""
        from cdc_assets.merge import Replicator

        return Replicator(self.config, self.spark, clock=self.clock, connections=self.connections)
