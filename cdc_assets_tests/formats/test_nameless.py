"""Changes that name no table, or half of one: nobody knows whose they are."""

from __future__ import annotations

import pytest

from cdc_assets_tests.formats.decoding import Bytes, decoded, table_of
from cdc_assets_tests.formats.messages import format_named, maxwell, ogg
from cdc_assets_tests.pipeline import Message, Session

pytestmark = pytest.mark.spark

MINE = "public.t"
ROW = {"id": 1, "name": "a"}


@pytest.mark.parametrize(
    ("name", "good", "nameless"),
    [
        ("maxwell-json", maxwell("insert", ROW, table=MINE),
         [b'{"table":"t","type":"insert","ts":1,"data":{"id":1}}',
          b'{"table":"u","type":"insert","ts":1,"data":{"id":1}}',
          b'{"database":"other","type":"insert","ts":1,"data":{"id":1}}']),
        ("ogg-json", ogg("I", 1, after=ROW, table=MINE),
         [b'{"table":"T","op_type":"I","pos":"00000000000000000009","after":{"id":1}}',
          b'{"op_type":"I","pos":"00000000000000000009","after":{"id":1}}']),
    ],
    ids=["maxwell-json", "ogg-json"],
)  # fmt: skip
def test_a_change_that_names_no_table_is_refused_by_each(
    spark: Session, name: str, good: Message, nameless: list[bytes]
) -> None:
    fmt = format_named(name)
    records = [Bytes(good.key, good.value), *(Bytes(None, each) for each in nameless)]
    changes = decoded(spark, fmt, table_of(fmt, records[:1]), records)
    reasons = [row["reject"] for at in range(1, len(records)) for row in changes[at]]
    expected = {"it does not name its database and table", "no schema.table"}
    assert len(reasons) == len(nameless)
    assert set(reasons) <= expected
