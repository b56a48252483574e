"""What statements do to tables: as MariaDB and Oracle write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc_assets.formats.ddl import read_statement
from cdc_assets.schema.ddl import Given, Relation, TableChangeKind
from cdc_assets_tests.hostile import within

SAID = [
    (
        "mysql",
        "ALTER TABLE `a b`.t RENAME COLUMN a TO b, ADD COLUMN c int DEFAULT 5 AFTER d",
        ["a b.t: rename a to b; add c"],
    ),
    ("mysql", "ALTER TABLE t CHANGE a b bigint NOT NULL", ["shop.t: rename a to b; change b"]),
    (
        "mysql",
        "/* x */ alter table t modify y text, drop column z, add index i (y), comment 'c';",
        ["shop.t: drop z; change y"],
    ),
    ("mysql", "ALTER TABLE t CHANGE a a int", ["shop.t: change a"]),
    ("mysql", "ALTER TABLE t ADD (status INT, b enum('x','y)'))", ["shop.t: add status; add b"]),
    (
        "mysql",
        "alter table x.`t` add column (a int default (1 + 1), b text);",
        ["x.t: add a; add b"],
    ),
    ("mysql", "ALTER ONLINE TABLE t ADD COLUMN IF NOT EXISTS a int", ["shop.t: add a"]),
    (
        "mysql",
        "alter online ignore table t drop foreign key x, rename index a to b, drop if exists c,"
        " ALGORITHM=INSTANT",
        ["shop.t: drop c"],
    ),
    (
        "mysql",
        "ALTER TABLE t ADD a enum('x','y)') CHARACTER SET utf8mb4 NOT NULL DEFAULT 'x' COMMENT 'c',"
        " ADD b datetime(6) ON UPDATE CURRENT_TIMESTAMP(6), ADD c int AS (b + 1) STORED",
        ["shop.t: add a; add b; add c"],
    ),
    (
        "mysql",
        "ALTER TABLE t ENGINE=InnoDB",
        ["shop.t: no column is added, dropped, renamed or retyped"],
    ),
    (
        "mysql",
        "ALTER TABLE t DROP PRIMARY KEY, ADD PRIMARY KEY (a), ALTER COLUMN a SET DEFAULT 5",
        ["shop.t: no column is added, dropped, renamed or retyped"],
    ),
    (
        "mysql",
        "ALTER TABLE t RENAME TO u, ADD n int",
        ["shop.t: the table is called shop.u now; add n"],
    ),
    (
        "mysql",
        "RENAME TABLE `a` TO b, x.`c d` TO s.d",
        ["shop.a: the table is called shop.b now", "x.c d: the table is called s.d now"],
    ),
    (
        "mysql",
        "ALTER TABLE t PARTITION BY HASH(id)",
        ["shop.t: no column is added, dropped, renamed or retyped"],
    ),
    (
        "mysql",
        "ALTER TABLE t ADD PARTITION (PARTITION p VALUES LESS THAN (5))",
        ["shop.t: no column is added, dropped, renamed or retyped"],
    ),
    (
        "mysql",
        "ALTER TABLE t CONVERT TO CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
        ["shop.t: no column is added, dropped, renamed or retyped"],
    ),
    (
        "mysql",
        "ALTER TABLE t SET TIFLASH REPLICA 1",
        ["shop.t: no column is added, dropped, renamed or retyped"],
    ),
    ("mysql", "ALTER TABLE t RENAME AS u", ["shop.t: the table is called shop.u now"]),
    (
        "mysql",
        "/* console */ ALTER TABLE t\n MODIFY COLUMN c VARCHAR(9) FIRST,\n"
        " ADD COLUMN (a DOUBLE, b DECIMAL(6, 2), `odd, name` VARCHAR(4) COMMENT 'so (it) is'),"
        " ADD (d int, UNIQUE KEY (d), CONSTRAINT x CHECK (d > 0)), -- as said\n"
        'CHANGE `t`.`old``name` "new name" int AFTER c',
        [
            "shop.t: rename old`name to new name; change c; change new name; add a; add b;"
            " add odd, name; add d"
        ],
    ),
    ("mysql", "ALTER TABLE t ADD a int, DROP a", ["shop.t: drop a; add a"]),
    (
        "mysql",
        "ALTER TABLE t RENAME COLUMN a TO b, RENAME COLUMN b TO c, CHANGE c d int, DROP e",
        ["shop.t: drop e; rename c to d; rename b to c; rename a to b; change d"],
    ),
    (
        "mysql",
        "ALTER TABLE t ADD period int, ADD PERIOD FOR x (a, b), DROP SYSTEM VERSIONING,"
        " ADD system text, ADD VECTOR INDEX (v), DROP CONSTRAINT IF EXISTS k, ADD `index` int",
        ["shop.t: add period; add system; add index"],
    ),
    (
        "mysql",
        "ALTER TABLE t ORDER BY a, b DESC, ADD c int, AUTO_INCREMENT 5 ROW_FORMAT=COMPACT,"
        " some_engines_own = 'x, y'",
        ["shop.t: add c"],
    ),
    (
        "mysql",
        "ALTER TABLE t REORGANIZE PARTITION p, q INTO (PARTITION r VALUES LESS THAN (9))",
        ["shop.t: no column is added, dropped, renamed or retyped"],
    ),
    (
        "mysql",
        "ALTER TABLE t ADD a int PARTITION BY RANGE (id) (PARTITION p VALUES LESS THAN (1))",
        ["shop.t: add a"],
    ),
    ("mysql", "ALTER TABLE t /*!50100 ADD COLUMN a int */", ["shop.t: add a"]),
    (
        "mysql",
        "/*!40101 ALTER TABLE t ADD a int, /* not this */ ADD b int */;",
        ["shop.t: add a; add b"],
    ),
    (
        "mysql",
        "ALTER TABLE t ADD a int /*!80023 INVISIBLE */ /*T![ttl] TTL=b+1 */",
        ["shop.t: add a"],
    ),
    (
        "mysql",
        "SET STATEMENT lock_wait_timeout=1 FOR ALTER TABLE t NOWAIT ADD a int # , ADD b int",
        ["shop.t: add a"],
    ),
    ("mysql", "ALTER TABLE a ADD x int; ALTER TABLE b.c DROP y", ["shop.a: add x", "b.c: drop y"]),
    (
        "mysql",
        "ALTER TABLE t CONVERT TO CHARACTER SET utf8mb4, ADD at point srid 4326, RENAME TO u",
        ["shop.t: the table is called shop.u now; add at"],
    ),
    ("mysql", "ALTER TABLE t ADD CHECK (a > 0), ADD b LONG VARCHAR", ["shop.t: add b"]),
    ("mysql", "CREATE TABLE `a``b` (id int)", ["shop.a`b: the table was created"]),
    ("mysql", "CREATE PROCEDURE p() BEGIN DROP TABLE t; DROP TABLE u; END", []),
    ("mysql", "RENAME TABLES a NOWAIT TO b", ["shop.a: the table is called shop.b now"]),
    (
        "mysql",
        "CREATE TABLE IF NOT EXISTS `t`(id int, at point srid 4326)",
        ["shop.t: the table was created"],
    ),
    ("mysql", "CREATE DEFINER=`a b`@`%` TRIGGER x BEFORE INSERT ON t FOR EACH ROW SET @a = 1", []),
    ("mysql", "CREATE SPATIAL INDEX i ON t (at)", []),
    ("mysql", "TRUNCATE t", ["shop.t: the table was truncated"]),
    ("mysql", "TRUNCATE TABLE `x`.`t`", ["x.t: the table was truncated"]),
    (
        "mysql",
        "DROP TABLE IF EXISTS `x`.`a`, b /* generated by server */",
        ["x.a: the table was dropped", "shop.b: the table was dropped"],
    ),
    ("mysql", "DROP DATABASE shop", ["shop.: the table was dropped"]),
    (
        "mysql",
        "CREATE TABLE t (id int PRIMARY KEY, n int) ENGINE=InnoDB",
        ["shop.t: the table was created"],
    ),
    ("mysql", "CREATE TABLE t LIKE u", ["shop.t: the table was created"]),
    ("mysql", "CREATE INDEX i ON t (a)", []),
    ("mysql", "CREATE VIEW t AS SELECT 1", []),
    ("mysql", "DROP VIEW t", []),
    ("mysql", "GRANT ALL ON *.* TO x", []),
    ("mysql", "FLUSH TABLES t, u", []),
    ("mysql", "RENAME USER a TO b", []),
    ("oracle", 'ALTER TABLE "S"."T" RENAME COLUMN A TO B', ["S.T: rename A to B"]),
    ("oracle", "ALTER TABLE T ADD (A NUMBER(9), B DATE)", ["shop.T: add A; add B"]),
]


@pytest.mark.unit
@pytest.mark.parametrize(("dialect", "text", "said"), SAID, ids=[each[1] for each in SAID])
def test_what_a_statement_does_is_told(dialect: str, text: str, said: list[str]) -> None:
    found = read_statement(text, dialect, "shop")
    assert found.is_read
    assert [f"{each.table}: {each.describe()}" for each in found.changes] == said


@pytest.mark.unit
@pytest.mark.parametrize(
    ("dialect", "text"),
    [
        ("mysql", "ALTER TABLE `t` not sql at all (("),
        ("mysql", "ALTER TABLE t FROBNICATE COLUMN a"),
        ("mysql", "ALTER TABLE t ADD a int /*!80000 , ADD b int */"),
        ("mysql", "ALTER TABLE t ADD a int /*M! , ADD b int */"),
        ("mysql", "ALTER TABLE t ADD a enum('x"),
        ("mysql", "ALTER TABLE t ADD a int DEFAULT '\\', ADD b int"),
        ("mysql", "ALTER TABLE u FROBNICATE a, RENAME TO t"),
        ("mysql", "ALTER TABLE u ADD; ALTER TABLE t FROBNICATE a"),
        ("mysql", "RECOVER TABLE t"),
        ("mysql", "FLASHBACK TABLE t TO u"),
        ("oracle", "ALTER TABLE T MODIFY (A NUMBER(9))"),
    ],
)
def test_what_cannot_be_read_concerns_the_tables_that_it_names(dialect: str, text: str) -> None:
    found = read_statement(text, dialect, "shop")
    assert [each.kind for each in found.of(Relation("shop", "t"))] == [TableChangeKind.UNREAD]
    assert [*found.of(Relation("shop", "other"))] == []


@pytest.mark.unit
@pytest.mark.parametrize(
    "text",
    [
        "ALTER TABLE t FROBNICATE (status > 0)",
        "ALTER TABLE t ADD a int, FROBNICATE /* status */",
        "ALTER TABLE t DROP a AND status",
    ],
)
def test_what_cannot_be_read_of_one_table_does_not_concern_others_that_it_mentions(
    text: str,
) -> None:
    found = read_statement(text, "mysql", "shop")
    assert [each.kind for each in found.of(Relation("shop", "t"))] == [TableChangeKind.UNREAD]
    assert [*found.of(Relation("shop", "status"))] == []
    assert [*found.of(Relation("other", "t"))] == []


@pytest.mark.unit
@pytest.mark.parametrize(
    "text",
    [
        "ALTER TABLE t DROP PARTITION p",
        "ALTER TABLE shop.t TRUNCATE PARTITION p, q",
        "ALTER TABLE t DROP PARTITION IF EXISTS p, `q`",
        "ALTER TABLE t FIRST PARTITION LESS THAN (5)",
        "/* by hand */ alter online table `t` discard partition p tablespace",
        "ALTER TABLE t EXCHANGE PARTITION p WITH TABLE u",
        "ALTER TABLE u EXCHANGE PARTITION p WITH TABLE `shop`.`t` WITHOUT VALIDATION",
        "ALTER TABLE t IMPORT TABLESPACE",
        "ALTER TABLE t CONVERT PARTITION p TO TABLE u",
        "ALTER TABLE u CONVERT TABLE t TO PARTITION p VALUES LESS THAN (5)",
    ],
)
def test_rows_that_go_with_their_partition_are_told(text: str) -> None:
    found = read_statement(text, "mysql", "shop")
    assert found.is_read
    assert [each.kind for each in found.of(Relation("shop", "t"))] == [TableChangeKind.THINNED]
    assert [*found.of(Relation("shop", "other"))] == []


@pytest.mark.unit
@pytest.mark.parametrize(
    ("text", "is_deduplicated"),
    [
        ("ALTER IGNORE TABLE t ADD UNIQUE (a)", True),
        ("alter online ignore table t add constraint k primary key (a), add b int", True),
        ("ALTER IGNORE TABLE t ADD `unique` int", False),
        ("ALTER IGNORE TABLE t ADD INDEX (a)", False),
        ("ALTER TABLE t ADD UNIQUE (a)", False),
        ("ALTER IGNORE TABLE u ADD UNIQUE (a)", False),
    ],
)
def test_rows_that_a_unique_key_deletes_are_told(text: str, *, is_deduplicated: bool) -> None:
    found = read_statement(text, "mysql", "shop")
    kinds = [each.kind for each in found.of(Relation("shop", "t"))]
    assert (TableChangeKind.DEDUPLICATED in kinds) == is_deduplicated
    assert TableChangeKind.UNREAD not in kinds


@pytest.mark.unit
def test_rows_that_oracle_exchanges_go_from_one_table_and_come_into_the_other() -> None:
    found = read_statement("ALTER TABLE u EXCHANGE PARTITION p WITH TABLE s.t", "oracle", "s")
    for name in ("t", "u"):
        assert [each.kind for each in found.of(Relation("s", name))] == [TableChangeKind.THINNED]


@pytest.mark.unit
@pytest.mark.parametrize("filler", ["with table ", 'with table "'])
def test_names_without_an_end_take_time_in_proportion(filler: str) -> None:
    with within(2):
        read_statement("ALTER TABLE t DROP PARTITION p " + filler * 20_000, "oracle", "s")


@pytest.mark.unit
@pytest.mark.parametrize(
    "text",
    [
        "ALTER TABLE t COMMENT 'drop partition p'",
        "ALTER TABLE t ADD COLUMN note text DEFAULT 'x'' truncate partition'",
        "ALTER TABLE t ADD PARTITION (PARTITION p VALUES LESS THAN (9))",
        "ALTER TABLE t REORGANIZE PARTITION p INTO (PARTITION q VALUES LESS THAN (9))",
    ],
)
def test_partitions_that_keep_their_rows_are_not(text: str) -> None:
    changes = read_statement(text, "mysql", "shop").of(Relation("shop", "t"))
    assert TableChangeKind.THINNED not in [each.kind for each in changes]


@pytest.mark.unit
@pytest.mark.parametrize(
    "text",
    [
        "CREATE TEMPORARY TABLE t (id int)",
        "create or replace temporary table t (id int)",
        "DROP TEMPORARY TABLE IF EXISTS `t`",
        "DROP /*!40005 TEMPORARY */ TABLE IF EXISTS `t`",
    ],
)
def test_tables_of_a_session_are_no_tables(text: str) -> None:
    found = read_statement(text, "mysql", "shop")
    assert found.is_read
    assert [*found.of(Relation("shop", "t"))] == []


@pytest.mark.unit
def test_names_of_renamed_tables_may_hold_commas() -> None:
    found = read_statement("RENAME TABLE `a,b` TO c, d TO `e,f`", "mysql", "shop")
    assert [(each.table.name, each.renamed_to) for each in found.changes] == [
        ("a,b", Relation("shop", "c")),
        ("d", Relation("shop", "e,f")),
    ]


@pytest.mark.unit
def test_a_renamed_table_is_told_by_either_name_and_a_dropped_database_by_each_table() -> None:
    renamed = read_statement("RENAME TABLE a TO b", "mysql", "shop")
    for name in "ab":
        assert [each.kind for each in renamed.of(Relation("shop", name))] == ["renamed"]
    assert [*renamed.of(Relation("other", "a"))] == []
    dropped = read_statement("DROP DATABASE shop", "mysql", "other")
    assert [each.kind for each in dropped.of(Relation("shop", "any"))] == ["dropped"]


@pytest.mark.property
@given(st.text() | st.sampled_from(["ALTER TABLE t ", "RENAME TABLE ", "DROP TABLE "]).flatmap(
    lambda begin: st.text(alphabet="abt`\"'(),. TOADDROPNULL;0\x00é").map(begin.__add__)
))  # fmt: skip
def test_no_text_raises(text: str) -> None:
    read_statement(text, "mysql", "shop")


@pytest.mark.unit
@pytest.mark.parametrize("dialect", ["mysql", "oracle"])
def test_a_statement_of_any_length_is_told_by_its_beginning(dialect: str) -> None:
    columns = ", ".join(f"column_{n} varchar(10) default 'it'" for n in range(10_000))
    made = read_statement(f"CREATE TABLE t ({columns})", dialect, "shop")
    assert [each.kind for each in made.of(Relation("shop", "t"))] == [TableChangeKind.CREATED]
    altered = read_statement(f"ALTER TABLE t ADD ({columns})", dialect, "shop")
    assert [each.kind for each in altered.of(Relation("shop", "t"))] == [TableChangeKind.UNREAD]
    assert [*altered.of(Relation("shop", "other"))] == []


NOTHING, IMPLIED = Given(), Given(is_implied=True)


@pytest.mark.unit
@pytest.mark.parametrize(
    ("column", "found"),
    [
        ("int NOT NULL DEFAULT 5", Given("5")),
        ("decimal(5,2) DEFAULT -1.5", Given("-1.5")),
        ("decimal(5,2) DEFAULT '0.00'", Given("0.00")),
        ("varchar(9) CHARACTER SET utf8mb4 DEFAULT 'it''s' NOT NULL COMMENT 'c'", Given("it's")),
        ("tinyint(1) DEFAULT true", Given("1")),
        ("datetime DEFAULT '2020-01-01 00:00:00'", Given("2020-01-01 00:00:00")),
        ("int", NOTHING),
        ("enum('a','b') NULL", NOTHING),
        ("text DEFAULT NULL", NOTHING),
        ("bigint unsigned NOT NULL", IMPLIED),
        ("timestamp DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP", None),
        ("timestamp", None),
        ("datetime(6) DEFAULT now(6)", None),
        ("datetime DEFAULT '2020-01-01 00:00:00' ON UPDATE now()", None),
        ("datetime DEFAULT '2020-01-01 00:00:00.6'", None),
        ("varchar(36) DEFAULT (uuid())", None),
        ("int DEFAULT (1 + 1)", None),
        ("bigint DEFAULT nextval(s)", None),
        ("int AS (b + 1) STORED", None),
        ("int AUTO_INCREMENT UNIQUE", None),
        ("bit(8) DEFAULT 101", None),
        ("enum('a','b') NOT NULL", None),
        ("enum('a','b') DEFAULT 'B'", None),
        ("json NOT NULL", None),
        ("year DEFAULT 70", None),
        ("float(7,3) DEFAULT 1.23456", None),
        ("double(7,3) DEFAULT '1.23456'", None),
        ("double DEFAULT 1e3", None),
        ("varchar(9) DEFAULT 'a\\nb'", None),
        ("char(9) DEFAULT 'a '", None),
    ],
)
def test_the_value_of_older_rows_is_told_by_a_constant_alone(
    column: str, found: Given | None
) -> None:
    (change,) = read_statement(f"ALTER TABLE t ADD COLUMN c {column}", "mysql", "shop").changes
    assert [each.given for each in change.columns] == [found]


@pytest.mark.unit
def test_a_default_of_oracle_tells_nothing_of_older_rows() -> None:
    (change,) = read_statement("ALTER TABLE t ADD (c int DEFAULT 5)", "oracle", "s").changes
    assert [each.given for each in change.columns] == [None]


@pytest.mark.unit
def test_a_definition_is_told_among_other_clauses_and_in_lists() -> None:
    text = (
        "ALTER TABLE t ADD (a int DEFAULT 1, b varchar(3) NOT NULL), MODIFY c decimal(5,2) FIRST,"
        " CHANGE d e text COMMENT 'x, y' AFTER a, ADD f point,"
        " ADD PARTITION (PARTITION p VALUES LESS THAN (5))"
    )
    (change,) = read_statement(text, "mysql", "shop").changes
    told = {each.name: (each.given, each.definition) for each in change.columns}
    assert told == {
        "d": (None, ""), "c": (None, "DECIMAL(5, 2)"), "e": (None, "TEXT"),
        "a": (Given("1"), ""), "b": (Given(is_implied=True), ""), "f": (None, ""),
    }  # fmt: skip
    (change,) = read_statement(
        "ALTER TABLE t ADD g int /*!80000 DEFAULT 2 */", "mysql", "s"
    ).changes
    assert [each.given for each in change.columns] == [None]
