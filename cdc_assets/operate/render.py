"""Prints `cdc-assets status`, `quarantine` and `assess` for people."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import compress
from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from cdc_assets.naming import some_of
from cdc_assets.operate.assess.finding import Assessment, Subject, Verdict
from cdc_assets.operate.quarantine import Listing
from cdc_assets.operate.seen_states import Condition
from cdc_assets.operate.states import held_words, seconds_text, stopped_words
from cdc_assets.operate.status import Status, TableStatus, finite, quarantine_words
from cdc_assets.reference import finding_page
from cdc_assets.schema.silent import SilentChange, doubt_remedy, doubt_words

if TYPE_CHECKING:
    from cdc_assets.lake.quarantined import QuarantinedRecord

_STYLES: Final = {
    Condition.NEW: "cyan",
    Condition.SNAPSHOTTING: "cyan",
    Condition.PAUSED: "bold blue",
    Condition.REBUILDING: "cyan",
    Condition.REPLICATING: "green",
    Condition.LAGGING: "yellow",
    Condition.WAITING: "bold yellow",
    Condition.FAILING: "bold red",
    Condition.UNKNOWN: "magenta",
    Condition.DROPPED: "dim",
}
_VERDICTS: Final = {Verdict.YES: "green", Verdict.PARTIAL: "yellow", Verdict.NO: "bold red"}

_NAMED: Final = 5

_COLUMNS: Final = ("since", "lake table", "offsets", "behind", "by", "complete", "in time", "p95")
_LEFT: Final = frozenset({"since", "lake table", "offsets"})
_LEFT_OUT_FIRST: Final = ("lake table", "offsets", "p95", "complete", "since", "in time")
"""Columns that a narrow terminal does without, in this order."""
_ANY_WIDTH: Final = 10_000
"""Of a file or a pipe, where a line is as long as it has to be, and no name is cut."""
_WIDTH_OF_FINDINGS: Final = 200
"""Of a file or a pipe, where findings are several sentences each."""
_RECORD_COLUMNS: Final = (
    "source", "table", "topic", "partition", "offset", "time", "reason", "run", "quarantined at",
)  # fmt: skip


def render_status(status: Status, console: Console | None = None) -> None:
    """Prints a table of all tables, and below it why those are not up to date that are not."""
    out = console or _console()
    if status.tables:
        left_out = _too_wide(status, out)
        out.print(_table(status, left_out))
        if left_out:
            out.print(
                f"(a wider terminal shows {', '.join(left_out)}; --json has everything)",
                soft_wrap=True,
            )
    else:
        out.print(Text(status.why_none or "no table is known"), soft_wrap=True)
    for each in status.failing:
        out.print(_failure(each), soft_wrap=True)
    for each in status.waiting:
        out.print(_waiting(each), soft_wrap=True)
    for each in status.held:
        out.print(_held(each), soft_wrap=True)
    for (condition, why), tables in reasons(status).items():
        out.print(
            Text.assemble((f"{some_of(tables, _NAMED)} ", _STYLES[condition]), why), soft_wrap=True
        )
    for each in status.overtaken:
        out.print(_overtaken(each), soft_wrap=True)
    for line in _about_rows(status):
        out.print(line, soft_wrap=True)
    for said, tables in troubles(status).items():
        words = f"(waited for by {some_of(tables, _NAMED)})"
        out.print(Text.assemble((f"{said} ", "bold red"), words), soft_wrap=True)
    for other in status.not_tables:
        is_one = "holds" if other.is_untaken else "is no table: it holds"
        out.print(Text(f"{other.topic} {is_one} {other.holds}"), soft_wrap=True)


def render_quarantine(listing: Listing, console: Console | None = None) -> None:
    """Prints a line per record, and the number of further ones."""
    out = console or _console()
    if not listing.total:
        out.print("Nothing is in quarantine.")
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in _RECORD_COLUMNS:
        right = name in {"partition", "offset"}
        table.add_column(name, justify="right" if right else "left", overflow="fold")
    for each in listing.records:
        table.add_row(*map(Text, _record_cells(each)))
    out.print(table)
    if listing.more:
        out.print(f"{listing.more:,} more: see --limit, --source and --table.", soft_wrap=True)


def troubles(status: Status) -> dict[str, list[str]]:
    """Returns the connectors' troubles, each once, with all the tables that wait for it."""
    found: dict[str, list[str]] = {}
    for each in status.tables:
        if each.connector.trouble and each.condition is not Condition.DROPPED:
            found.setdefault(each.connector.trouble, []).append(str(each.table))
    return found


