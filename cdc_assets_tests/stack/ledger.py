"""A table with large values, and what writes to it while it is read again."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

_STATEMENTS = (
    "UPDATE ledger SET n = n + 1 WHERE id = %(key)s",
    "UPDATE ledger SET n = n + 1, note = 'changed' WHERE id = %(key)s",
    "DELETE FROM ledger WHERE id = %(key)s",
    "INSERT INTO ledger VALUES (%(key)s, 0, 'new') ON CONFLICT DO NOTHING",
    "INSERT INTO ledger VALUES (%(key)s + 100000, 0, 'new') ON CONFLICT DO NOTHING",
    "UPDATE ledger SET n = n + 1 WHERE id BETWEEN %(key)s AND %(key)s + 5",
)


def ledger(rows: int) -> tuple[str, ...]:
    """Makes it; rows whose keys end with 3 have values that an update which leaves them alone does
    not log.
    """
    return (
        "CREATE TABLE ledger (id int PRIMARY KEY, n int NOT NULL, note text)",
        "ALTER TABLE ledger ALTER note SET STORAGE EXTERNAL",
        "INSERT INTO ledger SELECT n, n, CASE WHEN n % 10 = 3 THEN repeat('row ' || n, 500)"
        f" ELSE 'row ' || n END FROM generate_series(0, {rows - 1}) AS n",
    )


@contextmanager
def writing(dsn: str, rows: int) -> Iterator[None]:
    """Change, delete and insert rows, also those that were corrupted, until the block ends."""
    stop = threading.Event()

    def run() -> None:
        rng = random.Random(3)
        with psycopg.connect(dsn) as connection:
            while not stop.wait(0.02):
                statement = rng.choice(_STATEMENTS)
                connection.execute(statement.encode(), {"key": rng.randrange(rows)})
                connection.commit()

    worker = threading.Thread(target=run, daemon=True)
    worker.start()
    try:
        yield
    finally:
        stop.set()
        worker.join(60)
