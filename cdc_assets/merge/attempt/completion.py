"""Completes the plan of a batch from its records, and from what its source says of the table."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from pyspark.sql import DataFrame

from cdc_assets.formats.format import Format
from cdc_assets.formats.histories import after_statements, statements_on
from cdc_assets.lake.at_source import AtSource
from cdc_assets.merge.attempt.batch_facts import Findings, Held, batch_of
from cdc_assets.merge.attempt.context import AttemptContext
from cdc_assets.merge.intake.ddl_records import read_statements
from cdc_assets.merge.intake.decoding import BatchDecoder
from cdc_assets.merge.intake.describe import TypeSource
from cdc_assets.merge.intake.preparation import Preparation
from cdc_assets.merge.intake.source_facts import SourceAnswers
from cdc_assets.merge.intake.writer_schemas import Schemas, WrittenSchemas
from cdc_assets.merge.plan.column_plan import taught
from cdc_assets.merge.plan.plan import BatchPlan
from cdc_assets.merge.plan.request import Quarantined, Request, TailRequest
from cdc_assets.schema.ddl import Ddl
from cdc_assets.schema.history import StatementHistory


class Completion:
    """The completion of plans. Remembers the schemas that records were written with.

    Args:
        means: of the tries.
        findings: kept by a batch's first try, for those that follow.
    """

    def __init__(self, means: AttemptContext, findings: Findings) -> None:
        self._means = means
        self._findings = findings
        self._schemas = WrittenSchemas()

    def of(
        self, request: Request, plan: BatchPlan, records: DataFrame
    ) -> tuple[BatchPlan, BatchDecoder]:
        """Returns the whole plan, and the decoder of the batch's records.

        The source is asked by a batch's first try; later ones go by what was found then.

        Args:
            request: of this try.
            plan: of the lake and the log.
            records: of the batch, raw.

        Raises:
            TerminalError: see `Preparation.of`.
            CdcError: if a part does not answer.
        """
        means, entry = self._means, request.entry
        fmt, tables = means.planner.format(entry), means.planner.tables(entry)
        held = self._findings.known_to(request)
        if held is None:
            held = self._read(request, plan, fmt)
            self._findings.keep(held)
        plan = _taught(plan, held.before)
        types = TypeSource(means.source(entry), means.connections.log, fmt, held.answers)
        all_of_them = request.all_schemas or isinstance(request.work, Quarantined)
        written = partial(self._written, all_of_them=all_of_them)
        preparation = Preparation(means.session, means.catalog, types, tables, fmt, written)
        is_known = request.statements is not None or not isinstance(request.work, TailRequest)
        plan = replace(plan, statements_known=is_known or not fmt.tells_statements)
        return preparation.of(plan, records, request.columns, request.lacking)

    def _read(self, request: Request, plan: BatchPlan, fmt: Format) -> Held:
        """Reads the statements that the request names, and returns the findings of this try."""
        entry = request.entry
        before, history = self._history(plan, fmt)
        statements: tuple[Ddl, ...] = ()
        if request.statements and history is not None:
            log = self._means.connections.log
            read = read_statements(log, fmt, plan.layout.scheme, request.statements)
            statements = statements_on(entry, read)
        if statements and history is not None:
            before = history.with_numbers(plan.schema)
            history = after_statements(before, entry, statements, is_empty=plan.is_empty)
        answers = SourceAnswers(self._means.source(entry), history, self._means.clock())
        read = bool(request.statements)
        return Held(batch_of(request), plan.end, answers, before, statements, has_read=read)

    def _history(
        self, plan: BatchPlan, fmt: Format
    ) -> tuple[StatementHistory | None, StatementHistory | None]:
        """Returns the table's history before new statements, and after them.

        The one before is None if there are no new ones of which anything is known, or if they are
        among the rows.

        They are read after the log's end was: statements on anything in the batch are there by
        then, unless their topic lags behind. The next batch finds those that come late.
        """
        stored = AtSource.of(plan.state, plan.entry.shard_value).history
        if fmt.tells_statements:
            topic = plan.identity.topic_id
            known = stored if stored and stored.topic == topic else StatementHistory(topic=topic)
            return None, known
        histories = self._means.connections.histories
        return histories.continued(plan.entry, fmt, plan.layout.scheme, stored, plan.schema)

    def _written(self, plan: BatchPlan, raw: DataFrame, *, all_of_them: bool) -> Schemas:
        """Returns the schemas of the records; of a few of them as long as that may suffice."""
        fmt, log = self._means.planner.format(plan.entry), self._means.connections.log
        first = None if all_of_them else self._schemas.of_first(plan, fmt, log)
        return self._schemas.of_all(plan, fmt, raw) if first is None else first


def _taught(plan: BatchPlan, before: StatementHistory | None) -> BatchPlan:
    """Adds the numbers that the lake's columns have before the statements of the batch.

    After these a name may be another column's.
    """
    if before is None or plan.entry.shard is not None:
        return plan
    schema, steps = taught(plan.schema, before)
    return replace(plan, schema=schema, steps=(*plan.steps, *steps))