def reasons(status: Status) -> dict[tuple[Condition, str], list[str]]:
    """Returns why tables are in their states, each reason once, with all the tables that share it.

    Leaves out those that are up to date, and those that fail, wait or are held, of which more is
    printed.
    """
    more = {each.table for each in (*status.failing, *status.waiting, *status.held)}
    found: dict[tuple[Condition, str], list[str]] = {}
    for each in status.tables:
        if each.condition is not Condition.REPLICATING and each.table not in more:
            key = (each.condition, each.standing.why)
            found.setdefault(key, []).append(str(each.table))
    return found


def render_assessment(found: Assessment) -> None:
    """Prints a line per source, table and column, with the findings; then their pages."""
    out = _console(_WIDTH_OF_FINDINGS)
    if not found.sources:
        out.print("No source is configured.")
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("where", "exact", "problem", "impact", "what to do"):
        table.add_column(name, overflow="fold", no_wrap=name == "exact")
    for at, verdict in found.lines():
        mine = [each for each in found.findings if each.at == at]
        if not mine:
            table.add_row(_where(at), _verdict(verdict))
        for number, each in enumerate(mine):
            where = _where(at) if not number else Text()
            cells = (each.problem, f"{each.impact} ({each.name})", each.remedy)
            table.add_row(where, _verdict(each.verdict), *map(Text, cells))
    out.print(table)
    for name in dict.fromkeys(each.name for each in found.findings):
        out.print(Text(f"{name}: {finding_page(name)}"), soft_wrap=True)
    for note in found.notes:
        out.print(Text(f"not judged: {note}", style="dim"))


def _where(at: Subject) -> Text:
    indent = {"source": "", "table": "  ", "column": "    "}[at.scope]
    return Text(f"{indent}{at.column or at}", style="bold" if at.scope == "source" else "")


def _verdict(verdict: Verdict) -> Text:
    return Text(verdict.value, style=_VERDICTS[verdict])


def _console(width: int = _ANY_WIDTH) -> Console:
    """Returns a console as wide as the terminal; without one, of this width."""
    return Console() if sys.stdout.isatty() else Console(width=width)


def _too_wide(status: Status, out: Console) -> tuple[str, ...]:
    """Returns the columns without which each table has a line on this terminal; none elsewhere."""
    if not out.is_terminal:
        return ()
    anywhere = out.options.update(max_width=_ANY_WIDTH)
    for count in range(len(_LEFT_OUT_FIRST)):
        left_out = _LEFT_OUT_FIRST[:count]
        needed = Measurement.get(out, anywhere, _table(status, left_out)).maximum
        if needed <= out.width:
            return left_out
    return _LEFT_OUT_FIRST


def _table(status: Status, left_out: Sequence[str] = ()) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("table", overflow="fold")
    table.add_column("state", no_wrap=True)
    shown = [name not in left_out for name in _COLUMNS]
    for name in compress(_COLUMNS, shown):
        table.add_column(name, justify="left" if name in _LEFT else "right", overflow="fold")
    for each in status.tables:
        state = Text(each.condition.value, style=_STYLES[each.condition])
        table.add_row(Text(str(each.table)), state, *map(Text, compress(_cells(each), shown)))
    return table


