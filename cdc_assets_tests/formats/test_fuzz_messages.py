"""Whatever a record of Maxwell or GoldenGate holds, it is a change or a rejection."""

from __future__ import annotations

from pathlib import Path

import pytest

from cdc_assets_tests.formats.fuzz import require_told
from cdc_assets_tests.formats.test_golden_messages import FILES, ONLY_TOLD, of_file
from cdc_assets_tests.pipeline import Session

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}-{file.stem}")
def test_every_record_is_a_change_or_a_rejection(spark: Session, file: Path) -> None:
    golden, fmt, records, table = of_file(file)
    good = [
        record
        for record, each in zip(records, golden["records"], strict=True)
        if "reject" not in each["change"] and each["change"]["op"] not in ONLY_TOLD
    ]
    counts = require_told(spark, fmt, table, good, count=300)
    assert counts["rejected"] > 20
    assert sum(counts.values()) - counts["rejected"] > 20
