"""Compares a lake table with what a batch needs, and plans what it lacks as steps.

No step implies that the one before it was done. If a table was created or altered in part, by a
run that was killed or by two runs at once, the next plan holds just the steps that are missing.
A column's form on the wire is recorded before the column is added, so that an existing column is
always described; each column has a property of its own, so that two writers cannot overwrite
each other's.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from cdc_assets.lake.state import LakeColumn, TableState
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
from cdc_assets.schema.evolution import plan_evolution
from cdc_assets.schema.file_layout import AS_IT_IS, FileLayout
from cdc_assets.schema.history import StatementHistory
from cdc_assets.schema.iceberg import from_iceberg, may_identify
from cdc_assets.schema.policy import Policy
from cdc_assets.schema.table_changes import (
    Added,
    Change,
    EvolutionPlan,
    LeftOutColumn,
    Refused,
    RenamedColumn,
    Replaced,
    evolved,
)
from cdc_assets.schema.types import Column, ColumnType, TableSchema, Wire


@dataclass(frozen=True, slots=True)
class ColumnPlan:
    """Steps after which a table can hold the columns of records.

    Attributes:
        steps: in order.
        schema: the schema that records are decoded to, after the steps.
        changes: those made at the source; the other steps complete earlier ones.
        files: the layout of the files that are written after the steps.
    """

    steps: tuple[TableStep, ...]
    schema: TableSchema
    changes: tuple[EvolutionPlan, ...]
    files: FileLayout = AS_IT_IS


def plan_columns(
    stored: TableSchema,
    columns: Sequence[LakeColumn] | None,
    records: Sequence[TableSchema],
    policy: Policy | None = None,
    dropped: Collection[str] = (),
    *,
    by_catalog: bool = False,
) -> ColumnPlan:
    """Plans the steps that the table's columns lack.

    A column that is described but missing was left out by a run that died: it is added under its
    present name, or its old column is renamed. One that exists but is not described was made by
    somebody else: it is adopted once records have it, if its type fits.

    Args:
        stored: of `described`: the columns whose form on the wire is known.
        columns: the table's present ones, without ours; None if it is yet to be created.
        records: schemas of the batch's records, in their order.
        policy: for differences.
        dropped: columns to be dropped from the lake's table.
        by_catalog: see `plan_evolution`.
    """
    actual: dict[str, ColumnType | None] = (
        {each.name: each.type for each in stored.columns}
        if columns is None
        else {each.name: from_iceberg(each.type) for each in columns if each.name not in dropped}
    )
    renamed = _half_renamed(stored, actual)
    actual = {renamed.get(name, name): type_ for name, type_ in actual.items()}
    arriving = {each.name: each for record in records for each in record.columns}
    table = replace(stored, columns=tuple(_as_it_is(stored, actual)))
    plans = [_foreign(actual, stored, arriving)]
    for record in records:
        given = policy or Policy()
        plans.append(plan_evolution(table, record, given, by_catalog=by_catalog))
        table = evolved(table, plans[-1].changes)
    made = tuple(each for each in plans if not each.is_empty)
    changes = [change for each in made for change in each.changes]
    after = replace(table, columns=tuple(_ours(table, stored, changes, arriving)))
    renames = {was: name for was, name in _renames(changes) if was in actual}
    actual = {renames.get(name, name): type_ for name, type_ in actual.items()}
    steps = _column_steps(after, actual, stored, [*renamed.items(), *renames.items()])
    there = () if columns is None else tuple(c.name for c in columns if c.name in dropped)
    ended = (DropColumns(there),) if there else ()
    left = tuple(each.name for each in changes if isinstance(each, LeftOutColumn))
    out = (LeaveOut(left),) if left else ()
    return ColumnPlan((*ended, *out, *steps), after, made)


def taught(
    table: TableSchema, history: StatementHistory
) -> tuple[TableSchema, tuple[DescribeColumns, ...]]:
    """Returns the lake's columns with the facts that statements tell, and the step to keep them."""
    schema = history.taught(table)
    pairs = zip(schema.columns, table.columns, strict=True)
    learned = tuple(column for column, was in pairs if column != was)
    return schema, (DescribeColumns(learned),) if learned else ()


