"""Rows of a PostgreSQL table, counted, digested and read: see `cdc_assets.databases.rows`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import psycopg

from cdc_assets.databases.postgres.catalog import read_tables
from cdc_assets.databases.postgres.columns import PostgresColumn
from cdc_assets.databases.postgres.comparing import (
    canonical,
    equal,
    finds_keys,
    form_of,
    framed,
    is_indexed,
    may_be_key,
    of_text,
    ordered,
    quote,
    told,
)
from cdc_assets.databases.postgres.connection import address_of, connected, translated
from cdc_assets.databases.postgres.slots import DELIVERED, PLACE, nudge
from cdc_assets.databases.reading import (
    DIGEST,
    KEY,
    LARGE,
    TOLD,
    TableReading,
    of_varying_length,
)
from cdc_assets.databases.rows import (
    GRACE_SECONDS,
    Access,
    Delivery,
    Found,
    Range,
    edges,
    paired,
    table_of,
)
from cdc_assets.errors import TerminalError
from cdc_assets.schema.comparing import (
    BucketTree,
    Comparison,
    Key,
    Sum,
    tree,
)

_PAGE: Final = 10_000
SETTINGS: Final = {
    "timezone": "UTC",
    "datestyle": "ISO",
    "bytea_output": "hex",
    "extra_float_digits": "1",
    "row_security": "off",
    "search_path": "pg_catalog",
    "idle_in_transaction_session_timeout": "0",  # a wave's is idle while others read
    "default_transaction_isolation": "repeatable read",
    "default_transaction_read_only": "on",
}
"""As the connector's values are written. With row security a part of the rows would be hidden."""


@dataclass(frozen=True, slots=True)
class _Texts:
    """SQL for each column, by the lake's names.

    ``in_order`` and what follows have the key's; of ``equal`` each is formatted with a text.
    """

    canonical: Mapping[str, str]
    told: Mapping[str, str]
    in_order: tuple[str, ...]
    from_text: tuple[str, ...]
    equal: tuple[str, ...]


