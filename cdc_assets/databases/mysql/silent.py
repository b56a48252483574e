"""Finds rows of MySQL's and MariaDB's tables that changed without an event in the binlog.

A foreign key's CASCADE, SET NULL or SET DEFAULT changes rows inside the storage engine. MariaDB
does not log them, and MySQL only from 9.6 on, unless ``innodb_native_foreign_keys`` is on:
https://mariadb.com/docs/server/ha-and-performance/standard-replication/replication-and-foreign-keys
and https://dev.mysql.com/doc/refman/8.4/en/innodb-and-mysql-replication.html
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from cdc_assets.databases.mysql.narrowing import holds
from cdc_assets.schema.silent import CatalogLook, SilentChange, SilentKind

VARIABLES: Final = ("version", "innodb_native_foreign_keys")
"""The server's variables that tell whether it logs cascades."""

_CHANGING: Final = frozenset({"CASCADE", "SET NULL", "SET DEFAULT"})
_LOGGED_FROM: Final = (9, 6)
_RULE: Final = re.compile(r"ON (DELETE|UPDATE) (CASCADE|SET NULL|SET DEFAULT)")


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
        told = (("ON DELETE", self.on_delete), ("ON UPDATE", self.on_update))
        return " ".join(f"{on} {rule}" for on, rule in told if rule in _CHANGING)


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
        told = [str(each or "") for each in (status[0][2:4] if status else ("", ""))]
        only, never = (tuple(filter(None, text.split(","))) for text in told)
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
        _, is_one, told = line.strip().partition("CONSTRAINT `")
        name, is_key, rest = told.rpartition("` FOREIGN KEY (")
        if is_one and is_key and ") REFERENCES " in rest:
            yield name.replace("``", "`"), rest.rpartition(")")[2]


def with_rules(keys: Sequence[ForeignKey], create: str) -> tuple[ForeignKey, ...]:
    """Returns foreign keys with their rules, as the answer to ``SHOW CREATE TABLE`` has them.

    Args:
        keys: of one table.
        create: the statement, as the server writes it: a constraint a line.
    """
    told = {name: dict(_RULE.findall(rules)) for name, rules in _constraints(create)}
    return tuple(
        replace(
            each,
            on_delete=told[each.name].get("DELETE", "RESTRICT"),
            on_update=told[each.name].get("UPDATE", "RESTRICT"),
        )
        if each.name in told
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
