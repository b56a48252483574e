"""Builds the statements over the rows of one table: ranges of keys, single keys, digests, waves.

Each statement comes with the values of its parameters. The parts that databases write in their own
way come from a `Dialect`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from cdc_assets.changes.names import HELPERS
from cdc_assets.databases.dialect import C, Dialect, Given, KeyFault, parameter
from cdc_assets.errors import TerminalError
from cdc_assets.schema.comparing import (
    BucketTree,
    Compared,
    Comparison,
    Form,
    Key,
    Uncompared,
    tree,
)
from cdc_assets.schema.row_condition import IsNull, Leaf, RowCondition, in_sql, leaf_in_sql
from cdc_assets.schema.types import TableSchema

Statement = tuple[str, Given]
"""The text, and the values of its parameters."""

KEY: Final = f"{HELPERS}w"
"""Columns ``_cdc_assets_w0``, …: the texts of a row's key."""

LAKE_TEXT: Final = f"{HELPERS}v"
"""Columns ``_cdc_assets_v0``, …: the texts of the lake's values, one for each compared column."""

DIGEST: Final = f"{HELPERS}md5"
"""Column: the digest of all compared columns."""

LARGE: Final = f"{HELPERS}large"
"""Column: the digest of the columns of `Statements.omitted`."""

_EVERY_ROW: Final = "TRUE"
_FIXED: Final = frozenset({Form.BOOLEAN, Form.INTEGER, Form.FLOATING, Form.DAYS, Form.MICROS})
_SUMS: Final = """
SELECT bucket, COUNT(*), SUM({first}), SUM({second}), COUNT(*) - COUNT(digest)
FROM (SELECT {bucket} AS bucket, {digest} AS digest FROM {table} AS t WHERE {condition}
      {barrier}) AS r
GROUP BY bucket
"""


@dataclass(frozen=True, slots=True)
class Range:
    """Keys from one on, below another; None for no bound. ``bounds`` cut it into buckets."""

    start: Key | None
    end: Key | None
    bounds: tuple[Key, ...] = ()


def edges(within: Sequence[Range]) -> tuple[tuple[Key, ...], int]:
    """Returns the keys at which ranges begin and end, for a table that is read as a whole.

    Args:
        within: ascending, none overlaps another.

    Returns:
        The keys, ascending, and the number, 0 or 1, of the first bucket between them that is in a
        range: from there on every second one is.
    """
    found: list[Key] = []
    for each in within:
        if each.start is not None:
            if found and found[-1] == each.start:
                found.pop()
            else:
                found.append(each.start)
        if each.end is not None:
            found.append(each.end)
    return tuple(found), int(within[0].start is not None)


def paired(
    known: Mapping[str, C], schema: TableSchema, dialect: Dialect[C]
) -> tuple[dict[str, C], Comparison]:
    """Returns the columns that are compared, each with its column at the source.

    Args:
        known: columns of the source, by name.
        schema: the lake's columns.
        dialect: decides which columns are compared, and how.
    """
    sources: dict[str, C] = {}
    compared: list[Compared] = []
    left_out: list[Uncompared] = []
    for column in schema.columns:
        source = known.get(column.sent_as)
        if source is None:
            why = "the source does not have it"
            left_out.append(Uncompared(column.name, why, is_at_source=False))
            continue
        form = dialect.form_of(source, column)
        if not isinstance(form, Form):
            left_out.append(Uncompared(column.name, form))
        else:
            compared.append(Compared(column, form))
            sources[column.name] = source
    by_name = {each.name: each for each in compared}
    key = tuple(by_name[name] for name in schema.key if name in by_name)
    is_usable = len(key) == len(schema.key) and all(
        dialect.may_be_key(sources[each.name], each) for each in key
    )
    own = key if is_usable else ()
    return sources, Comparison(tuple(compared), own, tuple(left_out), bool(schema.key))


