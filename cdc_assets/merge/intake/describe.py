"""Finds a table's columns and types, from the best of three sources.

1. the record's own (inline Connect) schema;
2. the database's catalog, if ``database:`` is configured;
3. inference from the first records, with a warning.

The configuration of single columns and of the key is laid over each.

Samples the first records of a topic, to describe a table that the lake does not have yet.

Records that are no change events are passed over here; each is dealt with when it is merged. So
an odd record affects only itself, even if it is the first one.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from cdc_assets.changes.mode import Mode
from cdc_assets.changes.position import Scheme
from cdc_assets.config import SourceConfig
from cdc_assets.databases.catalog import ColumnFacts, SourceTable, with_existing, with_number
from cdc_assets.databases.kinds import catalog_of
from cdc_assets.errors import RejectedRecordError, TerminalError, TransientError
from cdc_assets.formats.format import Format
from cdc_assets.formats.layout import Layout
from cdc_assets.formats.sample import Sample
from cdc_assets.log.kafka import KafkaLog
from cdc_assets.log.values import RawRecord
from cdc_assets.merge.intake.replicable import (
    keyed,
    require_countable,
    require_excludable,
    require_fields,
    require_in_one_partition,
    require_one_database,
    require_same_key,
    require_sent,
    require_usable,
    sharded,
)
from cdc_assets.merge.intake.source_facts import SourceAnswers
from cdc_assets.merge.statements.own_columns import own_columns
from cdc_assets.registry import TableEntry, Taken
from cdc_assets.schema.described import Described
from cdc_assets.schema.existing import of_text
from cdc_assets.schema.history import OnBreak, StatementHistory
from cdc_assets.schema.homes import apart
from cdc_assets.schema.inference import infer
from cdc_assets.schema.silent import SilentPolicy
from cdc_assets.schema.types import Column, ColumnType, TableSchema, Wire

_EXCLUDED: Final = "the configuration excludes it"
OF_BINLOGS: Final = frozenset({Scheme.BINLOG, Scheme.MARIADB})
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class FirstSchema:
    """A table's columns and key, and the layout of its records.

    Attributes:
        schema: columns and key.
        layout: of the records.
        is_guessed: whether no record has shown the layout yet: it is the format's usual one.
    """

    schema: TableSchema
    layout: Layout
    is_guessed: bool = False

    def require_alike(self, joining: FirstSchema, where: str, *, has_schemas: bool) -> None:
        """Refuses a table unlike this shared one that it joins; more or fewer columns are allowed.

        Args:
            joining: schema of the new table.
            where: for the error.
            has_schemas: whether each of its records carries a schema, with which types are compared
                instead.

        Raises:
            TerminalError: if its records or its key differ, or a column of both has another form on
                the wire and the records do not say so.
        """
        known = {each.name: each for each in self.schema.columns}
        both = [(known[each.name], each) for each in joining.schema.columns if each.name in known]
        differ = [mine.name for theirs, mine in both if _arrives(theirs) != _arrives(mine)]
        key, own = self.schema.key, joining.schema.key
        if self.layout != joining.layout:
            what = f"its records are of another kind ({joining.layout}) than theirs ({self.layout})"
        elif key != own:
            what = f"its key is {', '.join(own)}, theirs {', '.join(key)}"
        elif differ and not has_schemas:
            what = f"columns {', '.join(differ)} arrive in another way than theirs"
        else:
            return
        what = f"the table cannot be merged with the others: {what}"
        remedy = "give it a table of its own (merge_into), or configure columns and key alike"
        raise TerminalError(what, where=where, remedy=remedy)


def _arrives(column: Column) -> tuple[object, ...]:
    """Returns the column's form on the wire; unsigned integers are stored as the table has them."""
    type_ = None if column.wire is Wire.UNSIGNED_LONG else column.type
    return type_, column.wire, column.element_wire, column.detail


