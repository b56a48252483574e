"""After a rebuild the table is compared with its source, and its check says what was found."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from contextlib import nullcontext
from typing import TYPE_CHECKING

from cdc_assets.operate.comparable import is_comparable
from cdc_assets.operate.services import Services
from cdc_assets.orchestration.checks import ERROR
from cdc_assets.orchestration.instance import open_instance
from cdc_assets.orchestration.matching import compared
from cdc_assets.registry import TableEntry

if TYPE_CHECKING:
    import dagster as dg

    from cdc_assets.orchestration.resources import ReplicationSpark


def matches_after_rebuild(
    services: Services,
    entry: TableEntry,
    spark: ReplicationSpark,
    say: Callable[[str], None],
    instance: dg.DagsterInstance | None,
) -> bool | None:
    """Compares a table, and writes the outcome as its check, which belongs to no run.

    Args:
        services: the replication's services.
        entry: the table.
        spark: provides the session.
        say: receives messages about the progress.
        instance: receives the outcome; None for that of $DAGSTER_HOME.

    Returns:
        Whether nothing differs; also where it cannot be compared, which is said. None if it has no
        source to be compared with.
    """
    if not is_comparable(services.config, entry):
        return None
    run_id = f"verify-{uuid.uuid4()}"
    verdict = compared(services, entry, spark, run_id, say, merges=True)
    say(verdict.description)
    with nullcontext(instance) if instance else open_instance() as told:
        told.report_runless_asset_event(verdict.evaluation())
    return verdict.passed or verdict.severity is not ERROR