class PostgresRows:
    """See `SourceRows`. Make one by `of`."""

    def __init__(
        self,
        connection: psycopg.Connection[Any],
        access: Access,
        comparison: Comparison,
        sources: Mapping[str, PostgresColumn],
    ) -> None:
        self.comparison = comparison
        self._connection = connection
        self._access = access
        self._address = address_of(access.dsn)
        self._key = tuple(sources[each.name] for each in comparison.key)
        self._texts = _texts(comparison, sources)
        self._table = ".".join(quote(part) for part in access.table)

    @classmethod
    def of(cls, access: Access) -> PostgresRows:
        """Looks the table up, and opens a connection that reads it.

        Raises:
            UnreachableError: if the database does not answer.
            TerminalError: if it refuses, or is none whose rows can be compared.
        """
        table = table_of(access, read_tables)
        if table.filters_rows(access.publication):
            what = "the publication leaves rows out: source and lake differ by intention"
            raise TerminalError(what, where=access.where, remedy="there is nothing to compare with")
        known = {each.name: each for each in table.columns}
        sources, comparison = paired(known, access.schema, form_of, may_be_key)
        connection = _connected(access)
        return cls(connection, access, comparison, sources)

    @property
    def is_ordered(self) -> bool:
        """See `SourceRows`."""
        return bool(self._key) and is_indexed(self._key[0])

    @property
    def finds_keys(self) -> bool:
        """See `SourceRows`."""
        return bool(self._key) and finds_keys(self._key[0])

    def place(self) -> str:
        """See `SourceRows`."""
        return str(self._asked(PLACE, [])[0][0])

    def sums(self, within: Range) -> Mapping[int, Sum]:
        """See `SourceRows`."""
        given: list[str] = []
        bucket = self._bucket(tree(within.bounds), given)
        condition, more = self._within(within.start, within.end)
        rows = self._asked(_SUMS.format(bucket=bucket, rows=self._hashed(condition)), given + more)
        return {int(number): Sum(count, int(a), int(b)) for number, count, a, b in rows}

    def digests(self, within: Sequence[Range]) -> Iterator[tuple[Key, str]]:
        """See `SourceRows`; through a cursor, so that the server sends some rows at a time."""
        keys = ", ".join(self._texts.canonical[each.name] for each in self.comparison.key)
        given: list[str] = []
        statement = (
            f"SELECT {keys}, md5({self._row}) FROM {self._table} AS t"  # noqa: S608 - quoted names
            f" WHERE {self._among(within, given)}"
        )
        try:
            with self._connection.transaction(), self._connection.cursor("cdc_assets") as cursor:
                cursor.itersize = _PAGE
                cursor.execute(statement.encode(), given)
                for row in cursor:
                    yield tuple(row[:-1]), row[-1]
        except psycopg.Error as error:
            raise self._failure(error) from None

    def is_past(self, position: str) -> bool:
        """See `SourceRows`: by the commit before, or what was written before a snapshot."""
        del position
        return True

    def moment(self) -> str:
        """See `SourceRows`: the first transaction id that was not given out yet."""
        return str(self._asked("SELECT txid_snapshot_xmax(txid_current_snapshot())", [])[0][0])

    def is_over(self, moment: str) -> bool:
        """See `SourceRows`."""
        oldest = self._asked("SELECT txid_snapshot_xmin(txid_current_snapshot())", [])[0][0]
        return int(oldest) >= int(moment)

    def found(self, keys: Sequence[Key]) -> Found:
        """See `SourceRows`: one transaction, whose snapshot is older than the place."""
        until, rows = self._asked_at_once(*self.of_keys(keys))
        return Found.of(until, rows, self.comparison, keys)

    def total(self) -> tuple[str, Sum]:
        """See `SourceRows`."""
        statement = _SUMS.format(bucket="0", rows=self._hashed("true"))
        until, rows = self._asked_at_once(statement, [])
        return until, next((Sum(n, int(a), int(b)) for _, n, a, b in rows), Sum())

    def delivery(self, until: str) -> Delivery:
        """See `SourceRows`: a connector confirms to its slot what Kafka has acknowledged."""
        rows = self._asked(DELIVERED, {"until": until, "slot": self._access.slot})
        behind = [name for name, is_done in rows if not is_done]
        if not rows:
            return Delivery(False, f"slot {self._access.slot or '(none in the database)'}")
        return Delivery(not behind, f"slot {', '.join(behind or [name for name, _ in rows])}")

    def nudge(self) -> None:
        """See `SourceRows`: by itself a message that only connectors see; no row is written."""
        said = self._access.nudge
        nudge(self._access.dsn, said if isinstance(said, str) else None)

    def close(self) -> None:
        """See `SourceRows`."""
        self._connection.close()

    def estimate(self) -> int:
        """See `SourceRows`: the planner's."""
        rows = self._asked(f"EXPLAIN (FORMAT JSON) SELECT FROM {self._table}", [])
        plan: list[dict[str, Any]] = rows[0][0]
        return int(plan[0]["Plan"]["Plan Rows"])

    def of_keys(self, keys: Sequence[Key]) -> tuple[str, list[list[str]]]:
        """Returns a statement for the rows of keys, and of equal ones; its values."""
        names = [each.name for each in self.comparison.columns]
        columns = [self._texts.canonical[each.name] for each in self.comparison.key]
        columns += [self._texts.canonical[n] for n in names] + [self._texts.told[n] for n in names]
        places = range(len(self.comparison.key))
        same = " AND ".join(self._texts.equal[n].replace("{}", f"k.k{n}") for n in places)
        wanted = ", ".join("%s::text[]" for _ in places)
        aliases = ", ".join(f"k{n}" for n in places)
        statement = (
            f"SELECT {', '.join(columns)} FROM unnest({wanted}) AS k ({aliases})"  # noqa: S608 - quoted names
            f" JOIN {self._table} AS t ON {same}"
        )
        return statement, [[key[n] for key in keys] for n in places]

    # ── to be read in waves ──────────────────────────────────────────────────────────────

    def reading(self) -> TableReading:
        """Returns the reading of the whole table in waves."""
        from cdc_assets.databases.postgres.reading import PostgresReading

        return PostgresReading(self, self._connection, self._access)

    def bounds(self, start: Key | None, every: int, count: int) -> tuple[str, list[str]]:
        """Returns a statement for each so manieth key from one on, at most so many; its values."""
        texts = [self._texts.canonical[each.name] for each in self.comparison.key]
        named = ", ".join(f"{text} AS k{n}" for n, text in enumerate(texts))
        names = ", ".join(f"b.k{n}" for n in range(len(texts)))
        order = ", ".join(self._texts.in_order)
        condition, given = self._within(start, None)
        rows = (
            f"SELECT {named}, row_number() OVER (ORDER BY {order}) AS n FROM {self._table} AS t"  # noqa: S608 - quoted names
            f" WHERE {condition} ORDER BY {order} LIMIT {every * count + 1}"
        )
        picked = f"b.n > 1 AND (b.n - 1) %% {every} = 0"
        return f"SELECT {names} FROM ({rows}) AS b WHERE {picked} ORDER BY b.n", given  # noqa: S608

    def whole(self, within: Range) -> tuple[str, list[str]]:
        """Returns a statement for a range's rows, as `databases.reading` names columns."""
        texts = self._texts
        names = [each.name for each in self.comparison.columns]
        keys = (texts.canonical[each.name] for each in self.comparison.key)
        columns = [f"{text} AS {KEY}{n}" for n, text in enumerate(keys)]
        columns += [f"{texts.told[name]} AS {TOLD}{n}" for n, name in enumerate(names)]
        columns.append(f"md5({self._row}) AS {DIGEST}")
        varying = [names[n] for n in of_varying_length(self.comparison)]
        columns.append(f"md5({self._framed(varying)}) AS {LARGE}")
        condition, given = self._within(within.start, within.end)
        statement = f"SELECT {', '.join(columns)} FROM {self._table} AS t WHERE {condition}"  # noqa: S608 - quoted names
        return statement, given

    # ── parts of statements ──────────────────────────────────────────────────────────────

    @property
    def _row(self) -> str:
        """All columns of a row, as one text."""
        return self._framed([each.name for each in self.comparison.columns])

    def _framed(self, names: Sequence[str]) -> str:
        """Returns these columns of a row, as one text."""
        texts = (framed(self._texts.canonical[name]) for name in names)
        return f"array_to_string(ARRAY[{', '.join(texts)}]::text[], '')"

    def _hashed(self, condition: str) -> str:
        # OFFSET keeps the digest from being written into both of its uses.
        return (
            f"SELECT t.*, md5({self._row}) AS {DIGEST} FROM {self._table} AS t"  # noqa: S608 - quoted names
            f" WHERE {condition} OFFSET 0"
        )

    def _bucket(self, of: BucketTree, given: list[str]) -> str:
        if isinstance(of, int):
            return str(of)
        given += self._given(of.bound)
        condition = self._compares("<")
        below, above = self._bucket(of.below, given), self._bucket(of.above, given)
        return f"CASE WHEN {condition} THEN {below} ELSE {above} END"

    def _among(self, within: Sequence[Range], given: list[str]) -> str:
        """Returns whether a row is in one of some ranges."""
        if not self.is_ordered:  # each row is looked at: by a tree, not range by range
            bounds, inside = edges(within)
            return f"({self._bucket(tree(bounds), given)}) %% 2 = {inside}"
        conditions: list[str] = []
        for each in within:
            condition, more = self._within(each.start, each.end)
            conditions.append(f"({condition})")
            given += more
        return " OR ".join(conditions)

    def _within(self, start: Key | None, end: Key | None) -> tuple[str, list[str]]:
        conditions: list[str] = []
        given: list[str] = []
        for bound, operator in ((start, ">="), (end, "<")):
            if bound is not None:
                conditions.append(self._compares(operator))
                given += self._given(bound)
        return " AND ".join(conditions) or "true", given

    def _compares(self, operator: str) -> str:
        bound = ", ".join(text.replace("{}", "%s") for text in self._texts.from_text)
        return f"({', '.join(self._texts.in_order)}) {operator} ({bound})"

    def _given(self, bound: Key) -> list[str]:
        """Returns a bound's texts, each as often as the statement has it."""
        pairs = zip(self._texts.from_text, bound, strict=True)
        return [text for sql, text in pairs for _ in range(sql.count("{}"))]

    # ── asking ───────────────────────────────────────────────────────────────────────────

    def _asked(self, statement: str, given: Any) -> list[tuple[Any, ...]]:
        try:
            with self._connection.transaction():
                return self._connection.execute(statement.encode(), given).fetchall()
        except psycopg.Error as error:
            raise self._failure(error) from None

    def _asked_at_once(self, statement: str, given: Any) -> tuple[str, list[tuple[Any, ...]]]:
        """Returns also a place after all commits that the transaction's snapshot shows."""
        try:
            with self._connection.transaction():
                here = self._connection.execute(PLACE).fetchone()
                rows = self._connection.execute(statement.encode(), given).fetchall()
        except psycopg.Error as error:
            raise self._failure(error) from None
        return (here or ("",))[0], rows

    def _failure(self, error: psycopg.Error) -> Exception:
        return failure(error, self._address, self._access)


