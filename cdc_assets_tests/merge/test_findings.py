"""What a batch's first try has found, for the tries that follow."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from cdc_assets.changes.names import LakeName, TableName
from cdc_assets.changes.offsets import Coordinate, OffsetVector
from cdc_assets.config import SourceConfig
from cdc_assets.merge.attempt.batch_facts import Findings, Held, batch_of
from cdc_assets.merge.intake.source_facts import SourceAnswers
from cdc_assets.merge.plan.request import Request, TailRequest
from cdc_assets.registry import TableEntry
from cdc_assets_tests.configuration import source

pytestmark = pytest.mark.unit

NOW = datetime(2026, 3, 4, 12, tzinfo=UTC)
ENTRY = TableEntry(TableName("s", "public", "t"), "s.public.t", LakeName("n", "t"), NOW)
REQUEST = Request(ENTRY, "run", TailRequest())
WITH_STATEMENTS = REQUEST.with_statements((Coordinate("s.public.t", 0, 7),))


@pytest.mark.parametrize("has_read", [False, True])
def test_statements_that_are_all_on_other_tables_are_read_once(*, has_read: bool) -> None:
    asked = SourceAnswers(SourceConfig.model_validate(source("s")), None)
    findings = Findings()
    held = Held(batch_of(WITH_STATEMENTS), OffsetVector.of({0: 9}), asked, has_read=has_read)
    findings.keep(held)
    assert findings.of(WITH_STATEMENTS) is held
    assert findings.known_to(WITH_STATEMENTS) is (held if has_read else None)
    assert findings.known_to(REQUEST) is None
    assert findings.known_to(REQUEST.with_all_schemas()) is held
