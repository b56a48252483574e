"""Defines the job `verify_tables`: the command `cdc-assets verify`, also with `--repair`."""

# No `from __future__ import annotations`: Dagster reads the annotations of the bodies below.

from typing import TYPE_CHECKING, Final

import dagster as dg
from pydantic import Field

from cdc_assets.config import ReplicationConfig
from cdc_assets.operate.comparable import NOT_COMPARED
from cdc_assets.orchestration.keys import table_key
from cdc_assets.orchestration.matching import verdict_of
from cdc_assets.orchestration.people import people_job
from cdc_assets.orchestration.steering import Tables
from cdc_assets.orchestration.verifying import Wish, run_verify
from cdc_assets.registry import Registry, TableEntry

if TYPE_CHECKING:
    from cdc_assets.merge.verifying.report import Report

REPAIR: Final = "repair"
"""`cdc/mode` of these runs: a person started them, so housekeeping keeps them."""


class VerifyWish(Tables):
    """The tables to compare, and the treatment of differences."""

    repair: bool = Field(default=False, description="put right what differs")


def verify_job(config: ReplicationConfig, _: Registry) -> dg.JobDefinition:
    """Returns the job that compares tables with their source as `cdc-assets verify` does."""
    replication = config

    def compare_with_source(context: dg.OpExecutionContext, config: VerifyWish) -> None:
        def say(entry: TableEntry, words: str) -> None:
            context.log.info(f"{entry.table}: {words}")

        def told(entry: TableEntry, report: "Report") -> None:
            _show(context, replication, entry, report)

        wish = Wish(config.choice(), repair=config.repair)
        outcome = run_verify(replication, wish, context.run_id, say, told)
        for table, why in outcome.not_compared.items():
            context.log.info(f"{table}: {NOT_COMPARED}{why}")
        bad = {
            each.table: "; ".join(each.words(keys=False))
            for each in outcome.reports
            if not each.is_proven
        }
        if outcome.is_bad:
            words = (f"{table}: {why}" for table, why in {**outcome.failed, **bad}.items())
            raise dg.Failure("\n".join(words), allow_retries=False)

    about = (
        "Compares tables with their live source while both change, and with `repair` puts "
        "right what differs. The check `matches_source` says what was found. May be cancelled "
        "and started again."
    )
    return people_job(config, "verify_tables", compare_with_source, mode=REPAIR, about=about)


def _show(
    context: dg.OpExecutionContext, config: ReplicationConfig, entry: TableEntry, report: "Report"
) -> None:
    """Reports in the run's log and as the table's check. Names no key."""
    context.log.info(f"{entry.table}: {'; '.join(report.words(keys=False))}")
    evaluation = verdict_of(table_key(config, entry), report).evaluation()
    context.instance.report_runless_asset_event(evaluation)
