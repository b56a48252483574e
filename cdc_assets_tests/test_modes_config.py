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
