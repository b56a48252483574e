"""An error that is not ours ends its own table's step, soon, and shows nothing of its text."""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import NoReturn

import dagster as dg
import pytest

from cdc_assets.log.hours import hour_of
from cdc_assets.orchestration.assets import table_asset
from cdc_assets.orchestration.instance import QUIET
from cdc_assets.orchestration.keys import SPARK, TAG_MODE, TAIL
from cdc_assets.orchestration.resources import spark_resource
from cdc_assets.orchestration.side_by_side import materialize
from cdc_assets.orchestration.table_run import step
from cdc_assets_tests.world import entry_of, write_config

pytestmark = pytest.mark.slow

SECRET = "s3cret-row-value"
TABLES = ("orders", "users")


def foreign(*_: object, **__: object) -> NoReturn:
    raise ValueError(SECRET)


def test_a_run_whose_tables_meet_errors_of_others_ends_with_a_failure_of_each(
    tmp_path: Path, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(step, "survey", foreign)
    config, results = write_config(tmp_path), list[dg.ExecuteInProcessResult]()
    shared = [entry_of(name, config, topic="shop.all") for name in TABLES]

    def run() -> None:
        results.append(
            materialize(
                [table_asset(config, entry) for entry in shared],
                instance=instance, resources={SPARK: spark_resource(config)},
                partition_key=hour_of(datetime.now(UTC)).key, tags={TAG_MODE: TAIL},
                run_config=QUIET,
            )
        )  # fmt: skip

    running = threading.Thread(target=run, daemon=True)
    running.start()
    running.join(60)
    assert not running.is_alive(), "no table waits for a turn that never comes"

    (result,) = results
    steps = sorted(each.step_key or "" for each in result.get_step_failure_events())
    assert steps == [f"shop__public__{name}" for name in TABLES]
    logged = list(instance.all_logs(result.run_id))
    kinds = [each.dagster_event.event_type_value for each in logged if each.dagster_event]
    assert "STEP_UP_FOR_RETRY" not in kinds
    assert SECRET not in "".join(dg.serialize_value(each) for each in logged)
    judged = {each.check_name: each.passed for each in result.get_asset_check_evaluations()}
    assert judged == dict.fromkeys(
        ("offsets_contiguous", "replication_slo", "schema_in_sync"), False
    )
