"""Records as nobody should write them, each with what has to become of it.

They belong to a table of `COLUMNS`, whose key is ``id``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from cdc_assets_tests.pipeline import Message

COLUMNS: Final = {
    "id": "bigint",
    "name": "text",
    "n": "bigint",
    "amount": "decimal(12,2)",
    "tags": "text[]",
}
CANARY: Final = "canary-c41f"
_DEEP: Final = 10_000
_DIGITS: Final = "9" * 10_000
_FOLLOWED: Final = r'"[\"900\",\"1000\"]"'

Row = dict[str, Any]


@dataclass(frozen=True)
class Odd:
    """One record; ``row`` is what it leaves, None if it must be rejected."""

    name: str
    value: bytes
    row: Row | None
    key: bytes


def row(id_: int) -> Row:
    """As a good event has it."""
    return {"id": id_, "name": "x", "n": 1, "amount": "EjRW", "tags": ["a"]}


def merged(id_: int, **other: Any) -> Row:
    """As the lake has it then."""
    return {**row(id_), "amount": Decimal("11930.46"), **other}


def good(id_: int) -> Message:
    return Message(_key(id_), _event(_row_with(id_, "n", "1")).encode())


def odd_records(first: int) -> list[Odd]:
    """All of them, with ids from ``first`` on."""
    return [
        Odd(name, text.encode() if isinstance(text, str) else text, left, key or _key(id_))
        for id_, make in enumerate(_makers(), first)
        for name, text, left, key in [make(id_)]
    ]


Maker = Callable[[int], tuple[str, str | bytes, Row | None, bytes | None]]


def _makers() -> Iterator[Maker]:
    for name, text in _VALUES.items():
        yield lambda _, name=name, text=text: (name, text, None, None)
    for (column, name), literal in _IN_COLUMNS.items():
        yield lambda i, c=column, name=name, text=literal: (
            f"{name} in {c}", _event(_row_with(i, c, text)), None, None,
        )  # fmt: skip
    for (part, name), literal in _IN_PARTS.items():
        yield lambda i, p=part, name=name, text=literal: (
            f"{name} as {p}", _event(**{"after": _row_with(i, "n", "1"), p: text}), None, None,
        )  # fmt: skip
    for name, change in _CHANGED.items():
        yield lambda i, name=name, change=change: (name, change(_good_text(i)), None, None)
    for name, key in _KEYS.items():
        yield lambda i, name=name, key=key: (name, _good_text(i), None, key)
    yield from _KEPT


_LISTS = "[" * _DEEP + "]" * _DEEP
_OBJECTS = '{"a":' * _DEEP + "1" + "}" * _DEEP
_VALUES: Final[dict[str, str | bytes]] = {
    "nested lists": _LISTS,
    "nested objects": _OBJECTS,
    "nesting without an end": "[" * _DEEP,
    "only broken UTF-8": b"\xff\xfe\x80",
    "nothing": b"",
    "spaces": "   ",
    "an empty object": "{}",
    "an empty list": "[]",
    "an empty text": '""',
    "a text": f'"{CANARY}"',
    "a number": "1",
    "a number of 10,000 digits": _DIGITS,
    "NaN": "NaN",
    "payload: null": '{"payload":null}',
}
_IN_COLUMNS: Final = {
    ("name", "nested lists"): _LISTS,
    ("n", "nested objects"): _OBJECTS,
    ("tags", "nested lists"): _LISTS,
    ("n", "10,000 digits"): _DIGITS,
    ("n", "10,000 digits below zero"): f"-{_DIGITS}",
    ("n", "10,000 digits after the point"): f"0.{_DIGITS}",
    ("n", "a huge exponent"): "1e999999",
    ("n", "a tiny exponent"): "1e-999999",
    ("n", "an exponent of 10,000 digits"): f"1e{_DIGITS}",
    ("n", "NaN"): "NaN",
    ("n", "-Infinity"): "-Infinity",
    ("n", "a text"): f'"{CANARY}"',
    ("n", "a boolean"): "true",
    ("n", "a list"): "[1]",
    ("n", "a fraction"): "1.5",
    ("n", "2^63"): str(2**63),
    ("amount", "10,000 digits"): _DIGITS,
    ("amount", "no base64"): '"@@@"',
    ("amount", "3,000 bytes"): f'"{"A" * 4000}"',
    ("tags", "an object"): '{"a":1}',
    ("tags", "a text"): f'"{CANARY}"',
    ("id", "null"): "null",
    ("id", "a text"): f'"{CANARY}"',
    ("name", "half of a surrogate pair"): r'"\ud800"',
    ("name", "the other half"): r'"\\\udfff"',
    ("name", "a raw control character"): '"a\x01b"',
}
_IN_PARTS: Final = {
    ("after", "nested objects"): _OBJECTS,
    ("after", "a list"): "[]",
    ("after", "a text"): f'"{CANARY}"',
    ("after", "a number"): "1",
    ("after", "an empty object"): "{}",
    ("after", "null"): "null",
    ("op", "nested lists"): _LISTS,
    ("op", "a number"): "1",
    ("op", "a list"): '["c"]',
    ("op", "an object"): '{"c":1}',
    ("op", "null"): "null",
    ("op", "an empty text"): '""',
    ("op", "a long text"): f'"{"c" * 5000}"',
    ("source", "nested objects"): _OBJECTS,
    ("source", "a list"): "[]",
    ("source", "a text"): f'"{CANARY}"',
    ("source", "a number"): "7",
    ("source", "null"): "null",
    ("source", "an empty object"): "{}",
    ("source", "a text as LSN"): f'{{"lsn":"{CANARY}"}}',
    ("source", "an LSN below zero"): '{"lsn":-5,"ts_ms":1}',
    ("source", "an LSN of 10,000 digits"): f'{{"lsn":{_DIGITS},"ts_ms":1}}',
    ("source", "LSNs below zero"): r'{"lsn":-5,"ts_ms":1,"sequence":"[\"-7\",\"-5\"]"}',
    ("source", "a time beyond years"): f'{{"lsn":1000,"ts_ms":{"9" * 18},"sequence":{_FOLLOWED}}}',
    ("source", "a time beyond 64 bits"): f'{{"lsn":1000,"ts_ms":{"9" * 30}}}',
    ("beside", "nested objects"): _OBJECTS,
}
_CHANGED: Final[dict[str, Callable[[str], str | bytes]]] = {
    "broken UTF-8 in a text": lambda text: text.encode().replace(b'"x"', b'"\xff\xfe"'),
    "broken UTF-8 in a name": lambda text: text.encode().replace(b'"name"', b'"na\xffme"'),
    "a byte order mark": lambda text: b"\xef\xbb\xbf" + text.encode(),
    "UTF-16": lambda text: text.encode("utf-16"),
    "a list around it": lambda text: f"[{text}]",
    "text after it": lambda text: f"{text} {CANARY}",
    "two events": lambda text: text * 2,
    "cut off": lambda text: text[:-9],
    "a comment before it": lambda text: f"/* {CANARY} */{text}",
    "single quotes": lambda text: text.replace("\\", "").replace('"', "'"),
}
_KEYS: Final = {"a key of broken UTF-8": b'{"id":\xff}'}
_KEPT: Final[list[Maker]] = [
    lambda i: ("a nested key", _good_text(i), merged(i), _LISTS.encode()),
    lambda i: ("a key that is no JSON", _good_text(i), merged(i), b"\x00"),
    lambda i: ("a nested sequence",
               _event(_row_with(i, "n", "1"), source=f'{{"lsn":1000,"sequence":"{_LISTS}"}}'),
               merged(i), None),
    lambda i: ("NUL in a text", _event(_row_with(i, "name", r'"a\u0000b"')),
               merged(i, name="a\0b"), None),
    lambda i: ("a pair of surrogates", _event(_row_with(i, "name", r'"\\\ud83d\ude00\\ud800"')),
               merged(i, name="\\\U0001f600\\ud800"), None),
    lambda i: ("a column twice", _event(_row_with(i, "n", '1,"n":2')), merged(i, n=2), None),
    lambda i: ("the key twice", _event(_row_with(i, "n", f'1,"id":{-i}')), merged(-i), None),
    lambda i: ("after twice", _event(_row_with(i, "n", "1"), beside=f'1,"after":{_json(row(-i))}'),
               merged(-i), None),
    lambda i: ("a field like a mark of ours",
               _event(_row_with(i, "n", "1"), beside=f'1,"__unreadable":"{CANARY}"'),
               merged(i), None),
]  # fmt: skip

_SOURCE: Final = (
    '{"connector":"postgresql","lsn":1000,"ts_ms":1760000000000,"snapshot":"false",'
    f'"sequence":{_FOLLOWED}}}'
)


def _event(after: str, op: str = '"c"', source: str = _SOURCE, beside: str = "1") -> str:
    """An event as text, for what no serializer writes."""
    return f'{{"before":null,"after":{after},"source":{source},"op":{op},"beside":{beside}}}'


def _good_text(id_: int) -> str:
    return _event(_row_with(id_, "n", "1"))


def _row_with(id_: int, column: str, literal: str) -> str:
    return _json({**row(id_), column: "@"}).replace('"@"', literal, 1)


def _json(document: object) -> str:
    return json.dumps(document, separators=(",", ":"))


def _key(id_: int) -> bytes:
    return _json({"id": id_}).encode()


_DECIMAL: Final = {
    "type": "bytes",
    "name": "org.apache.kafka.connect.data.Decimal",
    "parameters": {"scale": "2", "connect.decimal.precision": "12"},
}
_ROW: Final = {
    "type": "struct",
    "optional": True,
    "fields": [
        {"field": "id", "type": "int64"},
        {"field": "name", "type": "string", "optional": True},
        {"field": "n", "type": "int64", "optional": True},
        {"field": "amount", "optional": True, **_DECIMAL},
        {"field": "tags", "type": "array", "optional": True, "items": {"type": "string"}},
    ],
}
SCHEMA: Final[dict[str, Any]] = {
    "type": "struct",
    "fields": [{"field": "before", **_ROW}, {"field": "after", **_ROW}],
}
NO_SCHEMAS: Final[dict[str, Any]] = {
    "a text": CANARY,
    "a list": [1],
    "an empty object": {},
    "no type": {"fields": SCHEMA["fields"]},
    "a struct without after": {"type": "struct", "fields": [{"field": "note", "type": "string"}]},
    "fields that are none": {"type": "struct", "fields": [1, None, CANARY]},
    "fields as text": {"type": "struct", "fields": CANARY},
    "after without columns": {"type": "struct", "fields": [{"field": "after", "type": "struct"}]},
    "a column without a name": {"type": "struct", "fields": [
        {"field": "after", "type": "struct", "fields": [{"type": "int64"}]}]},
    "a column twice": {"type": "struct", "fields": [
        {"field": "after", "type": "struct", "fields": [_ROW["fields"][0]] * 2}]},
    "a scale of 10,000 digits": {"type": "struct", "fields": [
        {"field": "after", "type": "struct", "fields": [
            _ROW["fields"][0],
            {"field": "amount", **_DECIMAL, "parameters": {"scale": _DIGITS}}]}]},
}  # fmt: skip