class TypeSource:
    """The source of schemas for tables of one source.

    Attributes:
        answers: answers about the tables from their database and from statements.
    """

    def __init__(
        self, source: SourceConfig, log: KafkaLog, fmt: Format, answers: SourceAnswers | None = None
    ) -> None:
        self.answers = answers or SourceAnswers(source)
        self._source = source
        self._format = fmt
        self._log = log

    def first_schema(self, entry: TableEntry) -> FirstSchema:
        """Returns the schema of a table that the lake does not have yet.

        Raises:
            RejectedRecordError: if the topic has records, and none of them is a change event.
            TransientError: if they do not show the columns yet.
            TerminalError: if a column cannot be stored exactly, or there is no key.
        """
        samples = sample(self._log, entry, self._format)
        require_fields(entry, samples.refusal)
        table = self.answers.table(entry)
        if table is not None:
            require_sent(self._source, self._log, entry, table, self.answers.publication)
        described = self._described(entry, samples, table)
        for warning in described.warnings:
            _log.warning("table=%s: %s", entry.table, warning)
        schema = self._exact(entry, described).with_absent(self._given_up(entry))
        require_fields(entry, samples.inexact(schema))
        is_keyed = samples.is_keyed_by(schema.key)
        self._require_in_order(entry, samples, table)
        split = not (is_keyed or set(schema.key) <= set(described.key))
        form = samples.key_form(schema.key)
        database = require_one_database(entry, samples)
        layout = Layout(samples.dialect, is_keyed, split, self._scheme(samples), form, database)
        require_fields(entry, self._format.refuses(layout, schema.key))
        if table is not None:
            table.require_key_logged(schema.key, f"table={entry.table} topic={entry.topic}")
        if not schema.key and self._source.mode_of(entry.table) is Mode.MIRROR:
            require_countable(self._source, entry, layout)
        named = apart(self._numbered(entry, schema), self._source.overrides(entry.table).renames)
        self.require_usable(entry, named)
        return FirstSchema(sharded(entry, named), layout, is_guessed=not samples.events)

    def _require_in_order(
        self, entry: TableEntry, samples: Sample, table: SourceTable | None
    ) -> None:
        if table is not None and not self._source.overrides(entry.table).primary_key:
            marks = self._log.watermarks([entry.topic]).get(entry.topic)
            partitions = len(marks.end.offsets) if marks else 0
            require_in_one_partition(entry, samples, table, partitions)

    def _numbered(self, entry: TableEntry, schema: TableSchema) -> TableSchema:
        """Adds to a new table's columns the catalog's certain facts about older rows."""
        facts = self.answers.facts(entry) or {}
        columns = (self._with_facts(each, facts.get(each.name), entry) for each in schema.columns)
        return replace(schema, columns=tuple(columns))

    def _with_facts(self, column: Column, facts: ColumnFacts | None, entry: TableEntry) -> Column:
        """Adds facts to a column older than the lake table, whose default says nothing of rows."""
        new = with_number(replace(column, existing=None), facts)
        is_certain = facts is not None and facts.number and not entry.shard
        if facts is None or not is_certain or facts.existing is None:
            return new
        found = of_text(facts.existing, new)
        return new if found.text is None else replace(new, existing=replace(found, id=new.name))

    def require_usable(self, entry: TableEntry, schema: TableSchema) -> None:
        """Refuses names that are impossible in the lake.

        Raises:
            TerminalError: if there is one.
        """
        soft = self._source.overrides(entry.table).deletes == "soft"
        own = own_columns(self._source.mode_of(entry.table), soft=soft)
        require_usable(schema, f"table={entry.table} topic={entry.topic}", own)

    def require_whole(self, entry: TableEntry) -> None:
        """Fails if a database that was asked for the table no longer logs whole changes.

        A server's settings change under tables that exist; a silent one changes nothing here.

        Raises:
            TerminalError: if it does not.
        """
        table = self.answers.known_table(entry)
        if table is not None:
            table.require_whole(f"table={entry.table} topic={entry.topic}")

    def require_same_key(self, entry: TableEntry, table: TableSchema) -> None:
        """Fails if the lake's key may hold two rows by now: see `require_same_key`.

        A database that was not asked tells nothing. The lake's key, configured, is a person's
        affair; another one that is configured by now changes nothing about the lake's.
        """
        there = self.answers.known_table(entry)
        configured = self._source.overrides(entry.table).primary_key
        named = {table.by_every_name.get(name) for name in configured}
        if there is None or not table.key or named == {*table.of_source.key}:
            return
        facts = self.answers.facts(entry) or {}
        require_same_key(entry, table, there, {n: _number(facts, n) for n in there.names})

    def recreated(self, entry: TableEntry) -> OnBreak:
        """Returns the policy for another table of the same name."""
        return self._source.recreated(entry.table)

    def silent(self, entry: TableEntry) -> SilentPolicy:
        """Returns the policy for rows that changed at the source without events."""
        return self._source.silent(entry.table)

    def has_schemas(self, entry: TableEntry, layout: Layout) -> bool:
        """Whether each record carries its own schema."""
        return self._format.writer(layout, entry.table) is not None

    def sends_columns(self, entry: TableEntry, layout: Layout, *, is_known: bool) -> bool:
        """Whether a record without a column is known to be an incomplete row.

        A drop of the column would have been reported by a statement, by the catalog if it was asked
        (``is_known``), or by the configuration in a format of whole rows. Records with schemas show
        a drop themselves; for other records a drop is unknown.
        """
        if self._format.tells_statements or self._format.sends_whole_rows:
            return True
        return is_known and not self.has_schemas(entry, layout)

    def _scheme(self, samples: Sample) -> Scheme:
        """Returns the records' scheme, or the database's as long as no record shows a scheme."""
        found = samples.scheme
        if found is not None:
            return found
        database = self._source.database
        return Scheme.OFFSET if database is None else catalog_of(database).scheme

    def of_record(self, entry: TableEntry, said: Described, table: TableSchema) -> TableSchema:
        """Returns a record's writer schema, with the table's key.

        Raises:
            TerminalError: if it lacks columns of the table's key.
        """
        described = self._corrected(entry, said.without(dict.fromkeys(table.left_out, "")), table)
        key = self.sent_key(entry, described.names, table.of_source)
        return self._exact(entry, replace(described, key=key), of_record=True)

    def sent_key(
        self, entry: TableEntry, names: Collection[str], table: TableSchema
    ) -> tuple[str, ...]:
        """Returns the key's columns by their names in a record.

        Raises:
            TerminalError: if the record lacks one.
        """
        found: dict[str, str | None] = {}
        for column in map(table.column, table.key):
            called = (n for n in (column.sent_as, *column.identity.formerly) if n in names)
            found[column.name] = next(called, None) or self._renamed(entry, column, names)
        gone = [name for name, sent in found.items() if sent is None]
        if gone:
            what = f"the records have no key column {', '.join(gone)} any more"
            remedy = (
                "if it was renamed or replaced, the rows' keys have changed: rebuild the table; "
                "database: lets cdc_assets follow a renamed column of PostgreSQL"
            )
            raise TerminalError(
                what, where=f"table={entry.table} topic={entry.topic}", remedy=remedy
            )
        return tuple(name for name in found.values() if name is not None)

    def _renamed(self, entry: TableEntry, column: Column, names: Collection[str]) -> str | None:
        """Returns the column's new name, by its number in the catalog."""
        number = column.identity.number
        facts = (self.answers.facts(entry) or {}) if number else {}
        return next((n for n, f in facts.items() if f.number == number and n in names), None)

    def with_existing(self, entry: TableEntry, column: Column, scheme: Scheme) -> Column:
        """Adds to a new column its number and its value in older rows.

        Args:
            entry: the table.
            column: by its name in records; its ``existing`` comes from a record's schema.
            scheme: of the table's positions.
        """
        return with_existing(
            column,
            (self.answers.facts(entry) or {}).get(column.name),
            self._source.overrides(entry.table).existing,
            is_merged=entry.shard is not None,
            implies=scheme in OF_BINLOGS,
        )

    def catalog_columns(self, entry: TableEntry, table: TableSchema) -> TableSchema | None:
        """Returns a table's columns in its database, if these determine the form on the wire.

        Returns:
            None if another source does. Columns that the table does not have are left out,
            unless their number shows that they are renamed ones.
        """
        found = self.answers.table(entry)
        described = self._format.of_catalog(found) if found is not None else None
        if found is None or described is None or described.origin != table.origin:
            return None
        known = {each.sent_as for each in table.columns}
        numbers = {c.identity.number for c in table.columns if c.identity.number}
        facts = self.answers.facts(entry) or {}
        mine = {n for n in described.names if n in known or _number(facts, n) in numbers}
        kept = replace(described, columns=tuple(c for c in described.columns if c.name in mine))
        kept = kept.with_unsigned_as(_unsigned(table, None))
        key = self.sent_key(entry, kept.names, table)
        exact = self._exact(entry, replace(kept, key=key), of_record=True)
        columns = (with_number(each, facts.get(each.name)) for each in exact.columns)
        return replace(exact, columns=tuple(columns))

    def comments(self, entry: TableEntry) -> tuple[str, dict[str, str]]:
        """Returns the comments on a table and on its columns, by names in records.

        Columns without a comment are left out, and so are all if the database was not asked.
        """
        found = self.answers.known_table(entry)
        if found is None:
            return "", {}
        described = self._format.of_catalog(found)
        masked = self._source.overrides(entry.table).masked
        columns = {each.name: each.comment for each in described.columns if each.comment}
        return described.comment, {n: each for n, each in columns.items() if n not in masked}

    def _corrected(self, entry: TableEntry, said: Described, table: TableSchema) -> Described:
        """Adds facts missing from a record's schema; the database has them for new columns."""
        new = set(said.names) - {each.sent_as for each in table.of_source.columns}
        catalog = self.answers.table(entry) if new else None
        said = said.with_unsigned(_unsigned(table, self.answers.history))
        if catalog is None:
            return said
        now = self.answers.names_now(said.names)
        new = {now.get(name, name) for name in new}
        corrected = catalog.corrected(said.called(now), new, self._source.modes)
        return corrected.called({name: then for then, name in now.items()})

    def column(self, entry: TableEntry, name: str, table: TableSchema) -> Column | None:
        """Returns a new column of the table, from the database or the configuration.

        Returns:
            None if neither knows it.

        Raises:
            TerminalError: if the database no longer has the key's columns.
        """
        described = self._catalog(entry)
        if described is not None:
            self.sent_key(entry, described.names, table)
        if described is None or name not in described.names:
            described = self._format.unseen(name)
            if name not in self._source.overrides(entry.table).column_types:
                return None
        given = self._source.laid_over(entry.table, described, whole=False)
        only = replace(given, columns=tuple(c for c in given.columns if c.name == name))
        return only.exact(f"table={entry.table}").columns[0]

    def _described(
        self, entry: TableEntry, samples: Sample, table: SourceTable | None
    ) -> Described:
        """Describes a table by the best source, without the database's unpublished columns."""
        unpublished = table.unpublished(self.answers.publication) if table is not None else {}
        if samples.described is not None:
            described = samples.described
            if table is not None:
                described = table.corrected(described, described.names, self._source.modes)
            return self._keyed(entry, described.without(unpublished), samples, table)
        if table is not None:
            described = self._format.of_catalog(table)
            return self._keyed(entry, described.without(unpublished), samples, table)
        return self._keyed(entry, self._inferred(entry, samples), samples, table)

    def _keyed(
        self, entry: TableEntry, described: Described, samples: Sample, table: SourceTable | None
    ) -> Described:
        """Adds the key that identifies a table's rows, if none is configured."""
        if self._source.overrides(entry.table).primary_key:
            known = {*described.names}
            return replace(described, key=tuple(n for n in described.key if n in known))
        return keyed(entry, described, samples, table)

    def _inferred(self, entry: TableEntry, samples: Sample) -> Described:
        """Infers the columns; without rows from keys, images of deleted rows and configuration.

        Raises:
            TransientError: if the records do not show any column but the key's yet.
        """
        if samples.guessed is not None and (samples.has_row or self._is_typed(entry, samples)):
            return samples.guessed
        placeholder = self._source.connector.unavailable_value_placeholder
        images = samples.rows if samples.has_row else (*samples.keys, *samples.rows)
        guessed = infer(images, samples.key_names, placeholder=placeholder)
        if samples.has_row:
            return guessed
        types = self._source.overrides(entry.table).column_types
        guessed = guessed.with_unseen(name for name in types if name not in guessed.names)
        if samples.guessed is not None or set(guessed.names) <= set(guessed.key):
            what = "the topic holds no row yet, and the table's columns are unknown otherwise"
            remedy = "it is made with its first row; database: or tables: would describe it now"
            where = f"table={entry.table} topic={entry.topic}"
            raise TransientError(what, where=where, remedy=remedy)
        return guessed

    def _is_typed(self, entry: TableEntry, samples: Sample) -> bool:
        """Whether rows, of deletes, have exactly the columns whose types are configured."""
        types = self._source.overrides(entry.table).column_types
        return bool(types) and {name for row in samples.rows for name in row} == {*types}

    def _given_up(self, entry: TableEntry) -> tuple[str, ...]:
        return self._source.overrides(entry.table).absent_columns

    def _catalog(self, entry: TableEntry) -> Described | None:
        found = self.answers.table(entry)
        return self._format.of_catalog(found) if found else None

    def _exact(
        self, entry: TableEntry, described: Described, *, of_record: bool = False
    ) -> TableSchema:
        """Applies the configuration; a record need not have every configured column.

        A configured key was settled when the table was made: a record has its columns by names that
        they have had since, and the configuration may have either.
        """
        where = f"table={entry.table} topic={entry.topic}"
        overrides = self._source.overrides(entry.table)
        if not of_record:
            require_excludable(described, overrides.excluded, where)
        left = described.without(dict.fromkeys(overrides.excluded, _EXCLUDED))
        key = overrides.primary_key
        if key and of_record:
            key = described.key
        given = self._source.laid_over(entry.table, left, key, whole=not of_record, where=where)
        return given.exact(where)


