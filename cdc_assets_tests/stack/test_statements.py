"""Statements that no record of a row tells of: the lake follows them, or stops and says why."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from cdc_assets_devstack.stack import LocalStack

from cdc_assets.config import ReplicationConfig
from cdc_assets.errors import TerminalError
from cdc_assets.merge.intake.same_table import AnotherTableError
from cdc_assets.operations.accept_restart.desk import RestartDesk
from cdc_assets.registry import RegistryFile
from cdc_assets_tests.operated import session_of
from cdc_assets_tests.pipeline import Session
from cdc_assets_tests.stack.merging import Merging
from cdc_assets_tests.stack.oracle import difference
from cdc_assets_tests.stack.replicated import (
    Replicated,
    new_database,
    new_mariadb_database,
    record_settings,
    replicated,
)
from cdc_assets_tests.toy import profiles

pytestmark = [pytest.mark.stack, profiles.in_soak]

MADE = "(id int PRIMARY KEY, name varchar(9), n int)"
ROWS = "SELECT seq, concat('n', seq), seq FROM seq_1_to_9"
TABLES = ("renamed", "made_anew", "kept", "emptied", "copied", "moved", "apart")
PARTED = (
    "CREATE TABLE parted (id int PRIMARY KEY, n int) PARTITION BY RANGE (id) "
    "(PARTITION low VALUES LESS THAN (5), PARTITION high VALUES LESS THAN MAXVALUE)",
    "INSERT INTO parted SELECT seq, seq FROM seq_1_to_9",
)
RENAMES = {
    "a column": (
        "ALTER TABLE renamed CHANGE name called varchar(9)",
        "UPDATE renamed SET called = 'x' WHERE id = 2",
    ),
    "with another type, between rows": (
        "UPDATE renamed SET n = -1 WHERE id = 3",
        "ALTER TABLE renamed CHANGE n m bigint, ADD COLUMN more int DEFAULT 7",
        "UPDATE renamed SET m = 5000000000 WHERE id = 4",
        "ALTER TABLE renamed RENAME COLUMN m TO o",
        "UPDATE renamed SET o = 6000000000, more = NULL WHERE id = 5",
    ),
    "the key": (
        "UPDATE renamed SET o = 1 WHERE id = 6",
        "ALTER TABLE renamed RENAME COLUMN id TO number",
        "UPDATE renamed SET o = 2 WHERE number = 7",
        "DELETE FROM renamed WHERE number = 8",
    ),
}


@pytest.fixture(params=["bare", "schemas"])
def mariadb(
    request: pytest.FixtureRequest, stack: LocalStack, stack_config: ReplicationConfig
) -> Iterator[Replicated]:
    name = f"statements{request.param}"
    made = [(f"CREATE TABLE {each} {MADE}", f"INSERT INTO {each} {ROWS}") for each in TABLES]
    dsn = new_mariadb_database(stack, name, *(each for pair in made for each in pair), *PARTED)
    settings = record_settings(stack, request.param)
    tables = {
        f"{name}.made_anew": {"recreated_table": "truncate"},
        f"{name}.kept": {"recreated_table": "keep"},
        f"{name}.apart": {"renamed_table": "new"},
    }
    with replicated(stack, stack_config, name, dsn, debezium=settings, tables=tables) as database:
        yield database


def test_statements_are_followed_or_stop_the_table(mariadb: Replicated, spark: Session) -> None:
    merging = Merging(mariadb, spark)
    merging.require_equal(*TABLES, "parted")
    for step, statements in RENAMES.items():
        for each in statements:
            mariadb.execute(each)
        merging.merge("renamed")
        assert mariadb.differences("renamed") == [], step
    require_made_anew(mariadb, merging)
    require_copied(mariadb, merging)
    mariadb.execute("ALTER TABLE parted TRUNCATE PARTITION low", "INSERT INTO parted VALUES (1, 1)")
    with pytest.raises(AnotherTableError, match="whole partitions"):
        merging.merge("parted")
    require_followed(
        mariadb,
        "moved",
        "UPDATE moved SET n = 1 WHERE id = 2",
        "DELETE FROM moved WHERE id = 3",
        "RENAME TABLE moved TO elsewhere",
        "UPDATE elsewhere SET n = 0 WHERE id = 1",
        "INSERT INTO elsewhere VALUES (3, 'again', 0)",
        "ALTER TABLE elsewhere CHANGE n m int",
        "UPDATE elsewhere SET m = 7 WHERE id = 4",
    )
    mariadb.execute("RENAME TABLE apart TO away", "UPDATE away SET n = 0 WHERE id = 1")
    assert not merging.merge("apart")
    with pytest.raises(AnotherTableError, match="another table was given its name"):
        merging.merge("away")


def require_followed(database: Replicated, table: str, *statements: str) -> None:
    """What comes under another name goes on in the table of the first one."""
    database.execute(*statements)
    database.wait_until_delivered()
    database.run("replicate", "--table", f"{database.side.schema}.{table}", "--until-caught-up")
    new = f"{database.side.schema}.elsewhere"
    database.run("replicate", "--table", new, "--until-caught-up")
    target = database.entry(table).target
    there = database.side.table("elsewhere")
    assert difference(there, database.config, target) == ""
    (entry,) = [
        each
        for each in RegistryFile(database.config.registry).load()
        if each.at_source.name in {table, "elsewhere"}
    ]
    assert (entry.table.name, entry.at_source.name) == (table, "elsewhere")


def require_made_anew(database: Replicated, merging: Merging) -> None:
    """The old table's last changes are merged together with the new table's first ones."""
    for table in ("made_anew", "kept", "emptied"):
        database.execute(f"UPDATE {table} SET n = 100 WHERE id > 5")
        database.execute(f"DROP TABLE {table}")
        database.execute(f"CREATE TABLE {table} {MADE}")
        database.execute(f"INSERT INTO {table} VALUES (1, 'new', 1), (20, 'new', 2)")
    merging.require_equal("made_anew")
    merging.merge("kept")
    assert len(merging.rows("kept")) == 10
    with pytest.raises(AnotherTableError, match="dropped and recreated"):
        merging.merge("emptied")
    desk(merging, "emptied").accept_table()
    merging.merge("emptied")
    assert len(merging.rows("emptied")) == 10
    database.execute("UPDATE made_anew SET n = 3 WHERE id = 1")
    merging.require_equal("made_anew")


def desk(merging: Merging, table: str) -> RestartDesk:
    database = merging.database
    return RestartDesk(session_of(database.config, database.entry(table), merging.spark))


def require_copied(database: Replicated, merging: Merging) -> None:
    """As gh-ost does it: a copy takes the table's name."""
    database.execute(
        f"CREATE TABLE _copied_gho {MADE}",
        "ALTER TABLE _copied_gho ADD COLUMN more int DEFAULT 3",
        "INSERT INTO _copied_gho (id, name, n) SELECT id, name, n FROM copied",
        "RENAME TABLE copied TO _copied_del, _copied_gho TO copied",
        "UPDATE copied SET n = 7 WHERE id = 3",
    )
    merging.merge("copied")
    assert database.differences("copied") == []


