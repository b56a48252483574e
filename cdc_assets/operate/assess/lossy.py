"""Lists the settings that lose something by their value alone, for each kind of connector.

``docs/how-to/sources/`` explains each.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, get_args

from cdc_assets.operate.assess.connector import ConnectorCase, Kind
from cdc_assets.operate.assess.finding import Rule, Verdict

_ANY: Final[frozenset[Kind | None]] = frozenset({None, *get_args(Kind)})
_BINLOG: Final[frozenset[Kind | None]] = frozenset({"mysql", "mariadb"})
_MARIADB: Final[frozenset[Kind | None]] = frozenset({"mariadb"})
_POSTGRES: Final[frozenset[Kind | None]] = frozenset({"postgres"})
_SQLSERVER: Final[frozenset[Kind | None]] = frozenset({"sqlserver"})
_ORACLE: Final[frozenset[Kind | None]] = frozenset({"oracle"})
_MONGODB: Final[frozenset[Kind | None]] = frozenset({"mongodb"})
_YUGABYTE: Final[frozenset[Kind | None]] = frozenset({"yugabyte"})


@dataclass(frozen=True, slots=True)
class Lossy:
    """A setting, some of whose values lose something.

    Attributes:
        name: the name of the finding.
        setting: the setting's name.
        usual: its value where it is absent.
        loses: tells whether a value, in lower case, loses something.
        impact: what is lost.
        remedy: the action to take.
        of: the kinds of connectors that have the setting; None among them stands for any other.
        stops: whether rows are wrong, or missing, unnoticed: the verdict is NO.
        unless: another setting and its value, with which nothing is lost.
        of_first_rows: whether it concerns first rows alone, which `initial: read` does not take
            from the log.
    """

    name: str
    setting: str
    usual: str
    loses: Callable[[str], bool]
    impact: str
    remedy: str
    of: frozenset[Kind | None] = _ANY
    stops: bool = False
    unless: tuple[str, str] | None = None
    of_first_rows: bool = False

    def check(self, facts: ConnectorCase) -> str:
        """Returns the problem of a connector that loses something by its setting."""
        connector = facts.connector
        value = connector.get(self.setting, self.usual).strip().lower()
        is_apart = self.of_first_rows and facts.expected.reads_first
        if is_apart or connector.kind not in self.of or not self.loses(value):
            return ""
        if self.unless is not None:
            name, harmless = self.unless
            if connector.get(name, "").strip().lower() == harmless:
                return ""
        return f"connector {connector.name}: {self.setting} is {value}"

    @property
    def rule(self) -> Rule[ConnectorCase]:
        """The rule on the setting."""
        verdict = Verdict.NO if self.stops else Verdict.PARTIAL
        at = f"`{self.setting}`{self._kinds}"
        return Rule(self.name, verdict, at, self.check, self.impact, self.remedy, self.stops)

    @property
    def _kinds(self) -> str:
        kinds = sorted(each for each in self.of if each is not None)
        return "" if None in self.of else f" ({', '.join(kinds)})"


def _is(*values: str) -> Callable[[str], bool]:
    return lambda value: value in values


def _is_not(good: str) -> Callable[[str], bool]:
    return lambda value: value != good


def _below(least: int) -> Callable[[str], bool]:
    return lambda value: value.isdecimal() and int(value) < least


_LONGEST_TEXT: Final = 20_000_000
"""Characters of a single text that Spark's reader of JSON accepts."""

_SKIPS: Final = _is("warn", "skip", "ignore")
_GIVEN: Final = _is_not("")
_UNSEEN: Final = "and nobody downstream can tell"
_DIGITS: Final = (
    "decimals lose digits: those of more than 15 are refused where database: tells their type, "
    f"and stored as they arrive elsewhere, {_UNSEEN}"
)