def _half_renamed(stored: TableSchema, actual: Mapping[str, object]) -> dict[str, str]:
    """Returns the new names, by the old, of columns that are described but not yet renamed."""
    names = frozenset(stored.names)
    found: dict[str, str] = {}
    for each in stored.columns:
        there = (old for old in each.identity.was if old in actual and old not in names)
        if each.name not in actual and (old := next(there, None)):
            found[old] = each.name
    return found


def _renames(changes: Iterable[Change]) -> Iterator[tuple[str, str]]:
    for each in changes:
        if isinstance(each, RenamedColumn) and each.was != each.column.name:
            yield each.was, each.column.name


def _ours(
    table: TableSchema,
    stored: TableSchema,
    changes: Iterable[Change],
    arriving: Mapping[str, Column],
) -> Iterator[Column]:
    """Yields the columns that are described from now on: not foreign ones that no record has."""
    new = {c.column.name for c in changes if isinstance(c, Added | Replaced | RenamedColumn)}
    known = new | set(stored.names)
    for each in table.columns:
        if each.name in known:
            yield each
        elif each.name in arriving:
            yield replace(arriving[each.name], type=each.type, required=False)


def _as_it_is(stored: TableSchema, actual: Mapping[str, ColumnType | None]) -> Iterator[Column]:
    """Yields the columns of the table, then those that are described but missing."""
    known = {each.name: each for each in stored.columns}
    for name, type_ in actual.items():
        if name in known:
            yield replace(known[name], type=type_ or known[name].type)
        elif type_ is not None:
            yield Column(name, type_, Wire.STRING, absent=True)
    yield from (each for each in stored.columns if each.name not in actual)


def _foreign(
    actual: Mapping[str, ColumnType | None], stored: TableSchema, arriving: Mapping[str, Column]
) -> EvolutionPlan:
    """Refuses columns of records that somebody else made in the lake with an unsupported type."""
    known = frozenset(stored.names)
    return EvolutionPlan(
        refused=tuple(
            Refused(
                f"column {name}: the lake has one of another kind that was not made by cdc_assets"
            )
            for name, type_ in actual.items()
            if type_ is None and name in arriving and name not in known
        )
    )


def _column_steps(
    after: TableSchema,
    actual: Mapping[str, ColumnType | None],
    stored: TableSchema,
    renames: Iterable[tuple[str, str]],
) -> Iterator[TableStep]:
    known = {each.name: each for each in stored.columns}
    if new := tuple(c for c in after.columns if _arrives_otherwise(c, known.get(c.name))):
        yield DescribeColumns(new)
    yield from (RenameColumn(was, name) for was, name in renames)
    if missing := tuple(each for each in after.columns if each.name not in actual):
        yield AddColumns(tuple(replace(each, required=False) for each in missing))
    for each in after.columns:
        if actual.get(each.name) not in {None, each.type}:
            yield WidenColumn(each)


def _arrives_otherwise(column: Column, known: Column | None) -> bool:
    """Returns whether the description must be recorded; a differing type does not count."""
    return known is None or replace(known, type=column.type) != column


def identifier(state: TableState | None, schema: TableSchema) -> tuple[SetIdentifier, ...]:
    """Returns the step if it is missing and Iceberg accepts these columns as identifiers.

    Iceberg accepts neither floating-point numbers nor columns that may be NULL, as those of a
    table that was replaced as a whole may be.
    """
    key = tuple(name for name in schema.names if name in schema.key)
    done = state is not None and _identified(state, schema) == set(key)
    optional = state is not None and any(
        not each.required for each in state.columns if each.name in key
    )
    if (
        done
        or optional
        or not key
        or not all(may_identify(schema.column(name).type) for name in key)
    ):
        return ()
    return (SetIdentifier(schema.key),)


def _identified(state: TableState, schema: TableSchema) -> set[str]:
    """Returns the identifier fields, by their new names."""
    renamed = _half_renamed(schema, {each.name: None for each in state.columns})
    return {renamed.get(name, name) for name in state.key}
