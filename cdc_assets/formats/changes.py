"""Decodes raw records into changes, for every format, in one pass that parses each record once.

A decoded batch has one row for each change, and for each record that is none. Its columns:

====================  ==============================================================
``op``                ``c`` ``u`` ``d`` ``r`` ``t``; ``tombstone`` for a record without a value;
                      ``control`` for one that is passed over, ``other`` for another table's
``n0`` … ``nk``       the numbers of the position, as many as its scheme has, see
                      `cdc_assets.changes.position`
``partition offset``  the record's coordinates in Kafka
``ts``                the source's commit time; NULL for snapshot rows, whose commits are older
``key``               struct of the key columns; for a record without a value only if asked for
``old_key``           the same before the change, where an update may have changed it; NULL
                      elsewhere: connectors send a delete and a create when their key changes
``row``               struct of all columns, decoded; NULL for deletes
``unset``             struct of booleans: which columns hold the "unchanged" placeholder
``in_doubt``          a create, or an update that changed the key, with such a placeholder: its
                      value is that of another row, or it is data
``old_row``           the row before the change, for tables without a key; NULL elsewhere
``ordinal``           the change's place in its transaction, for tables without a key
``pair``              the same hash for a delete and for the record without a value right after it
``reject``            the reason why the record cannot be merged, without its values; NULL if it can
``other_table``       the table of a change of another table, whose ``op`` is ``other``
``is_unwritten``      whether the record has a schema that is not known yet
``unknown``           fields of the row that the schema does not have; NULL if none was found.
                      Like ``absent`` it says nothing of a record that cannot be merged
``told_ms``           the source's time of the commit, or of reading a snapshot's row
``may_witness``       whether the record comes in the order of commits, ``floats`` whether it is
                      of a connector's first transaction: see `cdc_assets.changes.restarts`
``absent``            expected columns that the row image lacks; NULL if none was found
``key_schema``        only if asked for: see `Format.key_schema`
``read_lsn``          position of a snapshot row, ``floating_lsn`` of a change without last
                      commit: see `cdc_assets.changes.position`
====================  ==============================================================

Chooses, for each record, between the expressions of several schemas that one plan reads.

Finds why a decoded change cannot be merged. For what its record holds see ``Changes.java``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from cdc_assets.formats.by_table import opened
from cdc_assets.formats.change import change_of, parts_of, placed_of
from cdc_assets.formats.envelope import Envelope
from cdc_assets.formats.existing import with_existing
from cdc_assets.formats.flat import any_of, first_of
from cdc_assets.formats.format import Format
from cdc_assets.formats.oversized import OVERSIZE, refusal
from cdc_assets.formats.record_json import found_here
from cdc_assets.formats.spec import CONTROL, OTHER, STATEMENT, TOMBSTONE, ReadSpec

_NO_SCHEMA: Final = "its schema is not that of a change event"
_UNWRITTEN: Final = "its schema is not known yet"
_CHANGE: Final = "change"
_MOST_COLUMNS: Final = 120
"""Limit of the columns of all schemas that one plan reads. Three schemas of forty columns each were
too many for code that Java compiles."""


@dataclass(frozen=True, slots=True)
class Reading:
    """The format and schemas by which the records of a batch are read.

    Attributes:
        format: of the records.
        specs: one for each set of schemas that are read as one; the last is for records without a
            schema.
        unreadable: numbers of schemas that are not those of change events.
    """

    format: Format
    specs: tuple[ReadSpec, ...]
    unreadable: tuple[int, ...] = ()

    @property
    def has_writer(self) -> bool:
        """Whether records have a schema's number, in the column ``writer``."""
        last = self.specs[-1]
        return self.format.writer(last.layout, last.table) is not None


