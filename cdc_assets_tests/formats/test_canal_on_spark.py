"""Single messages of Canal, decoded: what becomes of each, and why."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cdc_assets.config import SourceConfig
from cdc_assets.formats.registered import format_of
from cdc_assets_tests.formats.decoding import Bytes, decoded, table_of
from cdc_assets_tests.formats.test_canal import message
from cdc_assets_tests.pipeline import Session

pytestmark = pytest.mark.spark

JSON = format_of(
    SourceConfig.model_validate({"format": "canal-json", "topics": {"include": [".*"]}})
)
TYPES = {"id": "int", "name": "varchar(20)"}
XA = "a prepared transaction was rolled back"
NAMELESS = "it does not name its database and table"


def flat(kind: str, data: list | None, **more: Any) -> dict[str, Any]:
    said = message(kind, data, table="public.t", types=TYPES).value
    return {**json.loads(said or b""), **more}


GOOD = flat("INSERT", [{"id": "1", "name": "a"}])


def alone(said: dict[str, Any]) -> Bytes:
    return Bytes(None, json.dumps(said).encode())


def became(spark: Session, *records: Bytes) -> list[tuple[Any, ...]]:
    """``(op, reject)`` of each row of each record, after a good one."""
    given = [alone(GOOD), *records]
    changes = decoded(spark, JSON, table_of(JSON, given[:1]), given)
    assert [row["reject"] for row in changes.pop(0)] == [None]
    return [(row["op"], row["reject"]) for rows in changes.values() for row in rows]


def test_what_is_known_of_no_table_stops_each_of_them(spark: Session) -> None:
    nobody = {"database": "", "table": ""}
    said = [
        flat("XAROLLBACK", None, **nobody, mysqlType=None),
        flat("INSERT", [{"id": "2", "name": "b"}], **nobody),
        flat("TRUNCATE", None, **nobody, isDdl=True),
        flat("UPDATE", None, mysqlType=None),
    ]
    reasons = [reject for _, reject in became(spark, *map(alone, said))]
    assert reasons[0].startswith(XA)
    assert reasons[1:] == [NAMELESS, NAMELESS, "it does not tell its types"]


def test_what_changes_no_rows_is_passed_over(spark: Session) -> None:
    nobody = {"database": "", "table": "", "mysqlType": None}
    said = [
        flat("QUERY", None, **nobody),
        flat("XACOMMIT", None, **nobody),
        flat("CREATE", None, isDdl=True, mysqlType=None),
        flat("INSERT", [{"id": "2", "name": "b"}], database="public", table="other"),
    ]
    found = became(spark, *map(alone, said))
    assert found == [("control", None)] * 3 + [("other", None)]


def test_half_a_character_is_refused(spark: Session) -> None:
    half = json.dumps(GOOD).replace('"a"', r'"\ud800"').encode()
    ((_, reject),) = became(spark, Bytes(None, half))
    assert reject == "a text holds half of a surrogate pair"