class Statements:
    """The statements of one table.

    Args:
        dialect: the database's SQL.
        table: schema and name.
        comparison: the columns that are compared.
        sources: the columns at the source, by the lake's names.
        condition: on the rows that count; None for all.

    Attributes:
        table: the table's name, quoted.
        omitted: places of the columns whose values an update may leave out of its event.
        is_ordered: whether an index has the order of the keys.
        finds_keys: whether an index finds single keys.
        numbers_rows: whether `bounds` can be asked; otherwise `after`, bound by bound.
        longest: the setting that bounds a row's text.
    """

    def __init__(
        self,
        dialect: Dialect[Any],
        table: tuple[str, str],
        comparison: Comparison,
        sources: Mapping[str, Any],
        condition: RowCondition | None = None,
    ) -> None:
        self.comparison = comparison
        self.table = ".".join(dialect.quote(part) for part in table)
        self.omitted = _of_varying_length(comparison) if dialect.omits_values else ()
        self.numbers_rows = dialect.numbers_rows
        self.longest = dialect.longest
        self._dialect = dialect
        places = {name: f"t.{dialect.quote(source.name)}" for name, source in sources.items()}
        columns = [(c, sources[c.name], places[c.name]) for c in comparison.columns]
        self._texts = {c.name: dialect.canonical(source, c, at) for c, source, at in columns}
        self._lake_texts = [dialect.lake_text(source, c, at) for c, source, at in columns]
        self._key = [(sources[c.name], c, places[c.name]) for c in comparison.key]
        self._order = [dialect.ordered(source, at) for source, _, at in self._key]
        self._counts = None
        if condition is not None:
            known = {c.name: (source, c, at) for c, source, at in columns}
            self._counts = in_sql(condition, lambda leaf: self._leaf(leaf, known.get(leaf.column)))
        first = sources[comparison.key[0].name] if comparison.key else None
        self.is_ordered = first is not None and dialect.is_indexed(first)
        self.finds_keys = first is not None and dialect.finds_keys(first)

    def in_statements(self, keys: Sequence[Key]) -> Iterator[Sequence[Key]]:
        """Yields keys in the portions that `found` looks for."""
        most = self._dialect.most_keys if self.finds_keys else None
        each = max(len(keys), 1) if most is None else most
        for n in range(0, len(keys), each):
            yield keys[n : n + each]

    # ── statements ────────────────────────────────────────────────────────────────────────

    def sums(self, within: Range) -> Statement:
        """Returns count, checksum and number of rows that have no digest, by bucket."""
        given: Given = {}
        made = _SUMS.format(
            first=self._dialect.number("digest", 1),
            second=self._dialect.number("digest", 16),
            bucket=self._bucket(tree(within.bounds), given),
            digest=self.digest,
            table=self.table,
            condition=self._counted(self._within(within, given)),
            barrier=self._dialect.barrier,
        )
        return made, given

    def digests(self, within: Sequence[Range]) -> Statement:
        """Returns key and digest of each row of some ranges."""
        given: Given = {}
        condition = self._counted(self._among(within, given))
        return self._select([*self._key_texts, self.digest], condition), given

    def found(self, keys: Sequence[Key]) -> Statement:
        """Returns texts of keys, of all columns, and of the lake's values; for equal keys, too."""
        given: Given = {}
        columns = [*self._key_texts, *self._texts.values(), *self._lake_texts]
        rows = self._dialect.matching(self.table, self._same, keys, given)
        return f"SELECT {', '.join(columns)} {rows}", given

    def whole(self, within: Range) -> Statement:
        """Returns a range's rows, with the columns `KEY`, `LAKE_TEXT`, `DIGEST` and `LARGE`."""
        given: Given = {}
        texts = list(self._texts.values())
        columns = [f"{text} AS {KEY}{n}" for n, text in enumerate(self._key_texts)]
        columns += [f"{text} AS {LAKE_TEXT}{n}" for n, text in enumerate(self._lake_texts)]
        large = self._dialect.digest([texts[n] for n in self.omitted])
        columns += [f"{self.digest} AS {DIGEST}", f"{large} AS {LARGE}"]
        return self._select(columns, self._counted(self._within(within, given))), given

    def bounds(self, within: Range, every: int, count: int) -> Statement:
        """Returns each ``every``-th key of a range, at most ``count`` of them."""
        given: Given = {}
        order, names = ", ".join(self._order), ", ".join(f"b.k{n}" for n in range(len(self._key)))
        columns = [f"{text} AS k{n}" for n, text in enumerate(self._key_texts)]
        columns.append(f"row_number() OVER (ORDER BY {order}) AS n")
        rows = self._select(columns, self._within(within, given))
        rows += f" ORDER BY {order} LIMIT {every * count + 1}"
        picked = f"b.n > 1 AND (b.n - 1) %% {every} = 0"
        made = f"SELECT {names} FROM ({rows}) AS b WHERE {picked} ORDER BY b.n"  # noqa: S608
        return made, given

    def after(self, within: Range, rows: int) -> Statement:
        """Returns the key of a range that follows its first ``rows`` rows."""
        given: Given = {}
        made = self._select(self._key_texts, self._within(within, given))
        return f"{made} ORDER BY {', '.join(self._order)} LIMIT 1 OFFSET {rows}", given

    def faulty_keys(self) -> Iterator[tuple[Statement, KeyFault]]:
        """Yields statements that find a row that its key does not identify, and the fault."""
        for fault in self._dialect.faulty_keys(self._key):
            yield (f"{self._select(['1'], fault.condition)} LIMIT 1", {}), fault

    # ── parts of statements ───────────────────────────────────────────────────────────────

    @property
    def digest(self) -> str:
        """SQL for the digest of all columns; NULL for a row that is too long."""
        return self._dialect.digest([*self._texts.values()])

    @property
    def _key_texts(self) -> list[str]:
        return [self._texts[each.name] for each in self.comparison.key]

    def _select(self, columns: Sequence[str], condition: str) -> str:
        return f"SELECT {', '.join(columns)} FROM {self.table} AS t WHERE {condition}"  # noqa: S608 - quoted names

    def _bucket(self, of: BucketTree, given: Given) -> str:
        """Returns the number of a row's bucket."""
        if isinstance(of, int):
            return str(of)
        below, above = self._bucket(of.below, given), self._bucket(of.above, given)
        condition = self._dialect.before(self._order, self._bound(of.bound, given))
        return f"CASE WHEN {condition} THEN {below} ELSE {above} END"

    def _among(self, within: Sequence[Range], given: Given) -> str:
        """Returns whether a row is in one of some ranges."""
        if not self.is_ordered:  # each row is looked at: by a tree, not range by range
            bounds, inside = edges(within)
            return f"({self._bucket(tree(bounds), given)}) %% 2 = {inside}"
        return " OR ".join(f"({self._within(each, given)})" for each in within)

    def _within(self, of: Range, given: Given) -> str:
        """Returns whether a row is in a range."""
        conditions: list[str] = []
        if of.start is not None:
            conditions += self._dialect.from_on(self._order, self._bound(of.start, given))
        if of.end is not None:
            conditions += self._dialect.below(self._order, self._bound(of.end, given))
        return " AND ".join(f"({each})" for each in conditions) or _EVERY_ROW

    def _bound(self, key: Key, given: Given) -> list[str]:
        """Returns a key in the form in which rows are ordered."""
        return [
            self._dialect.of_text(source, compared, parameter(text, given))
            for (source, compared, _), text in zip(self._key, key, strict=True)
        ]

    def _same(self, texts: Sequence[str]) -> str:
        """Returns whether a row counts, and has the key of these texts, or an equal one."""
        return self._counted(
            " AND ".join(
                self._dialect.equal(source, compared, at, text)
                for (source, compared, at), text in zip(self._key, texts, strict=True)
            )
        )

    def _counted(self, condition: str) -> str:
        """Returns whether a condition holds for a row that counts."""
        return condition if self._counts is None else f"({condition}) AND ({self._counts})"

    def _leaf(self, leaf: Leaf, known: tuple[Any, Compared, str] | None) -> str:
        """Returns SQL for a part of the condition on rows, over the lake's value of its column.

        Raises:
            TerminalError: if the database has no such value.
        """
        # NULL is what the lake has as such: a zero date has no value there.
        of = self._dialect.canonical if isinstance(leaf, IsNull) else self._dialect.lake_value
        value = None if known is None else of(*known)
        if known is None or value is None:
            what = f"the database does not compare {leaf.column} as the lake does, which the "
            what += "condition on rows names"
            remedy = (
                "take it out of tables.<schema.table>.where; without it the table's rows can be "
                "read from the database and compared with it"
            )
            raise TerminalError(what, where=self.table, remedy=remedy)
        source, compared, place = known
        dialect = self._dialect
        return leaf_in_sql(
            leaf,
            value,
            lambda of: dialect.constant(compared, of.text),
            lambda of: dialect.like(source, compared, place, of.text),
        )


def _of_varying_length(comparison: Comparison) -> tuple[int, ...]:
    """Returns the places of the columns whose values have no fixed length."""
    return tuple(
        n for n, each in enumerate(comparison.columns) if each.is_list or each.form not in _FIXED
    )
