"""The shared conformance cases, through Kafka and the real merge, where they are there."""

from __future__ import annotations

import base64
import json
import math
import os
import struct
from collections.abc import Callable
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from cdc_assets.config.formats import installed
from cdc_assets.errors import TerminalError
from cdc_assets.lake.quarantined import QuarantineLake
from cdc_assets.operate.discovery import add_seen
from cdc_assets.operate.services import Services
from cdc_assets_tests.formats.canal import as_packet
from cdc_assets_tests.formats.golden_records import confluent_registry
from cdc_assets_tests.pipeline import Message, Pipeline
from cdc_assets_tests.toy import profiles

CASES = Path(
    os.environ.get("CDC_ASSETS_CONFORMANCE", Path(__file__).parents[3] / "shared" / "conformance")
)
BY_DISCOVERY = {
    "names-sanitized-in-the-topic",
    "ogg-table-without-schema",
    "pg-message-key-columns",
    "routed-topic-of-one-part",
    "routed-two-tables-one-topic",
    "router-two-shards",
}
"""Cases whose tables are those that discovery finds in their topics."""
SHORT = 7
LONG = 20
FEW = 4
FILES = sorted(CASES.rglob("*.json")) if CASES.is_dir() else []

# A packet has the types of its columns, and TiCDC writes none.
WITHOUT_PACKETS = {"canal-types-by-configuration", "ticdc-handle-key-only"}

pytestmark = [
    pytest.mark.stack,
    pytest.mark.skipif(not FILES, reason="the conformance cases are not beside the checkout"),
]


def cases() -> list[Any]:
    loaded = [json.loads(file.read_text()) for file in FILES]
    return [
        pytest.param(
            case,
            how,
            id=f"{case['name']}-{how}",
            marks=[] if _is_usual(case, how) else [profiles.in_soak],
        )
        for case in loaded
        if case["format"] in installed()
        for how in ("whole", "batches", "single")
        if how == "whole"
        or (how == "batches" and "batches" in case)
        or (how == "single" and case.get("split_invariant", True) and _messages(case) <= SHORT)
    ]


def _is_usual(case: dict[str, Any], how: str) -> bool:
    """Without a soak a case is merged in a few batches, else whole if it is short."""
    in_batches = 0 < len(case.get("batches", ())) < FEW
    return how == ("batches" if in_batches else "whole") and (in_batches or _messages(case) < LONG)


def packed_cases() -> list[Any]:
    """Cases of ``canal-json``, as packets of one message each and as one packet of all."""
    loaded = [json.loads(file.read_text()) for file in FILES]
    return [
        pytest.param(
            case,
            together,
            id=f"{case['name']}-{'one-packet' if together else 'packets'}",
            marks=[] if together and _messages(case) < LONG else [profiles.in_soak],
        )
        for case in loaded
        for together in (False, True)
        if case["format"] == "canal-json" and case["name"].rpartition("/")[2] not in WITHOUT_PACKETS
    ]


def _packed(case: dict[str, Any], *, together: bool) -> dict[str, Any]:
    def topic(described: dict[str, Any]) -> dict[str, Any]:
        said = [json.loads(_bytes(each["value"]) or b"") for each in described["messages"]]
        parts = [said] if together else [[each] for each in said]
        values = [base64.b64encode(as_packet(each).value or b"").decode() for each in parts]
        messages = [{"n": n, "value": {"$base64": text}} for n, text in enumerate(values)]
        return {**described, "messages": messages}

    topics = {name: topic(described) for name, described in case["topics"].items()}
    return {**case, "format": "canal-protobuf", "topics": topics}


def _messages(case: dict[str, Any]) -> int:
    return sum(len(topic["messages"]) for topic in case["topics"].values())


@pytest.mark.parametrize(("case", "how"), cases())
def test_messages_in_rows_out(
    case: dict[str, Any], how: str, pipeline: Callable[..., Pipeline]
) -> None:
    with confluent_registry(case.get("config", {}).get("schema_registry", {})) as registry:
        run(Case(case, pipeline, registry.url), how)


@pytest.mark.parametrize(("case", "together"), packed_cases())
def test_packets_end_in_the_rows_of_json(
    case: dict[str, Any], together: bool, pipeline: Callable[..., Pipeline]
) -> None:
    run(Case(_packed(case, together=together), pipeline, ""), "whole")


def run(ran: Case, how: str) -> None:
    case = ran.case
    for index, numbers in enumerate(ran.batches(how)):
        ran.deliver(numbers)
        if how == "batches" and (state := case["expect"].get("after_batch", {}).get(str(index))):
            assert ran.wrong_rows(state) is None
    wrong = [ran.wrong(each) for each in _outcomes(case["expect"])]
    assert None in wrong, "\n".join(map(str, wrong))


