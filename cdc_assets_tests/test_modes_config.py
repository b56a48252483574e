"""``mode``: what a lake table holds, of a source and of a table."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from cdc_assets.changes.mode import Mode
from cdc_assets.changes.names import TableName
from cdc_assets.config import SourceConfig

pytestmark = pytest.mark.unit

ORDERS = TableName("s", "public", "orders")


def source(**said: object) -> SourceConfig:
    topics = {"include": [".*"]}
    return SourceConfig.model_validate({"format": "debezium-json", "topics": topics, **said})


def test_a_table_holds_its_source_s_rows_unless_it_is_to_hold_changes() -> None:
    of_table = {"tables": {"public.orders": {"mode": "changelog"}}}
    back = {"mode": "changelog", "tables": {"public.orders": {"mode": "mirror"}}}
    assert source().mode_of(ORDERS) is Mode.MIRROR
    assert source(mode="changelog").mode_of(ORDERS) is Mode.CHANGELOG
    assert source(**of_table).mode_of(ORDERS) is Mode.CHANGELOG
    assert source(**back).mode_of(ORDERS) is Mode.MIRROR


RULE = {"tables": ".*", "namespace": "all"}
SOFT = {"deletes": "soft"}


@pytest.mark.parametrize(
    ("said", "refusal"),
    [
        ({"mode": "log"}, "'mirror', 'changelog' or 'history'"),
        ({"mode": "changelog", "tables": {"public.orders": SOFT}}, "deletes: soft is for mode"),
        ({"tables": {"public.orders": {**SOFT, "mode": "changelog"}}}, "public.orders"),
        ({"mode": "changelog", "merge_into": [RULE]}, "merged into one"),
    ],
    ids=["unknown", "soft in a changelog", "soft and changelog", "merged into one"],
)
def test_what_does_not_fit_is_refused(said: dict[str, object], refusal: str) -> None:
    with pytest.raises(ValidationError, match=refusal):
        source(**said)


def test_soft_deletes_are_those_of_a_mirror() -> None:
    said = {"mode": "changelog", "tables": {"public.orders": {**SOFT, "mode": "mirror"}}}
    assert source(**said).mode_of(ORDERS) is Mode.MIRROR


READ = {"topics": {"include": [".*"], "prefix": "s"}, "initial": "read"}
DATABASE = {"database": {"kind": "postgres", "dsn": {"env": "DSN"}}}


def test_first_rows_come_from_the_log_unless_they_are_to_be_read() -> None:
    of_table = {"tables": {"public.orders": {"initial": "log"}}}
    assert not source().reads_first(ORDERS)
    assert source(**READ, **DATABASE).reads_first(ORDERS)
    assert not source(**READ, **DATABASE, **of_table).reads_first(ORDERS)
    one = {**READ, "initial": "log", "tables": {"public.orders": {"initial": "read"}}}
    assert source(**one, **DATABASE).reads_first(ORDERS)
    assert source(**one, **DATABASE).reads_some_first


@pytest.mark.parametrize(
    ("said", "refusal"),
    [
        (READ, "initial: read needs database"),
        ({**DATABASE, "initial": "read"}, "initial: read needs topics.prefix"),
        (
            {"tables": {"public.orders": {"initial": "read"}}},
            "tables.public.orders.initial: read needs database",
        ),
        ({**READ, **DATABASE, "merge_into": [RULE]}, "makes whole tables"),
        ({**READ, **DATABASE, "mode": "history"}, "mode: history is made of changes"),
        (
            {**READ, **DATABASE, "tables": {"public.orders": {"mode": "changelog"}}},
            "tables.public.orders: mode: changelog",
        ),
    ],
    ids=["no database", "no prefix", "of a table", "merged into one", "history", "changelog"],
)
def test_a_read_that_gives_no_table_is_refused(said: dict[str, object], refusal: str) -> None:
    with pytest.raises(ValidationError, match=refusal):
        source(**said)
