"""Reading tables again from their source: what `cdc-assets resnapshot` does, table by table.

By Spark, or by a signal to the connector (`cdc_assets.merge.resnapshot.signalled`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from cdc_assets.changes.names import TableName
from cdc_assets.config import ReplicationConfig
from cdc_assets.errors import HeldError, message_of
from cdc_assets.operate.services import Services
from cdc_assets.operate.signalled import Action, steer_snapshots
from cdc_assets.operate.states import held_words
from cdc_assets.operate.steering import Choice, Done, Order, Steered, chosen
from cdc_assets.operations.lease import Lease
from cdc_assets.orchestration.resources import spark_resource
from cdc_assets.registry import TableEntry

if TYPE_CHECKING:
    from cdc_assets.merge.resnapshot.progress import Progress
    from cdc_assets.merge.resnapshot.report import Report
    from cdc_assets.merge.resnapshot.signal_note import SignalNote
    from cdc_assets.merge.resnapshot.signal_report import SignalReport
    from cdc_assets.merge.resnapshot.signalled import SignalledResnapshot
    from cdc_assets.merge.resnapshot.table import Resnapshot

Say = Callable[[TableEntry, str], None]
Via = Literal["read", "signal"]


@dataclass(frozen=True, slots=True)
class Wish:
    """A person's wish for a re-snapshot.

    Attributes:
        choice: which tables.
        via: who reads them: Spark, or the connector.
        anew: from the first wave on, or by a new signal, whatever was done before.
        dry_run: only say what would be done.
    """

    choice: Choice
    via: Via = "read"
    anew: bool = False
    dry_run: bool = False


@dataclass
class Outcome:
    """The outcome of a re-snapshot.

    Attributes:
        dry_run: nothing was done.
        reports: of the tables that were read again.
        intended: what would be done, of a dry run.
        failed: the tables that were not, with the reason.
    """

    dry_run: bool
    reports: list[Report | SignalReport] = field(default_factory=list["Report | SignalReport"])
    intended: dict[TableName, str] = field(default_factory=dict[TableName, str])
    failed: dict[TableName, str] = field(default_factory=dict[TableName, str])

    @property
    def is_bad(self) -> bool:
        """Whether a table failed, or is not what its source is."""
        return bool(self.failed) or any(not each.is_whole for each in self.reports)

    def to_json(self) -> str:
        """Returns it for machines."""
        tables: list[dict[str, Any]] = [each.to_dict() for each in self.reports]
        tables += [{"table": str(each), "would": words} for each, words in self.intended.items()]
        failed = {str(table): why for table, why in self.failed.items()}
        return json.dumps({"dry_run": self.dry_run, "tables": tables, "failed": failed}, indent=2)


def run_resnapshot(config: ReplicationConfig, wish: Wish, run_id: str, say: Say) -> Outcome:
    """Reads tables again, one after the other; one that fails does not keep the others from it.

    Args:
        config: the configuration.
        wish: what is asked for.
        run_id: recorded with each publish.
        say: told of progress.

    Raises:
        CdcError: if no table is meant.
    """
    services = Services(config)
    entries, outcome = chosen(services, wish.choice), Outcome(wish.dry_run)
    with _spark(config) as (session, forget):
        for entry in entries:
            one = _Reading if wish.via == "read" else _Signalled
            at = one(services, session, run_id, entry, wish, partial(say, entry))
            try:
                if wish.dry_run:
                    outcome.intended[entry.table] = at.intention()
                else:
                    _require_merged(services, entry)
                    outcome.reports.append(at.done())
            except Exception as error:
                outcome.failed[entry.table] = message_of(error)
                forget()  # it may be what failed; the next table makes a new one
    return outcome


def _require_merged(services: Services, entry: TableEntry) -> None:
    """Refuses tables that nobody merges into: they would be waited for in vain.

    Raises:
        HeldError: then.
    """
    said = held_words(entry.table, services.desired.of(entry.table))
    if said:
        what, _, remedy = said.partition(" → ")
        raise HeldError(what, where=f"table={entry.table}", remedy=remedy)


def run_steering(
    config: ReplicationConfig,
    choice: Choice,
    action: Action,
    say: Callable[[Done], None],
    *,
    dry_run: bool,
) -> Steered:
    """Pauses, resumes or stops the snapshots of tables that their connectors make.

    Raises:
        CdcError: if no table is meant.
    """
    services = Services(config)
    order = Order("cdc-assets resnapshot", dry_run=dry_run)
    return steer_snapshots(services, chosen(services, choice), action, order, say)


@dataclass(frozen=True, slots=True)
class _Table:
    """A table that is read again."""

    services: Services
    session: Any
    run_id: str
    entry: TableEntry
    wish: Wish
    say: Callable[[str], None]


class _Reading(_Table):
    """Reads a table with Spark."""

    def intention(self) -> str:
        return self._engine().intention(self.entry, self._begun()).words

    def done(self) -> Report:
        book, table = self.services.resnapshots, self.entry.table
        report = self._engine().of(self.entry, self._begun(), lambda done: book.keep(table, done))
        book.forget(table)
        return report

    def _begun(self) -> Progress | None:
        return None if self.wish.anew else self.services.resnapshots.load(self.entry.table)

    def _engine(self) -> Resnapshot:
        from cdc_assets.merge.resnapshot.table import Resnapshot

        of = self.services
        way = Lease(of, self.entry.table, self.run_id)
        return Resnapshot(
            of.config, self.session, self.run_id, say=self.say, way=way, clock=of.clock
        )


class _Signalled(_Table):
    """Has the connector read a table."""

    def intention(self) -> str:
        return self._engine().intention(self.entry, self._note(), anew=self.wish.anew)

    def done(self) -> SignalReport:
        book, table = self.services.resnapshots, self.entry.table

        def keep(note: SignalNote | None) -> None:
            if note is None:
                book.forget_signal(table)
            else:
                book.keep_signal(table, note)

        report = self._engine().of(self.entry, self._note(), keep, anew=self.wish.anew)
        book.forget_signal(table)
        return report

    def _note(self) -> SignalNote | None:
        return self.services.resnapshots.load_signal(self.entry.table)

    def _engine(self) -> SignalledResnapshot:
        from cdc_assets.merge.resnapshot.signalled import SignalledResnapshot

        of = self.services
        way = Lease(of, self.entry.table, self.run_id)
        return SignalledResnapshot(
            of.config, self.session, self.run_id, say=self.say, way=way, clock=of.clock
        )


@contextmanager
def _spark(config: ReplicationConfig) -> Iterator[tuple[Any, Callable[[], None]]]:
    spark = spark_resource(config)
    try:
        yield spark.session, spark.forget
    finally:
        spark.forget()
