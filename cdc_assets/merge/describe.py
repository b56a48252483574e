"""Where a table's columns and types come from, best first.

1. the record's own (inline Connect) schema;
2. the database's catalog, if ``database:`` is configured;
3. inference from the first records, with a warning.

What the configuration says about single columns and about the key is laid over each.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from cdc_assets.changes.position import Scheme, scheme_of
from cdc_assets.config import SourceConfig
from cdc_assets.errors import RejectedRecordError, TerminalError
from cdc_assets.formats.postgres_catalog import CatalogTable, read_tables
from cdc_assets.log.kafka import KafkaLog
from cdc_assets.log.values import RawRecord
from cdc_assets.merge.sql import OWN_COLUMNS
from cdc_assets.registry import TableEntry
from cdc_assets.schema.connect import describe_envelope
from cdc_assets.schema.described import Described
from cdc_assets.schema.inference import infer
from cdc_assets.schema.overrides import apply_overrides
from cdc_assets.schema.types import Column, Primitive, TableSchema, Wire

COUNTABLE: Final = frozenset({Scheme.POSTGRES, Scheme.BINLOG, Scheme.SQLSERVER})
"""Positions that tell events apart, with a transaction's ``total_order`` if there is one."""

_SAMPLE: Final = 200
_log = logging.getLogger(__name__)
JsonObject = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class RecordLayout:
    """What a table's records are like, decided when the table is made.

    Attributes:
        inline: records carry their schema.
        keyed: the records' keys are the table's key, so that a row stays in one partition.
        split_keys: an update may change the key: it is one of the configuration's, for which
            the connector does not send a delete and a create.
        scheme: how positions are made.
    """

    inline: bool = False
    keyed: bool = True
    split_keys: bool = False
    scheme: Scheme = Scheme.OFFSET


@dataclass(frozen=True, slots=True)
class FirstSchema:
    """A table's columns and key, and what its records are like."""

    schema: TableSchema
    layout: RecordLayout


class TypeSource:
    """Finds the schema of tables of one source."""

    def __init__(self, source: SourceConfig, log: KafkaLog) -> None:
        self._source = source
        self._log = log

    def first_schema(self, entry: TableEntry) -> FirstSchema:
        """The schema of a table that the lake does not have yet.

        Raises:
            RejectedRecordError: if the topic's first record is not a Debezium envelope.
            TerminalError: if a column cannot be stored exactly, or there is no key.
        """
        records = self._log.sample(entry.topic, _SAMPLE)
        documents = _envelopes(records, entry)
        inline = bool(documents) and _is_inline(documents[0])
        described = self._described(entry, records, documents, inline=inline)
        schema = self._exact(entry, described)
        keys = [_bare(key) for record in records if (key := _key(record)) is not None]
        keyed = len(keys) == len(records) and all(set(key) == set(schema.key) for key in keys)
        split = not set(schema.key) <= set(described.key)
        layout = RecordLayout(inline, keyed, split, self._scheme(documents))
        if (table := self._catalog_table(entry)) is not None:
            table.require_told(schema.key, f"table={entry.table} topic={entry.topic}")
        if not schema.key:
            self._require_countable(entry, layout)
        return FirstSchema(schema, layout)

    def _scheme(self, documents: Sequence[JsonObject]) -> Scheme:
        """Of the first record that has a position of its source."""
        envelopes = (document.get("payload", document) for document in documents)
        sources = (envelope.get("source") for envelope in envelopes)
        schemes = [scheme_of(source) for source in sources if isinstance(source, dict)]
        if not schemes and self._source.database is not None:
            return Scheme.POSTGRES
        return next((each for each in schemes if each is not Scheme.OFFSET), Scheme.OFFSET)

    def _require_countable(self, entry: TableEntry, layout: RecordLayout) -> None:
        """Rows without a key are counted: a repeated event must be told from a new one.

        Raises:
            TerminalError: if it cannot be, or what counting needs is configured otherwise.
        """
        where = f"table={entry.table} topic={entry.topic}"
        remedy = "name key columns under tables.<schema.table>.primary_key"
        if layout.scheme not in COUNTABLE:
            what = "the table has no primary key, and its events no position to tell repeats by"
            raise TerminalError(what, where=where, remedy=remedy)
        if self._source.overrides(entry.table).deletes == "soft":
            what = "deletes: soft needs a key, which the table and its records have not"
            raise TerminalError(what, where=where, remedy=remedy)

    def of_record(self, entry: TableEntry, value: JsonObject, key: Sequence[str]) -> TableSchema:
        """The schema that a record carries: the parsed ``schema`` of its value, and a key.

        Raises:
            TerminalError: if it does not have the key's columns.
        """
        _require_key(describe_envelope(value).names, key, entry)
        return self._exact(entry, replace(describe_envelope(value), key=tuple(key)))

    def column(self, entry: TableEntry, name: str, key: Sequence[str]) -> Column | None:
        """A column that the table does not have yet: from the database, or as configured.

        Returns:
            None if neither knows it.

        Raises:
            TerminalError: if the database no longer has the key's columns.
        """
        described = self._catalog(entry)
        if described is not None:
            _require_key(described.names, key, entry)
        if described is None or name not in described.names:
            unseen = Column(name, Primitive.STRING, Wire.STRING)
            described = Described((unseen,), inferred=True, unseen=frozenset({name}))
            if name not in self._source.overrides(entry.table).column_types:
                return None
        types = self._source.overrides(entry.table).column_types
        known = {each: spec for each, spec in types.items() if each in described.names}
        given = apply_overrides(described, known, (), self._source.connector.modes)
        only = replace(given, columns=tuple(c for c in given.columns if c.name == name))
        return only.exact(f"table={entry.table}").columns[0]

    def _described(
        self,
        entry: TableEntry,
        records: tuple[RawRecord, ...],
        documents: list[JsonObject],
        *,
        inline: bool,
    ) -> Described:
        keys = [key for record in records if (key := _key(record)) is not None]
        if inline:
            return describe_envelope(
                documents[0]["schema"], keys[0].get("schema") if keys else None
            )
        bare = [_bare(key) for key in keys]
        known = self._catalog(entry)
        if known is not None:
            return _keyed(known, bare)
        placeholder = self._source.connector.unavailable_value_placeholder
        guessed = infer(_images(documents), bare, placeholder=placeholder)
        for warning in guessed.warnings:
            _log.warning("table=%s: %s", entry.table, warning)
        return guessed

    def _catalog(self, entry: TableEntry) -> Described | None:
        found = self._catalog_table(entry)
        return found.described(self._source.connector.modes) if found else None

    def _catalog_table(self, entry: TableEntry) -> CatalogTable | None:
        database = self._source.database
        if database is None:
            return None
        return read_tables(database.dsn.reveal(), [entry.table]).get(entry.table)

    def _exact(self, entry: TableEntry, described: Described) -> TableSchema:
        where = f"table={entry.table} topic={entry.topic}"
        overrides = self._source.overrides(entry.table)
        given = apply_overrides(
            described,
            overrides.column_types,
            overrides.primary_key,
            self._source.connector.modes,
            where=where,
        )
        schema = given.exact(where)
        _require_usable(schema, where)
        return schema


