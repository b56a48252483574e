"""Judges a connector's settings and state by rules, one for each requirement of exactness.

``docs/sources/`` explains why each setting matters. A setting that is absent from a connector's
configuration has Debezium's default. A converter that the worker configures is not visible: the
first records of its topics tell how it writes, and nothing tells what it does with NULL.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from cdc_assets.config.source import ConnectorConfig, DatabaseKind
from cdc_assets.log.signal_channel import is_begun, lacking
from cdc_assets.operate.assess.encoding import Encoding
from cdc_assets.operate.assess.finding import Finding, Place, no, yes_but

_CLASSES: Final[Mapping[str, DatabaseKind]] = {
    "io.debezium.connector.postgresql.PostgresConnector": "postgres",
    "io.debezium.connector.mysql.MySqlConnector": "mysql",
    "io.debezium.connector.mariadb.MariaDbConnector": "mariadb",
}
_JSON: Final = "org.apache.kafka.connect.json.JsonConverter"
NAME_CONVERTER: Final = (
    "name the converters in the connector's configuration, with "
    "value.converter.replace.null.with.default=false, for keys too"
)
_FLATTEN: Final = "ExtractNewRecordState"
_RUNNING: Final = "RUNNING"
_WITHOUT_ROWS: Final = frozenset({"never", "no_data", "schema_only", "recovery"})
_MODES: Final = (
    "decimal.handling.mode", "time.precision.mode", "bigint.unsigned.handling.mode",
    "binary.handling.mode", "interval.handling.mode", "include.unknown.datatypes",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Connector:
    """A connector as Kafka Connect's REST describes it.

    Attributes:
        name: its name.
        bad: its parts that do not run, in words; empty if all run.
        settings: its configuration, without settings that may be secrets.
        seen: how the records of its topics are written; None if no record told it.
    """

    name: str
    bad: str = ""
    settings: Mapping[str, str] = field(default_factory=dict[str, str])
    seen: Encoding | None = None

    @property
    def kind(self) -> DatabaseKind | None:
        """The kind of its database, by its class; None if unknown."""
        return _CLASSES.get(self.get("connector.class"))

    @property
    def prefix(self) -> str:
        """Its ``topic.prefix``."""
        return self.get("topic.prefix")

    def get(self, name: str, default: str = "") -> str:
        """Returns a setting."""
        return self.settings.get(name, default)

    def is_on(self, name: str, *, default: bool) -> bool:
        """Returns a boolean setting."""
        return self.get(name, str(default)).strip().lower() == "true"

    @property
    def transforms(self) -> tuple[tuple[str, str], ...]:
        """Alias and class of each transformation."""
        names = [each.strip() for each in self.get("transforms").split(",") if each.strip()]
        return tuple((each, self.get(f"transforms.{each}.type")) for each in names)

    def writes(self, topic: str) -> bool:
        """Returns whether a topic may be one of its tables'."""
        return bool(self.prefix) and topic.startswith(f"{self.prefix}.")

    @property
    def names_converter(self) -> bool:
        """Whether its own configuration has the converter of values; otherwise the worker's is."""
        return bool(self.get("value.converter"))

    @property
    def has_schemas(self) -> bool | None:
        """Whether values contain or name their schema; None if neither it nor a record tells."""
        if not self.names_converter:
            return None if self.seen is None else self.seen is not Encoding.JSON
        if self.get("value.converter") == _JSON:
            return self.is_on("value.converter.schemas.enable", default=True)
        return True

    @property
    def replaces_nulls(self) -> bool | None:
        """Whether NULL becomes the column's default; None if the worker decides."""
        if not self.names_converter:
            return None
        return self.is_on("value.converter.replace.null.with.default", default=True)

    @property
    def writes_json(self) -> bool:
        """Whether Connect's own JSON converter writes the values."""
        return self.get("value.converter") == _JSON


@dataclass(frozen=True, slots=True)
class Expected:
    """The connector that the source's configuration assumes.

    Attributes:
        at: the source.
        format: the name of its format.
        connector: the configured modes.
        has_database: whether a catalog provides types.
    """

    at: Place
    format: str
    connector: ConnectorConfig
    has_database: bool


Rule = Callable[[Connector, Expected], Iterator[Finding]]


def judge_connector(connector: Connector, expected: Expected) -> Iterator[Finding]:
    """Yields all findings on one connector."""
    for rule in _RULES:
        yield from rule(connector, expected)


