"""Detects records in a renamed table's former topic: late changes, and another table's."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from cdc_assets.changes.renamed import RenamedTable
from cdc_assets.errors import CdcError, TerminalError, UnreachableError
from cdc_assets.log.kafka import KafkaLog
from cdc_assets.registry import TableEntry


def late_under_old_names(entries: Iterable[TableEntry], log: KafkaLog) -> Iterator[CdcError]:
    """Yields the errors of tables whose former topics have new records, or do not answer.

    New records are late changes of the table, or another table's changes, for which the topic was
    recreated. A former topic that is no longer needed must not hold up the other tables.
    """
    for entry in entries:
        try:
            found: CdcError | None = late_under_old_name(entry, log) or _another(entry, log)
        except UnreachableError as problem:
            found = problem
        if found is not None:
            yield found


def late_under_old_name(entry: TableEntry, log: KafkaLog) -> TerminalError | None:
    """Returns the error for late records in a table's former topic; None without late records.

    Late records arrived after the former topic was merged to its end. Records of a recreated topic
    are another table's changes, and do not stop this table.

    Args:
        entry: any table.
        log: Kafka.

    Raises:
        UnreachableError: if Kafka does not answer.
    """
    renamed = entry.renamed
    marks = log.watermarks([renamed.before]).get(renamed.before) if renamed else None
    if renamed is None or marks is None:
        return None
    late = " ".join(str(each) for each in renamed.end.ranges_to(marks.end))
    if not late or _is_another(renamed, log):
        return None
    what = (
        f"the table is called {entry.at_source.qualified} at its source, and records came to the "
        "topic that it had before: changes that were sent late, or of another table of that name"
    )
    remedy = (
        "changes: cdc-assets rebuild TABLE --from-snapshot; another table: replicate it as one of "
        "a source of its own, with another topic prefix. Then delete the topic that is named here"
    )
    where = f"table={entry.table} topic={renamed.before} offsets={late}"
    return TerminalError(what, where=where, remedy=remedy)


def _another(entry: TableEntry, log: KafkaLog) -> TerminalError | None:
    """Returns the error for another table's records in a former topic; None without any."""
    renamed = entry.renamed
    marks = log.watermarks([renamed.before]).get(renamed.before) if renamed else None
    if renamed is None or marks is None or not _is_another(renamed, log):
        return None
    if not any(end for _, end in marks.end):
        return None
    what = (
        f"topic {renamed.before} was recreated for another table: {entry.table} had the same name "
        f"before, is now called {entry.at_source.qualified} at its source, and keeps the old name "
        "here. The other table is not merged"
    )
    remedy = "replicate the other table as part of another source, with another topic prefix"
    return TerminalError(what, where=f"table={entry.table} topic={renamed.before}", remedy=remedy)


def _is_another(renamed: RenamedTable, log: KafkaLog) -> bool:
    """Whether the former topic is known to have been recreated since its end was noted."""
    now = log.identity([renamed.before]).get(renamed.before) if renamed.topic_id else None
    return now is not None and now.topic_id != renamed.topic_id
