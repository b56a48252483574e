"""Sends the statements of upkeep to Spark, each again if another writer came first."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql import SparkSession

from cdc_assets.changes.names import LakeName
from cdc_assets.changes.upkeep import Task
from cdc_assets.effects import effect
from cdc_assets.errors import ConflictError
from cdc_assets.merge.statements.deadline import Limits, Steps, Watch

_TRIES: Final = 3
"""Number of conflicts with other writers after which a step is left for the next time."""


_UNBOUNDED: Final = Limits(7 * 24 * 3600, 7 * 24 * 3600)
"""Seconds for a statement that works for as long as a table is large."""


@dataclass(frozen=True, slots=True)
class UpkeepStep:
    """One completed step.

    Attributes:
        name: of the table.
        task: its kind.
        seconds: its duration.
        counts: Iceberg's figures about it, such as ``rewritten_data_files_count``.
        left: why it was left out, for people; empty if it was not.
    """

    name: LakeName
    task: Task
    seconds: float
    counts: Mapping[str, int]
    left: str = ""


class UpkeepStatements:
    """Sends statements, with the deadlines of a batch's.

    Args:
        session: returns the Spark session; called when the first statement is sent.
        deadlines: for each.
    """

    def __init__(self, session: Callable[[], SparkSession], deadlines: Limits) -> None:
        self._session, self._deadlines = session, deadlines

    def run(
        self, name: LakeName, task: Task, statement: str, *, is_bounded: bool = True
    ) -> UpkeepStep:
        """Runs one statement, again if another writer came first.

        Args:
            name: of the table.
            task: its kind.
            statement: the text.
            is_bounded: whether the deadlines hold.

        Raises:
            CdcError: if it fails.
        """
        where = f"lake={name}"
        watch = Watch(self._session, self._deadlines if is_bounded else _UNBOUNDED)
        for tries in range(1, _TRIES + 1):
            begun = time.monotonic()
            try:
                with Steps(where, watch).step(task.value), effect(f"spark: {task.value}"):
                    rows = self._spark().sql(statement).collect()
            except ConflictError:
                if tries == _TRIES:
                    raise
                continue
            return UpkeepStep(name, task, time.monotonic() - begun, _counts(rows))
        raise AssertionError  # pragma: no cover - the last try returns or raises

    def _spark(self) -> SparkSession:
        """Returns the session, with UTC as the time zone of statements."""
        session = self._session()
        session.conf.set("spark.sql.session.timeZone", "UTC")
        return session


def _counts(rows: Sequence[Any]) -> dict[str, int]:
    """Returns the figures in a procedure's one row; if there are other rows, their number."""
    if len(rows) != 1:
        return {"files": len(rows)} if rows else {}
    return {name: n for name, n in rows[0].asDict().items() if isinstance(n, int)}
