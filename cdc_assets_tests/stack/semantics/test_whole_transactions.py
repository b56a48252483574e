"""Every published snapshot holds whole transactions only."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pyarrow.compute as pc
import pytest

from cdc_assets.merge import BatchResult
from cdc_assets_tests.stack.merging import Merging, published
from cdc_assets_tests.toy import profiles
from cdc_assets_tests.waiting import until

pytestmark = pytest.mark.stack

BULK = 100_000
TOTAL = 100 * 1000


@profiles.in_soak
def test_published_snapshots_hold_large_transactions_whole_or_not_at_all(
    semantics: Merging, capsys: pytest.CaptureFixture[str]
) -> None:
    def changes() -> None:
        run = semantics.database.execute
        run(f"INSERT INTO bulk SELECT n, 1, md5(n::text) FROM generate_series(2, {BULK}) AS n")
        run("UPDATE bulk SET n = 2")
        run(f"DELETE FROM bulk WHERE id > {BULK // 2}")

    done: list[BatchResult] = []
    semantics.merge("bulk")
    before, started = resident_mib(semantics), time.monotonic()
    merge_meanwhile(semantics, changes, "bulk", done)
    seconds, after = time.monotonic() - started, resident_mib(semantics)
    states = [
        (each.num_rows, pc.sum(each["n"]).as_py() or 0)
        for each in published(semantics.database, "bulk", "n")
    ]
    whole = [(1, 0), (BULK, BULK - 1), (BULK, 2 * BULK), (BULK // 2, BULK)]
    assert states == [each for each in whole if each in states]
    assert len(states) > 2
    assert states[-1] == whole[-1]
    assert semantics.database.differences("bulk") == []
    with capsys.disabled():
        print(f"\nbulk: 3 transactions of {BULK} rows in {seconds:.1f} s, {len(states)} publishes; "
              f"Spark server {before} MiB before, {after} MiB after")  # fmt: skip


def test_published_snapshots_never_show_half_of_a_transfer(semantics: Merging) -> None:
    rng = random.Random(7)

    def transfers() -> None:
        """Until some were published amid the others."""
        with psycopg.connect(semantics.database.dsn, autocommit=True) as connection:
            until(lambda: transfer(connection) or len(done) > 3, "publishes amid transfers",
                  every_seconds=0.005)  # fmt: skip

    def transfer(connection: psycopg.Connection) -> None:
        with connection.transaction():
            for account, amount in zip(rng.sample(range(1, 101), 3), (-2, 1, 1), strict=True):
                change = "UPDATE accounts SET balance = balance + %s WHERE id = %s"
                connection.execute(change, (amount, account))

    done: list[BatchResult] = []
    semantics.merge("accounts")
    merge_meanwhile(semantics, transfers, "accounts", done)
    seen = published(semantics.database, "accounts", "id", "balance")
    assert [pc.sum(each["balance"]).as_py() for each in seen] == [TOTAL] * len(seen)
    assert len({tuple(each["balance"].to_pylist()) for each in seen}) > 3, "nothing was seen amid"
    assert semantics.database.differences("accounts") == []


def merge_meanwhile(
    semantics: Merging, changes: Callable[[], None], table: str, done: list[BatchResult]
) -> None:
    """Merge again and again for as long as changes are made and delivered, and once more."""
    stop, entry = threading.Event(), semantics.database.entry(table)

    def merging() -> None:
        while not stop.wait(0.2):
            for batch in semantics.drain(entry):
                done.append(batch)

    with ThreadPoolExecutor(1) as pool:
        merged = pool.submit(merging)
        try:
            changes()
            semantics.database.wait_until_delivered()
        finally:
            stop.set()
        merged.result()
    done.extend(semantics.merge(table))


def resident_mib(semantics: Merging) -> int:
    """Of the Spark server's process."""
    running = semantics.database.stack.spark.running
    assert running is not None
    status = Path(f"/proc/{running.pid}/status").read_text()
    [line] = [line for line in status.splitlines() if line.startswith("VmRSS:")]
    return int(line.split()[1]) // 1024
