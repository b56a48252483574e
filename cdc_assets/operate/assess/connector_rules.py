"""Judges a connector's settings and state by rules, one for each requirement of exactness.

``docs/how-to/sources/`` explains why each setting matters. Settings that are judged alone are in
`cdc_assets.operate.assess.lossy`. A rule without a condition on the connector's kind holds for all
of Debezium's, which a source's format tells.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import partial
from typing import Final

from cdc_assets.config.connector import placeholder_of
from cdc_assets.log.signal_channel import is_begun, lacking
from cdc_assets.operate.assess.connector import (
    JSON,
    KEEP_NULLS,
    MODES,
    NAME_CONVERTER,
    Connector,
    ConnectorCase,
    ExpectedConnector,
    configured_as,
)
from cdc_assets.operate.assess.finding import Finding, Obstacle, Rule, Verdict, judged
from cdc_assets.operate.assess.lossy import LOSSY

_NO, _PARTIAL = Verdict.NO, Verdict.PARTIAL
_FLATTEN: Final = "ExtractNewRecordState"
_RESELECT: Final = "ReselectColumnsPostProcessor"
_WITHOUT_TRUNCATES: Final = frozenset({"sqlserver", "mongodb", "yugabyte"})
_MARKING: Final = frozenset({"postgres", "sqlserver", "oracle"})
"""Connectors that mark unchanged large values by a placeholder."""
_LEAVE_OUT: Final = frozenset({
    "column.exclude.list", "column.include.list", "field.exclude.list", "field.renames",
})  # fmt: skip


def judge_connector(connector: Connector, expected: ExpectedConnector) -> Iterator[Finding]:
    """Yields all findings on one connector."""
    return judged(RULES, expected.at, ConnectorCase(connector, expected))


def _state(facts: ConnectorCase) -> str:
    bad = facts.connector.bad
    return f"connector {facts.connector.name}: {bad}" if bad else ""


def _nulls(facts: ConnectorCase, *, replaced: bool) -> str:
    """Judges sources without a database; with one, columns are judged one by one."""
    connector = facts.connector
    if facts.expected.has_database or connector.kind == "mongodb":  # no defaults in documents
        return ""
    if connector.replaces_nulls is not (True if replaced else None):
        return ""
    if replaced:
        return (
            f"connector {connector.name}: its converter writes a column's default where it is NULL"
        )
    return f"connector {connector.name} names no converter: its worker's is not shown by Connect"


def _modes(facts: ConnectorCase) -> Iterable[Obstacle]:
    """Judges modes if records have no schemas, which are then read by the configured modes."""
    connector, said, kind = facts.connector, facts.expected.connector, facts.connector.kind
    if connector.has_schemas is not False or kind not in ("postgres", "mysql", "mariadb"):
        return
    really = configured_as(connector, said)
    if really is not None and said.modes_of(kind) == really.modes_of(kind):
        return
    fields = {name: name.replace(".", "_") for name in MODES if connector.get(name)}
    written = {
        n: connector.get(n) if really is None else getattr(really, fields[n]) for n in fields
    }
    names = [n for n, field in fields.items() if written[n] != getattr(said, field)]
    problem = f"connector {connector.name} writes values in other modes than connector: says: "
    yield Obstacle(f"{problem}{', '.join(names)}", words=_source(facts))


def _source(facts: ConnectorCase) -> dict[str, str]:
    return {"source": facts.expected.at.source}


def _uncut(facts: ConnectorCase) -> Iterable[Obstacle]:
    """Finds what the cuts of a source lack: transactions, in one partition."""
    connector = facts.connector
    if not facts.expected.takes_cuts:
        return
    name = f"connector {connector.name}"
    if not connector.is_on("provide.transaction.metadata", default=False):
        words = {"setting": "provide.transaction.metadata=true"}
        yield Obstacle(f"{name} sends no transaction metadata", words=words)
        return
    groups = [each.strip() for each in connector.get("topic.creation.groups", "").split(",")]
    widths = {each: connector.get(f"topic.creation.{each}.partitions") for each in groups if each}
    default = connector.get("topic.creation.default.partitions")
    if default not in ("", "1", "-1") and "1" not in widths.values():
        problem = f"{name} makes its transaction topic with {default} partitions"
        group = "a group of topic.creation.groups for it, with partitions=1 (docs/consistent.md)"
        yield Obstacle(problem, words={"setting": group})


def _guessed(facts: ConnectorCase) -> str:
    connector = facts.connector
    if connector.kind == "mongodb":  # a document is one column, of text
        return ""
    is_guessed = connector.has_schemas is False and not facts.expected.has_database
    problem = f"connector {connector.name} writes no schemas, and no database: is configured"
    return problem if is_guessed else ""


def _placeholder(facts: ConnectorCase) -> Iterable[Obstacle]:
    connector, usual = facts.connector, "__debezium_unavailable_value"
    mark = connector.get("unavailable.value.placeholder", usual)
    if connector.kind == "postgres":
        with suppress(ValueError):
            mark = placeholder_of(mark)
    said = facts.expected.connector.unavailable_value_placeholder
    if connector.kind in _MARKING and mark != said:
        problem = (
            f"connector {connector.name} marks unchanged large values otherwise than "
            "connector.unavailable_value_placeholder says"
        )
        yield Obstacle(problem, words=_source(facts))


def _lost_operations(connector: Connector) -> list[str]:
    names = {"c": "creates", "u": "updates", "d": "deletes"}
    return [words for each, words in names.items() if each in _skipped(connector)]


def _skipped(connector: Connector) -> set[str]:
    said = connector.get("skipped.operations", "t")
    return {each.strip() for each in said.split(",")} - {"", "none"}


def _skipped_changes(facts: ConnectorCase) -> str:
    connector = facts.connector
    said = connector.get("skipped.operations", "t")
    lost = ", ".join(_lost_operations(connector))
    return f"connector {connector.name} skips {lost} (skipped.operations={said})" if lost else ""


def _skipped_truncates(facts: ConnectorCase) -> str:
    connector = facts.connector
    is_skipped = "t" in _skipped(connector) and not _lost_operations(connector)
    if not is_skipped or connector.kind in _WITHOUT_TRUNCATES:
        return ""
    return f"connector {connector.name} does not send truncates (skipped.operations)"


def _signals(facts: ConnectorCase) -> Iterable[Obstacle]:
    """Judges a connector that is partly set up for signals in Kafka."""
    connector = facts.connector
    missing = lacking(connector.settings)
    if is_begun(connector.settings) and missing:
        names = ", ".join(name for name, _ in missing)
        settings = "; ".join(f"{name}={value}" for name, value in missing)
        problem = f"connector {connector.name} is set up for signals in Kafka without {names}"
        yield Obstacle(problem, words={"settings": settings})


def _transformed(facts: ConnectorCase) -> Iterable[Obstacle]:
    connector = facts.connector
    for alias, kind in (*connector.transforms, *connector.alterers):
        if not kind.endswith((_FLATTEN, _RESELECT)):
            by = f"{alias}: {kind.rpartition('.')[2]}"
            yield Obstacle(f"connector {connector.name} transforms records ({by})")


def _flattened(connector: Connector) -> Iterator[str]:
    """Yields the prefix of the settings of each transformation that flattens rows."""
    return (f"transforms.{name}" for name, kind in connector.transforms if kind.endswith(_FLATTEN))


def _dropped_deletes(facts: ConnectorCase) -> Iterable[Obstacle]:
    connector = facts.connector
    for place in _flattened(connector):
        handling = connector.get(f"{place}.delete.tombstone.handling.mode")
        older = connector.get(f"{place}.delete.handling.mode", "drop")
        tombstones = not connector.is_on(f"{place}.drop.tombstones", default=True)
        is_older = not handling and (
            f"{place}.delete.handling.mode" in connector.settings
            or f"{place}.drop.tombstones" in connector.settings
        )
        if handling == "drop" or (is_older and older == "drop" and not tombstones):
            problem = f"connector {connector.name} drops deletes ({place}, {_FLATTEN})"
            yield Obstacle(problem, words={"place": place})


def _rewritten_nulls(facts: ConnectorCase) -> Iterable[Obstacle]:
    """Judges flattening that copies each row to add ``__deleted``, and defaults with it."""
    connector = facts.connector
    for place in _flattened(connector):
        modes = (f"{place}.delete.tombstone.handling.mode", f"{place}.delete.handling.mode")
        copies = any(connector.get(each).strip().startswith("rewrite") for each in modes)
        if copies and connector.is_on(f"{place}.replace.null.with.default", default=True):
            problem = f"connector {connector.name} writes a column's default where it is NULL"
            yield Obstacle(f"{problem} ({place}, {_FLATTEN})", words={"place": place})


def _without_fields(facts: ConnectorCase) -> Iterable[Obstacle]:
    connector = facts.connector
    for place in _flattened(connector):
        fields = {each.strip() for each in connector.get(f"{place}.add.fields").split(",")}
        if not {"op", "source.ts_ms"} <= fields:
            lacks = "add.fields=op,source.ts_ms"
            yield Obstacle(f"connector {connector.name} flattens rows without {lacks}")


def _left_out(facts: ConnectorCase) -> str:
    connector = facts.connector
    names = [
        name for name in sorted(connector.settings)
        if name.startswith(("column.mask.", "column.truncate.to."))
        or (name in _LEAVE_OUT and connector.get(name))
    ]  # fmt: skip
    what = f"connector {connector.name} leaves columns out or alters them ({', '.join(names)})"
    return what if names else ""


def _converter(facts: ConnectorCase) -> str:
    """Judges the converter, or what the worker's has written; of another one nothing is known."""
    connector, form = facts.connector, facts.expected.format
    converter, wants_json = connector.get("value.converter"), not form.endswith("-avro")
    if connector.names_converter:
        is_json, writes = converter == JSON, converter.rpartition(".")[2]
        is_known = "Avro" in converter or is_json
    elif connector.seen is not None:
        is_json, writes = connector.seen.is_json, connector.seen.value
        is_known = True
    else:
        return ""
    if not is_known or is_json == wants_json:
        return ""
    return f"connector {connector.name} writes {writes}, and format: is {form}"


