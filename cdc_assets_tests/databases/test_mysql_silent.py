"""Rows that MySQL and MariaDB change without an event in the binlog, as their catalogs show it."""

import uuid

import pymysql
import pytest

from cdc_assets.changes.names import TableName
from cdc_assets.databases.mysql.catalog import read_tables
from cdc_assets.databases.mysql.connection import parse_dsn
from cdc_assets.databases.mysql.table import (
    Filters,
    ForeignKey,
    cascades,
    filtered,
    logs_cascades,
    rewritten,
    with_rules,
)
from cdc_assets.databases.mysql.type_text import holds
from cdc_assets.schema.silent import CatalogLook, SilentKind


@pytest.mark.unit
@pytest.mark.parametrize(
    ("variables", "logs"),
    [
        ({"version": "8.0.36"}, False),
        ({"version": "9.5.0-commercial"}, False),
        ({"version": "9.6.0"}, True),
        ({"version": "10.1.0"}, True),
        ({"version": "9.6.0", "innodb_native_foreign_keys": "ON"}, False),
        ({"version": "9.6.0", "innodb_native_foreign_keys": "OFF"}, True),
        ({"version": "11.4.5-MariaDB-log"}, False),
        ({"version": "8.0.11-TiDB-v8.5.1"}, True),
        ({}, False),
    ],
)
def test_a_server_is_known_to_log_cascades_by_its_version(
    variables: dict[str, str], logs: bool
) -> None:
    assert logs_cascades(variables) is logs


@pytest.mark.unit
def test_each_rule_that_changes_rows_is_one_and_others_are_not() -> None:
    def why(*rules: str | None) -> list[str]:
        key = ForeignKey("fk", ("other", "parents"), *rules)
        return [each.why for each in cascades([key]) if each.is_standing]

    for changing in ("CASCADE", "SET NULL", "SET DEFAULT"):
        assert f"(ON DELETE {changing})" in why(changing, "RESTRICT")[0]
        assert f"(ON UPDATE {changing})" in why("NO ACTION", changing)[0]
    assert "rows of it with those of other.parents" in why("CASCADE", "CASCADE")[0]
    assert why("RESTRICT", "NO ACTION") == []
    assert "may not see" in why(None, None)[0], "unknown rules may change rows"


@pytest.mark.unit
def test_foreign_keys_are_read_from_the_statement_that_makes_the_table() -> None:
    made = (
        "CREATE TABLE `items` (\n  `id` int(11) NOT NULL COMMENT 'CONSTRAINT',\n"
        "  CONSTRAINT `a`b` FOREIGN KEY (`o`) REFERENCES `orders` (`id`) "
        "ON DELETE CASCADE ON UPDATE SET NULL,\n"
        "  CONSTRAINT `c``d` FOREIGN KEY (`x`, `)`) REFERENCES `far`.`par``ents` (`x`, `y`)\n)"
    )
    keys = [ForeignKey(name, ("s", "p"), None, None) for name in ("a`b", "c`d", "unseen")]
    first, second, third = with_rules(keys, made)
    assert (first.on_delete, first.on_update) == ("CASCADE", "SET NULL")
    assert (second.is_known, second.rules) == (True, "")
    assert not third.is_known


@pytest.mark.unit
@pytest.mark.parametrize(
    ("only", "never", "left_out"),
    [("", "", False), ("shop", "", False), ("Shop,b", "", False), ("b", "", True),
     ("", "shop", True), ("", "b", False), ("shop", "shop", False)],
)  # fmt: skip
def test_a_database_that_the_binlog_leaves_out_is_told(
    only: str, never: str, left_out: bool
) -> None:
    filters = Filters.of([("binlog.000001", 1960, only, never, "gtids")])
    found = list(filtered("shop", filters))
    assert bool(found) is left_out
    assert all(each.kind is SilentKind.UNLOGGED and each.is_standing for each in found)
    assert Filters.of([]) == Filters()


KEEPING = [
    ("int(11)", "bigint(20)"), ("int", "int(11)"), ("int unsigned", "bigint"),
    ("varchar(3)", "varchar(10)"), ("varchar(10)", "text"), ("char(5)", "varchar(5)"),
    ("text", "longtext"), ("decimal(10,2)", "decimal(12,4)"), ("datetime", "datetime(6)"),
    ("enum('a','b')", "enum('a','x','b')"), ("float", "double"), ("binary(4)", "varbinary(4)"),
    ("blob", "mediumblob"), ("bit(3)", "bit(8)"), ("timestamp(3)", "timestamp(6)"),
    ("int(10) zerofill", "int(10) unsigned"), ("set('a')", "set('a','b')"), ("json", "json"),
]  # fmt: skip
CHANGING = [
    ("bigint", "int"), ("int unsigned", "int"), ("int", "bigint unsigned"),
    ("varchar(10)", "varchar(3)"), ("varchar(5)", "char(5)"), ("text", "varchar(10)"),
    ("longtext", "text"), ("decimal(10,2)", "decimal(10,4)"), ("decimal(10,2)", "decimal(10,0)"),
    ("datetime(6)", "datetime"), ("datetime(6)", "timestamp(6)"), ("enum('a','b')", "enum('a')"),
    ("double", "float"), ("varbinary(4)", "binary(4)"), ("int", "varchar(20)"),
    ("varchar(20000)", "text"), ("date", "datetime"), ("binary(3)", "binary(4)"),
]  # fmt: skip


