"""A topic of log events: inserts, then updates of random keys, as Debezium writes them.

A snapshot's records skip most of what a batch looks at: positions that rise, commits that come
again. These have a position each, and commit times that span two minutes.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any, Final

from cdc_assets_tests.bench.accounts import TABLE, Accounts
from cdc_assets_tests.bench.formats import Produced, make_topic
from cdc_assets_tests.bench.world import World

SOURCE: Final = "bench_log"
_PARTITIONS: Final = 4
_COLUMNS: Final = {"aid": "int", "bid": "int", "abalance": "int", "filler": "string"}
_BEGIN_US: Final = 1_760_000_000_000_000
_SPAN_US: Final = 120_000_000
_FILLERS: Final = 1_000


def prepare_log_events(world: World) -> Accounts:
    """Produces a row's insert each, and updates of a fifth of them; nothing if that was done."""
    table = {"primary_key": ["aid"], "columns": _COLUMNS}
    config = world.config(SOURCE, [TABLE], database=None, tables={f"public.{TABLE}": table})
    accounts = Accounts(world, config, SOURCE)
    if not world.records(accounts.topic):
        make_topic(world, accounts.topic, _records(world))
    return accounts


def _records(world: World) -> Iterator[Produced]:
    rows, updates = world.scale.rows, world.scale.updates
    drawn = random.Random(42)
    fillers = [f"{drawn.getrandbits(32):08x}" * 10 + "abcd" for _ in range(_FILLERS)]
    keys = [*range(rows), *(drawn.randrange(rows) for _ in range(updates))]
    for number, aid in enumerate(keys):
        balance = 0 if number < rows else drawn.randint(-5_000, 5_000)
        after = {
            "aid": aid, "bid": aid % 10, "abalance": balance, "filler": fillers[aid % _FILLERS],
        }  # fmt: skip
        at = _BEGIN_US + _SPAN_US * number // len(keys)
        event = _event("c" if number < rows else "u", after, 1_000 + 8 * number, at)
        key = f'{{"aid":{aid}}}'.encode()
        yield Produced(aid % _PARTITIONS, json.dumps(event, separators=(",", ":")).encode(), key)


def _event(op: str, after: dict[str, Any], lsn: int, us: int) -> dict[str, Any]:
    times = {"ts_ms": us // 1_000, "ts_us": us, "ts_ns": us * 1_000}
    source = {
        "version": "3.6.1.Final", "connector": "postgresql", "name": SOURCE, **times,
        "snapshot": "false", "db": "bench", "sequence": f'["{lsn - 4}","{lsn}"]',
        "schema": "public", "table": TABLE, "txId": lsn, "lsn": lsn, "xmin": None,
    }  # fmt: skip
    return {
        "before": None, "after": after, "source": source, "transaction": None, "op": op, **times,
    }  # fmt: skip
