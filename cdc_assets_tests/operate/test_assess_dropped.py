"""A new table begins behind a dropped one of its name, if it is in the same topic."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from cdc_assets.changes.offsets import OffsetVector
from cdc_assets.log.values import Watermarks
from cdc_assets.operate.assess.finding import Subject
from cdc_assets.operate.assess.gather import Log, SourceFacts
from cdc_assets.operate.assess.topics import judge_topic
from cdc_assets.operate.services import Services
from cdc_assets.registry import Dropped
from cdc_assets_tests.world import NOW, entry_of, write_config

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("noted", "is_late"),
    [("now", False), ("", True), ("before", True)],
    ids=["same_topic", "noted_by_an_older_version", "topic_made_anew"],
)
def test_a_log_that_begins_late_is_found_unless_it_is_sure_that_it_does_not(
    tmp_path: Path, noted: str, *, is_late: bool
) -> None:
    config = write_config(tmp_path)
    end = OffsetVector.of({0: 5})
    entry = replace(entry_of("orders", config), dropped=Dropped(NOW, end, noted))
    marks = Watermarks(OffsetVector.of({0: 3}), OffsetVector.of({0: 9}))
    log = Log({entry.topic: marks}, {}, {}, {entry.topic: "now"})
    topic = SourceFacts(Services(config), entry.table.source, [entry]).topic(entry, log, None)
    found = {each.name for each in judge_topic(Subject(entry.table.source, entry.table), topic)}
    assert ("log_begins_late" in found) is is_late
