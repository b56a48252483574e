"""Represents a Debezium connector as Kafka Connect describes it, and as a source expects it.

A setting that is absent from a connector's configuration has Debezium's default. A converter that
the worker configures is not visible: the first records of its topics tell how it writes, and
nothing tells what it does with NULL.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, Literal

from cdc_assets.changes.json_text import read_json
from cdc_assets.config.connector import ConnectorConfig
from cdc_assets.formats.wire_id import Framed, Side, read_frame
from cdc_assets.log.connect import is_named, prefix_of
from cdc_assets.log.values import RawRecord
from cdc_assets.operate.assess.finding import Subject

Kind = Literal["postgres", "mysql", "mariadb", "sqlserver", "oracle", "mongodb", "yugabyte"]

_CLASSES: Final[Mapping[str, Kind]] = {
    "io.debezium.connector.postgresql.PostgresConnector": "postgres",
    "io.debezium.connector.mysql.MySqlConnector": "mysql",
    "io.debezium.connector.mariadb.MariaDbConnector": "mariadb",
    "io.debezium.connector.sqlserver.SqlServerConnector": "sqlserver",
    "io.debezium.connector.oracle.OracleConnector": "oracle",
    "io.debezium.connector.mongodb.MongoDbConnector": "mongodb",
    "io.debezium.connector.yugabytedb.YugabyteDBgRPCConnector": "yugabyte",
}
JSON: Final = "org.apache.kafka.connect.json.JsonConverter"
_CLOUD_EVENTS: Final = "io.debezium.converters.CloudEventsConverter"
_JSON_SETTINGS: Final = {JSON: "value.converter", _CLOUD_EVENTS: "value.converter.json"}
"""The settings of values in JSON, by converter."""
MODES: Final = (
    "decimal.handling.mode", "time.precision.mode", "bigint.unsigned.handling.mode",
    "binary.handling.mode", "interval.handling.mode", "include.unknown.datatypes",
)  # fmt: skip
KEEP_NULLS: Final = (
    "set value.converter.replace.null.with.default=false (of CloudEventsConverter: "
    "value.converter.json.replace.null.with.default), for keys too"
)
NAME_CONVERTER: Final = (
    "name the converters at the connector, with "
    "value.converter.replace.null.with.default=false, for keys too"
)


class Encoding(Enum):
    """How values are written: as JSON, with or without a schema in each; or by a schema's id."""

    JSON_WITH_SCHEMA = "JSON with a schema in each record"
    JSON = "JSON"
    FRAMED = "values that name a schema of a registry"

    @property
    def is_json(self) -> bool:
        """Whether Connect's JSON converter may have written it."""
        return self is not Encoding.FRAMED


