"""Compares the layout of a lake table's files with the configured one, and plans the difference.

A layout concerns files that are written from now on: the steps change the table's metadata alone.
What is not configured stays as it is in the table, whoever has set it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from cdc_assets.errors import TerminalError
from cdc_assets.lake.state import TableState
from cdc_assets.merge.plan.table_steps import LayOut, TableStep
from cdc_assets.schema.file_layout import DeleteMode, FileLayout, SortTerm, Term, Transform
from cdc_assets.schema.types import Column, Decimal

_VERSION: Final = "format-version"


@dataclass(frozen=True, slots=True)
class LayoutPlan:
    """The layout of the files that a batch writes, and the steps that the table lacks for that.

    Attributes:
        files: the layout after the steps, with the table's delete mode. It has no partition where
            a partition has the fixed fields alone, which need no arrangement of rows, or a field
            of an unknown kind.
        steps: in order, after the batch's other steps.
    """

    files: FileLayout
    steps: tuple[TableStep, ...] = ()


def plan_layout(
    wanted: FileLayout,
    state: TableState | None,
    fixed: Collection[str],
    columns: Collection[str],
    renamed: Mapping[str, str],
    widened: Collection[Column] = (),
) -> LayoutPlan:
    """Plans the steps after which new files have a layout.

    Args:
        wanted: of `cdc_assets.schema.file_layout.fitted`.
        state: of the table; None if it is created with the fixed fields alone.
        fixed: columns by whose value the table is partitioned in any case.
        columns: names of all columns after the batch's other steps.
        renamed: the new names, by the old, of columns that these steps rename.
        widened: the columns that these steps widen.

    Raises:
        TerminalError: if the table has a newer format version than the configured one, a new
            column has the name of a partition field, or files could not be read any more.
    """
    own = tuple(Term(Transform.IDENTITY, name) for name in fixed)
    there: dict[str, Term | None] = {each.field_name: each for each in own}
    if state is not None:
        there = {each.name: _now(each.term, renamed) for each in state.partition}
        require_readable(state, there.values(), widened)
        _require_free(
            state, {*columns} - {each.name for each in state.columns} - {*renamed.values()}
        )
    order = tuple(_sorted_now(each, renamed) for each in state.sort_order) if state else ()
    by = order if wanted.sort_by is None else wanted.sort_by
    is_known = None not in there.values()
    parts = tuple(each for each in there.values() if each is not None and each not in own)
    gone, new = tuple[str, ...](), list[Term]()
    if wanted.partition_by is not None:
        parts = tuple(each for each in wanted.partition_by if each not in own)
        gone = tuple(name for name, term in there.items() if term not in {*parts, *own})
        new = [each for each in (*own, *parts) if each not in there.values()]
    names = _names(new, {*columns, *(name for name in there if name not in gone)})
    fields = tuple(zip(names, new, strict=True))
    step = LayOut(gone, fields, None if by == order else by, _properties(wanted, state))
    clustered = (*own, *parts) if parts and (is_known or wanted.partition_by is not None) else ()
    mode = wanted.delete_mode or _mode_of(state)
    files = replace(wanted, partition_by=clustered, sort_by=by, delete_mode=mode)
    return LayoutPlan(files, (step,) if step != LayOut() else ())


def _mode_of(state: TableState | None) -> DeleteMode:
    return DeleteMode.MERGE_ON_READ if state is None else DeleteMode.of(state.properties)


def require_readable(
    state: TableState, terms: Iterable[Term | None], widened: Collection[Column]
) -> None:
    """Requires that no column becomes wider whose own values the table is partitioned by.

    Iceberg reads the column's value from the partition, in the wider type, and fails in snapshots
    that have the narrow one. Decimals have one class.

    Raises:
        TerminalError: if one does, and the table has rows.
    """
    names = {each.name for each in widened if not isinstance(each.type, Decimal)}
    own = {Term(Transform.IDENTITY, name) for name in names}
    if state.is_empty or not (found := own & {*terms}):
        return
    (name, *_) = sorted(each.column for each in found)
    what = f"{name} becomes wider, by whose values the lake table is partitioned: Iceberg could not"
    what += " read its files"
    remedy = (
        f"partition it otherwise (tables.<schema.table>.layout.partition_by: truncate(1, {name}) "
        "keeps integers apart, too), then give the files that layout: "
        "cdc-assets compact TABLE --rewrite"
    )
    raise TerminalError(what, where=f"lake={state.name}", remedy=remedy)


def _require_free(state: TableState, added: Collection[str]) -> None:
    """Requires that no new column has the name of a partition field, past or present.

    Raises:
        TerminalError: if one has: Iceberg refuses the column.
    """
    taken = sorted(state.partition_names & {*added})
    if taken:
        what = f"new columns have names of partition fields of the lake table: {', '.join(taken)}"
        remedy = (
            "give them other names in the lake (tables.<schema.table>.columns: "
            f"{{{taken[0]}: {{rename: …}}}})"
        )
        raise TerminalError(what, where=f"lake={state.name}", remedy=remedy)


def _is_column(term: Term | None, name: str) -> bool:
    """Whether a field is the column of its own name, as it may be."""
    return term == Term(Transform.IDENTITY, name)


def _now(term: Term | None, renamed: Mapping[str, str]) -> Term | None:
    return term and replace(term, column=renamed.get(term.column, term.column))


def _sorted_now(each: SortTerm, renamed: Mapping[str, str]) -> SortTerm:
    column = renamed.get(each.term.column, each.term.column)
    return replace(each, term=replace(each.term, column=column))


def _names(terms: list[Term], taken: Collection[str]) -> Iterator[str]:
    """Yields a name for the partition field of each term, which no column has."""
    used = {*taken}
    for each in terms:
        name = each.field_name
        while name in used and not _is_column(each, name):
            name += "_part"
        used.add(name)
        yield name


def _properties(wanted: FileLayout, state: TableState | None) -> dict[str, str]:
    """Returns the properties that differ; a new table is created with them."""
    if state is None:
        return {}
    modes = wanted.delete_mode.properties if wanted.delete_mode else {}
    all_ = {**wanted.properties, **modes}
    said = {n: each for n, each in all_.items() if state.properties.get(n) != each}
    now, version = state.format_version, wanted.format_version
    if version is None or now is None or version == now:
        return said
    if version < now:
        what = f"the table has Iceberg's format version {now}, and is configured to have {version}"
        remedy = f"configure layout.format_version: {now}, or: cdc-assets reset --table TABLE"
        raise TerminalError(what, where=f"lake={state.name}", remedy=remedy)
    return {**said, _VERSION: str(version)}
