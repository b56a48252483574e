"""When a row that was committed at the source is first seen in the lake.

Nothing of the product takes part: a marker row per second is inserted into each table, and
the tables' snapshots are looked at by PyIceberg alone. A latency is the time from just before
the commit to the moment the snapshot with the row was found; it is too high by up to
`LOOK_SECONDS` and the time of the look before it, never too low.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field

import psycopg
from pyiceberg.catalog import Catalog

from cdc_assets.changes.names import LakeName
from cdc_assets.config import ReplicationConfig
from cdc_assets_tests.lake_view import open_catalog

EVERY_SECONDS = 1.0
LOOK_SECONDS = 0.5

MARKERS: Mapping[str, tuple[str, str]] = {
    "inventory": ("product_id", "(product_id, warehouse, on_hand) VALUES (%s, 'probe', 0)"),
    "order_items": (
        "order_id",
        "(order_id, line, product_id, quantity, unit_price) VALUES (%s, 1, 0, 1, 1)",
    ),
    "orders": ("id", "(id, customer_id, status, total) VALUES (%s, 0, 'cancelled', 0)"),
    "payments": (
        "order_id",
        "(order_id, id, amount, settled) VALUES (%s, gen_random_uuid(), 0, true)",
    ),
    "products": ("id", "(id, sku, name, price) VALUES (%s, gen_random_uuid()::text, '', 1)"),
}
"""Per table: the column that numbers its markers, and how to insert one.

Numbers are negative, which no row of the shop's load is or looks for.
"""


@dataclass
class Probe:
    """Writes markers and looks for them, each in a thread of its own.

    Attributes:
        latencies: per table, seconds of the markers that became visible.
    """

    dsn: str
    config: ReplicationConfig
    targets: Mapping[str, LakeName]
    latencies: dict[str, list[float]] = field(default_factory=dict)
    _written: dict[str, list[float]] = field(default_factory=dict)
    _before: int = 0
    """Markers of earlier probes, which the tables keep."""

    def run(self, seconds: float, grace_seconds: float = 90) -> None:
        """Write for so long; look until all markers are visible or the grace is over."""
        self.latencies = {table: [] for table in MARKERS}
        self._written = {table: [] for table in MARKERS}
        self._before = self._markers()
        done = threading.Event()
        looking = threading.Thread(target=self._look, args=(done,), daemon=True)
        looking.start()
        self._write(seconds)
        deadline = time.monotonic() + grace_seconds
        while self.missing and time.monotonic() < deadline:
            time.sleep(LOOK_SECONDS)
        done.set()
        looking.join()

    @property
    def missing(self) -> int:
        """Markers that are not visible yet."""
        return sum(len(self._written[t]) - len(self.latencies[t]) for t in MARKERS)

    def _markers(self) -> int:
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            found = connection.execute("SELECT count(*) FROM orders WHERE id < 0").fetchone()
        return found[0] if found else 0

    def _write(self, seconds: float) -> None:
        started = time.monotonic()
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            for number in range(1, int(seconds / EVERY_SECONDS) + 1):
                marker = -(self._before + number)
                for table, (_, values) in MARKERS.items():
                    self._written[table].append(time.time())
                    connection.execute(f"INSERT INTO {table} {values}".encode(), (marker,))
                time.sleep(max(0.0, started + number * EVERY_SECONDS - time.monotonic()))

    def _look(self, done: threading.Event) -> None:
        catalog = open_catalog(self.config)
        heads: dict[str, int | None] = {}
        files: dict[str, str] = {}
        while not done.wait(LOOK_SECONDS):
            changed = self._files()
            for table in MARKERS:
                if changed.get(table) != files.get(table):
                    self._look_at(catalog, table, heads)
            files = changed

    def _files(self) -> dict[str, str]:
        """The tables' newest metadata files: a question that costs the machine next to nothing."""
        database = str(self.config.lake.catalog.resolved()["uri"]).removeprefix("sqlite:///")
        with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
            rows = connection.execute("SELECT table_name, metadata_location FROM iceberg_tables")
            names = {target.name: table for table, target in self.targets.items()}
            return {names[name]: file for name, file in rows if name in names}

    def _look_at(self, catalog: Catalog, table: str, heads: dict[str, int | None]) -> None:
        target = self.targets[table]
        loaded = catalog.load_table((target.namespace, target.name))
        now, head = time.time(), loaded.current_snapshot()
        snapshot = head.snapshot_id if head else None
        if snapshot is None or heads.get(table) == snapshot:
            return
        heads[table] = snapshot
        column, seen = MARKERS[table][0], self.latencies[table]
        new = loaded.scan(
            row_filter=f"{column} < {-self._before - len(seen)}",
            selected_fields=(column,),
            snapshot_id=snapshot,
        ).to_arrow()
        written = self._written[table]
        for number in sorted(-value for value in new[column].to_pylist()):
            seen.append(now - written[number - self._before - 1])