def configured_as(connector: Connector, said: ConnectorConfig) -> ConnectorConfig:
    """Returns the configured modes of a connector, replaced with its actual ones."""
    unknown = "include.unknown.datatypes"
    names = [each for each in _MODES if connector.get(each) and each != unknown]
    really: dict[str, object] = {each.replace(".", "_"): connector.get(each) for each in names}
    if connector.get(unknown):
        really[unknown.replace(".", "_")] = connector.is_on(unknown, default=False)
    try:
        return ConnectorConfig.model_validate({**said.model_dump(), **really})
    except ValueError:  # a mode of a newer connector
        return said


def _state(connector: Connector, expected: Expected) -> Iterator[Finding]:
    if connector.bad:
        yield no(
            "connector_state", expected.at,
            f"connector {connector.name}: {connector.bad}",
            "no changes arrive until it runs",
            "correct what its status in Kafka Connect names, and start it again",
        )  # fmt: skip


def _conversion(connector: Connector, expected: Expected) -> Iterator[Finding]:
    name = "event.converting.failure.handling.mode"
    if connector.kind and (mode := connector.get(name, "warn")) != "fail":
        yield yes_but(
            "conversion_failures", expected.at,
            f"connector {connector.name}: {name} is {mode}",
            "a value that Debezium cannot convert becomes NULL, and nobody downstream can tell",
            f"set {name}=fail",
        )  # fmt: skip


def _errors(connector: Connector, expected: Expected) -> Iterator[Finding]:
    if connector.get("errors.tolerance", "none") == "all":
        yield no(
            "errors_tolerated", expected.at,
            f"connector {connector.name}: errors.tolerance is all",
            "records that cannot be transformed or converted are left out, and nobody can tell",
            "set errors.tolerance=none",
            stops=True,
        )  # fmt: skip


def _nulls(connector: Connector, expected: Expected) -> Iterator[Finding]:
    """Judges sources without a database; with one, columns are judged one by one."""
    if expected.has_database:
        return
    if connector.replaces_nulls is None:
        yield yes_but(
            "nulls_unseen", expected.at,
            f"connector {connector.name} names no converter: its worker's is not shown by Connect",
            "unless that is told to keep NULL, rows have a column's default in its place",
            NAME_CONVERTER,
        )  # fmt: skip
    elif connector.replaces_nulls:
        yield yes_but(
            "nulls_replaced", expected.at,
            f"connector {connector.name}: its converter writes a column's default where it is NULL",
            "rows have defaults in the place of NULL, and nobody downstream can tell",
            "set value.converter.replace.null.with.default=false, for keys too",
        )  # fmt: skip


def _decimals(connector: Connector, expected: Expected) -> Iterator[Finding]:
    if connector.get("decimal.handling.mode") == "double":
        yield yes_but(
            "decimals_as_double", expected.at,
            f"connector {connector.name}: decimal.handling.mode is double",
            "decimals lose digits; those of more than 15 are refused",
            "set decimal.handling.mode=precise, or string",
        )  # fmt: skip


def _times(connector: Connector, expected: Expected) -> Iterator[Finding]:
    mode = connector.get("time.precision.mode")
    if mode in {"connect", "isostring"}:
        yield yes_but(
            "times_cut", expected.at,
            f"connector {connector.name}: time.precision.mode is {mode}",
            "times lose microseconds, or arrive as text: columns that lose something are refused",
            "leave time.precision.mode at its default",
        )  # fmt: skip


def _modes(connector: Connector, expected: Expected) -> Iterator[Finding]:
    """Judges modes if records have no schemas, which are then read by the configured modes."""
    if connector.has_schemas is not False or connector.kind is None:
        return
    assumed = expected.connector.modes_of(connector.kind)
    really = configured_as(connector, expected.connector).modes_of(connector.kind)
    if assumed != really:
        names = [
            name for name in _MODES
            if connector.get(name)
            and getattr(configured_as(connector, expected.connector), name.replace(".", "_"))
            != getattr(expected.connector, name.replace(".", "_"))
        ]  # fmt: skip
        yield no(
            "modes_differ", expected.at,
            f"connector {connector.name} writes values in other modes than connector: says: "
            f"{', '.join(names)}",
            "records carry no schema, so values are read as what they are not, or refused",
            f"repeat its modes under sources.{expected.at.source}.connector, or set "
            "value.converter.schemas.enable=true",
            stops=True,
        )  # fmt: skip