def _outcomes(expected: dict[str, Any]) -> list[dict[str, Any]]:
    """The final state, and each other one that is right, too."""
    others = expected.get("alternatives", [])
    return [expected, *(_alternative(expected, each) for each in others)]


def _alternative(expected: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    tables = other.get("tables", expected["tables"])
    changed = other.get("table_overrides", {})
    tables = {name: {**table, **changed.get(name, {})} for name, table in tables.items()}
    usual = {"rejected": expected.get("rejected", []), "error": None}
    return {**usual, **other, "tables": tables}


class Case:
    """One case at work."""

    def __init__(
        self, case: dict[str, Any], pipeline: Callable[..., Pipeline], registry: str
    ) -> None:
        self.case = case
        config = case.get("config", {})
        tables: dict[str, dict[str, Any]] = {}
        for name, key in config.get("primary_keys", {}).items():
            tables.setdefault(name, {})["primary_key"] = key
        for name, types in config.get("column_types", {}).items():
            tables.setdefault(name, {})["columns"] = types
        bad_records = config.get("bad_records", "fail")
        more = {"schema_registry": {"url": registry}} if "avro" in case["format"] else {}
        self.pipeline = pipeline(
            format=case["format"], tables=tables, bad_records=bad_records, **more
        )
        self.tables = {topic: _table(topic) for topic in case["topics"]}
        self.pipeline.shared = _shared(case, self.tables)
        for topic, description in case["topics"].items():
            self.pipeline.create_topic(self.tables[topic], description["partitions"])
        self.errors: list[str] = []
        self.places: dict[tuple[str, int, int], int] = {}
        self.messages = {
            message["n"]: (topic, message)
            for topic, description in case["topics"].items()
            for message in description["messages"]
        }

    def batches(self, how: str) -> list[list[int]]:
        if how == "batches":
            return self.case["batches"]
        numbers = sorted(self.messages)
        return [numbers] if how == "whole" else [[n] for n in numbers]

    def deliver(self, numbers: list[int]) -> None:
        touched = []
        for n in numbers:
            topic, message = self.messages[n]
            self.pipeline.produce(self.tables[topic], [_message(message)])
            self._number(n)
            touched.append(topic)
        if self.case["name"] in BY_DISCOVERY:
            self._discover()
            return
        for topic in dict.fromkeys(touched):
            names = [t for t, own in self.pipeline.shared.items() if own == self.tables[topic]]
            for table in names or [self.tables[topic]]:
                self._merge(table)

    def _discover(self) -> None:
        """Merge the tables that are found, and those that their batches meet, as runs do."""
        looked = self.pipeline.discovered()
        mine = {self.pipeline.topic(table) for table in self.tables.values()}
        left = [f"{each.topic}: {each.holds}" for each in looked.registry.others]
        self.errors += [each for each in left if each.partition(": ")[0] in mine]
        merged: set[str] = set()
        while new := self.pipeline.found.keys() - merged:
            for table in sorted(new):
                self._merge(table)
            merged |= new
            self.pipeline.discovered()

    def _number(self, n: int) -> None:
        """Remember which message is at the next offset of its partition."""
        topic, message = self.messages[n]
        place = self.pipeline.topic(self.tables[topic]), message.get("partition", 0)
        offset = sum(each[:2] == place for each in self.places)
        self.places[*place, offset] = n

    def _merge(self, table: str) -> None:
        try:
            for batch in self.pipeline.merge(table):
                if batch.other_tables and table in self.pipeline.found:
                    services, entry = Services(self.pipeline.config), self.pipeline.entry(table)
                    add_seen(services, entry, batch.other_tables)
        except TerminalError as error:
            self.errors.append(str(error))

    def wrong(self, expected: dict[str, Any]) -> str | None:
        """What is not as expected, or None."""
        if bool(self.errors) != bool(expected.get("error")):
            return f"wanted {expected.get('error')}; stopped by {self.errors}"
        return self._wrong_rejections(expected.get("rejected", [])) or self.wrong_rows(expected)

    def _wrong_rejections(self, expected: list[dict[str, Any]]) -> str | None:
        lake = QuarantineLake(self.pipeline.config)
        records, _ = lake.quarantined(self.pipeline.prefix, None, LONG * LONG)
        found = [each.coordinate for each in records]
        numbers = {self.places[each.topic, each.partition, each.offset] for each in found}
        needed = {each["n"] for each in expected if not each.get("optional")}
        is_right = needed <= numbers <= {each["n"] for each in expected}
        return None if is_right else f"wanted {expected}; rejected {records}"

    def wrong_rows(self, expected: dict[str, Any]) -> str | None:
        for name, table in expected.get("tables", {}).items():
            if problem := _difference(self.pipeline.rows(name), table):
                return f"{name}: {problem}"
        return None


def _table(topic: str) -> str:
    return ".".join(topic.split(".")[-2:])


def _shared(case: dict[str, Any], tables: dict[str, str]) -> dict[str, str]:
    """The expected tables, by the one topic that has them under another name."""
    described = case["expect"].get("tables", {})
    expected = {name for name, table in described.items() if not table.get("may_be_missing")}
    if expected <= set(tables.values()) or len(tables) != 1:
        return {}
    (own,) = tables.values()
    return dict.fromkeys(expected, own)


def _message(message: dict[str, Any]) -> Message:
    headers = tuple((name, _bytes(value) or b"") for name, value in message.get("headers", []))
    return Message(
        _bytes(message.get("key")),
        _bytes(message.get("value")),
        message.get("partition", 0),
        headers,
        message.get("timestamp_ms"),
    )


def _bytes(value: Any) -> bytes | None:
    match value:
        case None:
            return None
        case str():
            return value.encode()
        case {"$base64": text}:
            return base64.b64decode(text)
        case {"$repeat": [text, count]}:
            return (text * count).encode()
        case {"$concat": parts}:
            return b"".join(_bytes(part) or b"" for part in parts)
        case _:
            msg = f"not a message part: {value}"
            raise ValueError(msg)


def _difference(rows: list[dict[str, object]], expected: dict[str, Any]) -> str | None:
    extra = _extra(rows, expected)
    left = [{name: row[name] for name in row.keys() - extra} for row in rows]
    floats = {name for name, types in expected.get("columns", {}).items() if _is_float(types)}
    for row in [_rounded(each, floats) for each in expected["rows"]]:
        found = next((each for each in left if _same_row(each, row)), None)
        if found is None:
            return f"missing row {row}; there are {rows}"
        left.remove(found)
    optional = expected.get("optional_rows", [])
    left = [each for each in left if not any(_same_row(each, row) for row in optional)]
    return f"rows too many: {left}" if left else None


def _extra(rows: list[dict[str, object]], expected: dict[str, Any]) -> set[str]:
    """Columns that may be there and are not compared."""
    optional = set(expected.get("optional_columns", []))
    if expected.get("columns_closed", True) or not expected["rows"]:
        return optional
    return optional | {name for row in rows for name in row.keys() - expected["rows"][0].keys()}


def _is_float(types: Any) -> bool:
    return "float" in ([types] if isinstance(types, str) else types or [])


def _rounded(row: dict[str, Any], floats: set[str]) -> dict[str, Any]:
    """With plain numbers of ``float`` columns as one of four bytes, or of eight, holds them."""
    return {
        name: {"$any": [value, struct.unpack("f", struct.pack("f", value))[0]]}
        if name in floats and isinstance(value, float)
        else value
        for name, value in row.items()
    }


def _same_row(actual: dict[str, object], expected: dict[str, Any]) -> bool:
    if set(actual) != set(expected):
        return False
    return all(_same(actual[name], value) for name, value in expected.items())


def _same(actual: Any, expected: Any) -> bool:
    match expected:
        case {"$ignore": _}:
            return True
        case {"$any": options}:
            return any(_same(actual, option) for option in options)
        case dict():
            ((form, value),) = expected.items()
            return _same_form(actual, form, value)
        case list():
            lists = isinstance(actual, list) and len(actual) == len(expected)
            return lists and all(map(_same, actual, expected))
        case bool() | None | str():
            return actual == expected
        case _:
            number = isinstance(actual, int | float | Decimal) and not isinstance(actual, bool)
            return number and float(actual) == float(expected)


def _same_form(actual: Any, form: str, value: Any) -> bool:
    match form:
        case "$decimal":
            return isinstance(actual, Decimal) and actual == Decimal(value)
        case "$binary":
            return actual == base64.b64decode(value)
        case "$date":
            return actual == date.fromisoformat(value)
        case "$ts" | "$tstz":
            aware = isinstance(actual, datetime) and (actual.tzinfo is not None)
            return aware == (form == "$tstz") and actual == datetime.fromisoformat(value)
        case "$time_us":
            return actual in (value, timedelta(microseconds=value))
        case "$json":
            return isinstance(actual, str) and json.loads(actual) == value
        case "$double" | "$float":
            wanted = float(value)
            return actual == wanted or (math.isnan(wanted) and math.isnan(actual))
        case _:
            msg = f"not an expected value: {form}"
            raise ValueError(msg)
