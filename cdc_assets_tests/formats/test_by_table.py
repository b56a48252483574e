"""Records told apart by table: whatever they hold, each table is told what it would tell itself."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st

from cdc_assets.formats.format import Format
from cdc_assets_tests.formats import canal
from cdc_assets_tests.formats.decoding import Bytes, decoded, table_of
from cdc_assets_tests.formats.fuzz import require_apart
from cdc_assets_tests.formats.messages import format_named, maxwell, ogg
from cdc_assets_tests.formats.test_fuzz_canal import MESSAGES, TYPES, broken_packets, flat, row
from cdc_assets_tests.pipeline import Message, Session
from cdc_assets_tests.toy.profiles import in_soak

pytestmark = pytest.mark.spark

MINE, OTHER = "public.t", "public.u"
OTHERS = [
    {**flat("INSERT", [row(1), row(2), row(3)]), "table": "u"},
    canal.flat(
        "UPDATE",
        [{"id": "1", "t": "x"}],
        [{"t": "y"}],
        table=OTHER,
        types={"id": "int", "t": "text"},
    ),
    canal.flat("DELETE", [row(1)], table="other.t", types=TYPES),
    canal.ddl("TRUNCATE", "TRUNCATE u", OTHER),
    {**flat("INSERT", []), "table": "u"},
]


def of(messages: list[Message]) -> list[Bytes]:
    return [Bytes(each.key, each.value) for each in messages]


def said(table: str) -> list[Message]:
    before, after = {"id": 1, "name": "a", "at": "x"}, {"id": 1, "name": None, "at": "y"}
    return [
        maxwell("insert", after, table=table),
        maxwell("bootstrap-insert", before, table=table),
        maxwell("update", after, {"name": "a"}, table=table),
        maxwell("delete", before, table=table),
        maxwell("table-alter", None, table=table),
        maxwell("bootstrap-start", {}, table=table),
    ]


def done(table: str) -> list[Message]:
    before, after = {"id": 1, "name": "a", "at": "x"}, {"id": 1, "name": None, "at": "y"}
    return [
        ogg("I", 1, after=after, table=table),
        ogg("U", 2, before=before, after=after, table=table),
        ogg("D", 3, before=before, table=table),
        ogg("T", 4, table=table),
    ]


@pytest.mark.parametrize(
    ("name", "mine", "others"),
    [
        pytest.param("canal-json", [canal.as_json(each) for each in MESSAGES],
                     [canal.as_json(each) for each in OTHERS], marks=in_soak),
        ("canal-protobuf", [canal.as_packet([each]) for each in MESSAGES],
         [*(canal.as_packet([each]) for each in OTHERS), canal.as_packet([*OTHERS, *MESSAGES])]),
        ("maxwell-json", said(MINE), [*said(OTHER), *said("other.t")]),
        ("ogg-json", done(MINE), [*done(OTHER), *done("other.t")]),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)  # fmt: skip
def test_a_table_is_told_what_it_would_tell_itself(
    spark: Session, name: str, mine: list[Message], others: list[Message]
) -> None:
    fmt = format_named(name)
    good = of(mine)
    odd = _odd(fmt, [*good, *of(others)])
    found = require_apart(spark, fmt, table_of(fmt, good), [*good, *of(others)], count=300, odd=odd)
    assert found > 30


@pytest.mark.parametrize(
    ("name", "mine", "others"),
    [("maxwell-json", said(MINE), said(OTHER)), ("ogg-json", done(MINE), done(OTHER))],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_what_one_table_could_not_keep_is_no_concern_of_another(
    spark: Session, name: str, mine: list[Message], others: list[Message]
) -> None:
    """A column that both have: text that may be JSON in the one, a long number in the other."""
    fmt, good = format_named(name), of(mine)
    texts = [(each.value or b"").replace(b'"x"', b'{"n":%s}' % (b"9" * 5_000)) for each in others]
    strange = [Bytes(each.key, text) for each, text in zip(others, texts, strict=True)]
    changes = decoded(spark, fmt, table_of(fmt, good), [*good, *strange])
    told = [changes[len(good) + at][0] for at, text in enumerate(texts) if b'{"n":' in text]
    assert told
    assert {(row["op"], row["reject"]) for row in told} == {("other", None)}


def _odd(fmt: Format, good: list[Bytes]) -> st.SearchStrategy[Bytes] | None:
    return broken_packets(good) if fmt.has_packets else None
