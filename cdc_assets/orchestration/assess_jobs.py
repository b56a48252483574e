"""Defines the job `assess_tables`: the command `cdc-assets assess`, with everything it looks at."""

# No `from __future__ import annotations`: Dagster reads the annotations of the bodies below.

from typing import Any, Final

import dagster as dg

from cdc_assets.config import ReplicationConfig
from cdc_assets.errors import CdcError
from cdc_assets.operate.assess.finding import Assessment, Verdict, worst
from cdc_assets.operations.options import AssessOptions
from cdc_assets.orchestration.assessing import LISTED, run_assess, verdicts, words_of
from cdc_assets.orchestration.manual_jobs import manual_job
from cdc_assets.orchestration.operation_jobs import config_of
from cdc_assets.reference import explained, finding_page
from cdc_assets.registry import Registry

ASSESS: Final = "assess"
"""`cdc/mode` of these runs: a person started them, so housekeeping keeps them."""


def assess_job(config: ReplicationConfig, _: Registry) -> dg.JobDefinition:
    """Returns the job that assesses as `cdc-assets assess` does."""
    replication, in_job = config, config_of(AssessOptions)

    def assess_all_parts(context: dg.OpExecutionContext, config: in_job) -> None:  # pyright: ignore[reportInvalidTypeForm]
        options = AssessOptions.model_validate(config.model_dump())

        def say(part: str) -> None:
            context.log.info(f"looking at {part}")

        try:
            entries, found = run_assess(replication, options, say)
        except CdcError as error:
            raise dg.Failure(explained(error), allow_retries=False) from None
        for verdict in verdicts(replication, entries, found):
            context.instance.report_runless_asset_event(verdict.evaluation())
        _tell(context, found)

    about = (
        "Says of sources, tables and columns whether they can be replicated exactly, as "
        "`cdc-assets assess` does: with Spark, rows, and a trial of writing. The check "
        "`assessed` of each table says what was found. Fails if the answer is NO."
    )
    return manual_job(config, "assess_tables", assess_all_parts, mode=ASSESS, about=about)


def _tell(context: dg.OpExecutionContext, found: Assessment) -> None:
    """Writes everything into the run's log, and a summary into its metadata.

    Raises:
        Failure: if a source or table cannot be replicated exactly.
    """
    for each in found.findings:
        write = context.log.error if each.verdict is Verdict.NO else context.log.warning
        write(f"{each} ({finding_page(each.name)})")
    for note in found.notes:
        context.log.info(f"not judged: {note}")
    metadata = _metadata(found)
    if found.failing:
        what = f"NO: {', '.join(map(str, found.failing[:LISTED]))}"
        raise dg.Failure(what, metadata=metadata, allow_retries=False)
    context.add_output_metadata(metadata)


def _metadata(found: Assessment) -> dict[str, Any]:
    places = [f"- **{verdict}** {at}" for at, verdict in found.lines()]
    words = [words_of(each) for each in found.findings[:LISTED]]
    return {
        "verdict": worst(found.findings).value,
        "findings": len(found.findings),
        "places": dg.MetadataValue.md("\n".join(places[:LISTED]) or "nothing"),
        "found": dg.MetadataValue.md("\n".join(words) or "nothing"),
        "not judged": "; ".join(map(str, found.notes)) or "nothing",
    }
