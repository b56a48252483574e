"""Chains of changes of a source's columns, read in any order and cut anywhere.

The reference is the source itself: it knows which column a record's column is, whatever either is
called by then. The lake knows names, and the numbers of the catalog as it is when records are read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import event, example, given
from hypothesis import strategies as st

from cdc_assets.schema.homes import homes
from cdc_assets.schema.promotions import fits
from cdc_assets.schema.types import (
    Column,
    ColumnType,
    Decimal,
    Existing,
    Identity,
    Primitive,
    TableSchema,
    Wire,
)
from cdc_assets_tests.merge.simulated_table import SimulatedTable
from cdc_assets_tests.toy.profiles import examples

pytestmark = pytest.mark.property

TYPES = (Primitive.INT, Primitive.FLOAT, Decimal(8, 2), Primitive.STRING)
WIDER: dict[ColumnType, ColumnType] = {
    Primitive.INT: Primitive.LONG,
    Primitive.FLOAT: Primitive.DOUBLE,
    Decimal(8, 2): Decimal(12, 2),
}
KEY = 1


@dataclass(frozen=True)
class Change:
    """``place`` chooses among the columns, or among the names that one had before."""

    kind: str
    place: int
    type: ColumnType = Primitive.INT


CHANGES = st.builds(
    Change,
    st.sampled_from(
        ["add", "add with a default", "rename", "rename back", "widen", "drop", "reorder"]
    ),
    st.integers(0, 5),
    st.sampled_from(TYPES),
)


@dataclass
class Source:
    """A table: columns by their numbers, and every form that it has had."""

    columns: dict[int, Column] = field(default_factory=dict)
    names: dict[int, list[str]] = field(default_factory=dict)
    forms: list[dict[int, Column]] = field(default_factory=list)
    count: int = 0

    def __post_init__(self) -> None:
        for type_ in (Primitive.INT, Primitive.STRING, Primitive.INT):
            self._add(type_, None)
        self.forms.append(dict(self.columns))

    def apply(self, change: Change) -> None:
        """One statement; nothing if the table has no column that it could be of."""
        numbers = list(self.columns)
        number = numbers[change.place % len(numbers)]
        match change.kind:
            case "add" | "add with a default":
                text = "5" if change.kind != "add" else None
                self._add(change.type, Existing(text, "1") if text else None)
            case "rename":
                self._call(number, f"c{number}_{len(self.names[number])}")
            case "rename back":
                self._call(number, self.names[number][change.place % len(self.names[number])])
            case "widen":
                was = self.columns[number]
                self.columns[number] = replace(was, type=WIDER.get(was.type, was.type))
            case "drop" if number != KEY:
                del self.columns[number]
            case _:
                self.columns = {n: self.columns[n] for n in reversed(numbers)}
        self.forms.append(dict(self.columns))

    def _add(self, type_: ColumnType, existing: Existing | None) -> None:
        self.count += 1
        name = f"c{self.count}_0"
        column = Column(name, type_, Wire.STRING, self.count == KEY, existing=existing)
        self.columns[self.count], self.names[self.count] = column, [name]

    def _call(self, number: int, name: str) -> None:
        self.columns[number] = replace(self.columns[number], name=name)
        if name not in self.names[number]:
            self.names[number].append(name)

    def record(self, form: int) -> TableSchema:
        """The columns of records of a form, with what the catalog knows of their names by now."""
        now = {column.name: number for number, column in self.columns.items()}
        columns = (
            replace(column, identity=Identity(number=now.get(column.name, 0)))
            for column in self.forms[form].values()
        )
        return TableSchema(tuple(columns), (self.forms[form][KEY].name,))


@dataclass(frozen=True)
class Batch:
    """``forms`` count back from the newest one; after ``cut`` statements the run dies."""

    forms: tuple[int, ...]
    cut: int | None


BATCHES = st.builds(
    Batch,
    st.lists(st.integers(0, 4), max_size=3).map(tuple),
    st.none() | st.integers(0, 6),
)


@dataclass
class Lake:
    """The table, and of which of the source's columns the values are that each of its has got."""

    table: SimulatedTable
    values: dict[int, int] = field(default_factory=dict)

    def merge(self, source: Source, batch: Batch, forms: Sequence[int]) -> bool:
        """False if the plan refuses; True if the batch was merged, or cut.

        A record without the key column is refused before there is a plan.
        """
        records = [source.record(form) for form in forms]
        key = self.table.schema.column(self.table.schema.key[0])
        called = {key.sent_as, *key.identity.formerly, source.columns[KEY].name}
        if not all(record.key[0] in called for record in records):
            return False
        found, steps = self.table.plan(records)
        if any(each.refused for each in found.changes):
            return False
        effects = list(self.table.effects(steps))
        for effect in effects[: batch.cut]:
            effect()
        if batch.cut is None or batch.cut >= len(effects):
            self._write(source, found.schema, list(zip(forms, records, strict=True)))
        return True

    def _write(
        self, source: Source, schema: TableSchema, records: Sequence[tuple[int, TableSchema]]
    ) -> None:
        """Values of no two columns of the source meet in one, those of none lie in two."""
        assert {*schema.names} == {*self.table.schema.names}
        for form, record in records:
            found = homes(schema, record)
            assert {*found} == {*record.names}
            assert len({*found.values()}) == len(found)
            for number, column in source.forms[form].items():
                home = self.table.of(found[column.name])
                assert fits(column.type, home.type)
                assert self.values.setdefault(home.id, number) == number
                if number in source.columns:
                    assert [*self.values.values()].count(number) == 1

    def require_equal(self, source: Source) -> None:
        """Each of the source's columns has one in the lake, of its name, number and type."""
        stored = self.table.schema
        numbers = [each.identity.number for each in stored.columns]
        for number, column in source.columns.items():
            assert numbers.count(number) == 1
            mine = stored.columns[numbers.index(number)]
            home = self.table.of(mine.name)
            assert (mine.name, mine.sent_as) == (column.name, column.name)
            assert home.type == column.type
            assert [i for i, n in self.values.items() if n == number] == [home.id]
        key = source.columns[KEY].name
        assert (stored.key, self.table.state.key) == ((key,), (key,))
        assert {each.name for each in self.table.fields} == {*stored.names}


