"""Swaps a shadow table in: puts its rows and offsets in the lake table's place, by one commit.

If both tables have the same columns and layout, the rows are overwritten by an ordinary publish, so
that partitioning, identifier fields and settings stay. Otherwise the lake table is replaced as a
whole. Rows and offsets are both of one snapshot of the shadow table, whatever others have published
on it since.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from dataclasses import replace

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.functions import partitioning

from cdc_assets.changes.mode import Mode
from cdc_assets.changes.publish_kind import PublishKind
from cdc_assets.effects import effect
from cdc_assets.lake import Published, TableState
from cdc_assets.lake.at_source import AT_SOURCE, AtSource
from cdc_assets.lake.carried import SideMark
from cdc_assets.lake.columns import COLUMN, DROPPED, LEFT_OUT
from cdc_assets.lake.properties import MODE, PREFIX, WHERE, accepted_restart
from cdc_assets.lake.quarantined import QuarantineLake
from cdc_assets.lake.side import side_of
from cdc_assets.merge.apply.branch import Branch
from cdc_assets.merge.apply.publish import Publisher
from cdc_assets.merge.intake.layouts import lay_out
from cdc_assets.merge.plan.plan import OWN_BRANCH
from cdc_assets.merge.plan.table_steps import execute_steps
from cdc_assets.merge.statements import sql
from cdc_assets.merge.statements.failures import translated
from cdc_assets.merge.statements.writing import (
    Target,
    arranged,
    snapshot_writer,
    write_changes,
)
from cdc_assets.operations.rebuild.tables import (
    OF_REBUILD,
    RebuildStanding,
    RebuildTables,
    awaits_snapshot,
    generation_of,
)
from cdc_assets.schema.file_layout import FileLayout, Term, Transform
from cdc_assets.schema.iceberg import from_iceberg


def swap(tables: RebuildTables, standing: RebuildStanding, begun: str | None, settled: int) -> bool:
    """Swaps the shadow table in, unless it is behind the lake table.

    Args:
        tables: both tables.
        standing: the progress.
        begun: the id of the shadow table, if this process has begun with one.
        settled: the number of doubts about the shadow table's rows that are settled.

    Returns:
        False if the lake table is ahead, or rows that were read may be newer than the shadow
        table's offsets, or there are new doubts: then the shadow table has to be filled further.

    Raises:
        ConflictError: if another writer published on the lake table meanwhile, or swapped in a
            shadow table of its own.
        TerminalError: if a run has found meanwhile that the table is renamed.
    """
    generation, shard = standing.generation, tables.entry.shard
    old, new = tables.state(), tables.shadow(generation)
    if old is None or new is None or generation_of(old) != generation - 1:
        raise tables.moved()
    tables.require_same(new, begun)
    tables.require_own_topic(old, new)
    if new.published is None or _is_ahead(old.published, new.published):
        return False
    if not is_settled(new.published, settled):
        return False
    published = _published(tables, old, new, new.published)
    rows = _rows_of(tables, new)
    if shard is not None:
        old = _with_columns(tables, replace(old, published=published), new)
        rows = _as_in(tables.spark().table(sql.table(tables.catalog, old.name)), rows)
    tag = sql.tag(tables.catalog, old.name, tables.tag_for(old, generation), old.snapshot_id or 0)
    tables.execute(tag, "tag the old table", "spark: tag old table")
    if shard is not None or _layout(old) == _layout(new):
        planner = tables.planner.tables(tables.entry)
        # The side table of the old rows may be gone: these rows need the shadow table's.
        now = replace(old, published=published)
        lay_out(tables.spark(), tables.catalog, tables.entry, planner, now)
        _overwrite(tables, old, rows, published)
    else:
        _replace(tables, old, new, rows, published)
    return True


def _published(
    tables: RebuildTables, old_state: TableState, state: TableState, new: Published
) -> Published:
    """Returns the record of the swap; the lake table may have lost its own with its snapshots."""
    session, table, shard = tables.session, tables.entry.table, tables.entry.shard_value
    old, generation = old_state.published, generation_of(old_state) + 1
    is_read = new.carried.shadow is not None or awaits_snapshot(state)
    known = AtSource.of(state, shard).in_place_of(
        AtSource.of(old_state, shard), str(uuid.uuid4()), is_read=is_read
    )
    mark = new.carried.side or SideMark()
    _, quarantined = QuarantineLake(session.config).quarantined(table.source, table.qualified, 0)
    side = SideMark(mark.snapshot, str(side_of(tables.shadow_entry(generation).stem, mark)))
    carried = replace(new.carried, side=side, generation=generation, shadow=None, at_source=known)
    return replace(
        new,
        start=old.offsets if old else new.offsets,
        attempt=str(uuid.uuid4()),
        run=session.host.run_id,
        kind=PublishKind.REBUILD,
        published_at=session.clock(),
        carried=carried,
        counts={**new.counts, "quarantined": quarantined},
        slo=old.slo if old else new.slo,
        others=old.others if old else {},
    )


def _is_ahead(old: Published | None, new: Published) -> bool:
    """Returns whether readers would see the table go back; another topic's offsets do not say."""
    if old is None:
        return False
    same = (old.topic_id, old.cluster_id) == (new.topic_id, new.cluster_id)
    return same and bool(new.offsets.ranges_to(old.offsets))


