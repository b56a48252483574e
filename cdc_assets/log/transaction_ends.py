"""Finds the transactions that have ended, from the ``END`` records that are kept.

An ``END`` record may be gone: the transaction topic may keep its records for a shorter time than
the table's topic. A connector sends transactions one after another, so a transaction has also ended
if a transaction committed after it has. Its changes cannot be counted then, and count as complete
once the last of them is at least two seconds older than that later ``END``, by the rule of
`cdc_assets.log.unfinished`.

The order of commits is known for PostgreSQL, whose transaction ids hold the LSN.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from cdc_assets.log.marks import Ended, Transaction
from cdc_assets.log.unfinished import MAX_READ, SETTLED
from cdc_assets.log.values import RawRecord


def counts_of(
    metadata: Iterable[tuple[RawRecord, Ended | None]],
    wanted: Mapping[Transaction, datetime],
    collection: str,
) -> dict[str, int | None]:
    """Counts the changes of a table in each wanted transaction that has ended.

    Args:
        metadata: records of the transaction topic, from before the wanted ones on, each with its
            end; no more than MAX_READ are read.
        wanted: transactions, with the time of a late change.
        collection: ``schema.table``.

    Returns:
        By id; None where an ``END`` record proves that it has ended, but not with how many changes.
    """
    missing = {transaction.id for transaction in wanted}
    found: dict[str, int | None] = {}
    passed: set[str] = set()
    for number, (raw, end) in enumerate(metadata):
        if end is not None:
            mine = end.ids & missing
            found |= dict.fromkeys(mine, end.count(collection))
            missing -= mine
            passed |= {t.id for t, late in wanted.items() if _has_passed(end, raw, t, late)}
        if not missing or number >= MAX_READ:
            break
    return found | dict.fromkeys(passed & missing)


def _has_passed(end: Ended, raw: RawRecord, transaction: Transaction, late: datetime) -> bool:
    """Returns whether all of a transaction was sent, because one committed after it has ended.

    The order of a transaction is the last commit before it, so a later commit that is not its own
    comes after it.
    """
    if end.commit_lsn is None or not transaction.id.isdecimal() or len(transaction.order) != 1:
        return False
    is_later = transaction.id not in end.ids and (end.commit_lsn,) > transaction.order
    return is_later and raw.timestamp - late >= SETTLED
