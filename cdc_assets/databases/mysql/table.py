"""A table as MySQL's or MariaDB's catalog has it, and what its server's settings mean for it.

Some rows change without an event in the binlog. A foreign key's CASCADE, SET NULL or SET DEFAULT
changes rows inside the storage engine. MariaDB does not log them, and MySQL only from 9.6 on,
unless ``innodb_native_foreign_keys`` is on:
https://mariadb.com/docs/server/ha-and-performance/standard-replication/replication-and-foreign-keys
and https://dev.mysql.com/doc/refman/8.4/en/innodb-and-mysql-replication.html
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from cdc_assets.databases.catalog import ColumnFacts
from cdc_assets.databases.mysql.type_text import holds
from cdc_assets.databases.mysql.types import MysqlColumn, describe_table, with_unsigned
from cdc_assets.errors import TerminalError
from cdc_assets.schema.described import Described
from cdc_assets.schema.modes import ConnectorModes
from cdc_assets.schema.silent import CatalogLook, SilentChange, SilentKind

_OF_BINLOG: Final = (
    "log_bin",
    "binlog_format",
    "binlog_row_image",
    "binlog_row_value_options",
    "binlog_transaction_compression",
)
"""The server's variables, in the order of `BinlogSettings`."""

_OF_CASCADES: Final = ("version", "innodb_native_foreign_keys")
"""The server's variables that tell whether it logs cascades."""

_CHANGING: Final = frozenset({"CASCADE", "SET NULL", "SET DEFAULT"})
_LOGGED_FROM: Final = (9, 6)
_RULE: Final = re.compile(r"ON (DELETE|UPDATE) (CASCADE|SET NULL|SET DEFAULT)")

VARIABLES: Final = (*_OF_BINLOG, *_OF_CASCADES)
"""The server's variables that a table's changes depend on."""


@dataclass(frozen=True, slots=True)
class BinlogSettings:
    """The server's global settings for its binlog, in lower case.

    A session may have others (``SET SESSION binlog_row_image``,
    ``binlog_transaction_compression``), which nobody can see.

    Attributes:
        is_written: ``log_bin``. A server without a binlog is not the connector's: a replica
            that is asked in its place. Nothing is known of the other's settings then.
        row_format: ``binlog_format``; "" of a server that has only one.
        row_image: ``binlog_row_image``.
        row_values: ``binlog_row_value_options``, of MySQL.
        compression: ``binlog_transaction_compression``, of MySQL 8.0.20 and later.
    """

    is_written: bool = True
    row_format: str = "row"
    row_image: str = "full"
    row_values: str = ""
    compression: str = ""

    def fault(self) -> tuple[str, str] | None:
        """Says why readers do not get whole rows in their order, and the remedy; None if they do.

        The events in a compressed transaction have no places of their own. Debezium gives all of
        them the transaction's, with rows that count from 0 again in each; Maxwell up to 1.44
        passes over the whole transaction (zendesk/maxwell#2254).
        """
        if not self.is_written:
            return None
        if self.row_format not in {"row", ""}:
            return (
                f"the server's binlog_format is {self.row_format}",
                "SET GLOBAL binlog_format=ROW",
            )
        if self.row_image not in {"full", ""}:  # "": servers before it was a choice
            what = (
                f"the server's binlog_row_image is {self.row_image}: changes lack columns, and "
                "nothing tells these from columns that are NULL"
            )
            return what, "SET GLOBAL binlog_row_image=FULL"
        if "partial_json" in self.row_values:
            what = "the server writes changed parts of JSON values only (PARTIAL_JSON)"
            return what, "SET GLOBAL binlog_row_value_options=''"
        if self.compression in {"on", "1"}:
            what = (
                "the server compresses transactions in its binlog (binlog_transaction_compression):"
                " their changes have no places of their own, by which they could be ordered, and "
                "some readers pass over them"
            )
            return what, "SET GLOBAL binlog_transaction_compression=OFF"
        return None


def settings_of(variables: Mapping[str, str]) -> BinlogSettings:
    """Returns the settings of a server's `VARIABLES`."""
    written, *others = (variables.get(name, "").lower() for name in _OF_BINLOG)
    return BinlogSettings(written in {"on", "1"}, *others)