def chosen(source: Source, batch: Batch) -> tuple[int, ...]:
    newest = len(source.forms) - 1
    return tuple(max(newest - back, 0) for back in batch.forms)


def begun() -> tuple[Source, Lake]:
    source = Source()
    lake = Lake(SimulatedTable(source.record(0)))
    assert lake.merge(source, Batch((0,), None), (0,))
    return source, lake


@examples(300)
@given(st.lists(st.tuples(CHANGES, BATCHES, st.lists(BATCHES, max_size=2)), max_size=7))
def test_a_lake_that_reads_each_form_in_its_time_is_the_sources(story) -> None:
    source, lake = begun()
    for change, batch, more in story:
        source.apply(change)
        newest = len(source.forms) - 1
        assert lake.merge(source, batch, (*chosen(source, batch), newest))
        assert lake.merge(source, Batch((), None), (newest,))
        for each in more:
            assert lake.merge(source, each, chosen(source, each))
    assert lake.merge(source, Batch((), None), (len(source.forms) - 1,))
    lake.require_equal(source)
    assert lake.table.plan([source.record(len(source.forms) - 1)])[1] == ()


RENAMED, ADDED = Change("rename", 1), Change("add", 0)
NEWEST, FORMER = Batch((0,), None), Batch((1,), None)


@examples(500)
@example([RENAMED, RENAMED, FORMER, NEWEST])
@example([ADDED, Change("rename", 3), FORMER, NEWEST])
@example([RENAMED, Change("rename back", 0), FORMER, NEWEST])
@example([ADDED, Change("rename", 3), Change("rename", 3), Batch((2,), None), FORMER])
@example([ADDED, Batch((0,), 1), Change("rename", 3), NEWEST])
@example([Change("drop", 2), RENAMED, Batch((2,), None), NEWEST, ADDED, NEWEST])
@given(st.lists(CHANGES | BATCHES, max_size=14))
def test_a_lake_that_lags_behind_mixes_no_columns_up(story) -> None:
    source, lake = begun()
    for each in story:
        if isinstance(each, Change):
            source.apply(each)
        elif not lake.merge(source, each, chosen(source, each)):
            event("refused")
            return
    if lake.merge(source, Batch((), None), (len(source.forms) - 1,)):
        key = source.columns[KEY].name
        assert lake.table.schema.key == lake.table.state.key == (key,)