LOSSY: Final = (
    Lossy(
        "errors_tolerated", "errors.tolerance", "none", _is("all"),
        f"records that cannot be transformed or converted are left out, {_UNSEEN}",
        "set errors.tolerance=none", stops=True,
    ),
    Lossy(
        "events_skipped", "event.processing.failure.handling.mode", "fail", _SKIPS,
        f"a change that Debezium cannot process is left out, {_UNSEEN}",
        "set event.processing.failure.handling.mode=fail", stops=True,
    ),
    Lossy(
        "events_skipped", "inconsistent.schema.handling.mode", "fail", _SKIPS,
        f"changes of a table that the connector's schema history lacks are left out, {_UNSEEN}",
        "set inconsistent.schema.handling.mode=fail", _BINLOG, stops=True,
    ),
    Lossy(
        "events_skipped", "ignore.exceptions", "false", _is("true"),
        f"changes that cannot be read are left out, {_UNSEEN}",
        "set ignore.exceptions=false", _YUGABYTE, stops=True,
    ),
    Lossy(
        "conversion_failures", "event.converting.failure.handling.mode", "warn", _is_not("fail"),
        f"a value that Debezium cannot convert becomes NULL, {_UNSEEN}",
        "set event.converting.failure.handling.mode=fail", _ANY - _MONGODB - _YUGABYTE,
    ),
    Lossy(
        "numbers_stop", "decimal.handling.mode", "precise", _is("precise"),
        "one NaN or infinity in a numeric stops the connector, and with it all of its tables, or "
        "becomes NULL",
        "before tables exist, set decimal.handling.mode=string; also "
        "column.propagate.source.type=.* there, or without schemas "
        "connector.decimal_handling_mode: string here", _POSTGRES,
    ),
    Lossy(
        "large_records_stop", "producer.override.max.request.size", "1048576",
        _below(_LONGEST_TEXT),
        "a value that makes a record of more than that stops the connector, and with it all of its "
        "tables, unless the Connect worker sets it higher (producer.max.request.size)",
        "set producer.override.max.request.size=67108864, and the topics' max.message.bytes "
        "(topic.creation.default.max.message.bytes for new ones)",
    ),
    Lossy(
        "snapshot_mode", "snapshot.mode", "initial",
        _is("never", "no_data", "schema_only", "recovery"),
        "rows from before the connector's start arrive only once they change",
        "set snapshot.mode=initial, or initial: read here, or request incremental snapshots",
        of_first_rows=True,
    ),
    Lossy(
        "decimals_as_double", "decimal.handling.mode", "precise", _is("double"), _DIGITS,
        "set decimal.handling.mode=precise, or string", _ANY - _YUGABYTE,
    ),
    Lossy(
        "decimals_as_double", "decimal.handling.mode", "double", _is("double"), _DIGITS,
        "set decimal.handling.mode=string", _YUGABYTE,
    ),
    Lossy(
        "times_cut", "time.precision.mode", "", _is("connect", "isostring"),
        "times lose microseconds, or arrive as text: columns that lose something are refused where "
        f"database: tells their type, and stored as they arrive elsewhere, {_UNSEEN}",
        "leave time.precision.mode at its default",
    ),
    Lossy(
        "slot_dropped", "slot.drop.on.stop", "false", _is("true"),
        f"what changes while it is stopped is lost, {_UNSEEN}",
        "set slot.drop.on.stop=false", _POSTGRES, stops=True,
    ),
    Lossy(
        "publication_autocreate", "publication.autocreate.mode", "", _is("filtered"),
        "tables that are created later are not captured",
        "create a publication FOR ALL TABLES and set disabled; or set all_tables",
        _POSTGRES,
    ),
    Lossy(
        "heartbeat", "heartbeat.interval.ms", "0", _is("0"),
        "while its tables rest, its slot holds back the WAL of all others",
        "set heartbeat.interval.ms=5000", _POSTGRES,
    ),
    Lossy(
        "years_moved", "enable.time.adjuster", "true", _is("true"),
        "dates of the years 0 to 99 arrive as 1970 to 2069",
        "set enable.time.adjuster=false", _BINLOG,
    ),
    Lossy(
        "years_stop", "driver.yearIsDateType", "true", _is("true"),
        "a year of 0 stops its snapshot, and with it all of its tables",
        "set driver.yearIsDateType=false", _MARIADB,
    ),
    Lossy(
        "schema_changes_off", "include.schema.changes", "true", _is("false"),
        "renamed columns are not followed, and tables that are recreated are not noticed",
        "set include.schema.changes=true", _BINLOG,
    ),
    Lossy(
        "dirty_snapshot", "snapshot.isolation.mode", "repeatable_read", _is("read_uncommitted"),
        f"a snapshot has rows of transactions that are rolled back, {_UNSEEN}",
        "set snapshot.isolation.mode=snapshot, and take a new snapshot", _SQLSERVER, stops=True,
    ),
    *(
        Lossy(
            "changes_filtered", f"log.mining.{who}.list", "", _GIVEN,
            f"changes that others have made are left out, {_UNSEEN}" if who.endswith("include")
            else f"changes that these have made are left out, {_UNSEEN}",
            "remove the setting, and rebuild the tables", _ORACLE, stops=True,
        )
        for who in ("username.include", "username.exclude", "clientid.include", "clientid.exclude")
    ),
    *(
        Lossy(
            "changes_filtered", f"gtid.source.{which}", "", _GIVEN,
            f"transactions of servers that it leaves out are missing, {_UNSEEN}",
            "set gtid.source.filter.dml.events=false, and rebuild the tables", _BINLOG,
            stops=True, unless=("gtid.source.filter.dml.events", "false"),
        )
        for which in ("includes", "excludes")
    ),
    Lossy(
        "statements_skipped", "schema.history.internal.skip.unparseable.ddl", "false",
        _is("true"),
        "rows after a statement that Debezium cannot parse may be read by the columns before it, "
        f"{_UNSEEN}",
        "set schema.history.internal.skip.unparseable.ddl=false", _BINLOG | _SQLSERVER | _ORACLE,
    ),
    *(
        Lossy(
            "snapshot_filtered", setting, "", _GIVEN,
            "rows that its snapshots leave out arrive only once they change",
            "remove the setting, or accept this if the lake should not have these rows",
        )
        for setting in ("snapshot.select.statement.overrides", "snapshot.include.collection.list")
    ),
    Lossy(
        "transactions_dropped", "log.mining.transaction.retention.ms", "0", _is_not("0"),
        f"changes of a transaction that lasts longer are lost, {_UNSEEN}",
        "set log.mining.transaction.retention.ms=0", _ORACLE, stops=True,
    ),
    Lossy(
        "lobs_left_out", "lob.enabled", "false", _is_not("true"),
        "columns of CLOB, NCLOB, BLOB and XMLTYPE are empty in rows that are inserted later, "
        f"{_UNSEEN}",
        "set lob.enabled=true; accept this if no table has such columns, or "
        "column.exclude.list names them", _ORACLE,
    ),
    Lossy(
        "partial_updates", "capture.mode", "change_streams_update_full",
        _is("change_streams", "change_streams_with_pre_image"),
        "an update holds only what changes in the document, and is refused",
        "set capture.mode=change_streams_update_full", _MONGODB,
    ),
    Lossy(
        "updates_looked_up", "capture.mode.full.update.type", "lookup", _is("lookup"),
        "an update may hold a later state of the document, and is refused if the document is gone",
        "set capture.mode.full.update.type=post_image (MongoDB 6.0)", _MONGODB,
    ),
)  # fmt: skip
