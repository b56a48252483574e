"""YugabyteDB's changes through Kafka and the real merge, where updates leave columns out."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from cdc_assets.errors import TerminalError
from cdc_assets_tests.formats.yugabyte import cells, event, schema_of, text
from cdc_assets_tests.pipeline import Message, Pipeline
from cdc_assets_tests.toy import profiles

Make = Callable[..., Pipeline]
Row = dict[str, Any]
TABLE = "public.test"
TYPES = {TABLE: {"columns": {"id": "int", "name": "string", "n": "bigint"}, "primary_key": ["id"]}}
SOFT = {TABLE: {**TYPES[TABLE], "deletes": "soft"}}
SEEDS = range(20 if profiles.is_soak() else 1)

pytestmark = pytest.mark.stack


def message(op: str, number: int, row: Row, write: int = 0) -> list[Message]:
    """A change of a row, as columns; a delete with the record without a value after it."""
    key = cells({"id": row["id"]})
    image = {"before" if op == "d" else "after": row}
    said = text(event(op, number, write=write, **image))
    return [Message(text(key), said), *([Message(text(key), None)] if op == "d" else [])]


def start(pipeline: Make, *batches: Iterable[Message], tables: Row = TYPES) -> Pipeline:
    made = pipeline(format="yugabyte-debezium", tables=tables)
    made.create_topic(TABLE)
    for batch in batches:
        made.produce(TABLE, batch)
        made.merge(TABLE)
    return made


def inline(columns: dict[str, str], messages: Iterable[Message]) -> list[Message]:
    """The same with a schema around value and key."""
    value = schema_of(columns)
    key = {**value, "fields": value["fields"][0]["fields"][:1]}
    return [Message(_around(each.key, key), _around(each.value, value)) for each in messages]


def _around(payload: bytes | None, schema: Row) -> bytes | None:
    return text({"schema": schema, "payload": json.loads(payload)}) if payload else None


CREATE = message("c", 1, {"id": 1, "name": "one", "n": 1})
NAMED = message("u", 2, {"id": 1, "name": "two", "n": ...})
COUNTED = message("u", 3, {"id": 1, "name": ..., "n": 3})
EMPTIED = message("u", 4, {"id": 1, "name": None, "n": ...})


def test_updates_out_of_order_in_a_batch_each_set_their_column(pipeline: Make) -> None:
    made = start(pipeline, [*CREATE, *COUNTED, *NAMED])
    assert made.rows(TABLE) == [{"id": 1, "name": "two", "n": 3}]


def test_updates_that_are_sent_again_take_no_column_back(pipeline: Make) -> None:
    made = start(pipeline, [*CREATE, *NAMED, *COUNTED, *EMPTIED], [*NAMED, *COUNTED], CREATE)
    assert made.rows(TABLE) == [{"id": 1, "name": None, "n": 3}]


def test_an_update_of_a_row_that_the_lake_does_not_have_is_refused(pipeline: Make) -> None:
    with pytest.raises(TerminalError, match="an update without its unchanged columns"):
        start(pipeline, COUNTED)


def test_a_column_without_a_cell_in_a_create_is_null_also_after_a_delete(pipeline: Make) -> None:
    gone = message("d", 5, {"id": 1, "name": ..., "n": ...})
    again = message("c", 6, {"id": 1, "name": ..., "n": 6})
    made = start(pipeline, [*CREATE, *NAMED], [*gone, *again])
    assert made.rows(TABLE) == [{"id": 1, "name": None, "n": 6}]


@profiles.in_soak
def test_soft_deletes_keep_what_updates_left(pipeline: Make) -> None:
    gone = message("d", 5, {"id": 1, "name": ..., "n": ...})
    made = start(pipeline, [*CREATE, *NAMED], [*COUNTED, *gone], NAMED, tables=SOFT)
    assert made.rows(TABLE) == [{"id": 1, "name": "two", "n": 3}]


@profiles.in_soak
def test_a_column_that_the_schema_of_an_update_lacks_is_unchanged(pipeline: Make) -> None:
    older, usual = (
        {"id": "int32", "name": "string"},
        {"id": "int32", "name": "string", "n": "int64"},
    )
    newer = {**usual, "more": "int32"}
    made = start(
        pipeline,
        inline(usual, [*CREATE, *COUNTED]),
        inline(older, message("u", 4, {"id": 1, "name": "older"})),
        inline(newer, message("u", 5, {"id": 1, "name": ..., "n": ..., "more": 5})),
        [*inline(older, message("u", 6, {"id": 1, "name": "late"})),
         *inline(usual, message("u", 7, {"id": 1, "name": ..., "n": 7}))],
        tables={},
    )  # fmt: skip
    assert made.rows(TABLE) == [{"id": 1, "name": "late", "n": 7, "more": 5}]


def test_a_field_that_an_update_lacks_is_unchanged(pipeline: Make) -> None:
    made = start(pipeline, [*CREATE, *NAMED], message("u", 3, {"id": 1, "n": 3}))
    assert made.rows(TABLE) == [{"id": 1, "name": "two", "n": 3}]


def test_records_without_cells_are_refused_with_the_remedy(pipeline: Make) -> None:
    key, value = text({"id": 1}), text({**event("u", 1), "after": {"id": 1, "name": None, "n": 1}})
    with pytest.raises(TerminalError, match=r"connector\.record_type: full"):
        start(pipeline, [Message(key, value)])


@profiles.in_soak
@pytest.mark.parametrize("seed", SEEDS)
def test_a_history_with_repeats_ends_as_its_rows(pipeline: Make, seed: int) -> None:
    rng = random.Random(seed)
    history = History(rng, 60)
    made = start(pipeline)
    for batch, expected in delivered(rng, history):
        made.produce(TABLE, batch)
        made.merge(TABLE)
        assert made.by_key(TABLE) == expected, f"seed {seed}"


# ── generated histories ───────────────────────────────────────────────────────────────────


class History:
    """Transactions over few rows, with the table after each of them.

    Updates hold the columns that they change, creates leave some NULLs out, a changed key is a
    delete and a create of one commit.
    """

    def __init__(self, rng: random.Random, length: int) -> None:
        self.rng = rng
        self.rows: dict[int, Row] = {}
        self.transactions: list[tuple[list[Message], dict[int, Row]]] = []
        for number in range(1, length + 1):
            sent = [each for write in range(rng.choice([1, 1, 2, 3]))
                    for each in self._change(number, write)]  # fmt: skip
            state = {key: dict(row) for key, row in self.rows.items()}
            self.transactions.append((sent, state))

    def _change(self, number: int, write: int) -> list[Message]:
        key = self.rng.randrange(4)
        if key not in self.rows:
            self.rows[key] = {"id": key, "name": self._name(number), "n": self._number(number)}
            return message("c", number, self._held(self.rows[key]), write)
        match self.rng.choice("uuuudk"):
            case "d":
                del self.rows[key]
                return message("d", number, {"id": key, "name": ..., "n": ...}, write)
            case "k" if free := [each for each in range(6) if each not in self.rows]:
                moved = self.rng.choice(free)
                self.rows[moved] = {**self.rows.pop(key), "id": moved}
                gone = message("d", number, {"id": key, "name": ..., "n": ...}, write)
                return [*gone, *message("c", number, self._held(self.rows[moved]), write)]
            case _:
                changed = {"name": self._name(number), "n": self._number(number)}
                kept = self.rng.choice([(), ("name",), ("n",)])
                held = {name: ... if name in kept else value for name, value in changed.items()}
                self.rows[key] |= {k: v for k, v in held.items() if v is not ...}
                return message("u", number, {"id": key, **held}, write)

    def _held(self, row: Row) -> Row:
        return {
            name: ... if value is None and self.rng.random() < 0.5 else value
            for name, value in row.items()
        }

    def _name(self, number: int) -> str | None:
        return self.rng.choice([None, f"at {number}"])

    def _number(self, number: int) -> int | None:
        return self.rng.choice([None, number])


def delivered(
    rng: random.Random, history: History
) -> Iterable[tuple[list[Message], dict[int, Row]]]:
    """Batches and the table after each: the connector starts again some transactions before.

    A repeat is sent as far as the newest that was delivered at least: what it ends before would
    be a table of the past only to who takes repeats for news.
    """
    at = 0
    while at < len(history.transactions):
        back = rng.choice([0, 0, 5, 15])
        ahead = rng.randrange(1, 25)
        sent = history.transactions[max(at - back, 0) : at + ahead]
        at = min(at + ahead, len(history.transactions))
        yield [each for messages, _ in sent for each in messages], history.transactions[at - 1][1]
