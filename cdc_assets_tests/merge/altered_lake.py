"""The lake's table of an altered source, held against the fold of what it was told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cdc_assets.effects import Moment, hooked
from cdc_assets.errors import CdcError
from cdc_assets.merge import BatchResult
from cdc_assets_tests.faults import Anywhere, Death, How
from cdc_assets_tests.lake_view import OWN, read_table
from cdc_assets_tests.merge.altered_source import KEY, Form, Row, Sent, Source, stored
from cdc_assets_tests.merge.one_table import TABLE
from cdc_assets_tests.pipeline import Pipeline

Table = dict[int, Row]


def fold(log: Sequence[Sent], forms: Sequence[Form], *, defaults: bool = True) -> Table:
    """The newest image of each key, in all columns that any of the records has.

    A column that an image lacks has its default if the image is older than the column; if it is
    newer the column was dropped.
    """
    newest: dict[int, Sent] = {}
    for sent in sorted(log, key=lambda each: each.lsn):
        newest[sent.row[KEY]] = sent
    known = {each.number: each for sent in log for each in forms[sent.form]}
    born = {n: next(f for f, form in enumerate(forms) if _has(form, n)) for n in known}

    def value(sent: Sent, number: int) -> Any:
        for each in forms[sent.form]:
            if each.number == number:
                return stored(each.kind, sent.row[number])
        was = next(each for each in forms[born[number]] if each.number == number)
        return stored(was.kind, was.default) if defaults and sent.form < born[number] else None

    rows = {id_: sent for id_, sent in newest.items() if sent.op != "d"}
    return {id_: {n: value(sent, n) for n in known} for id_, sent in rows.items()}


def _has(form: Form, number: int) -> bool:
    return any(each.number == number for each in form)


@dataclass
class Replica:
    """One table on its way. Columns are followed by Iceberg's field ids, which no change touches.

    Attributes:
        log: what each partition holds, by offset.
        ids: of the lake's columns, by the source's numbers, once they are known.
        published: how often the lake was compared after a publish.
    """

    pipeline: Pipeline
    source: Source
    inline: bool
    log: list[list[Sent]] = field(default_factory=list)
    ids: dict[int, int] = field(default_factory=dict)
    published: int = 0
    happened: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.log = [[] for _ in range(self.source.partitions)]
        self.pipeline.create_topic(TABLE, self.source.partitions)

    def send(self, records: Sequence[Sent]) -> None:
        """To the topic, each to its partition."""
        messages = [self.source.message(each, inline=self.inline) for each in records]
        self.pipeline.produce(TABLE, messages)
        for each in records:
            self.log[each.partition].append(each)

    def try_with(self, place: int, how: How) -> None:
        """One try, whose effect of this number fails."""
        with hooked(seen := Anywhere(place=place, how=how)):
            try:
                self.merge()
            except (CdcError, Death):
                assert seen.happened, "no fault was injected, and the merge failed"
        self.happened += map(str, seen.happened)
        self.require_equal(f"after {seen.happened}")

    def merge(self) -> None:
        """To the end of what was sent; compared after each publish."""
        drained = self.pipeline.replicator().drain(
            self.pipeline.entry(TABLE), window=None, run_id="test", budget_seconds=300
        )
        for each in drained:
            assert isinstance(each, BatchResult)
            self.published += 1
            self.require_equal(f"after publish {self.published}")

    def require_equal(self, when: str) -> None:
        """The rows are the fold of the records below the published offsets."""
        with hooked(_nothing):
            known = self._merged()
            expected = fold(known, self.source.forms)
            found = self._rows(known) if known else {}
            self._pardon_emptied(expected, found, known)
        assert found == expected, when

    def _pardon_emptied(self, expected: Table, found: Table, known: Sequence[Sent]) -> None:
        """Records that lack a column which the source has dropped by now may empty it.

        Those from before the column too: they may come after it was dropped.
        """
        there = {each.number for each in self.source.columns}
        told = fold(known, self.source.forms, defaults=False)
        gone = {number for row in expected.values() for number in row} - there
        for id_, row in told.items():
            for number in gone:
                if id_ in found and found[id_][number] == row[number]:
                    expected[id_][number] = row[number]

    def require_source(self) -> None:
        """All of the source: its rows, by its names and types, beside what it has dropped."""
        names = {each.number: each.name for each in self.source.columns}
        found = {row[names[KEY]]: row for row in self.pipeline.rows(TABLE)}
        kinds = {each.number: each.kind for each in self.source.columns}
        expected = {
            id_: {name: stored(kinds[n], row.get(n)) for n, name in names.items()}
            for id_, row in self.source.rows.items()
        }
        mine = {i: {n: row[n] for n in names.values()} for i, row in found.items()}
        assert mine == expected

    def looks(self) -> object:
        """Everything that readers see: snapshot, columns, rows."""
        table = read_table(self.pipeline.config, self.pipeline.entry(TABLE).target)
        assert table is not None
        head = table.current_snapshot()
        rows = sorted(map(repr, self.pipeline.rows(TABLE)))
        return head.snapshot_id if head else None, table.schema(), rows

    def _merged(self) -> list[Sent]:
        history = self.pipeline.lake.history(self.pipeline.entry(TABLE).target, limit=1)
        ends: Mapping[int, int] = dict(history[0].offsets) if history else {}
        return [each for p, sent in enumerate(self.log) for each in sent[: ends.get(p, 0)]]

    def _rows(self, known: Sequence[Sent]) -> Table:
        """By key and number; columns of no number are empty, those of a try that has failed."""
        table = read_table(self.pipeline.config, self.pipeline.entry(TABLE).target)
        assert table is not None
        by_name = {each.name: each.field_id for each in table.schema().fields}
        for sent in known:
            for each in self.source.forms[sent.form]:
                called = (n for n in self.source.names[each.number] if n in by_name)
                self.ids.setdefault(each.number, by_name[next(called)])
        mine = {id_: number for number, id_ in self.ids.items()}
        assert len(mine) == len(self.ids), "one column of the lake is two of the source"
        others = {name for name, id_ in by_name.items() if id_ not in mine}
        others = {name for name in others if not name.startswith(OWN)}
        numbers = {name: mine[id_] for name, id_ in by_name.items() if id_ in mine}
        assert len(numbers) == len(self.ids), "a column is gone"
        found = table.scan().to_arrow().to_pylist()
        assert all(row[name] is None for row in found for name in others)
        rows = {n: [row[name] for row in found] for name, n in numbers.items()}
        assert len({*rows[KEY]}) == len(found), "a key is there twice"
        return {
            id_: {number: values[at] for number, values in rows.items()}
            for at, id_ in enumerate(rows[KEY])
        }


def _nothing(_point: str, _moment: Moment) -> None:
    """For what tests look at themselves."""