def test_a_table_that_postgresql_has_made_anew_stops(
    stack: LocalStack, stack_config: ReplicationConfig, spark: Session
) -> None:
    name = "madeanewpg"
    make = (
        "CREATE TABLE things (id int PRIMARY KEY, n int)",
        "INSERT INTO things VALUES (1, 1)",
        "CREATE TABLE followed (id int PRIMARY KEY, n int, text text)",
        "INSERT INTO followed SELECT n, n, repeat(md5(n::text), 200) FROM generate_series(1, 4) n",
    )
    with replicated(stack, stack_config, name, new_database(stack, name, *make)) as database:
        merging = Merging(database, spark)
        merging.require_equal("things", "followed")
        database.execute("ALTER TABLE things ADD COLUMN m int", "UPDATE things SET m = 5")
        merging.require_equal("things")
        require_followed(
            database,
            "followed",
            "UPDATE followed SET n = 2 WHERE id = 1",
            "ALTER TABLE followed RENAME TO elsewhere",
            "UPDATE elsewhere SET n = 3 WHERE id = 2",
            "ALTER TABLE elsewhere RENAME COLUMN n TO m",
            "INSERT INTO elsewhere VALUES (5, 6, 'x')",
        )
        database.execute("DROP TABLE things", make[0], "INSERT INTO things VALUES (2, 2)")
        with pytest.raises(TerminalError, match="recreated at its source") as stopped:
            merging.merge("things")
        assert "accept-restart" in str(stopped.value)
        found = desk(merging, "things").another_table()
        assert found is not None
        assert "recreated" in found.why
        desk(merging, "things").accept_table()
        assert desk(merging, "things").another_table() is None
        merging.merge("things")
        assert {row["id"] for row in merging.rows("things")} == {1, 2}
