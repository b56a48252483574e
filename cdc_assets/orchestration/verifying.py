"""Comparing tables with their sources: what `cdc-assets verify` does, table by table."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rich.console import Console

from cdc_assets.changes.names import TableName
from cdc_assets.config import ReplicationConfig
from cdc_assets.errors import ConfigError
from cdc_assets.operate.discovery import find_table, replicated
from cdc_assets.operate.services import Services
from cdc_assets.orchestration.failing import message_of
from cdc_assets.orchestration.resources import spark_resource
from cdc_assets.registry import TableEntry

if TYPE_CHECKING:
    from cdc_assets.merge.verifying.report import Report


@dataclass(frozen=True, slots=True)
class Wish:
    """Which tables are compared, and what becomes of differences."""

    source: str | None = None
    table: str | None = None
    repair: bool = False
    as_json: bool = False


@dataclass
class Outcome:
    """What has come of it.

    Attributes:
        reports: of the tables that were compared.
        failed: those that were not, with the reason.
    """

    reports: list[Report] = field(default_factory=list["Report"])
    failed: dict[TableName, str] = field(default_factory=dict[TableName, str])

    @property
    def is_bad(self) -> bool:
        """Whether a table failed, differs, or was not judged whole."""
        return bool(self.failed) or any(
            each.differs or each.not_judged or each.has_more for each in self.reports
        )

    @property
    def to_put_right(self) -> int:
        """How many keys differ."""
        return sum(len(each.differences) for each in self.reports)

    def to_json(self) -> str:
        """For machines."""
        failed = {str(table): message for table, message in self.failed.items()}
        return json.dumps({"tables": [each.to_dict() for each in self.reports], "failed": failed})


def run_verify(config: ReplicationConfig, wish: Wish) -> Outcome:
    """Compares tables, and says what it finds as it finds it.

    Raises:
        CdcError: if no table is meant.
    """
    services, outcome = Services(config), Outcome()
    progress, out = Console(stderr=True), Console()
    spark = spark_resource(config)
    run_id = f"verify-{uuid.uuid4()}"
    try:
        for entry in _selected(config, services, wish):

            def say(words: str, table: TableName = entry.table) -> None:
                progress.print(f"{table}: {words}", highlight=False, soft_wrap=True)

            try:
                report = verified(config, spark.session, entry, run_id, say, repair=wish.repair)
            except Exception as error:
                outcome.failed[entry.table] = message_of(error)
                spark.forget()  # it may be what failed; the next table makes a new one
                continue
            outcome.reports.append(report)
            if not wish.as_json:
                for line in report.words():
                    out.print(f"{entry.table}: {line}", highlight=False, markup=False,
                              soft_wrap=True)  # fmt: skip
    finally:
        spark.forget()
    if wish.as_json:
        print(outcome.to_json())
    return outcome


def verified(
    config: ReplicationConfig,
    session: Callable[[], object],
    entry: TableEntry,
    run_id: str,
    say: Callable[[str], None],
    *,
    repair: bool = False,
) -> Report:
    """Compare one table.

    Raises:
        CdcError: if a part does not answer, or the table cannot be compared at all.
    """
    from cdc_assets.merge.verifying.verification import Verification

    verification = Verification(config, session, run_id, say=say)  # pyright: ignore[reportArgumentType]
    return verification.of(entry, repair=repair)


def _selected(config: ReplicationConfig, services: Services, wish: Wish) -> Sequence[TableEntry]:
    registry = services.registry.load()
    if wish.table is not None:
        return (find_table(config, registry, wish.table),)
    if wish.source is not None:
        config.source(wish.source)
    entries = [
        each for each in replicated(config, registry) if wish.source in (None, each.table.source)
    ]
    if not entries:
        msg = "no table is known yet"
        raise ConfigError(msg, remedy="start cdc-assets replicate first")
    return entries
