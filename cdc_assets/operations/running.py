"""Runs operations: a session for each table, the dry run, progress, and failures of tables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from cdc_assets.operate.services import Services
from cdc_assets.operations.operation import O, Operation, P, Progress, Report, Results, Tables
from cdc_assets.operations.session import Host, TableSession
from cdc_assets.reference import explained

Say = Callable[[Progress], None]

Work = Callable[[Tables], Report]
"""Does the work on the tables of one session, and returns the report."""


def carried_out(operation: Operation[O, P], options: O, session: TableSession, say: Say) -> Report:
    """Plans an operation on one table and, unless it is a dry run, carries the plan out.

    Raises:
        CdcError: as the operation raises.
    """
    with session:
        plan = operation.plan(session, options)
        if options.is_dry_run and operation.is_progress_apart:
            return Report(plan.to_dict(), tuple(plan.lines()))
        if options.is_dry_run:
            for line in plan.lines():
                say(Progress(line))
            return Report(plan.to_dict())
        for step in operation.steps(session, options, plan):
            if isinstance(step, Report):
                return step
            say(step)
    msg = f"{operation.name} ended without a report"
    raise RuntimeError(msg)


@dataclass(frozen=True, slots=True)
class Runner:
    """A runner of operations, in one process.

    Attributes:
        services: shared by all tables.
        host: the process.
        say: receives progress.
        on_report: receives each table's report as soon as there is one.
        work: does the work instead of `carried_out`, unless this is a dry run; None for that.
    """

    services: Services
    host: Host
    say: Say
    on_report: Callable[[Report], None] = lambda _: None
    work: Work | None = None

    def run(self, operation: Operation[O, P], options: O) -> Results:
        """Runs an operation on the selected tables, one after the other.

        A table's failure does not affect the others; if the options name one table, its error is
        raised.

        Raises:
            CdcError: if nothing is selected, or the one table failed.
        """
        operation.check(options)
        results, chosen = Results(), operation.chosen(self.services, options)
        for each in () if options.is_dry_run else operation.prepare(self.host, options):
            self.say(each)
        for tables in chosen:
            label = operation.label(tables)
            try:
                report = self._report(operation, options, tables)
            except Exception as error:
                if options.names_one:
                    raise
                results.failed[label] = explained(error)
                continue
            results.reports[label] = report
            self.on_report(report)
        return results

    def _report(self, operation: Operation[O, P], options: O, tables: Tables) -> Report:
        if self.work is not None and not options.is_dry_run:
            return self.work(tables)
        session = TableSession(
            self.services, tables, self.host, lambda words: self.say(Progress(words))
        )
        return carried_out(operation, options, session, self.say)