def _guessed(connector: Connector, expected: Expected) -> Iterator[Finding]:
    if connector.has_schemas is False and not expected.has_database:
        yield yes_but(
            "types_guessed", expected.at,
            f"connector {connector.name} writes no schemas, and no database: is configured",
            "types are guessed from values, and changes of them are not noticed",
            "set value.converter.schemas.enable=true, or configure database:",
        )  # fmt: skip


def _placeholder(connector: Connector, expected: Expected) -> Iterator[Finding]:
    usual = "__debezium_unavailable_value"
    mark = connector.get("unavailable.value.placeholder", usual)
    if connector.kind == "postgres" and mark != expected.connector.unavailable_value_placeholder:
        yield no(
            "placeholder_differs", expected.at,
            f"connector {connector.name} marks unchanged large values otherwise than "
            "connector.unavailable_value_placeholder says",
            "its mark is stored as the value of the column",
            f"write it under sources.{expected.at.source}.connector",
            stops=True,
        )  # fmt: skip


def _skipped(connector: Connector, expected: Expected) -> Iterator[Finding]:
    if connector.kind is None:
        return
    said = connector.get("skipped.operations", "t")
    skipped = {each.strip() for each in said.split(",")} - {"", "none"}
    names = {"c": "creates", "u": "updates", "d": "deletes"}
    if lost := [words for each, words in names.items() if each in skipped]:
        yield no(
            "changes_skipped", expected.at,
            f"connector {connector.name} skips {', '.join(lost)} (skipped.operations={said})",
            "the lake has rows as they never were again",
            "set skipped.operations=none",
            stops=True,
        )  # fmt: skip
    elif "t" in skipped:
        yield yes_but(
            "truncates_skipped", expected.at,
            f"connector {connector.name} does not send truncates (skipped.operations)",
            "the lake keeps the rows of a table that is truncated",
            "set skipped.operations=none",
        )  # fmt: skip


def _snapshots(connector: Connector, expected: Expected) -> Iterator[Finding]:
    mode = connector.get("snapshot.mode", "initial")
    if connector.kind and mode in _WITHOUT_ROWS:
        yield yes_but(
            "snapshot_mode", expected.at,
            f"connector {connector.name}: snapshot.mode is {mode}",
            "rows from before the connector's start arrive only once they change",
            "set snapshot.mode=initial, or ask for an incremental snapshot of each table",
        )  # fmt: skip


def _signals(connector: Connector, expected: Expected) -> Iterator[Finding]:
    """Judges a connector that is partly set up for signals in Kafka."""
    missing = lacking(connector.settings)
    if connector.kind and is_begun(connector.settings) and missing:
        names = ", ".join(name for name, _ in missing)
        yield yes_but(
            "signals_unanswered", expected.at,
            f"connector {connector.name} is set up for signals in Kafka without {names}",
            "cdc-assets resnapshot --via signal refuses its tables",
            f"set {'; '.join(f'{name}={value}' for name, value in missing)}",
        )  # fmt: skip


def _transformed(connector: Connector, expected: Expected) -> Iterator[Finding]:
    for alias, kind in connector.transforms:
        if kind.endswith(_FLATTEN):
            yield from _flattened(connector, expected, f"transforms.{alias}")
        else:
            yield yes_but(
                "transformations", expected.at,
                f"connector {connector.name} transforms records ({alias}: "
                f"{kind.rpartition('.')[2]})",
                "what it leaves out, renames or routes elsewhere is not what the source has",
                "leave it out, unless topics stay one per table and values whole",
            )  # fmt: skip


def _flattened(connector: Connector, expected: Expected, place: str) -> Iterator[Finding]:
    handling = connector.get(f"{place}.delete.tombstone.handling.mode")
    older = connector.get(f"{place}.delete.handling.mode", "drop")
    tombstones = not connector.is_on(f"{place}.drop.tombstones", default=True)
    is_older = not handling and (
        f"{place}.delete.handling.mode" in connector.settings
        or f"{place}.drop.tombstones" in connector.settings
    )
    if handling == "drop" or (is_older and older == "drop" and not tombstones):
        yield no(
            "deletes_dropped", expected.at,
            f"connector {connector.name} drops deletes ({place}, {_FLATTEN})",
            "the lake keeps every row that the source has deleted",
            f"set {place}.delete.tombstone.handling.mode=rewrite",
            stops=True,
        )  # fmt: skip
    fields = {each.strip() for each in connector.get(f"{place}.add.fields").split(",")}
    if not {"op", "source.ts_ms"} <= fields:
        yield yes_but(
            "transformations", expected.at,
            f"connector {connector.name} flattens rows without add.fields=op,source.ts_ms",
            "changes count in Kafka's order, and latencies are not known",
            "add the fields that docs/formats/debezium-json.md lists, or send whole events",
        )  # fmt: skip


