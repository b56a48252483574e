"""Assesses tables: as their check `assessed`, in the job `assess_tables`, and for the command.

The sensor and the check look at databases, Kafka and connectors; the job and the command at
everything, as with Spark, rows, and a trial of writing.
"""

# No `from __future__ import annotations`: Dagster reads the annotations of the bodies below.

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Final

import dagster as dg

from cdc_assets.config import ReplicationConfig
from cdc_assets.errors import CdcError
from cdc_assets.operate.assess.finding import Assessment, Finding, Verdict, worst
from cdc_assets.operate.assess.look import Depth, assess
from cdc_assets.operate.discovery import discover
from cdc_assets.operate.known_tables import find_table, replicated
from cdc_assets.operate.services import Services
from cdc_assets.operations.options import AssessOptions
from cdc_assets.orchestration import checks
from cdc_assets.orchestration.keys import CHECK_ASSESSED, named, steps_apart, table_key
from cdc_assets.orchestration.manual_jobs import config_of, manual_job
from cdc_assets.orchestration.resources import spark_resource
from cdc_assets.reference import explained, finding_page
from cdc_assets.registry import Registry, TableEntry

ASSESS: Final = "assess"
"""`cdc/mode` of the job's runs: a person started them, so housekeeping keeps them."""
_LISTED: Final = 50
"""The greatest number of findings written with a check or a run."""


def assessed_checks(
    config: ReplicationConfig, entries: Sequence[TableEntry]
) -> Sequence[dg.AssetChecksDefinition]:
    """Returns the checks of all tables, nearly always as one step, which assesses selected ones."""
    steps = steps_apart(config, entries, CHECK_ASSESSED)
    return [_step(config, f"assess{f'_{n}' if n else ''}", each) for n, each in enumerate(steps)]


def _step(
    config: ReplicationConfig, name: str, entries: Sequence[TableEntry]
) -> dg.AssetChecksDefinition:
    specs = [
        dg.AssetCheckSpec(
            CHECK_ASSESSED,
            asset=table_key(config, entry),
            description="Database, connector, topic and types allow it to be replicated exactly.",
        )
        for entry in entries
    ]

    @dg.multi_asset_check(name=named(config, name), specs=specs, can_subset=True)
    def look(context: dg.AssetCheckExecutionContext) -> Iterator[dg.AssetCheckResult]:
        chosen = {key.asset_key for key in context.selected_asset_check_keys}
        mine = [each for each in entries if table_key(config, each) in chosen]
        yield from (
            each.result() for each in verdicts(config, mine, look_now(Services(config), mine))
        )

    return look


def verdicts(
    config: ReplicationConfig, entries: Sequence[TableEntry], found: Assessment
) -> Iterator[checks.CheckVerdict]:
    """Yields each table's verdict, from the findings on it and on its source."""
    for entry in entries:
        table = entry.table
        mine = (*found.of_source(table.source), *found.of_table(table))
        verdict = worst(mine)
        left_out = "; ".join(each.text for each in found.notes_on(table))
        said = "; ".join(str(each) for each in mine[:_LISTED]) or "nothing is in the way"
        yield checks.CheckVerdict(
            asset=table_key(config, entry),
            check=CHECK_ASSESSED,
            passed=verdict is Verdict.YES,
            severity=checks.ERROR if verdict is Verdict.NO else checks.WARN,
            description=f"{said} (not judged: {left_out})" if left_out else said,
            reason=" ".join(f"{each.verdict} {each.at} {each.name}" for each in mine),
            metadata={
                "verdict": verdict.value,
                "findings": len(mine),
                "found": _listed(map(_item, mine)),
                "not judged": left_out or "nothing",
            },
        )


def look_now(services: Services, entries: Sequence[TableEntry]) -> Assessment:
    """Assesses as the sensor does: without Spark, rows, or a test of writing files."""
    return assess(services, sorted({each.table.source for each in entries}), entries, Depth())


def _item(each: Finding) -> str:
    where = f" `{each.at.column}`" if each.at.column else ""
    said = f"{each.problem}: {each.impact}. {each.remedy}"
    return f"- **{each.verdict}**{where} {said} (`{each.name}`)"


def _listed(items: Iterable[str]) -> dg.MarkdownMetadataValue:
    return dg.MetadataValue.md("\n".join(islice(items, _LISTED)) or "nothing")


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
        _report(context, found)

    about = (
        "Says of sources, tables and columns whether they can be replicated exactly, as "
        "`cdc-assets assess` does: with Spark, rows, and a trial of writing. The check "
        "`assessed` of each table says what was found. Fails if the answer is NO."
    )
    return manual_job(config, "assess_tables", assess_all_parts, mode=ASSESS, about=about)


def _report(context: dg.OpExecutionContext, found: Assessment) -> None:
    """Writes everything into the run's log, and a summary into its metadata.

    Raises:
        Failure: if a source or table cannot be replicated exactly.
    """
    for each in found.findings:
        write = context.log.error if each.verdict is Verdict.NO else context.log.warning
        write(f"{each} ({finding_page(each.name)})")
    for note in found.notes:
        context.log.info(f"not judged: {note}")
    metadata = {
        "verdict": worst(found.findings).value,
        "findings": len(found.findings),
        "places": _listed(f"- **{verdict}** {at}" for at, verdict in found.lines()),
        "found": _listed(map(_item, found.findings)),
        "not judged": "; ".join(map(str, found.notes)) or "nothing",
    }
    if found.failing:
        what = f"NO: {', '.join(map(str, found.failing[:_LISTED]))}"
        raise dg.Failure(what, metadata=metadata, allow_retries=False)
    context.add_output_metadata(metadata)


def run_assess(
    config: ReplicationConfig, options: AssessOptions, say: Callable[[str], None]
) -> tuple[Sequence[TableEntry], Assessment]:
    """Assesses as the command does: everything, including Spark, rows and the warehouse.

    Args:
        config: the configuration.
        options: the sources and tables, and whether to write nothing, not even a file or a table
            that is deleted again.
        say: receives messages about the progress.

    Returns:
        The tables, and what was found.

    Raises:
        ConfigError: if there is no such source.
        TerminalError: if there is no such table.
    """
    if options.source is not None:
        config.source(options.source)
    services = Services(config)
    there = replicated(config, _known(services))
    entries = tuple(each for each in there if options.source in (None, each.table.source))
    sources = [name for name in config.sources if options.source in (None, name)]
    if options.tables:
        known = Registry.of(entries)
        entries = tuple(dict.fromkeys(find_table(config, known, each) for each in options.tables))
        sources = list(dict.fromkeys(each.table.source for each in entries))
    mine = [each for each in entries if each.table.source in sources]
    resource = spark_resource(config, requires_jar=False)  # a finding instead
    depth = Depth(values=True, writes=not options.read_only, session=resource.session, say=say)
    try:
        return mine, assess(services, sources, mine, depth)
    finally:
        resource.forget()


def _known(services: Services) -> Registry:
    """Returns the registry with new tables added; unchanged if Kafka does not answer.

    The assessment itself reports that.
    """
    try:
        return discover(services).registry
    except CdcError:
        return services.registry.load()
