"""How much is measured: the goals' own numbers, unless the environment says otherwise."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Scale:
    """Numbers of one benchmark run.

    Attributes:
        rows: of the backlog and of the small table (``ROWS``).
        repeats: measured repetitions after warming up (``REPEATS``).
        table_rows: sizes of the tables that few changes are merged into (``SIZE=large`` adds
            the largest).
        changed_keys: how many, each.
        seconds: how long latencies are measured (``SECONDS``).
        hours: how long memory is looked at (``HOURS``).
        rate: row changes per second meanwhile (``RATE``).
        tables: how many tables are merged side by side (``TABLES``).
        small_rows: rows of each of them.
        rounds: of small batches in all of them (``ROUNDS``).
        small_changes: of each such batch (``CHANGES``).
        publishes: of one table, one after the other (``PUBLISHES``).
        minutes: that they may take; what comes after is left out (``MINUTES``).
        idle_tables: how many tables have nothing new (``IDLE_TABLES``).
        idle_snapshots: snapshots of each of them.
    """

    rows: int = 1_000_000
    repeats: int = 3
    table_rows: tuple[int, ...] = (1_000_000, 10_000_000)
    changed_keys: tuple[int, ...] = (10, 100, 1_000, 10_000)
    seconds: float = 180
    hours: float = 2
    rate: float = 200
    tables: int = 8
    small_rows: int = 20_000
    rounds: int = 8
    small_changes: int = 100
    publishes: int = 400
    minutes: float = 24 * 60
    idle_tables: int = 1_000
    idle_snapshots: int = 1_000

    @property
    def updates(self) -> int:
        """Rows that one large update touches."""
        return self.rows // 5

    @classmethod
    def of_environment(cls, env: Mapping[str, str] = os.environ) -> Scale:
        """Read it."""
        rows = int(env.get("ROWS", cls.rows))
        factors = (1, 10, 50) if env.get("SIZE") == "large" else (1, 10)
        return cls(
            rows=rows,
            repeats=int(env.get("REPEATS", cls.repeats)),
            table_rows=tuple(factor * rows for factor in factors),
            changed_keys=tuple(each for each in cls.changed_keys if each * 10 <= rows),
            seconds=float(env.get("SECONDS", cls.seconds)),
            hours=float(env.get("HOURS", cls.hours)),
            rate=float(env.get("RATE", cls.rate)),
            tables=int(env.get("TABLES", cls.tables)),
            small_rows=min(rows, cls.small_rows, int(env.get("SMALL_ROWS", cls.small_rows))),
            rounds=int(env.get("ROUNDS", cls.rounds)),
            small_changes=int(env.get("CHANGES", cls.small_changes)),
            publishes=int(env.get("PUBLISHES", cls.publishes)),
            minutes=float(env.get("MINUTES", cls.minutes)),
            idle_tables=int(env.get("IDLE_TABLES", cls.idle_tables)),
        )