@dataclass(frozen=True, slots=True)
class MysqlTable:
    """A table as the catalog has it; generated and invisible columns included.

    Partitions are the server's own affair here: changes come under the table's name.

    Attributes:
        is_versioned: a system-versioned table of MariaDB.
        binlog: what the server writes of its changes.
        facts: of its columns.
        look: what the next look at it is compared with.
        unsent: changes of its rows that the server's binlog does not have, while it is like this.
        identity: none: the catalog has no number of a table that every ALTER leaves alone.
    """

    columns: tuple[MysqlColumn, ...]
    primary_key: tuple[str, ...]
    comment: str = ""
    is_versioned: bool = False
    binlog: BinlogSettings = field(default_factory=BinlogSettings)
    root: tuple[str, str] | None = None
    partitions: tuple[tuple[str, str], ...] = ()
    facts: Mapping[str, ColumnFacts] = field(default_factory=dict[str, ColumnFacts])
    identity: str = ""
    look: CatalogLook = field(default_factory=CatalogLook)
    unsent: tuple[SilentChange, ...] = ()

    @property
    def logs_whole_rows(self) -> bool:
        """True: others are refused."""
        return True

    @property
    def names(self) -> tuple[str, ...]:
        """Column names in order."""
        return tuple(column.name for column in self.columns)

    def silent_since(
        self, before: CatalogLook | None, publication: str | None
    ) -> tuple[SilentChange, ...]:
        """Returns changes of its rows without events, see `SourceTable.silent_since`."""
        del publication
        return (*self.unsent, *(rewritten(before, self.look) if before is not None else ()))

    def unsent_by(self, publication: str | None) -> tuple[str, ...]:
        """Returns why changes of its rows are not sent: never, the binlog has all."""
        del publication
        return ()

    def unpublished(self, publication: str | None) -> dict[str, str]:
        """Columns whose changes no event holds: none, the binlog has all."""
        del publication
        return {}

    def filters_rows(self, publication: str | None) -> bool:
        """Returns whether the server leaves rows out of the binlog: it cannot."""
        del publication
        return False

    def sent_by_partition(self, publication: str | None) -> bool:
        """Returns whether changes come under the partitions' names: never."""
        del publication
        return False

    def identifies(self, key: Collection[str]) -> bool:
        """Returns whether they are the primary key."""
        return {*key} == {*self.primary_key}

    def require_key_logged(self, key: tuple[str, ...], where: str) -> None:
        """Refuses a table whose events do not hold whole rows, not what they say, or no order.

        Args:
            key: the lake table's; full row images hold any.
            where: coordinates for the error.

        Raises:
            TerminalError: if it is one.
        """
        del key
        self.require_whole(where)

    def require_whole(self, where: str) -> None:
        """Refuses it while it, or the server's settings, are such; a session may have others.

        Raises:
            TerminalError: with the statement that changes this.
        """
        if self.is_versioned:
            what = (
                "it is system-versioned: the binlog has its deletes as updates, and a row for "
                "each of its old versions"
            )
            remedy = "ALTER TABLE … DROP SYSTEM VERSIONING, then take a new snapshot of the table"
            raise TerminalError(what, where=where, remedy=remedy)
        fault = self.binlog.fault()
        if fault is not None:
            what, statement = fault
            remedy = f"{statement} for all sessions, then take a new snapshot of the table"
            raise TerminalError(what, where=where, remedy=remedy)

    def described(self, modes: ConnectorModes) -> Described:
        """Describes all columns as a connector with these modes writes them."""
        return describe_table(self.columns, self.primary_key, modes, comment=self.comment)

    def corrected(
        self, described: Described, names: Collection[str], modes: ConnectorModes
    ) -> Described:
        """Adds the integers that have no sign, see `with_unsigned`."""
        del modes
        return with_unsigned(described, (each for each in self.columns if each.name in names))


# ── changes without events ───────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class ForeignKey:
    """A foreign key of a table.

    Attributes:
        name: of the constraint.
        parent: schema and name of the table that it refers to.
        on_delete: what becomes of the table's rows with the parent's; None if unknown.
        on_update: likewise of a changed key.
    """

    name: str
    parent: tuple[str, str]
    on_delete: str | None
    on_update: str | None

    @property
    def is_known(self) -> bool:
        """Returns whether its rules are known."""
        return self.on_delete is not None and self.on_update is not None

    @property
    def rules(self) -> str:
        """The rules by which it changes rows, as SQL; empty if it changes none."""
        rules = (("ON DELETE", self.on_delete), ("ON UPDATE", self.on_update))
        return " ".join(f"{on} {rule}" for on, rule in rules if rule in _CHANGING)