def decode(raw: DataFrame, reading: Reading) -> DataFrame:
    """Decodes changes from Kafka records, ``key value partition offset`` as from Spark's source.

    Nothing is dropped: records that cannot be merged stay, with a reason in ``reject``. Records
    that are too large are not parsed: their ``op`` is NULL.
    """
    fmt, specs = reading.format, reading.specs
    layout, table = specs[-1].layout, specs[-1].table
    known = {number: text for spec in specs for number, text in spec.writers.items()}
    records = fmt.numbered(opened(raw, fmt, layout), layout, table, known)
    if not reading.has_writer or _is_small(specs):
        return _judged(_decoded(records, reading, specs), specs[-1])
    which = conditions_of(specs)
    is_of_others = any_of(each for each in which if each is not None)
    mine = [records.where(~is_of_others if each is None else each) for each in which]
    found = [_decoded(m, reading, (spec,)) for m, spec in zip(mine, specs, strict=True)]
    return _judged(_united(found), specs[-1])


def _is_small(specs: Sequence[ReadSpec]) -> bool:
    """Whether one plan can read all these schemas: Java limits the code for a row.

    Separate plans read the log once each.
    """
    return sum(len(spec.schema.columns) for spec in specs if spec.has_rows) <= _MOST_COLUMNS


def _united(frames: Sequence[DataFrame]) -> DataFrame:
    """Unites frames by halves: a union has two sides, and a chain of many unions is too deep."""
    if len(frames) == 1:
        return frames[0]
    half = len(frames) // 2
    return _united(frames[:half]).unionByName(_united(frames[half:]))


def _decoded(records: DataFrame, reading: Reading, specs: Sequence[ReadSpec]) -> DataFrame:
    """Decodes records that have one of these schemas, in one plan."""
    fmt, which = reading.format, conditions_of(specs)
    parsed = records.select("*", *_documents(fmt, specs, which))
    if fmt.has_many_rows:
        parsed = _lines(parsed, fmt, _with_all(specs))
    names = ("document0" if fmt.has_many_rows else f"document{i}" for i in range(len(specs)))
    envelopes = [fmt.envelope(F.col(name), spec) for name, spec in zip(names, specs, strict=True)]
    parsed, envelopes = _in_columns(parsed, envelopes, specs, fmt)
    pairs = zip(envelopes, specs, strict=True)
    parts = [parts_of(each, F.col(_CHANGE), spec, fmt) for each, spec in pairs]
    named = {name: chosen(which, [each[name] for each in parts]) for name in parts[0]}
    if reading.has_writer:
        named |= _of_writers(named, reading)
    if fmt.has_many_tables:
        parsed = parsed.withColumn("other_table", named["other_table"])
        named = _mine({**named, "other_table": F.col("other_table")})
    fits = F.col(OVERSIZE).isNull()
    named["op"] = F.when(fits, named["op"])
    named["reject"] = F.coalesce(refusal(fmt), named["reject"])
    return parsed.select(*(each.alias(name) for name, each in named.items()))


def _lines(parsed: DataFrame, fmt: Format, spec: ReadSpec) -> DataFrame:
    """Gives each row of a message its own row, in steps that read the message only once."""
    found = fmt.rows(F.col("document"), spec)
    messages = parsed.select("*", found.head.alias("head"), found.rows.alias("rows"))
    each = messages.select("*", F.posexplode_outer("rows").alias("place", "row"))
    line = F.coalesce("place", F.lit(0)).alias("line")
    return each.select("*", line, F.struct("head", "row").alias("document0"))


def _in_columns(
    parsed: DataFrame, envelopes: Sequence[Envelope], specs: Sequence[ReadSpec], fmt: Format
) -> tuple[DataFrame, list[Envelope]]:
    """Puts the change, and what nearly all parts of one use, into columns, computed once each.

    With several schemas each part is a choice, and Spark finds no common subexpressions in choices.
    Expressions for the source are deep where they parse text, and would deepen everything that uses
    them, see `cdc_assets.formats.flat`; so would the names of other tables. Where the source is
    assembled from many fields, the plan is fifteen times as large without this.

    Args:
        parsed: the records with their documents.
        envelopes: of the documents.
        specs: of each.
        fmt: of the records.
    """
    is_deep = fmt.has_many_tables or len(specs) > 1 or envelopes[-1].is_made
    changes = [change_of(each, spec, fmt) for each, spec in zip(envelopes, specs, strict=True)]
    found = {_CHANGE: found_here(chosen(conditions_of(specs), changes), specs[-1])}
    kept: list[Envelope] = []
    for i, (each, spec) in enumerate(zip(envelopes, specs, strict=True)):
        own = spec.order.placed(placed_of(each, fmt), spec.state)
        mine = {"op": each.op, "is_read": each.is_read}
        mine |= {"source": each.source} if is_deep else {}
        mine |= {} if own is None else {"placed": own}
        found |= {f"{name}{i}": made for name, made in mine.items()}
        kept.append(replace(each, **{name: F.col(f"{name}{i}") for name in mine}))
    return parsed.select("*", *(each.alias(name) for name, each in found.items())), kept


