"""The first records of a topic: what they say about a table that the lake does not have yet.

Records that are no change events are passed over here; each of them is dealt with when it is
merged. So an odd record costs itself, also if it is the first one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from cdc_assets.changes.json_text import mapping, read_object
from cdc_assets.changes.position import Scheme, scheme_of
from cdc_assets.errors import RejectedRecordError
from cdc_assets.log.kafka import KafkaLog
from cdc_assets.log.values import RawRecord
from cdc_assets.registry import TableEntry
from cdc_assets.schema.connect import ConnectSchema, is_envelope_schema, is_key_schema

JsonObject = Mapping[str, Any]

_ROWS: Final = 200
_OPS: Final = frozenset({"c", "u", "d", "r", "t"})


@dataclass(frozen=True, slots=True)
class Samples:
    """Change events and keys of a topic's first records.

    Attributes:
        count: how many records with a value were kept.
        envelopes: the change events among them, without a schema around them.
        value_schema: of the first event that carries one; None if the first event carries none.
        keys: the records' keys that are objects, without a schema around them.
        key_schema: of the first key that carries one.
    """

    count: int
    envelopes: tuple[JsonObject, ...]
    value_schema: ConnectSchema | None
    keys: tuple[JsonObject, ...]
    key_schema: ConnectSchema | None

    @property
    def rows(self) -> tuple[JsonObject, ...]:
        """The row images: after changes, and before deletes."""
        images = ((each.get("after") or each.get("before")) for each in self.envelopes)
        return tuple(image for image in images if isinstance(image, dict) and image)

    @property
    def has_row(self) -> bool:
        """Whether an event holds a row that exists, with all its columns."""
        return any(mapping(each.get("after")) for each in self.envelopes)

    @property
    def key_names(self) -> tuple[str, ...]:
        """The columns of the records' keys; of different ones the most frequent."""
        counted = Counter(tuple(key) for key in self.keys)
        return counted.most_common(1)[0][0] if counted else ()

    @property
    def scheme(self) -> Scheme | None:
        """Of most events that have a position of their source; None if no event has a source."""
        sources = [source for each in self.envelopes if (source := mapping(each.get("source")))]
        schemes = Counter(scheme_of(source) for source in sources)
        placed = Counter(
            {scheme: n for scheme, n in schemes.items() if scheme is not Scheme.OFFSET}
        )
        found = (placed or schemes).most_common(1)
        return found[0][0] if found else None


def sample(log: KafkaLog, entry: TableEntry) -> Samples:
    """Read the first records of a table's topic, on to the first rows.

    Raises:
        RejectedRecordError: if there are records, and none of them is a change event.
    """
    records = log.sample(entry.topic, _ROWS, wanted=_holds_row)
    documents = [read_object(record.value) for record in records]
    events = [document for document in documents if _is_event(document)]
    if records and not events:
        raise _no_events(records, entry)
    keys = [key for record in records if (key := read_object(record.key))]
    schemas = (key.get("schema") for key in keys)
    return Samples(
        len(records),
        tuple(map(_bare, events)),
        events[0].get("schema") if events and _is_wrapped(events[0]) else None,
        tuple(map(_bare, keys)),
        next((schema for schema in schemas if is_key_schema(schema)), None),
    )


def _holds_row(record: RawRecord) -> bool:
    document = read_object(record.value)
    return _is_event(document) and bool(mapping(_bare(document).get("after")))


def _is_event(document: JsonObject) -> bool:
    """Whether it is an envelope of a known operation; one in a schema needs a readable schema."""
    envelope = _bare(document)
    op = envelope.get("op")
    if not (isinstance(op, str) and op in _OPS):
        return False
    return not _is_wrapped(document) or is_envelope_schema(document["schema"])


def _is_wrapped(document: JsonObject) -> bool:
    return "schema" in document and "payload" in document


def _bare(document: JsonObject) -> JsonObject:
    """A key or value without a schema around it."""
    payload = document.get("payload")
    return payload if "schema" in document and isinstance(payload, dict) else document


def _no_events(records: Sequence[RawRecord], entry: TableEntry) -> RejectedRecordError:
    what = f"none of the topic's first {len(records)} records is a Debezium change event"
    where = f"table={entry.table} {records[0].coordinate}"
    remedy = "exclude the topic (topics.exclude), or check the connector's value.converter"
    return RejectedRecordError(what, where=where, remedy=remedy)


def all_named(keys: Iterable[JsonObject], names: Sequence[str]) -> bool:
    """Whether each key consists of these columns."""
    wanted = set(names)
    return all(set(key) == wanted for key in keys)