def _require_usable(schema: TableSchema, where: str) -> None:
    taken = sorted(set(schema.names) & set(OWN_COLUMNS))
    if taken:
        what = f"columns {', '.join(taken)} carry names that the lake tables reserve"
        raise TerminalError(what, where=where, remedy="rename or exclude them at the connector")


def _require_key(names: Sequence[str], key: Sequence[str], entry: TableEntry) -> None:
    """A renamed key column and a new one look alike; only one of them is the same row's."""
    gone = [name for name in key if name not in names]
    if gone:
        what = f"the records have no key column {', '.join(gone)} any more"
        remedy = "renamed or replaced, the rows' keys have changed: build the table anew"
        raise TerminalError(what, where=f"table={entry.table} topic={entry.topic}", remedy=remedy)


def _envelopes(records: Sequence[RawRecord], entry: TableEntry) -> list[JsonObject]:
    """The records that are envelopes, with or without a schema around them.

    Single records that are not are dealt with when they are merged.
    """
    documents = [_object(record.value) for record in records]
    found = [document for document in documents if _is_envelope(document)]
    if found or not records:
        return found
    what = f"none of the topic's first {len(records)} records is a Debezium change event"
    where = f"table={entry.table} {records[0].coordinate}"
    remedy = "exclude the topic (topics.exclude), or check the connector's value.converter"
    raise RejectedRecordError(what, where=where, remedy=remedy)


def _is_envelope(document: JsonObject) -> bool:
    envelope = document.get("payload", document)
    return isinstance(envelope, dict) and "op" in envelope


def _is_inline(document: JsonObject) -> bool:
    return isinstance(document.get("schema"), dict) and "payload" in document


def _key(record: RawRecord) -> JsonObject | None:
    return _object(record.key) or None


def _bare(key: JsonObject) -> JsonObject:
    """A record's key without a schema around it."""
    payload = key.get("payload")
    return payload if "schema" in key and isinstance(payload, dict) else key


def _object(text: bytes | None) -> JsonObject:
    """A JSON object; empty if the bytes are not one."""
    try:
        document = json.loads(text or b"")
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}


def _images(documents: list[JsonObject]) -> Iterator[JsonObject]:
    for document in documents:
        image = document.get("after") or document.get("before")
        if isinstance(image, dict):
            yield image


def _keyed(described: Described, keys: list[JsonObject]) -> Described:
    """With the record key's columns as the key: they decide which partition a row is in."""
    names = tuple(keys[0]) if keys else described.key
    known = set(described.names)
    key = names if all(name in known for name in names) else described.key
    return replace(described, key=key)
