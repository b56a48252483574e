"""Statements over the rows of one table of MySQL or MariaDB: ranges of keys, keys, digests.

Values are parameters: each statement goes with what it is given, by name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from cdc_assets.databases.facts import Facts
from cdc_assets.databases.mysql.comparing import (
    canonical,
    equal,
    framed,
    of_text,
    ordered,
    quote,
    told,
)
from cdc_assets.databases.mysql.types import MysqlColumn
from cdc_assets.databases.reading import DIGEST, KEY, LARGE, TOLD
from cdc_assets.databases.rows import Range, edges
from cdc_assets.schema.comparing import BucketTree, Comparison, Form, Key, tree

Given = dict[str, str]
"""By name; statements add to it what they need."""

_SUMS: Final = """
SELECT bucket, COUNT(*), SUM(CAST(CONV(SUBSTR(digest, 1, 15), 16, 10) AS UNSIGNED)),
       SUM(CAST(CONV(SUBSTR(digest, 16, 15), 16, 10) AS UNSIGNED)), SUM(digest IS NULL)
FROM (SELECT {bucket} AS bucket, {digest} AS digest FROM {table} AS t WHERE {condition}
      LIMIT 18446744073709551615) AS r
GROUP BY bucket
"""
"""LIMIT keeps the digest from being written into all of its uses."""

_NO_LARGE: Final = "MD5('')"
"""Row images are full: no update leaves a value out."""


@dataclass(frozen=True, slots=True)
class Texts:
    """SQL for each column, by the lake's names; ``in_order`` and what follows have the key's."""

    canonical: Mapping[str, str]
    told: Mapping[str, str]
    in_order: tuple[str, ...]
    from_text: tuple[str, ...]
    equal: tuple[str, ...]
    may_lack_days: tuple[str, ...]


def texts_of(
    comparison: Comparison,
    sources: Mapping[str, MysqlColumn],
    charsets: Mapping[str, tuple[str, str]],
    facts: Mapping[str, Facts],
) -> Texts:
    """Returns the SQL of a table's columns.

    Args:
        comparison: what is compared.
        sources: the table's columns, by the lake's names.
        charsets: character set and collation, by the table's own.
        facts: likewise.
    """
    places = {name: f"t.{quote(source.name)}" for name, source in sources.items()}
    defaults = {n: facts[s.name].existing if s.name in facts else None for n, s in sources.items()}
    key = [(sources[each.name], each, places[each.name]) for each in comparison.key]
    columns = [(each.name, sources[each.name], each) for each in comparison.columns]
    return Texts(
        {n: canonical(source, c, places[n], defaults[n]) for n, source, c in columns},
        {n: told(source, c, places[n], defaults[n]) for n, source, c in columns},
        tuple(ordered(source, place) for source, _, place in key),
        tuple(of_text(source, c) for source, c, _ in key),
        tuple(equal(source, c, place, charsets[source.name]) for source, c, place in key),
        tuple(place for _, c, place in key if c.form in {Form.DAYS, Form.MICROS}),
    )


@dataclass(frozen=True, slots=True)
class Statements:
    """The statements of one table.

    Attributes:
        table: schema and name.
        comparison: what is compared.
        texts: SQL of its columns.
        is_ordered: whether an index has the order of the keys.
    """

    table: tuple[str, str]
    comparison: Comparison
    texts: Texts
    is_ordered: bool

    def sums(self, bucket: str, condition: str) -> str:
        """Returns count, checksum and number of rows that cannot be digested, by bucket."""
        return _SUMS.format(
            bucket=bucket, digest=self.digest, table=self._name, condition=condition
        )

    def digests(self, within: Sequence[Range], given: Given) -> str:
        """Returns key and digest of each row of some ranges."""
        condition = self._among(within, given)
        return (
            f"SELECT {', '.join(self._key)}, {self.digest} FROM {self._name} AS t WHERE {condition}"  # noqa: S608 - quoted names
        )

    def found(self, keys: Sequence[Key], given: Given) -> str:
        """Returns keys, texts of all columns, and what they are made of; of equal ones, too."""
        names = [each.name for each in self.comparison.columns]
        columns = [self.texts.canonical[n] for n in names] + [self.texts.told[n] for n in names]
        condition = " OR ".join(self._equals(key, given) for key in keys)
        return (
            f"SELECT {', '.join([*self._key, *columns])} FROM {self._name} AS t WHERE {condition}"  # noqa: S608 - quoted names
        )

    def whole(self, within: Range, given: Given) -> str:
        """Returns the rows of a range, as `cdc_assets.databases.reading` names columns."""
        names = (each.name for each in self.comparison.columns)
        columns = [f"{text} AS {KEY}{n}" for n, text in enumerate(self._key)]
        columns += [f"{self.texts.told[name]} AS {TOLD}{n}" for n, name in enumerate(names)]
        columns += [f"{self.digest} AS {DIGEST}", f"{_NO_LARGE} AS {LARGE}"]
        condition = self.within(within, given)
        return f"SELECT {', '.join(columns)} FROM {self._name} AS t WHERE {condition}"  # noqa: S608 - quoted names

    def after(self, start: Key | None, rows: int, given: Given) -> str:
        """Returns the key that so many rows from another one on are before."""
        order = ", ".join(self.texts.in_order)
        condition = self.within(Range(start, None), given)
        return (
            f"SELECT {', '.join(self._key)} FROM {self._name} AS t WHERE {condition}"  # noqa: S608 - quoted names
            f" ORDER BY {order} LIMIT 1 OFFSET {rows}"
        )

    def lacking_days(self) -> str:
        """Returns a row whose key has a date without a day; empty if keys have no dates."""
        conditions = [f"TO_DAYS({each}) IS NULL" for each in self.texts.may_lack_days]
        if not conditions:
            return ""
        return f"SELECT 1 FROM {self._name} AS t WHERE {' OR '.join(conditions)} LIMIT 1"  # noqa: S608 - quoted names

    def bucket(self, of: BucketTree, given: Given) -> str:
        """Returns the number of a row's bucket."""
        if isinstance(of, int):
            return str(of)
        below, above = self.bucket(of.below, given), self.bucket(of.above, given)
        return f"CASE WHEN {self._before(of.bound, given)} THEN {below} ELSE {above} END"

    def within(self, of: Range, given: Given) -> str:
        """Returns whether a row is one of a range."""
        conditions: list[str] = []
        first = self.texts.in_order[0]
        if of.start is not None:
            conditions.append(f"{first} >= {self._bounds(of.start, given)[0]}")
            conditions.append(f"NOT ({self._before(of.start, given)})")
        if of.end is not None:
            conditions.append(f"{first} <= {self._bounds(of.end, given)[0]}")
            conditions.append(self._before(of.end, given))
        return " AND ".join(f"({each})" for each in conditions) or "TRUE"

    @property
    def digest(self) -> str:
        """Returns SQL for the digest of all columns; NULL for a row that cannot be assembled."""
        texts = (framed(self.texts.canonical[each.name]) for each in self.comparison.columns)
        return f"MD5(CONCAT({', '.join(texts)}))"

    @property
    def _key(self) -> list[str]:
        return [self.texts.canonical[each.name] for each in self.comparison.key]

    @property
    def _name(self) -> str:
        return ".".join(quote(part) for part in self.table)

    def _among(self, within: Sequence[Range], given: Given) -> str:
        """Returns whether a row is in one of some ranges."""
        if not self.is_ordered:  # each row is looked at: by a tree, not range by range
            bounds, inside = edges(within)
            return f"({self.bucket(tree(bounds), given)}) %% 2 = {inside}"
        return " OR ".join(f"({self.within(each, given)})" for each in within)

    def _before(self, bound: Key, given: Given) -> str:
        """Compares column by column: for a comparison of rows no index is used."""
        pairs = list(zip(self.texts.in_order, self._bounds(bound, given), strict=True))
        column, value = pairs.pop()
        condition = f"{column} < {value}"
        for column, value in reversed(pairs):
            condition = f"({column} < {value} OR ({column} = {value} AND {condition}))"
        return condition

    def _bounds(self, key: Key, given: Given) -> list[str]:
        return [
            made.replace("{}", _given(text, given))
            for made, text in zip(self.texts.from_text, key, strict=True)
        ]

    def _equals(self, key: Key, given: Given) -> str:
        pairs = zip(self.texts.equal, key, strict=True)
        same = (made.replace("{}", _given(text, given)) for made, text in pairs)
        return f"({' AND '.join(same)})"


def _given(text: str, given: Given) -> str:
    name = f"p{len(given)}"
    given[name] = text
    return f"%({name})s"