def _left_out(connector: Connector, expected: Expected) -> Iterator[Finding]:
    names = [
        name for name in sorted(connector.settings)
        if name.startswith(("column.mask.", "column.truncate.to."))
        or (name in {"column.exclude.list", "column.include.list"} and connector.get(name))
    ]  # fmt: skip
    if names:
        yield yes_but(
            "columns_left_out", expected.at,
            f"connector {connector.name} leaves columns out or alters them ({', '.join(names)})",
            "the lake has them as the connector sends them, not as the source has them",
            "if that is not meant, remove the setting and take a new snapshot",
        )  # fmt: skip


def _converters(connector: Connector, expected: Expected) -> Iterator[Finding]:
    """Judges the converter, or what the worker's has written; of another one nothing is known."""
    converter, wants_json = connector.get("value.converter"), expected.format.endswith("-json")
    if connector.names_converter:
        is_json, writes = converter == _JSON, converter.rpartition(".")[2]
        is_known = "Avro" in converter or is_json
    elif connector.seen is not None:
        is_json, writes = connector.seen.is_json, connector.seen.value
        is_known = True
    else:
        return
    if is_known and expected.format.startswith("debezium-") and is_json != wants_json:
        yield no(
            "converter_differs", expected.at,
            f"connector {connector.name} writes {writes}, and format: is {expected.format}",
            "no record can be read",
            "configure the format that it writes, or the converter that is expected",
        )  # fmt: skip


def _postgres(connector: Connector, expected: Expected) -> Iterator[Finding]:
    if connector.kind != "postgres":
        return
    if connector.is_on("slot.drop.on.stop", default=False):
        yield no(
            "slot_dropped", expected.at,
            f"connector {connector.name}: slot.drop.on.stop is true",
            "what changes while it is stopped is lost, and nobody can tell",
            "set slot.drop.on.stop=false",
            stops=True,
        )  # fmt: skip
    if connector.get("publication.autocreate.mode") == "filtered":
        yield yes_but(
            "publication_autocreate", expected.at,
            f"connector {connector.name}: publication.autocreate.mode is filtered",
            "tables that are created later are not captured",
            "make a publication FOR ALL TABLES and set the mode to disabled, or to all_tables",
        )  # fmt: skip
    if connector.get("heartbeat.interval.ms", "0") == "0":
        yield yes_but(
            "heartbeat", expected.at,
            f"connector {connector.name} sends no heartbeats",
            "while its tables rest, its slot holds back the WAL of all others",
            "set heartbeat.interval.ms=5000",
        )  # fmt: skip


def _binlogs(connector: Connector, expected: Expected) -> Iterator[Finding]:
    if connector.kind not in {"mysql", "mariadb"}:
        return
    if connector.is_on("enable.time.adjuster", default=True):
        yield yes_but(
            "years_moved", expected.at,
            f"connector {connector.name}: enable.time.adjuster is true",
            "dates of the years 0 to 99 arrive as 1970 to 2069",
            "set enable.time.adjuster=false",
        )  # fmt: skip
    is_long = connector.get("bigint.unsigned.handling.mode", "long") == "long"
    if is_long and connector.has_schemas and not expected.has_database:
        yield yes_but(
            "unsigned_as_long", expected.at,
            f"connector {connector.name}: bigint.unsigned.handling.mode is long",
            "values from 2^63 on are stored as negative numbers",
            "set it to precise, or configure database:",
        )  # fmt: skip
    if not connector.is_on("include.schema.changes", default=True):
        yield yes_but(
            "schema_changes_off", expected.at,
            f"connector {connector.name}: include.schema.changes is false",
            "renamed columns are not followed, and tables that are made anew are not noticed",
            "set include.schema.changes=true",
        )  # fmt: skip


_RULES: Final[tuple[Rule, ...]] = (
    _state, _conversion, _errors, _nulls, _decimals, _times, _modes, _guessed, _placeholder,
    _skipped, _snapshots, _signals, _transformed, _left_out, _converters, _postgres, _binlogs,
)  # fmt: skip