@dataclass(frozen=True, slots=True)
class Connector:
    """A connector as Kafka Connect's REST describes it.

    Attributes:
        name: its name.
        bad: its parts that do not run, in words; empty if all run.
        settings: its configuration, without settings that may be secrets.
        seen: how the records of its topics are written; None if no record shows it.
    """

    name: str
    bad: str = ""
    settings: Mapping[str, str] = field(default_factory=dict[str, str])
    seen: Encoding | None = None

    @property
    def kind(self) -> Kind | None:
        """The kind of its database, by its class; None for another."""
        return _CLASSES.get(self.get("connector.class"))

    @property
    def prefix(self) -> str:
        """The first part of its topics' names."""
        return prefix_of(self.settings)

    def get(self, name: str, default: str = "") -> str:
        """Returns a setting."""
        return self.settings.get(name, default)

    def is_on(self, name: str, *, default: bool) -> bool:
        """Returns a boolean setting."""
        return self.get(name, str(default)).strip().lower() == "true"

    @property
    def transforms(self) -> tuple[tuple[str, str], ...]:
        """Alias and class of each transformation."""
        return tuple(self._parts("transforms", "transforms."))

    @property
    def alterers(self) -> tuple[tuple[str, str], ...]:
        """The same of its custom converters and post-processors, which change values."""
        return (*self._parts("converters"), *self._parts("post.processors"))

    def _parts(self, setting: str, before: str = "") -> Iterator[tuple[str, str]]:
        names = (each.strip() for each in self.get(setting).split(","))
        return ((each, self.get(f"{before}{each}.type")) for each in names if each)

    def writes(self, topic: str) -> bool:
        """Returns whether a topic may be one of its tables'."""
        return bool(self.prefix) and topic.startswith(f"{self.prefix}.")

    def leaves_out(self, column: str) -> bool:
        """Returns whether it certainly sends nothing of a column (``schema.table.column``).

        Regular expressions match whole names, in any case
        (https://debezium.io/documentation/reference/stable/connectors/postgresql.html).
        """
        if excluded := self.get("column.exclude.list"):
            return is_named(column, excluded) is True
        included = self.get("column.include.list")
        return bool(included) and is_named(column, included) is False

    @property
    def names_converter(self) -> bool:
        """Whether its own configuration has the converter of values; otherwise the worker's is."""
        return bool(self.get("value.converter"))

    @property
    def has_schemas(self) -> bool | None:
        """Whether values contain or name their schema; None if neither it nor a record tells."""
        if not self.names_converter:
            return None if self.seen is None else self.seen is not Encoding.JSON
        return not self.writes_json or self._is_set("schemas.enable")

    @property
    def replaces_nulls(self) -> bool | None:
        """Whether NULL becomes the column's default; None if the worker decides."""
        if not self.names_converter:
            return None
        return self._is_set("replace.null.with.default")

    def _is_set(self, setting: str) -> bool:
        place = _JSON_SETTINGS.get(self.get("value.converter"), "value.converter")
        return self.is_on(f"{place}.{setting}", default=True)

    @property
    def sends_decimals(self) -> bool:
        """Whether it sends decimals as such, in which NaN and infinity have no form."""
        return self.get("decimal.handling.mode", "precise") == "precise"

    @property
    def stops_at_values(self) -> bool:
        """Whether it stops at a value that it cannot convert; otherwise it sends NULL."""
        return self.get("event.converting.failure.handling.mode", "warn") == "fail"

    @property
    def writes_json(self) -> bool:
        """Whether Connect's own JSON converter writes the values, alone or in CloudEvents."""
        return self.get("value.converter") in _JSON_SETTINGS


@dataclass(frozen=True, slots=True)
class ExpectedConnector:
    """The connector that the source's configuration assumes.

    Attributes:
        at: the source.
        format: the name of its format.
        connector: the configured modes.
        has_database: whether a catalog provides types.
        takes_cuts: whether the source has ``consistent``.
        reads_first: whether first rows come from the database, and not from the log.
    """

    at: Subject
    format: str
    connector: ConnectorConfig
    has_database: bool
    takes_cuts: bool = False
    reads_first: bool = False


@dataclass(frozen=True, slots=True)
class ConnectorCase:
    """A connector, and what the source's configuration assumes of it."""

    connector: Connector
    expected: ExpectedConnector


def configured_as(connector: Connector, said: ConnectorConfig) -> ConnectorConfig | None:
    """Returns the configured modes of a connector, replaced with its actual ones.

    None if one is not known, such as a mode of a newer connector.
    """
    unknown = "include.unknown.datatypes"
    names = [each for each in MODES if connector.get(each) and each != unknown]
    modes = {each.replace(".", "_"): connector.get(each).strip().lower() for each in names}
    really: dict[str, object] = {**modes}
    if connector.get(unknown):
        really[unknown.replace(".", "_")] = connector.is_on(unknown, default=False)
    try:
        return ConnectorConfig.model_validate({**said.model_dump(), **really})
    except ValueError:
        return None


def encoding_of(records: Iterable[RawRecord]) -> Encoding | None:
    """Returns how the values of all of these are written; None if they differ, or nothing tells it.

    Args:
        records: some; those without a value tell nothing.
    """
    found = {_encoding(each, each.value) for each in records if each.value}
    return found.pop() if len(found) == 1 else None


def _encoding(record: RawRecord, value: bytes) -> Encoding | None:
    frames = (read_frame(record, Side.VALUE, of_glue=of_glue) for of_glue in (False, True))
    if any(isinstance(each, Framed) for each in frames):
        return Encoding.FRAMED
    document = read_json(value)
    if not isinstance(document, dict):
        return None
    return Encoding.JSON_WITH_SCHEMA if {"schema", "payload"} == set(document) else Encoding.JSON