def _unsigned(facts: ConnectorCase) -> str:
    connector, setting = facts.connector, "bigint.unsigned.handling.mode"
    is_long = connector.kind in {"mysql", "mariadb"} and connector.get(setting, "long") == "long"
    is_lost = is_long and connector.has_schemas and not facts.expected.has_database
    return f"connector {connector.name}: {setting} is long" if is_lost else ""


RULES: Final[tuple[Rule[ConnectorCase], ...]] = (
    Rule(
        "connector_state", _NO, "states of connector and tasks", _state,
        "no changes arrive until it runs",
        "correct the cause in its status in Kafka Connect, and restart it",
    ),
    *(each.rule for each in LOSSY),
    Rule(
        "nulls_unseen", _PARTIAL, "the converter, without `database:`",
        partial(_nulls, replaced=False),
        "unless that is set to keep NULL, rows have a column's default in its place",
        NAME_CONVERTER,
    ),
    Rule(
        "nulls_replaced", _PARTIAL, "the converter, without `database:`",
        partial(_nulls, replaced=True),
        "rows have defaults in the place of NULL, and nobody downstream can tell",
        KEEP_NULLS,
    ),
    Rule(
        "nulls_replaced", _PARTIAL, f"rows that `{_FLATTEN}` rewrites", _rewritten_nulls,
        "rows have defaults in the place of NULL, whatever the converter does, and nobody "
        "downstream can tell",
        "set {place}.replace.null.with.default=false, too",
    ),
    Rule(
        "modes_differ", _NO, "modes of values, without schemas", _modes,
        "records carry no schema, so values are read as what they are not, or refused",
        "repeat its modes under sources.{source}.connector, or set "
        "value.converter.schemas.enable=true", stops=True,
    ),
    Rule(
        "types_guessed", _PARTIAL, "schemas, without `database:`", _guessed,
        "types are guessed from values, and changes of them are not noticed",
        "set value.converter.schemas.enable=true, or configure database:",
    ),
    Rule(
        "placeholder_differs", _NO, "`unavailable.value.placeholder`", _placeholder,
        "its mark is stored as the value of the column",
        "write it under sources.{source}.connector", stops=True,
    ),
    Rule(
        "changes_skipped", _NO, "`skipped.operations`", _skipped_changes,
        "the lake has rows as they never were again", "set skipped.operations=none", stops=True,
    ),
    Rule(
        "truncates_skipped", _PARTIAL, "`skipped.operations`", _skipped_truncates,
        "the lake keeps the rows of a table that is truncated", "set skipped.operations=none",
    ),
    Rule(
        "signals_unanswered", _PARTIAL, "settings of Kafka signals", _signals,
        "cdc-assets resnapshot --via signal refuses its tables", "set {settings}",
    ),
    Rule(
        "transformations", _PARTIAL, "transformations, custom converters, post-processors",
        _transformed,
        "what it leaves out, alters, renames or routes elsewhere is not what the source has",
        "remove it, unless topics stay one per table and values whole",
    ),
    Rule(
        "deletes_dropped", _NO, f"deletes in `{_FLATTEN}`", _dropped_deletes,
        "the lake keeps every row that the source has deleted",
        "set {place}.delete.tombstone.handling.mode=rewrite, and "
        "{place}.replace.null.with.default=false", stops=True,
    ),
    Rule(
        "transformations", _PARTIAL, f"`add.fields` of `{_FLATTEN}`", _without_fields,
        "changes count in Kafka's order, and latencies are not known",
        "add the fields in docs/reference/formats/debezium-json.md, or send whole events",
    ),
    Rule(
        "columns_left_out", _PARTIAL, "settings that exclude or alter columns", _left_out,
        "the lake has them as the connector sends them, not as the source has them",
        "accept this if intended; else remove the setting and take a new snapshot",
    ),
    Rule(
        "converter_differs", _NO, "`value.converter`, or the first records", _converter,
        "no record can be read",
        "configure its format, or the expected converter",
    ),
    Rule(
        "unsigned_as_long", _PARTIAL, "`bigint.unsigned.handling.mode`, without `database:`",
        _unsigned, "values from 2^63 on are stored as negative numbers",
        "set it to precise, or configure database:",
    ),
    Rule(
        "no_cuts", _PARTIAL, "transaction metadata, for `consistent`", _uncut,
        "there are no states of all tables as of one commit", "set {setting}",
    ),
)  # fmt: skip
