"""Columns that are excluded or masked: nothing of their values is found in the lake."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet

from cdc_assets.errors import CdcError, RejectedRecordError, TerminalError
from cdc_assets_tests.merge.events import PLACEHOLDER, event, tombstone
from cdc_assets_tests.merge.one_table import TABLE, Make, start
from cdc_assets_tests.merge.shared_topic import ITEMS, MAXWELL, NOTES, put, topic_of
from cdc_assets_tests.pipeline import Message, Pipeline
from cdc_assets_tests.toy import profiles

pytestmark = pytest.mark.stack

SECRET = "hidden-and-unlike-anything"
COLUMNS: dict[str, Any] = {
    "ssn": {"exclude": True},
    "mail": {"mask": "sha256"},
    "id": {"mask": "sha256"},
}


def said(**columns: Any) -> dict[str, Any]:
    return {"tables": {TABLE: {"columns": {**COLUMNS, **columns}}}}


def digest(value: object) -> str:
    return sha256(str(value).encode()).hexdigest()


def row(id_: int, name: str, mail: str | None = SECRET) -> dict[str, Any]:
    return {"id": id_, "name": name, "ssn": f"{SECRET} {id_}", "mail": mail}


def held(table: Pipeline) -> dict[object, tuple[object, ...]]:
    return {key: (r["name"], r["mail"]) for key, r in table.by_key(TABLE).items()}


def files(folder: Path) -> Iterator[Path]:
    return (each for each in folder.rglob("*") if each.is_file())


def warehouse(made: Pipeline) -> Path:
    """With the tables of all tests."""
    return Path(made.config.lake.warehouse.removeprefix("file://"))


def traces(made: Pipeline, text: str) -> list[str]:
    """Files with the text in them, also in the pages of Parquet, that came since it was made.

    Other tests leave files there that are called so and are none.
    """
    found: list[str] = []
    for each in files(warehouse(made)):
        if each.stat().st_mtime < made.made.timestamp() - 1:
            continue
        content = each.read_bytes()
        is_parquet = content.startswith(b"PAR1") and content.endswith(b"PAR1")
        pages = str(parquet.read_table(each).to_pylist()) if is_parquet else ""
        if text.encode() in content or text in pages:
            found.append(each.name)
    return found


def test_their_values_are_nowhere_in_the_lake(pipeline: Make) -> None:
    made = start(pipeline, event("c", row(1, "a"), 10), event("c", row(2, "b", None), 11), **said())
    assert held(made) == {digest(1): ("a", digest(SECRET)), digest(2): ("b", None)}
    assert set(made.rows(TABLE)[0]) == {"id", "name", "mail"}
    made.produce(TABLE, [
        event("u", row(1, "A", PLACEHOLDER), 20, commit=19),
        event("d", {"id": 2, "name": None, "ssn": None, "mail": None}, 21, commit=19),
        tombstone(2),
        event("c", row(3, "c", "other"), 22, commit=19),
    ])  # fmt: skip
    made.merge(TABLE)
    assert held(made) == {digest(1): ("A", digest(SECRET)), digest(3): ("c", digest("other"))}
    made.produce(TABLE, [event("u", row(2, "late"), 12, commit=9)])
    made.merge(TABLE)
    assert digest(2) not in held(made), "the delete is remembered by what its key became"
    assert traces(made, SECRET) == []
    assert traces(made, digest(SECRET)), "the search does not find what is there"


def test_a_record_that_cannot_be_merged_stops_the_table_instead_of_lying_in_quarantine(
    pipeline: Make,
) -> None:
    made = start(pipeline, event("c", row(1, "a"), 10), bad_records="quarantine", **said())
    made.produce(TABLE, [Message(b'{"id": 2}', f'{{"{SECRET}'.encode())])
    with pytest.raises(RejectedRecordError) as refused:
        made.merge(TABLE)
    assert SECRET not in str(refused.value)
    assert "bad_records" not in refused.value.remedy
    assert traces(made, SECRET) == []


@profiles.in_soak
def test_no_table_of_a_shared_topic_sets_aside_what_may_be_of_another(pipeline: Make) -> None:
    columns = {"name": {"exclude": True}}
    topic = topic_of(
        pipeline, MAXWELL, bad_records="quarantine", tables={NOTES: {"columns": columns}}
    )
    topic.send(put(ITEMS, 1), put(NOTES, 1, SECRET))
    topic.alone(ITEMS)
    topic.send(Message(None, f'{{"table": "notes", "data": {{"name": "{SECRET}'.encode()))
    with pytest.raises(RejectedRecordError) as refused:
        topic.alone(ITEMS)
    assert "bad_records" not in refused.value.remedy
    assert traces(topic.pipeline, SECRET) == []


def test_it_is_settled_when_the_column_comes_into_the_lake(pipeline: Make) -> None:
    made = start(pipeline, event("c", {"id": 1, "name": "a"}, 10))
    made.produce(TABLE, [event("u", {"id": 1, "name": "c"}, 15, commit=14)])
    with pytest.raises(TerminalError, match="excludes columns that the lake has: name"):
        again(made, {"name": {"exclude": True}}).merge(TABLE)
    with pytest.raises(TerminalError, match="other columns masked: name differ"):
        again(made, {"name": {"mask": "sha256"}}).merge(TABLE)
    later = again(made, {"ssn": {"exclude": True}})
    later.produce(TABLE, [event("u", {"id": 1, "name": "b", "ssn": SECRET}, 20, commit=19)])
    later.merge(TABLE)
    assert later.by_key(TABLE) == {1: {"id": 1, "name": "b"}}


@profiles.in_soak
def test_rows_without_a_key_are_told_apart_by_digests(pipeline: Make) -> None:
    def change(op: str, mail: str, lsn: int, before: str | None = None) -> Message:
        old = None if before is None else {"name": "x", "mail": before}
        return event(op, {"name": "x", "mail": mail}, lsn, commit=lsn - 1, before=old, key=(),
                     order=1)  # fmt: skip

    columns = {"mail": {"mask": "sha256"}}
    made = start(pipeline, change("c", "a", 10), change("c", "a", 20), change("c", "b", 30),
                 tables={TABLE: {"columns": columns}})  # fmt: skip
    made.produce(TABLE, [change("d", "a", 40), change("u", "c", 50, before="b")])
    made.merge(TABLE)
    assert sorted(str(each["mail"]) for each in made.rows(TABLE)) == sorted(
        [digest("a"), digest("c")]
    )


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"id": {"exclude": True}}, "a column of the table's key"),
        ({"nmae": {"exclude": True}}, "did you mean 'name'"),
        ({"nmae": {"mask": "sha256"}}, "did you mean 'name'"),
    ],
)
def test_a_column_that_is_not_there_is_not_withheld_in_silence(
    pipeline: Make, columns: dict[str, Any], words: str
) -> None:
    made = pipeline(tables={TABLE: {"columns": columns}})
    made.create_topic(TABLE)
    made.produce(TABLE, [event("c", {"id": 1, "name": "a"}, 10)])
    with pytest.raises(CdcError, match=words):
        made.merge(TABLE)


def again(made: Pipeline, columns: dict[str, Any]) -> Pipeline:
    """The same topic and table under another configuration."""
    source = {**made.source, "tables": {TABLE: {"columns": columns}}}
    return Pipeline(made.base, made.spark, made.folder, source, made.prefix)