def is_settled(new: Published, doubts: int) -> bool:
    """Returns whether a shadow table read from its source has come up to one state of it."""
    progress = new.carried.shadow
    if progress is None:
        return True
    return (
        progress.until is not None
        and not new.offsets.ranges_to(progress.until)
        and progress.doubts == doubts
    )


# ── rows of one snapshot ─────────────────────────────────────────────────────────────────────


def _rows_of(tables: RebuildTables, seen: TableState) -> DataFrame:
    """Returns the rows that a table had when its state was read, under the columns of that state.

    Offsets, counts and the mark of the side table are those of that snapshot. Read by the table's
    name, rows that another process has published since would come in ahead of these offsets, and
    rows of a keyless table be counted twice.

    A snapshot has the columns that it was written with, under the names and of the types of that
    time; columns added since are NULL.
    """
    name = sql.table(tables.catalog, seen.name)
    rows = tables.spark().read.option("versionAsOf", str(seen.snapshot_id)).table(name)
    return rows.select(*_columns(seen))


def _columns(seen: TableState) -> Iterator[Expression]:
    for each in seen.columns:
        then, type_ = seen.head_columns.get(each.name), seen.head_types.get(each.name)
        value = F.col(sql.quote(then)) if then else F.lit(None)
        if type_ != each.type:
            value = value.cast(str(from_iceberg(each.type) or each.type))
        yield value.alias(each.name)


# ── overwriting: columns and layout stay ─────────────────────────────────────────────────────


def _overwrite(
    tables: RebuildTables, old: TableState, rows: DataFrame, published: Published
) -> None:
    """Overwrites the rows by an ordinary publish; in a lake table of many shards, one shard's.

    Raises:
        ConflictError: if another writer published meanwhile.
    """
    plan = tables.planner.swap(tables.entry, old, published)
    branch = Branch(Publisher(tables.spark(), tables.catalog, tables.session.lake, plan))
    with branch.dropped_on_failure(), translated("write the new rows", tables.where):
        branch.overwrite(rows, published.to_properties())
    branch.publish()


def _with_columns(tables: RebuildTables, old: TableState, new: TableState) -> TableState:
    """Gives the lake table of all shards the shadow table's columns, and returns its state.

    Raises:
        TerminalError: if it cannot have them: the rows of the other shards stay as they are.
        ConflictError: if another writer published meanwhile.
    """
    planner, shadow = tables.planner, replace(tables.entry, target=new.name)
    shared, built = planner.tables(tables.entry), planner.tables(shadow).plan(new).first
    sent = [built.schema.of_source.as_sent]
    steps = shared.columns(shared.plan(old).first.schema, old, sent).steps
    execute_steps(tables.spark(), tables.catalog, tables.entry, steps)
    now = tables.state()
    if now is None or now.snapshot_id != old.snapshot_id:
        raise tables.moved()
    return now


def _as_in(table: DataFrame, rows: DataFrame) -> DataFrame:
    """Returns rows with the columns of a table; columns that the rows do not have are empty."""
    own = set(rows.columns)
    return rows.select(
        *(
            F.col(sql.quote(each.name))
            if each.name in own
            else F.lit(None).cast(each.dataType).alias(each.name)
            for each in table.schema
        )
    )


# ── replacing: other columns, or another layout ──────────────────────────────────────────────


