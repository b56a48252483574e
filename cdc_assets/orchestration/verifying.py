"""Compares tables with their sources for `cdc-assets verify`, table by table."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from cdc_assets.changes.names import TableName
from cdc_assets.config import ReplicationConfig
from cdc_assets.errors import ConfigError, message_of
from cdc_assets.operate import rebuilds
from cdc_assets.operate.comparable import is_repairable, rests
from cdc_assets.operate.services import Services
from cdc_assets.operate.steering import Choice, chosen
from cdc_assets.operations.lease import Lease
from cdc_assets.orchestration.resources import spark_resource
from cdc_assets.registry import TableEntry

if TYPE_CHECKING:
    from cdc_assets.merge.verifying.report import Report

Say = Callable[[TableEntry, str], None]


@dataclass(frozen=True, slots=True)
class Wish:
    """The tables to compare, and whether to repair differences.

    Of tables that are not named, those with nothing to compare are left out with the reason, and
    histories and those that are being built anew are compared without repair.
    """

    choice: Choice
    repair: bool = False

    @property
    def is_named(self) -> bool:
        """Whether the tables are named one by one."""
        return bool(self.choice.tables)


@dataclass
class Outcome:
    """The result of a comparison.

    Attributes:
        reports: the reports on the compared tables.
        not_compared: the tables with nothing to compare, with the reason; that is no failure.
        failed: the tables that could not be compared, with the reason.
    """

    reports: list[Report] = field(default_factory=list["Report"])
    not_compared: dict[TableName, str] = field(default_factory=dict[TableName, str])
    failed: dict[TableName, str] = field(default_factory=dict[TableName, str])

    @property
    def is_bad(self) -> bool:
        """Whether a table failed, differs, or was not judged completely."""
        return bool(self.failed) or any(
            each.differs or each.not_judged or each.has_more for each in self.reports
        )

    @property
    def to_put_right(self) -> int:
        """The number of keys that differ."""
        return sum(len(each.differences) for each in self.reports)

    def to_json(self) -> str:
        """Returns the document that ``--json`` prints."""
        document = {
            "tables": [each.to_dict() for each in self.reports],
            "not_compared": {str(table): why for table, why in self.not_compared.items()},
            "failed": {str(table): message for table, message in self.failed.items()},
        }
        return json.dumps(document)


def run_verify(
    config: ReplicationConfig,
    wish: Wish,
    run_id: str,
    say: Say,
    told: Callable[[TableEntry, Report], None],
) -> Outcome:
    """Compares tables, one after the other; a failure does not affect the other tables.

    Args:
        config: the configuration.
        wish: the tables to compare, and whether to repair them.
        run_id: the id that is recorded with each publish.
        say: receives messages about the progress.
        told: receives each table's report as soon as there is one.

    Raises:
        CdcError: if no table is selected.
    """
    services, outcome = Services(config), Outcome()
    spark = spark_resource(config)
    try:
        for entry in _selected(services, wish.choice):
            heard = partial(say, entry)
            try:
                if not wish.is_named and (why := rests(services, entry)):
                    outcome.not_compared[entry.table] = why
                    continue
                repair = wish.repair and (wish.is_named or _is_repairable(services, entry))
                report = verified(config, spark.session, entry, run_id, heard, repair=repair)
            except Exception as error:
                outcome.failed[entry.table] = message_of(error)
                spark.forget()  # the session may be what failed; the next table gets a new one
                continue
            outcome.reports.append(report)
            told(entry, report)
    finally:
        spark.forget()
    return outcome


def _is_repairable(services: Services, entry: TableEntry) -> bool:
    under_way = rebuilds.is_under_way(services, entry.table)
    return not under_way and is_repairable(services.config, entry)


def verified(
    config: ReplicationConfig,
    session: Callable[[], object],
    entry: TableEntry,
    run_id: str,
    say: Callable[[str], None],
    *,
    repair: bool = False,
) -> Report:
    """Compares one table.

    Raises:
        CdcError: if a part does not answer, or the table cannot be compared at all.
    """
    from cdc_assets.merge.verifying.verification import Verification

    way = Lease(Services(config), entry.table, run_id)
    verification = Verification(config, session, run_id, say=say)  # pyright: ignore[reportArgumentType]
    return verification.asking(way).of(entry, repair=repair)


def _selected(services: Services, choice: Choice) -> Sequence[TableEntry]:
    entries = chosen(services, choice)
    if not entries:
        msg = "no table is known yet"
        raise ConfigError(msg, remedy="start cdc-assets replicate first")
    return entries
