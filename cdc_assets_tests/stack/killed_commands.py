"""Commands that are killed by the system while their table changes, and are then run again.

The same for each database. Who writes to it is given as ``load``, for as long as a block lasts.
"""

from __future__ import annotations

import json
import random
import re
import signal
import subprocess
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from typing import Any

from pyspark.sql import SparkSession

from cdc_assets.lake import Lake
from cdc_assets.operations.resnapshot.notes import ResnapshotBook
from cdc_assets_tests.stack.corrupting import Corruption, merging
from cdc_assets_tests.stack.replicated import Replicated
from cdc_assets_tests.waiting import until

Load = AbstractContextManager[None]


def require_rebuilt(database: Replicated, load: Load, *way: str) -> None:
    """Builds ``ledger`` anew; killed once a part of the new table is published."""
    entry, lake = database.entry("ledger"), Lake(database.config)
    beside = replace(entry.target, name=f"{entry.target.name}__rebuild1")

    def has_begun() -> bool:
        state = lake.state(beside)
        return state is not None and state.published is not None

    with load:
        kill(database.start("rebuild", "ledger", *way), has_begun)
        database.run("rebuild", "ledger", *way, "--json", "--no-verify")
    said = last_json(database)
    assert said["swapped"], said
    require_equal(database)


def require_read_again(database: Replicated, load: Load, session: SparkSession) -> None:
    """Reads ``ledger`` again, in four waves of three parts; killed once the first one is put."""
    entry, book = database.entry("ledger"), ResnapshotBook.of_registry(database.config.registry)
    with load, merging(database, session, "ledger", pause=4):
        reading = database.start("resnapshot", "--table", "ledger")
        kill(reading, lambda: book.load(entry.table) is not None)
        kept = book.load(entry.table)
        assert kept is not None
        assert kept.next is not None
        database.run("resnapshot", "--table", "ledger", "--json")
    assert book.load(entry.table) is None
    report = last_json(database)["tables"][0]
    assert report["waves"] == 4
    assert report["whole"], report
    assert report["keys"]["vanished"] > 0
    require_equal(database)
    kinds = {each.kind for each in Lake(database.config).history(entry.target, 1_000)}
    assert "resnapshot" in kinds


def require_put_right(
    database: Replicated,
    load: Load,
    session: SparkSession,
    done: Collection[Corruption],
    times: int = 4,
) -> None:
    """Compares ``ledger`` and puts it right; killed some times while it is at it, then not."""
    rng = random.Random(11)
    with load, merging(database, session, "ledger"):
        for _ in range(times):
            before = size(database)
            repair = database.start("verify", "--table", "ledger", "--repair")
            until(lambda before=before: size(database) > before, within_seconds=120)
            with suppress(subprocess.TimeoutExpired):
                repair.wait(rng.uniform(0, 15))
            repair.send_signal(signal.SIGKILL)
            repair.wait()
        # It exits with 1 where a key changes so often that it cannot be judged.
        database.start("verify", "--table", "ledger", "--repair", "--json").wait(300)
    (report,) = last_json(database)["tables"]
    keys = {each["key"][0] for each in report["differences"]}
    assert keys <= {each.key for each in done}, report
    require_equal(database)


def kill(process: subprocess.Popen[bytes], once: Callable[[], bool]) -> None:
    """Kills a command once something of it can be seen, before it ends."""
    until(lambda: once() or process.poll() is not None, within_seconds=300)
    assert process.poll() is None, "it ended before it was killed"
    process.send_signal(signal.SIGKILL)
    process.wait()


def size(database: Replicated) -> int:
    """Of what commands have printed."""
    return database.log.stat().st_size


def last_json(database: Replicated) -> Any:
    """The document that the last command has printed."""
    words = database.log.read_text(errors="replace")
    begins = [each.start() for each in re.finditer(r"^\{", words, re.MULTILINE)][-1]
    return json.JSONDecoder().raw_decode(words, begins)[0]


def require_equal(database: Replicated) -> None:
    """Row by row, once all is merged."""
    database.wait_until_delivered()
    database.replicate()
    assert database.differences("ledger") == [], database.last_words()