@dataclass(frozen=True, slots=True)
class Filters:
    """The databases that the server's binlog has, or has not.

    Attributes:
        only: ``binlog_do_db``; empty for all.
        never: ``binlog_ignore_db``.
    """

    only: tuple[str, ...] = ()
    never: tuple[str, ...] = ()

    @classmethod
    def of(cls, status: Sequence[Sequence[object]]) -> Filters:
        """Reads the answer to ``SHOW MASTER STATUS``; nothing if there is none."""
        filters = [str(each or "") for each in (status[0][2:4] if status else ("", ""))]
        only, never = (tuple(filter(None, text.split(","))) for text in filters)
        return cls(only, never)

    def leave_out(self, schema: str) -> str:
        """Returns the option that keeps a database's changes out of the binlog; empty if none."""
        name = schema.casefold()
        if self.only:
            is_in = name in {each.casefold() for each in self.only}
            return "" if is_in else f"binlog_do_db={','.join(self.only)}"
        is_out = name in {each.casefold() for each in self.never}
        return f"binlog_ignore_db={','.join(self.never)}" if is_out else ""


def logs_cascades(variables: Mapping[str, str]) -> bool:
    """Returns whether a server with these `VARIABLES` logs rows that foreign keys change."""
    version = variables.get("version", "").lower()
    if "tidb" in version:
        return True
    found = re.match(r"(\d+)\.(\d+)", version)
    if "mariadb" in version or found is None:
        return False
    is_native = variables.get("innodb_native_foreign_keys", "").lower() in {"on", "1"}
    return (int(found[1]), int(found[2])) >= _LOGGED_FROM and not is_native


def _constraints(create: str) -> Iterator[tuple[str, str]]:
    """Yields the foreign keys and their rules; MariaDB does not double quotes inside of names."""
    for line in create.split("\n"):
        _, is_one, definition = line.strip().partition("CONSTRAINT `")
        name, is_key, rest = definition.rpartition("` FOREIGN KEY (")
        if is_one and is_key and ") REFERENCES " in rest:
            yield name.replace("``", "`"), rest.rpartition(")")[2]


def with_rules(keys: Sequence[ForeignKey], create: str) -> tuple[ForeignKey, ...]:
    """Returns foreign keys with their rules, as the answer to ``SHOW CREATE TABLE`` has them.

    Args:
        keys: of one table.
        create: the statement, as the server writes it: a constraint a line.
    """
    by_name = {name: dict(_RULE.findall(rules)) for name, rules in _constraints(create)}
    return tuple(
        replace(
            each,
            on_delete=by_name[each.name].get("DELETE", "RESTRICT"),
            on_update=by_name[each.name].get("UPDATE", "RESTRICT"),
        )
        if each.name in by_name
        else each
        for each in keys
    )


def cascades(keys: Sequence[ForeignKey]) -> Iterator[SilentChange]:
    """Yields the standing changes by foreign keys of a table on a server that logs none."""
    for key in keys:
        if key.rules or not key.is_known:
            rules = key.rules or "rules that the user of database: may not see"
            why = (
                f"foreign key {key.name} changes rows of it with those of {'.'.join(key.parent)} "
                f"({rules}), and the server's binlog does not have these changes"
            )
            yield SilentChange(SilentKind.CASCADES, why, is_standing=True)


def filtered(schema: str, filters: Filters) -> Iterator[SilentChange]:
    """Yields the standing change of a table whose database is not in the binlog."""
    if option := filters.leave_out(schema):
        why = f"the server's binlog does not have its database: {option}"
        yield SilentChange(SilentKind.UNLOGGED, why, is_standing=True)


def rewritten(before: CatalogLook, now: CatalogLook) -> Iterator[SilentChange]:
    """Yields the columns whose values a statement may have changed in all rows."""
    for key, (name, *definition) in now.columns.items():
        was = before.columns.get(key)
        if was is None or holds(was[1:], tuple(definition)):
            continue
        why = f"column {name} was changed from {_words(was[1:])} to {_words(definition)}"
        yield SilentChange(
            SilentKind.REWRITTEN, f"{why}: older rows may have other values", (name,)
        )


def _words(definition: Sequence[str]) -> str:
    declared, charset, generated = definition
    words = declared + (f" CHARACTER SET {charset}" if charset else "")
    return words + (f" AS ({generated})" if generated else "")