def _number(facts: Mapping[str, ColumnFacts], name: str) -> int:
    return facts[name].number if name in facts else 0


def _unsigned(table: TableSchema, history: StatementHistory | None) -> dict[str, ColumnType]:
    """Returns the types of a table's unsigned integers, by all their names in records.

    Tables of older releases have them as ``bigint`` instead of decimals, and keep that.
    """
    mine = [each for each in table.columns if each.wire is Wire.UNSIGNED_LONG]
    taken = {each.sent_as for each in table.columns}
    found = {name: c.type for c in mine for name in c.identity.formerly if name not in taken}
    numbers = {c.identity.number: c.type for c in mine if c.identity.number}
    for name, number in (history.known if history else {}).items():
        if number in numbers and name not in taken:
            found[name] = numbers[number]
    return {**found, **{each.sent_as: each.type for each in mine}}


_ROWS: Final = 200
ROUTERS_FIELD: Final = "__dbz__physicalTableIdentifier"
"""What Debezium's ``ByLogicalTableRouter`` adds to keys: the table's name, the same for all rows of
a table that records name. https://debezium.io/documentation/reference/stable/transformations/
topic-routing.html"""


def sample(log: KafkaLog, entry: TableEntry, fmt: Format) -> Sample:
    """Reads the first records of a table's topic, up to the first rows.

    Raises:
        RejectedRecordError: if there are records, and none of them is a change event.
    """
    table, taken = entry.at_source, entry.taken
    names = fmt.names_tables and taken is not Taken.ALL

    def is_mine(record: RawRecord) -> bool:
        named = fmt.named(record, table.source) if names else table
        return named == table or (named is None and taken is Taken.UNLESS_NAMED)

    def wanted(record: RawRecord) -> bool:
        return is_mine(record) and fmt.holds_row(record, table)

    records = log.sample(entry.topic, _ROWS, wanted=wanted)
    found = fmt.look([each for each in records if is_mine(each)], table)
    if taken is Taken.NAMED:
        found = found.without_in_keys(ROUTERS_FIELD)
    if records and not found.events:
        raise _no_events(records, entry, fmt)
    return found


def _no_events(records: Sequence[RawRecord], entry: TableEntry, fmt: Format) -> RejectedRecordError:
    what = f"none of the topic's first {len(records)} records is a change event of {fmt.name}"
    where = f"table={entry.table} {records[0].coordinate}"
    remedy = "exclude the topic (topics.exclude), or check the source's format and its producer's"
    return RejectedRecordError(what, where=where, remedy=remedy, page="not-change-events")
