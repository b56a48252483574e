"""A lake table that takes the steps of a plan, one statement's effect after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from cdc_assets.changes.names import LakeName
from cdc_assets.lake.columns import COLUMN, DROPPED, LEFT_OUT, described, dropped
from cdc_assets.lake.state import LakeColumn, TableState
from cdc_assets.merge.plan.column_plan import ColumnPlan, identifier, plan_columns
from cdc_assets.merge.plan.table_steps import (
    AddColumns,
    DescribeColumns,
    DropColumns,
    LeaveOut,
    RenameColumn,
    SetIdentifier,
    TableStep,
    WidenColumn,
)
from cdc_assets.schema.policy import Policy
from cdc_assets.schema.promotions import fits
from cdc_assets.schema.stored import column_to_json
from cdc_assets.schema.types import ColumnType, Decimal, Primitive, TableSchema

_SPELT = {
    Primitive.LONG: "long",
    Primitive.TIMESTAMP: "timestamp",
    Primitive.TIMESTAMPTZ: "timestamptz",
}
Effect = Callable[[], None]


@dataclass(frozen=True)
class Field:
    """A column by Iceberg's field id, which no other column ever gets."""

    id: int
    name: str
    type: ColumnType
    required: bool = False


@dataclass
class SimulatedTable:
    """As Iceberg has it; what it would refuse raises."""

    first: TableSchema
    fields: list[Field] = field(default_factory=list)
    properties: dict[str, str] = field(default_factory=dict)
    key: tuple[int, ...] = ()
    ids: int = 0

    def __post_init__(self) -> None:
        if not self.fields:
            for each in self.first.columns:
                self._add(each.name, each.type, required=each.required)
            self.key = tuple(self.of(name).id for name in self.first.key)

    def copy(self) -> SimulatedTable:
        """The same once more."""
        return replace(self, fields=list(self.fields), properties=dict(self.properties))

    def of(self, name: str) -> Field:
        """The column of this name."""
        (found,) = (each for each in self.fields if each.name == name)
        return found

    @property
    def state(self) -> TableState:
        """As a plan reads it."""
        columns = tuple(LakeColumn(f.name, _spelt(f.type), f.required, "") for f in self.fields)
        key = tuple(each.name for each in self.fields if each.id in self.key)
        return TableState(
            LakeName("a", "b"), None, None, {}, columns, key, dict(self.properties), "",
            is_empty=False, total_records=None, head_columns={},
        )  # fmt: skip

    @property
    def schema(self) -> TableSchema:
        """What the table says of its columns."""
        return described(self.first, self.state)

    def plan(
        self, records: Sequence[TableSchema], policy: Policy | None = None
    ) -> tuple[ColumnPlan, tuple[TableStep, ...]]:
        """What it lacks for these records, its identifier before all."""
        state, stored = self.state, self.schema
        gone = dropped(state)
        found = plan_columns(stored, state.columns, records, policy, gone)
        return found, (*identifier(state, stored), *found.steps)

    def effects(self, steps: Sequence[TableStep]) -> Iterator[Effect]:
        """Of each statement."""
        for step in steps:
            yield from self._effects(step)

    def _effects(self, step: TableStep) -> Iterator[Effect]:
        match step:
            case DescribeColumns(columns):
                said = {COLUMN + each.name: column_to_json(each) for each in columns}
                said |= {DROPPED + each.name: "false" for each in columns}
                yield lambda: self.properties.update(said)
            case LeaveOut(names):
                yield lambda: self.properties.update({LEFT_OUT + name: "true" for name in names})
            case AddColumns(columns):
                yield lambda: [self._add(each.name, each.type) for each in columns] and None
            case WidenColumn(column):
                yield lambda: self._widen(column.name, column.type)
            case RenameColumn(was, name):
                yield lambda: self._rename(was, name)
            case DropColumns(names):
                yield lambda: self.properties.update({DROPPED + name: "true" for name in names})
                yield lambda: self._drop(names)
            case SetIdentifier(key):
                yield lambda: setattr(self, "key", tuple(self.of(name).id for name in key))
            case _:
                raise AssertionError(step)

    def _add(self, name: str, type_: ColumnType, *, required: bool = False) -> None:
        assert name.casefold() not in {each.name.casefold() for each in self.fields}, name
        self.ids += 1
        self.fields.append(Field(self.ids, name, type_, required))

    def _change(self, column: str, **change: object) -> None:
        was = self.of(column)
        self.fields[self.fields.index(was)] = replace(was, **change)

    def _widen(self, name: str, type_: ColumnType) -> None:
        assert fits(self.of(name).type, type_)
        self._change(name, type=type_)

    def _rename(self, was: str, name: str) -> None:
        assert name not in {each.name for each in self.fields}
        self._change(was, name=name)

    def _drop(self, names: Sequence[str]) -> None:
        gone = {each.id for each in self.fields if each.name in names}
        assert not gone & {*self.key}
        self.fields = [each for each in self.fields if each.id not in gone]


def _spelt(type_: ColumnType) -> str:
    if isinstance(type_, Decimal):
        return f"decimal({type_.precision}, {type_.scale})"
    assert isinstance(type_, Primitive)
    return _SPELT.get(type_, str(type_))
