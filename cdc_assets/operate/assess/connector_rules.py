"""Judges a connector's settings and state by rules, one for each requirement of exactness.

``docs/sources/`` explains why each setting matters. Settings that are judged alone are in
`cdc_assets.operate.assess.lossy`. A rule without a condition on the connector's kind holds for all
of Debezium's, which a source's format tells.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from cdc_assets.log.signal_channel import is_begun, lacking
from cdc_assets.operate.assess.connector import (
    JSON,
    MODES,
    NAME_CONVERTER,
    Connector,
    Expected,
    configured_as,
)
from cdc_assets.operate.assess.finding import Finding, no, yes_but
from cdc_assets.operate.assess.lossy import LOSSY

_FLATTEN: Final = "ExtractNewRecordState"
_WITHOUT_TRUNCATES: Final = frozenset({"sqlserver", "mongodb", "yugabyte"})
_MARKING: Final = frozenset({"postgres", "sqlserver", "oracle"})
"""Connectors that mark unchanged large values by a placeholder."""
_LEAVE_OUT: Final = frozenset({
    "column.exclude.list", "column.include.list", "field.exclude.list", "field.renames",
})  # fmt: skip
_KEEP_NULL: Final = "set value.converter.replace.null.with.default=false, for keys too"

Rule = Callable[[Connector, Expected], Iterator[Finding]]


def judge_connector(connector: Connector, expected: Expected) -> Iterator[Finding]:
    """Yields all findings on one connector."""
    for rule in _RULES:
        yield from rule(connector, expected)


def _state(connector: Connector, expected: Expected) -> Iterator[Finding]:
    if connector.bad:
        yield no(
            "connector_state", expected.at,
            f"connector {connector.name}: {connector.bad}",
            "no changes arrive until it runs",
            "correct what its status in Kafka Connect names, and start it again",
        )  # fmt: skip


def _settings(connector: Connector, expected: Expected) -> Iterator[Finding]:
    for lossy in LOSSY:
        if lossy.is_lost_by(connector):
            problem = f"connector {connector.name}: {lossy.setting} is {lossy.value(connector)}"
            yield lossy.finding(expected.at, problem)


def _nulls(connector: Connector, expected: Expected) -> Iterator[Finding]:
    """Judges sources without a database; with one, columns are judged one by one."""
    if expected.has_database or connector.kind == "mongodb":  # whose documents have no defaults
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
            _KEEP_NULL,
        )  # fmt: skip


def _modes(connector: Connector, expected: Expected) -> Iterator[Finding]:
    """Judges modes if records have no schemas, which are then read by the configured modes."""
    kind = connector.kind
    if connector.has_schemas is not False or kind not in ("postgres", "mysql", "mariadb"):
        return
    assumed = expected.connector.modes_of(kind)
    really = configured_as(connector, expected.connector).modes_of(kind)
    if assumed != really:
        names = [
            name for name in MODES
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
    if connector.kind == "mongodb":  # a document is one column, of text
        return
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
    if connector.kind in _MARKING and mark != expected.connector.unavailable_value_placeholder:
        yield no(
            "placeholder_differs", expected.at,
            f"connector {connector.name} marks unchanged large values otherwise than "
            "connector.unavailable_value_placeholder says",
            "its mark is stored as the value of the column",
            f"write it under sources.{expected.at.source}.connector",
            stops=True,
        )  # fmt: skip


def _skipped(connector: Connector, expected: Expected) -> Iterator[Finding]:
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
    elif "t" in skipped and connector.kind not in _WITHOUT_TRUNCATES:
        yield yes_but(
            "truncates_skipped", expected.at,
            f"connector {connector.name} does not send truncates (skipped.operations)",
            "the lake keeps the rows of a table that is truncated",
            "set skipped.operations=none",
        )  # fmt: skip


def _signals(connector: Connector, expected: Expected) -> Iterator[Finding]:
    """Judges a connector that is partly set up for signals in Kafka."""
    missing = lacking(connector.settings)
    if is_begun(connector.settings) and missing:
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
        or (name in _LEAVE_OUT and connector.get(name))
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
    converter, wants_json = connector.get("value.converter"), not expected.format.endswith("-avro")
    if connector.names_converter:
        is_json, writes = converter == JSON, converter.rpartition(".")[2]
        is_known = "Avro" in converter or is_json
    elif connector.seen is not None:
        is_json, writes = connector.seen.is_json, connector.seen.value
        is_known = True
    else:
        return
    if is_known and is_json != wants_json:
        yield no(
            "converter_differs", expected.at,
            f"connector {connector.name} writes {writes}, and format: is {expected.format}",
            "no record can be read",
            "configure the format that it writes, or the converter that is expected",
        )  # fmt: skip


def _unsigned(connector: Connector, expected: Expected) -> Iterator[Finding]:
    if connector.kind not in {"mysql", "mariadb"}:
        return
    is_long = connector.get("bigint.unsigned.handling.mode", "long") == "long"
    if is_long and connector.has_schemas and not expected.has_database:
        yield yes_but(
            "unsigned_as_long", expected.at,
            f"connector {connector.name}: bigint.unsigned.handling.mode is long",
            "values from 2^63 on are stored as negative numbers",
            "set it to precise, or configure database:",
        )  # fmt: skip


_RULES: Final[tuple[Rule, ...]] = (
    _state, _settings, _nulls, _modes, _guessed, _placeholder, _skipped, _signals, _transformed,
    _left_out, _converters, _unsigned,
)  # fmt: skip
