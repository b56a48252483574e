"""Describes a table's state for people: the word, its beginning, and the reason."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from cdc_assets.changes.names import TableName
from cdc_assets.desired import TableDirectives
from cdc_assets.operate.failures import Failure
from cdc_assets.operate.seen_states import Condition, SeenState
from cdc_assets.operate.survey import TableSurvey

if TYPE_CHECKING:
    from cdc_assets.lake.shadow_progress import ShadowProgress


@dataclass(frozen=True, slots=True)
class TableCondition:
    """A table's state.

    Attributes:
        condition: the state in a word.
        since: when it began; None if unknown.
        why: the reason in words, without row values.
    """

    condition: Condition
    since: datetime | None
    why: str

    def to_dict(self) -> dict[str, Any]:
        """Returns the state for JSON."""
        since = self.since.isoformat() if self.since else None
        return {"state": self.condition.value, "since": since, "why": self.why}


def standing_of(
    view: TableSurvey, now: datetime, within_seconds: float, seen: SeenState | None = None
) -> TableCondition:
    """Returns a table's state.

    Args:
        view: the table.
        now: the time of the survey.
        within_seconds: the latency that its SLO promises.
        seen: the state in which the sensor saw it last.
    """
    condition = view.condition(now, within_seconds)
    since = _since(view, condition, within_seconds)
    if since is None and seen is not None and seen.condition is condition:
        since = seen.since
    return TableCondition(condition, since, _why(view, condition, within_seconds))


def held_words(table: TableName, desired: TableDirectives) -> str:
    """Says why nothing is merged into a table, and how to continue; empty if it is merged."""
    if desired.dropped is not None:
        return f"dropped {desired.dropped.words()} → cdc-assets resume --table {table}"
    if desired.reset is not None:
        return f"a reset has begun {desired.reset.words()} → cdc-assets reset --table {table}"
    if desired.paused is not None:
        return f"paused {desired.paused.words()} → cdc-assets resume --table {table}"
    return ""


def stopped_words(view: TableSurvey) -> str:
    """Says why sensors no longer try a failing table, or only probe it; empty if they try it."""
    failure = view.failure
    if failure is None or not failure.stopped:
        return ""
    probe = f", probed at {failure.probe_at:%H:%M:%S}Z" if failure.probe_at else ""
    return (
        f"stopped: it failed {failure.attempts} times since {failure.began:%Y-%m-%d %H:%M:%S}Z"
        f"{probe} → cdc-assets resume --table {view.table}, once the reason is gone"
    )


def _since(view: TableSurvey, condition: Condition, within_seconds: float) -> datetime | None:
    failure, desired = view.failure, view.desired
    match condition:
        case Condition.NEW:
            return view.entry.discovered_at
        case Condition.PAUSED:
            return desired.paused.since if desired.paused else None
        case Condition.DROPPED:
            gone = view.entry.dropped
            return desired.dropped.since if desired.dropped else gone.at if gone else None
        case Condition.REBUILDING:
            wanted = desired.reset or desired.rebuild
            return wanted.since if wanted else None
        case Condition.FAILING if view.problem is None:
            return failure.began if failure else None
        case Condition.WAITING:
            return failure.hold.since if failure and failure.hold else None
        case Condition.LAGGING:
            oldest = view.oldest_unread
            return oldest + timedelta(seconds=within_seconds) if oldest else None
        case _:
            return None


def _why(view: TableSurvey, condition: Condition, within_seconds: float) -> str:
    lag = view.lag_changes
    match condition:
        case Condition.PAUSED:
            return held_words(view.table, view.desired)
        case Condition.DROPPED if view.desired.dropped is None:
            waits = view.entry.dropped.waits_for if view.entry.dropped else ""
            then = f"; the lake drops it, too, once {waits}" if waits else ""
            return f"the source no longer has the table{then}"
        case Condition.DROPPED:
            return held_words(view.table, view.desired)
        case Condition.REBUILDING if view.desired.reset is not None:
            return held_words(view.table, view.desired)
        case Condition.REBUILDING:
            wanted = view.desired.rebuild
            said = wanted.words() if wanted else ""
            return f"it is being rebuilt {said} → cdc-assets rebuild {view.table}"
        case Condition.FAILING | Condition.WAITING:
            return _of_failure(view, view.failure)
        case Condition.NEW | Condition.SNAPSHOTTING if view.reading is not None:
            return reading_words(view.reading)
        case Condition.NEW:
            return "nothing of it was merged yet" if lag else "its topic holds no changes yet"
        case Condition.SNAPSHOTTING:
            return f"rows of a snapshot are merged, {lag or 0:,} records are unread"
        case Condition.LAGGING:
            return f"the oldest of {lag or 0:,} unread records is older than {within_seconds:g} s"
        case Condition.REPLICATING:
            return "all is merged" if not lag else f"{lag:,} records are unread, none of them late"
        case Condition.UNKNOWN:
            return "Kafka did not answer, or the topic is gone"


def reading_words(progress: ShadowProgress) -> str:
    """Says how far a table's first rows are read from its source."""
    if not progress.waves:
        return "its rows are yet to be read from its source"
    if progress.is_read:
        return f"all {progress.rows:,} rows are read from the source, and its log is merged"
    parts = [f"{progress.rows:,} rows are read from the source"]
    if progress.percent is not None:
        parts[0] = f"{progress.rows:,} of about {max(progress.about, progress.rows):,} rows"
        parts[0] += f" are read from the source ({progress.percent:.0f} %)"
    if progress.rows_per_second is not None:
        parts.append(f"{progress.rows_per_second:,.0f} rows/s")
    if progress.seconds_left is not None:
        parts.append(f"about {seconds_text(progress.seconds_left)} left")
    return ", ".join(parts)


def _of_failure(view: TableSurvey, failure: Failure | None) -> str:
    stopped = stopped_words(view)
    message = failure.message if failure else ""
    return f"{stopped}: {message}" if stopped else message


def seconds_text(seconds: float | None) -> str:
    """Formats seconds as ``0.4 s``, ``12 s``, ``3 min`` or ``5.2 h``; ``-`` if unknown."""
    if seconds is None:
        return "-"
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
