"""Reading tables again from their source: what `cdc-assets resnapshot` does, table by table."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from cdc_assets import desired
from cdc_assets.changes.names import TableName
from cdc_assets.config import ReplicationConfig
from cdc_assets.desired import Wanted
from cdc_assets.errors import HeldError
from cdc_assets.operate.services import Services
from cdc_assets.operate.states import held_words
from cdc_assets.operate.steering import Choice, chosen
from cdc_assets.orchestration.failing import message_of
from cdc_assets.orchestration.resources import spark_resource
from cdc_assets.registry import TableEntry

if TYPE_CHECKING:
    from cdc_assets.merge.resnapshot.progress import Progress
    from cdc_assets.merge.resnapshot.report import Report
    from cdc_assets.merge.resnapshot.table import Resnapshot

YIELDED: Final = timedelta(seconds=60)
"""For so long whoever merges waits at most, since it was asked last."""

Say = Callable[[TableEntry, str], None]


@dataclass(frozen=True, slots=True)
class Wish:
    """What a person asks of a re-snapshot.

    Attributes:
        choice: which tables.
        anew: from the first wave on, whatever was done before.
        dry_run: only say what would be done.
    """

    choice: Choice
    anew: bool = False
    dry_run: bool = False


@dataclass
class Outcome:
    """What has come of it.

    Attributes:
        dry_run: nothing was done.
        reports: of the tables that were read again.
        intended: what would be done, of a dry run.
        failed: the tables that were not, with the reason.
    """

    dry_run: bool
    reports: list[Report] = field(default_factory=list["Report"])
    intended: dict[TableName, str] = field(default_factory=dict[TableName, str])
    failed: dict[TableName, str] = field(default_factory=dict[TableName, str])

    @property
    def is_bad(self) -> bool:
        """Whether a table failed, or is not what its source is."""
        return bool(self.failed) or any(not each.is_whole for each in self.reports)

    def to_json(self) -> str:
        """For machines."""
        tables: list[dict[str, Any]] = [each.to_dict() for each in self.reports]
        tables += [{"table": str(each), "would": words} for each, words in self.intended.items()]
        failed = {str(table): why for table, why in self.failed.items()}
        return json.dumps({"dry_run": self.dry_run, "tables": tables, "failed": failed}, indent=2)


def run_resnapshot(config: ReplicationConfig, wish: Wish, run_id: str, say: Say) -> Outcome:
    """Read tables again, one after the other; one that fails does not keep the others from it.

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
            engine = _engine(services, session, run_id, entry, say)
            try:
                if wish.dry_run:
                    begun = _begun(services, entry, wish)
                    outcome.intended[entry.table] = engine.intention(entry, begun).words
                else:
                    outcome.reports.append(_one(services, entry, wish, engine))
            except Exception as error:
                outcome.failed[entry.table] = message_of(error)
                forget()  # it may be what failed; the next table makes a new one
    return outcome


def _one(services: Services, entry: TableEntry, wish: Wish, engine: Resnapshot) -> Report:
    _require_merged(services, entry)
    book, begun = services.resnapshots, _begun(services, entry, wish)
    report = engine.of(entry, begun, lambda done: book.keep(entry.table, done))
    book.forget(entry.table)
    return report


def _begun(services: Services, entry: TableEntry, wish: Wish) -> Progress | None:
    return None if wish.anew else services.resnapshots.load(entry.table)


def _require_merged(services: Services, entry: TableEntry) -> None:
    """A table that nobody merges into would be waited for in vain.

    Raises:
        HeldError: then.
    """
    said = held_words(entry.table, services.desired.of(entry.table))
    if said:
        what, _, remedy = said.partition(" → ")
        raise HeldError(what, where=f"table={entry.table}", remedy=remedy)


@dataclass
class _Way:
    """Asks by a wish, which ends by itself where this process dies."""

    services: Services
    table: TableName
    run_id: str
    asked: bool = False

    def ask(self) -> None:
        now = self.services.clock()
        wanted = Wanted(now, self.run_id, until=now + YIELDED)
        self.services.desired.put(self.table, desired.Wish.YIELDS, wanted)
        self.asked = True

    def clear(self) -> None:
        if self.asked:
            self.services.desired.remove(self.table, desired.Wish.YIELDS)
            self.asked = False


def _engine(
    services: Services, session: Any, run_id: str, entry: TableEntry, say: Say
) -> Resnapshot:
    from cdc_assets.merge.resnapshot.table import Resnapshot

    way = _Way(services, entry.table, run_id)
    config, told = services.config, partial(say, entry)
    return Resnapshot(config, session, run_id, say=told, way=way, clock=services.clock)


@contextmanager
def _spark(config: ReplicationConfig) -> Iterator[tuple[Any, Callable[[], None]]]:
    spark = spark_resource(config)
    try:
        yield spark.session, spark.forget
    finally:
        spark.forget()
