"""Defines the operation `accept-restart`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from cdc_assets.changes.names import TableName
from cdc_assets.operations.operation import Operation, Progress, Report
from cdc_assets.operations.options import OneTable, Planned
from cdc_assets.operations.session import TableSession

if TYPE_CHECKING:
    from cdc_assets.operations.accept_restart.desk import RestartDesk, Stop


class AcceptRestartOptions(OneTable, Planned):
    """The options of `accept-restart`."""


@dataclass(frozen=True, slots=True)
class AcceptRestartPlan:
    """A table's reasons to stop that an operator may accept.

    Attributes:
        table: the table.
        desk: the finder of these reasons, which also accepts them.
        stop: the reasons.
    """

    table: TableName
    desk: RestartDesk
    stop: Stop

    def lines(self) -> Sequence[str]:
        """Returns the reasons for people."""
        return _lines(self.table, self.stop.words(), "would be accepted")

    def to_dict(self) -> dict[str, Any]:
        """Returns the reasons for ``--json``."""
        return _document(self.table, self.stop.words(), accepted=False)


class AcceptRestart(Operation[AcceptRestartOptions, AcceptRestartPlan]):
    """Resume after a source's restart: restored, upgraded by dump, RESETLOGS, or recreated.

    Changes after the restart count as newer than changes before, for this restart only. Another
    table of the same name still stops. Rows that the source has lost stay until it sends
    deletes.
    """

    name = "accept-restart"
    options = AcceptRestartOptions

    def plan(self, session: TableSession, options: AcceptRestartOptions) -> AcceptRestartPlan:
        """Finds the reasons why the table stops."""
        from cdc_assets.operations.accept_restart.desk import RestartDesk

        desk = RestartDesk(session)
        return AcceptRestartPlan(session.entry.table, desk, desk.stop())

    def steps(
        self, session: TableSession, options: AcceptRestartOptions, plan: AcceptRestartPlan
    ) -> Iterator[Progress | Report]:
        """Records that the reasons are accepted. Merges nothing.

        This can be repeated: the permission names the restart, and is used up by the first batch
        that is merged across the restart.
        """
        table, found = session.entry.table, plan.desk.accept_all(plan.stop).words()
        done = f"accepted; `cdc-assets replicate --table {table}` merges what follows as newer"
        lines = _lines(table, found, done)
        yield Report(_document(table, found, accepted=bool(found)), tuple(lines))


def _lines(table: TableName, found: Sequence[str], then: str) -> list[str]:
    if not found:
        return [f"{table}: no restart in what is not merged yet"]
    return [f"{table}: {line}" for line in (*found, then)]


def _document(table: TableName, found: Sequence[str], *, accepted: bool) -> dict[str, Any]:
    return {"table": str(table), "found": list(found), "accepted": accepted}


ACCEPT_RESTART: Final = AcceptRestart()