@pytest.mark.unit
@pytest.mark.parametrize(
    ("before", "now", "keeps"),
    [(*each, True) for each in KEEPING] + [(*each, False) for each in CHANGING],
)
def test_only_a_type_that_holds_all_values_of_the_one_before_leaves_rows_alone(
    before: str, now: str, keeps: bool
) -> None:
    assert holds((before, "", ""), (now, "", "")) is keeps


@pytest.mark.unit
def test_a_column_that_changed_is_named_and_a_new_one_is_not() -> None:
    before = CatalogLook({"at": ("at", "datetime(6)", "", ""), "g": ("g", "int", "", "`a` + 1")})
    now = CatalogLook({"at": ("at", "datetime", "", ""), "g": ("g", "int", "", "`a` + 2"),
                "x": ("x", "int", "", "")})  # fmt: skip
    assert [each.columns for each in rewritten(before, now)] == [("at",), ("g",)]
    assert list(rewritten(now, now)) == []
    latin = CatalogLook({"c": ("c", "varchar(9)", "latin1", "")})
    wide = CatalogLook({"c": ("c", "varchar(9)", "utf8mb4", "")})
    assert [*rewritten(latin, wide)] == []
    assert [each.columns for each in rewritten(wide, latin)] == [("c",)]


@pytest.fixture
def server(mariadb_dsn: str):
    given = parse_dsn(mariadb_dsn)
    with pymysql.connect(
        host=given.host, port=given.port, user=given.user, password=given.password, autocommit=True
    ) as connection:
        yield connection.cursor()


@pytest.mark.stack
@pytest.mark.parametrize("rights", ["ALL PRIVILEGES", "SELECT"])
def test_a_real_server_tells_its_cascades_to_each_user(mariadb_dsn, server, rights) -> None:
    """To one who may only read, MariaDB shows no rule in `information_schema`."""
    name, user = (f"{each}{uuid.uuid4().hex[:12]}" for each in ("odd `", "u"))
    far, quoted = f"far{uuid.uuid4().hex[:12]}", f"`{name.replace('`', '``')}`"
    given = parse_dsn(mariadb_dsn)
    for each in (
        f"CREATE DATABASE {quoted}", f"CREATE DATABASE {far}",
        f"CREATE USER {user} IDENTIFIED BY 'x'", f"GRANT {rights} ON *.* TO {user}",
        f"USE {quoted}",
        "CREATE TABLE tree (id int PRIMARY KEY, up int, at datetime(6), "
        "FOREIGN KEY (up) REFERENCES tree (id) ON DELETE CASCADE)",
        f"CREATE TABLE {far}.`ite``ms` (id int PRIMARY KEY, o int, CONSTRAINT `o``dd` FOREIGN KEY "
        f"(o) REFERENCES {quoted}.tree (id) ON UPDATE CASCADE ON DELETE SET NULL)",
        f"CREATE TABLE {far}.kept (id int PRIMARY KEY, o int, "
        f"FOREIGN KEY (o) REFERENCES {quoted}.tree (id))",
    ):  # fmt: skip
        server.execute(each)
    dsn = f"mysql://{user}:x@{given.host}:{given.port}/"
    tables = [TableName("s", name, "tree"), TableName("s", far, "ite`ms"),
              TableName("s", far, "kept")]  # fmt: skip
    try:
        found = read_tables(dsn, tables)
        tree, items, kept = (found[each].silent_since(None, None) for each in tables)
        assert [each.kind for each in (*tree, *items)] == [SilentKind.CASCADES] * 2
        assert f"those of {name}.tree (ON DELETE CASCADE)" in tree[0].why
        assert "foreign key o`dd" in items[0].why
        assert f"{name}.tree (ON DELETE SET NULL ON UPDATE CASCADE)" in items[0].why
        assert kept == ()
        before = found[tables[0]].look
        server.execute("ALTER TABLE tree MODIFY at datetime")
        after = read_tables(dsn, tables)[tables[0]].silent_since(before, None)
        assert [each.columns for each in after if each.kind is SilentKind.REWRITTEN] == [("at",)]
    finally:
        server.execute(f"DROP DATABASE {far}")
        server.execute(f"DROP DATABASE {quoted}")
        server.execute(f"DROP USER {user}")
