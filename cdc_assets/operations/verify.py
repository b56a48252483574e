"""Defines the operation `verify`: compares lake tables with their sources, and repairs them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final

from pydantic import Field

from cdc_assets.errors import ConfigError
from cdc_assets.operate import rebuilds
from cdc_assets.operate.comparable import NOT_COMPARED, is_repairable, rests
from cdc_assets.operate.services import Services
from cdc_assets.operations.operation import Job, Operation, Progress, Report, Results
from cdc_assets.operations.options import Cli, NamedTables
from cdc_assets.operations.session import TableSession
from cdc_assets.registry import TableEntry

if TYPE_CHECKING:
    from cdc_assets.merge.verifying.report import ComparisonReport


class VerifyOptions(NamedTables):
    """The options of `verify`. A command compares all tables unless some are selected."""

    every: Annotated[bool, Cli(always=True)] = Field(default=False, description="All tables.")
    repair: bool = Field(default=False, description="Replace differing rows by the source's.")
    dry_run: bool = Field(default=False, description="With --repair: print what would be repaired.")

    def entries(self, services: Services) -> Sequence[TableEntry]:
        """Returns the selected tables."""
        found = super().entries(services)
        if not found:
            msg = "no table is known yet"
            raise ConfigError(msg, remedy="start cdc-assets replicate first")
        return found


@dataclass(frozen=True, slots=True)
class VerifyPlan:
    """The plan of a comparison.

    Attributes:
        entry: the table.
        rest: why there is nothing to compare; empty if there is.
        repairs: whether differences are repaired.
    """

    entry: TableEntry
    rest: str
    repairs: bool

    def lines(self) -> Sequence[str]:
        """Returns the plan for people."""
        then = ", and repaired" if self.repairs else ""
        words = f"{NOT_COMPARED}{self.rest}" if self.rest else f"would be compared{then}"
        return [f"{self.entry.table}: {words}"]

    def to_dict(self) -> dict[str, Any]:
        """Returns the plan for ``--json``."""
        return {"table": str(self.entry.table), "not_compared": self.rest, "repair": self.repairs}


class Verify(Operation[VerifyOptions, VerifyPlan]):
    """Compare lake tables with their source, while both change.

    Compares checksums of key ranges, and rows where these differ. Something must merge meanwhile:
    the daemon, or cdc-assets replicate. Prints differing keys and column names, never other
    values. Exits with 1 if a table differs, failed, or was not judged completely. Tables that
    cannot be compared are named with the reason, and fail only if --table names them.
    """

    name = "verify"
    options = VerifyOptions
    is_observed = False
    is_progress_apart = True
    job = Job(
        "verify_tables", "compare_with_source", "repair",
        "Compares tables with their live source while both change, and with `repair` puts "
        "right what differs. The check `matches_source` says what was found. May be cancelled "
        "and started again.",
    )  # fmt: skip

    def plan(self, session: TableSession, options: VerifyOptions) -> VerifyPlan:
        """Decides whether the table is compared, and whether differences are repaired.

        A table that is named is compared, or fails with the reason. Of all other tables, those with
        nothing to compare are left out; histories, and tables that a rebuild replaces, are compared
        without repair.
        """
        services, entry = session.services, session.entry
        repairs = options.repair and not options.dry_run
        if options.tables:
            return VerifyPlan(entry, "", repairs)
        return VerifyPlan(
            entry, rests(services, entry), repairs and _is_repairable(services, entry)
        )

    def steps(
        self, session: TableSession, options: VerifyOptions, plan: VerifyPlan
    ) -> Iterator[Progress | Report]:
        """Compares the table."""
        if plan.rest:
            yield Report(plan.to_dict(), tuple(plan.lines()))
            return
        found = verified(session, repair=plan.repairs)
        if options.repair and options.dry_run and (count := len(found.differences)):
            yield Progress(f"{plan.entry.table}: --repair would put right {count} keys")
        session.host.on_compared(plan.entry, found)
        yield report_on(plan.entry, found)

    def document(self, options: VerifyOptions, results: Results) -> Mapping[str, Any]:
        """Returns the comparisons, and the reasons why other tables were not compared."""
        documents = [dict(each.document) for each in results.reports.values()]
        rest = {each["table"]: each["not_compared"] for each in documents if "not_compared" in each}
        return {
            "tables": [each for each in documents if "not_compared" not in each],
            "not_compared": rest,
            "failed": dict(results.failed),
        }


def verified(session: TableSession, *, repair: bool) -> ComparisonReport:
    """Compares a table with its source, and repairs differences if requested.

    Raises:
        CdcError: if a part does not answer, or the table cannot be compared at all.
    """
    from cdc_assets.merge.verifying.verification import Verification

    def say(words: str) -> None:
        session.say(f"{session.entry.table}: {words}")

    run_id = session.host.recorded("verify")
    verification = Verification(session.attempts, run_id, say=say, way=session.lease)
    return verification.of(session.entry, repair=repair)


def report_on(entry: TableEntry, found: ComparisonReport) -> Report:
    """Returns the report on a comparison. Lines for a job's log name no key."""
    words = "; ".join(found.words(keys=False))
    return Report(
        found.to_dict(),
        tuple(f"{entry.table}: {line}" for line in found.words()),
        failure="" if found.is_proven else words,
        log_lines=(f"{entry.table}: {words}",),
    )


def _is_repairable(services: Services, entry: TableEntry) -> bool:
    under_way = rebuilds.is_under_way(services, entry.table)
    return not under_way and is_repairable(services.config, entry)


VERIFY: Final = Verify()
