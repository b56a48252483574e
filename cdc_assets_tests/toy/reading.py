"""A generated log read by the model, step by step; what is wrong with it, if anything."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from cdc_assets_tests.model import keyless
from cdc_assets_tests.model.change import Change
from cdc_assets_tests.model.keyless import KeylessMerger, MissingRow
from cdc_assets_tests.model.reference import Merger, Rules, fold
from cdc_assets_tests.toy import cuts
from cdc_assets_tests.toy.actions import Log
from cdc_assets_tests.toy.connector import Record, changes_of
from cdc_assets_tests.toy.cuts import Merge

RIGHT = Rules()
Decode = Callable[[Iterable[Record]], list[Change]]


def fault(
    log: Log, rules: Rules = RIGHT, *, soft: bool = False, decode: Decode = changes_of
) -> str | None:
    """The first step whose outcome is not what it must be; None if all are right.

    Args:
        log: of a table with a key.
        rules: of the merge that is tried; the fold that it is compared with has the right ones.
        soft: deleted rows stay, marked.
        decode: of that merge too.
    """
    merger = Merger(log.shape, soft, rules)
    vector: Mapping[int, int] = {}
    for number, step in enumerate(log.steps):
        merged = merger.apply(decode(log.read(step, vector)))
        if isinstance(step, Merge):
            vector = step.to
            known = changes_of(cuts.between(log.records, {}, vector))
            if merged.table() != fold(known, log.shape, soft=soft) or merged.incomplete:
                return f"step {number}: not the fold of what was read"
        elif merged != merger:
            return f"step {number}: a replay changed something"
        merger = merged
    alive = {key: image.values for key, image in merger.table().items() if not image.deleted}
    source = {log.shape.key_of(row): row for row in log.rows}
    return None if alive == source else "all is read, but it is not the source"


def keyless_fault(log: Log, *, remember_events: bool = True) -> str | None:
    """The same for a table without a key; a batch that is too short becomes part of the next."""
    merger = KeylessMerger(remember_events=remember_events)
    vector: Mapping[int, int] = {}
    for number, step in enumerate(log.steps):
        assert isinstance(step, Merge)
        try:
            merger = merger.apply(changes_of(cuts.between(log.records, vector, step.to)))
        except MissingRow:
            continue
        vector = step.to
        if merger.rows != keyless.fold(changes_of(cuts.between(log.records, {}, vector))):
            return f"step {number}: not the fold of what was read"
    source = Counter(tuple(sorted(row.items())) for row in log.rows)
    return None if merger.rows == source else "all is read, but it is not the source"