def _cells(each: TableStatus) -> tuple[str, ...]:
    since = each.standing.since
    return (
        f"{since.astimezone(UTC):%m-%d %H:%MZ}" if since else "-",
        str(each.survey.entry.target),
        _offsets(each),
        _changes(each.survey.lag_changes),
        seconds_text(each.survey.lag_seconds(each.at)),
        _complete(each),
        _in_time(each),
        seconds_text(finite(each.slo.p95) if each.slo else None),
    )


def _failure(each: TableStatus) -> Text:
    failure = each.survey.failure
    if failure is None:
        return Text()
    again = "stopped" if failure.stopped else f"again at {failure.retry_at:%H:%M:%S}Z"
    when = f"{failure.kind} since {failure.attempts} attempts, {again}"
    if stopped := stopped_words(each.survey):
        when = stopped
    return Text.assemble((f"{each.table} ", "bold red"), f"({when}): {failure.message}")


def _waiting(each: TableStatus) -> Text:
    failure = each.survey.failure
    if failure is None or failure.hold is None:
        return Text()
    since = seconds_text((each.at - failure.hold.since).total_seconds())
    when = f"waiting for {since}, until {failure.hold.stops_at:%Y-%m-%d %H:%M:%S}Z"
    return Text.assemble((f"{each.table} ", "bold yellow"), f"({when}): {failure.message}")


def _held(each: TableStatus) -> Text:
    view = each.survey
    waits = f"{_changes(view.lag_changes)} changes wait"
    words = held_words(view.table, view.desired)
    return Text.assemble((f"{each.table} ", "bold blue"), f"({waits}): {words}")


def _overtaken(each: TableStatus) -> Text:
    words = each.retained.words() if each.retained else ""
    return Text.assemble((f"{each.table} ", "bold red"), words)


def _about_rows(status: Status) -> Iterator[Text]:
    yield from (_quarantined(each) for each in status.tables if each.quarantined)
    yield from (_doubt(each, change) for each in status.tables for change in each.silent)
    yield from (_others(each) for each in status.tables if each.has_others)


def _doubt(each: TableStatus, change: SilentChange) -> Text:
    words = f"{doubt_words(change)}; {doubt_remedy(str(each.table))}"
    return Text.assemble((f"{each.table} ", "bold yellow"), words)


def _others(each: TableStatus) -> Text:
    words = (
        "has rows that were chosen by another condition (where) than the configured one: "
        f"cdc-assets rebuild {each.table}"
    )
    return Text.assemble((f"{each.table} ", "bold yellow"), words)


def _quarantined(each: TableStatus) -> Text:
    words = quarantine_words(each.table, each.quarantined)
    return Text.assemble((f"{each.table} ", "bold red"), words)


def _record_cells(each: QuarantinedRecord) -> tuple[str, ...]:
    at = each.coordinate
    place = (at.topic, str(at.partition), str(at.offset))
    about = (_time(each.timestamp), each.reason, each.run_id, _time(each.quarantined_at))
    return (each.source, each.table, *place, *about)


def _time(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"


def _offsets(each: TableStatus) -> str:
    vector = each.survey.committed
    if len(vector.offsets) > 4:
        return f"{sum(offset for _, offset in vector):,} in {len(vector.offsets)} partitions"
    return " ".join(f"{partition}:{offset}" for partition, offset in vector) or "-"


def _complete(each: TableStatus) -> str:
    """Formats the age up to which the table is complete, and the connector's share of it."""
    age = each.completeness.end_to_end_seconds(each.at)
    behind = each.completeness.source_to_kafka_seconds
    if age is None:
        return "-" if behind is None else f"- (source {seconds_text(behind)})"
    return f"to {seconds_text(age)} ago (source {seconds_text(behind)})"


def _changes(count: int | None) -> str:
    return "?" if count is None else f"{count:,}"


def _in_time(each: TableStatus) -> str:
    if each.slo is None:
        return "?"
    if not each.slo.changes:
        return "-"
    return f"{each.slo.percent_within:.2f} % ({each.slo.state.value})"