def _documents(
    fmt: Format, specs: Sequence[ReadSpec], which: Sequence[Expression | None]
) -> list[Expression]:
    if fmt.has_many_rows:
        return [fmt.document(_with_all(specs)).alias("document")]
    found = zip(specs, which, strict=True)
    return [
        only_if(is_mine, fmt.document(spec)).alias(f"document{i}")
        for i, (spec, is_mine) in enumerate(found)
    ]


def _with_all(specs: Sequence[ReadSpec]) -> ReadSpec:
    """Returns the last spec with the columns of all: one document for records of any schema."""
    last = specs[-1]
    columns = {each.name: each for spec in specs for each in spec.schema.columns}
    return replace(last, schema=replace(last.schema, columns=(*columns.values(),)))


def _mine(named: Mapping[str, Expression]) -> dict[str, Expression]:
    """Reduces another table's changes to the name of their table."""
    other = named["other_table"]
    mine = {name: F.when(other.isNull(), each) for name, each in named.items()}
    kept = {name: named[name] for name in ("partition", "offset", "other_table")}
    return {**mine, **kept, "op": F.when(other.isNotNull(), OTHER).otherwise(named["op"])}


def _of_writers(named: Mapping[str, Expression], reading: Reading) -> dict[str, Expression]:
    """Rejects records whose schemas are not those of change events, or not known."""
    number = F.col("writer")
    known = [each for spec in reading.specs for each in spec.writers]
    is_odd = number.isin(*reading.unreadable) if reading.unreadable else F.lit(False)
    is_new = number.isNotNull() & ~is_odd
    if known:
        is_new = is_new & ~number.isin(*known)
    is_new = F.coalesce(is_new, F.lit(False))
    reject = F.when(is_new, _UNWRITTEN).when(is_odd, _NO_SCHEMA).otherwise(named["reject"])
    return {"is_unwritten": is_new, "reject": reject}


def _judged(named: DataFrame, spec: ReadSpec) -> DataFrame:
    """Rejects changes without a position, and fills in columns that older records do not have."""
    judged = named.withColumn("reject", F.coalesce("reject", *unplaced(spec)))
    return with_existing(judged, spec).drop("is_late_read")


def conditions_of(specs: Sequence[ReadSpec]) -> list[Expression | None]:
    """Returns the condition of each spec's records; None for the last, which takes the rest."""
    *first, _ = specs
    return [*(F.col("writer").isin(*spec.writers) for spec in first), None]


def only_if(condition: Expression | None, value: Expression) -> Expression:
    """Returns the value where a condition of `conditions_of` holds, elsewhere NULL."""
    return value if condition is None else F.when(condition, value)


def chosen(which: Sequence[Expression | None], values: Sequence[Expression]) -> Expression:
    """Returns the value of the first condition of `conditions_of` that holds."""
    *some, last = values
    cases = [(each, value) for each, value in zip(which, some, strict=False) if each is not None]
    return first_of(cases).otherwise(last) if cases else last


_LATE_READ: Final = (
    "a row of a snapshot that was taken while changes were streamed: without a key it cannot be "
    "distinguished from a change"
)


def unplaced(spec: ReadSpec) -> Iterator[Expression]:
    """Yields rejections of changes without a position."""
    yield F.when(F.col("is_late_read"), _LATE_READ)
    no_position = ~F.col("op").isin(TOMBSTONE, CONTROL, STATEMENT, OTHER) & F.col("n0").isNull()
    yield F.when(no_position, f"no source position ({spec.layout.scheme})")
