"""Tables that between them have every kind of stored state, and their logs in three parts.

A release has merged the first two parts when its state is recorded; its successors merge the third.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from cdc_assets_tests.configuration import source
from cdc_assets_tests.merge import stated
from cdc_assets_tests.merge.changing_table import LAID_OUT
from cdc_assets_tests.merge.events import PLACEHOLDER, event, tombstone, transaction_end, truncate
from cdc_assets_tests.merge.stated import with_schema
from cdc_assets_tests.pipeline import Message

Log = Sequence[Sequence[Message]]
STATEMENTS = ""
"""The topic that is called as its source."""
ENDS = "transaction"
PAUSED, FAILING, REBUILT, ODD, CUT = (
    "public.paused", "public.failing", "public.rebuilt", "public.odd", "public.t",
)  # fmt: skip
TEXTS = {"name": "text", "big": "text"}
LATER = {"columns": {**TEXTS, "c0": "text", "c1": "text"}}
"""Types of columns that come when records first have them."""
TABLES: Mapping[str, dict[str, object]] = {
    "public.keyed": LATER,
    "shop_1.items": LATER,
    "shop_2.items": LATER,
    "public.soft": {"deletes": "soft"},
    "public.log": {"mode": "changelog", "columns": TEXTS},
    "public.past": {"mode": "history", "columns": TEXTS},
    "public.laid": {
        "layout": {**LAID_OUT, "format_version": 2, "delete_mode": "copy-on-write"},
        "columns": TEXTS,
    },
}
SHARDS = {"tables": r"shop_(?P<number>\d+)\..*", "namespace": "{source}_all", "shard": "{number}"}


def sources_of(name: str) -> dict[str, dict[str, Any]]:
    """The sources, by name, which is the prefix of their topics."""
    cuts = {"every": "1s", "keep": "9999d"}
    return {
        name: source(name, tables=dict(TABLES), merge_into=[SHARDS]),
        f"{name}_odd": source(f"{name}_odd", bad_records="quarantine"),
        f"{name}_ddl": {**source(f"{name}_ddl"), "topics": {"include": [rf"{name}_ddl(\..*)?"]}},
        f"{name}_cuts": source(f"{name}_cuts", consistent=cuts),
    }


def at(op: str, id_: int, lsn: int, name: str | None = "a", big: str | None = "b", **row: Any
       ) -> Message:  # fmt: skip
    """A change of a table keyed by ``id``, in the partition that the key decides."""
    return event(op, {"id": id_, "name": name, "big": big, **row}, lsn,
                 commit=None if op == "r" else lsn - 1, partition=id_ % 2)  # fmt: skip


def called(table: str, message: Message) -> Message:
    """The record of a table of this name, if it is one of a change."""
    value = json.loads(message.value) if message.value and message.value[-1:] == b"}" else None
    if value is None:
        return message
    value["source"]["schema"], value["source"]["table"] = table.split(".")
    return replace(message, value=json.dumps(value, separators=(",", ":")).encode())


def gone(id_: int, lsn: int) -> list[Message]:
    return [at("d", id_, lsn, None, None), tombstone(id_, id_ % 2)]


def counted(op: str, n: int, lsn: int, order: int = 1) -> Message:
    return event(op, {"n": n}, lsn, commit=lsn - order, order=order, key=())


def whole(transaction: int, place: int) -> Message:
    row = {"id": 100 * transaction + place, "n": transaction}
    return event("c", row, row["id"], commit=100 * transaction, order=place)


def keyed() -> Log:
    """Placeholders, late changes, deletes, and columns that come later."""
    late = at("u", 3, 35, "late")
    return (
        [*(at("r", n, 10) for n in (1, 2, 3)), at("u", 1, 20, "A", PLACEHOLDER)],
        [*gone(3, 40), at("u", 2, 50, "B", PLACEHOLDER), at("c", 4, 60, c0="new")],
        [late, at("u", 1, 15, "late"), at("u", 2, 70, PLACEHOLDER, "C", c0=None), *gone(4, 80),
         at("c", 5, 90, c0="x", c1="y")],
    )  # fmt: skip


def keyless() -> Log:
    again = [counted("d", 1, 30), counted("c", 7, 40)]
    return (
        [counted("c", 1, 10), counted("c", 1, 11, 2), counted("c", 2, 20)],
        again[:1],
        [*again, counted("d", 2, 50), again[1]],
    )


def changed() -> Log:
    """For tables in any mode."""
    return (
        [at("r", 1, 10), at("c", 2, 20), at("c", 3, 25, "z")],
        [at("u", 2, 30, "B", PLACEHOLDER), *gone(1, 40), at("u", 3, 45, "y")],
        [at("u", 1, 35, "late"), at("u", 3, 50, "x", PLACEHOLDER), *gone(2, 60), at("c", 1, 70)],
    )


def emptied() -> Log:
    """Deletes by a truncate, too."""
    first, second, _ = changed()
    late = [at("u", 1, 35, "late"), at("u", 3, 46, "late")]
    return (
        first,
        [*second, truncate(48, commit=47), at("c", 4, 49)],
        [*late, at("u", 4, 50, "x", PLACEHOLDER), at("c", 1, 70), *gone(4, 80)],
    )


def failing() -> Log:
    return [at("c", 1, 10)], [Message(b'{"id": 0}', b"{")], [at("c", 2, 20)]


def odd() -> Log:
    """Set aside: what is no JSON, and an update whose row comes later."""
    return (
        [at("c", 1, 10)],
        [Message(b'{"id": 0}', b"{"), at("u", 2, 30, "late", PLACEHOLDER)],
        [at("c", 2, 20), at("u", 1, 40, "A")],
    )


def renamed() -> Mapping[str, Log]:
    """MariaDB's, with schemas in their records: a table that is called otherwise later."""

    def change(op: str, pos: int, id_: int, name: str) -> Message:
        return with_schema(stated.change(op, pos, {"id": id_, "name": name}), "id", "name")

    before, after = "shop.t", "shop.u"
    rename = stated.statement(300, "RENAME TABLE t TO u", "id", "name")
    return {
        STATEMENTS: (stated.MADE, [rename], []),
        before: ([change("c", 100, 1, "old"), change("c", 200, 2, "old")], [], []),
        after: ([], [change("u", 400, 1, "new")], [change("c", 500, 3, "third")]),
    }


def cut() -> Mapping[str, Log]:
    """The second transaction has not ended when the state is recorded."""
    ends = [transaction_end(100 * n, 100 * n + 2, 2) for n in (1, 2, 3)]
    first, second, third = ([whole(n, place) for place in (1, 2)] for n in (1, 2, 3))
    return {CUT: (first, second[:1], [*second[1:], *third]), ENDS: (ends[:1], [], ends[1:])}


def logs_of(name: str) -> dict[str, Mapping[str, Log]]:
    """By source and table."""
    simple = {table: changed() for table in ("public.soft", "public.log", "public.laid", PAUSED)}
    main: dict[str, Log] = {
        "public.keyed": keyed(),
        "public.bag": keyless(),
        "public.past": emptied(),
        REBUILT: emptied(),
        FAILING: failing(),
        "shop_1.items": keyed(),
        "shop_2.items": changed(),
        **simple,
    }
    named = {
        table: [[called(table, each) for each in part] for part in log]
        for table, log in {**main, ODD: odd()}.items()
    }
    alone = {ODD: named.pop(ODD)}
    return {name: named, f"{name}_odd": alone, f"{name}_ddl": renamed(), f"{name}_cuts": cut()}