def _replace(
    tables: RebuildTables, old: TableState, new: TableState, rows: DataFrame, published: Published
) -> None:
    """Replaces columns and rows at once.

    Such a commit replaces any state of the table. So batches that have begun are kept from being
    published first: their branches are dropped, and ``main`` moves to a snapshot without changes.

    Raises:
        ConflictError: if another writer published meanwhile.
    """
    for each in tables.session.lake.branches(old.name):
        if OWN_BRANCH.fullmatch(each):
            statement = sql.drop_branch(tables.catalog, old.name, each)
            tables.execute(statement, "drop branches", "spark: drop branch")
    table = sql.table(tables.catalog, old.name)
    with translated("replace the table", tables.where), effect("spark: leave the head"):
        nothing = tables.spark().table(table).limit(0)
        target = Target(tables.catalog, old.name, old.snapshot_id)
        write_changes(nothing, None, target, {}, files=FileLayout.left_alone(old.properties))
    now = tables.state()
    if now is None or now.published != old.published:
        raise tables.moved()
    files = _files(tables, old, new)
    rows = arranged(rows, tables.catalog, files, spread=True)
    writer = snapshot_writer(rows, table, published.to_properties(), files).using("iceberg")
    for name, value in _properties(old.properties, new.properties).items():
        writer = writer.tableProperty(name, value)
    parts = [] if files.partition_by is None else [*files.partition_by]
    if not parts and new.properties.get(MODE) == Mode.HISTORY:
        parts = [Term(Transform.IDENTITY, sql.CURRENT)]
    if parts:
        writer = writer.partitionedBy(*map(_parted, parts))
    with translated("replace the table", tables.where), effect("spark: replace table"):
        writer.replace()  # never made again for one that was dropped meanwhile


def _files(tables: RebuildTables, old: TableState, new: TableState) -> FileLayout:
    """Returns the layout of the new rows: the shadow table's, which is the configured one.

    A part that is not configured is as a person has set it on the lake table, as far as the new
    columns allow. Spark cannot replace a table by one that is partitioned by a truncation, so the
    next batch adds such a field, for the files from then on.
    """
    shadow = tables.planner.tables(replace(tables.entry, target=new.name))
    schema = shadow.plan(new).first.schema
    files, names = shadow.layout(schema, new).files, {each.name for each in new.columns}
    parts = files.partition_by or tuple(each for each in old.parted_by if each.column in names)
    order = files.sort_by or tuple(e for e in old.sort_order if e.term.column in names)
    own = (Term(Transform.IDENTITY, sql.CURRENT),) if sql.CURRENT in names and parts else ()
    parts = dict.fromkeys((*own, *(p for p in parts if p.transform is not Transform.TRUNCATE)))
    return replace(files, partition_by=tuple(parts), sort_by=order)


def _parted(term: Term) -> Expression:
    """Returns a partition's field as Spark takes it."""
    column = F.col(sql.quote(term.column))
    match term.transform:
        case Transform.YEAR:
            return partitioning.years(column)
        case Transform.MONTH:
            return partitioning.months(column)
        case Transform.DAY:
            return partitioning.days(column)
        case Transform.HOUR:
            return partitioning.hours(column)
        case Transform.BUCKET:
            return partitioning.bucket(term.number, column)
        case _:
            return column


def _layout(state: TableState) -> tuple[object, ...]:
    """Returns the parts of a table by which its rows and records are read."""
    said = {name: each for name, each in state.properties.items() if each and _is_layout(name)}
    columns = [(each.name, each.type, each.required) for each in state.columns]
    return said, columns, state.key


def _is_layout(name: str) -> bool:
    of_its_own = (AT_SOURCE, accepted_restart(""))
    return name.startswith(PREFIX) and name not in OF_REBUILD and not name.startswith(of_its_own)


def _properties(old: Mapping[str, str], new: Mapping[str, str]) -> dict[str, str]:
    """Returns the shadow table's properties, and those that a person has set on the lake table.

    A table that is replaced keeps its properties. The old properties of columns and of the mode are
    emptied, as a replacement removes none.
    """
    theirs = {name: value for name, value in old.items() if not name.startswith(PREFIX)}
    of_columns = {name: "" for name in old if name.startswith((COLUMN, LEFT_OUT, DROPPED))}
    rest = {name: each for name, each in new.items() if name not in OF_REBUILD}
    return {**theirs, **of_columns, MODE: "", WHERE: "", **rest}