def failure(error: psycopg.Error, address: str, access: Access) -> Exception:
    """Returns the error that a person is shown."""
    if error.sqlstate == "57014":
        what = f"a statement took longer than {access.statement_seconds:g} s"
        remedy = "compare fewer rows at once (verify.chunk_rows), or raise verify.statement_seconds"
        return TerminalError(what, where=f"database {address} {access.where}", remedy=remedy)
    return translated(error, address)


_SUMS: Final = f"""
SELECT {{bucket}}, count(*),
       sum(('x' || substr(t.{DIGEST}, 1, 15))::bit(60)::bigint)::text,
       sum(('x' || substr(t.{DIGEST}, 16, 15))::bit(60)::bigint)::text
FROM ({{rows}}) AS t GROUP BY 1
"""  # noqa: S608 - a constant


def _connected(access: Access) -> psycopg.Connection[Any]:
    address = address_of(access.dsn)
    try:
        connection = connected(
            access.dsn,
            silent_seconds=access.statement_seconds + GRACE_SECONDS,
            autocommit=True,
            client_encoding="utf8",
        )
        settings = {**SETTINGS, "statement_timeout": f"{access.statement_seconds * 1000:.0f}"}
        for name, value in settings.items():
            connection.execute("SELECT set_config(%s, %s, false)", (name, value))
        row = connection.execute(
            "SELECT pg_is_in_recovery(), current_setting('server_encoding')"
        ).fetchone()
    except psycopg.Error as error:
        raise translated(error, address) from None
    is_standby, encoding = row or (False, "")
    if is_standby:
        connection.close()
        what = "the database is a standby, which says nothing about how far the connector is"
        raise TerminalError(what, where=f"database {address}", remedy="name the primary")
    if encoding != "UTF8":
        connection.close()
        what = f"the database's encoding is {encoding}: its texts have other bytes than the lake's"
        raise TerminalError(what, where=f"database {address}", remedy="only UTF8 is compared")
    return connection


def _texts(comparison: Comparison, sources: Mapping[str, PostgresColumn]) -> _Texts:
    places = {name: f"t.{quote(source.name)}" for name, source in sources.items()}
    return _Texts(
        {c.name: canonical(sources[c.name], c, places[c.name]) for c in comparison.columns},
        {c.name: told(sources[c.name], c, places[c.name]) for c in comparison.columns},
        tuple(ordered(sources[c.name], places[c.name]) for c in comparison.key),
        tuple(of_text(sources[c.name], c.form, "{}") for c in comparison.key),
        tuple(equal(sources[c.name], c.form, places[c.name], "{}") for c in comparison.key),
    )
