"""A password that a command gives is renewed for connections and for Spark's readers alike."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest
from psycopg import sql

from cdc_assets.changes.names import TableName
from cdc_assets.config.database import DatabaseConfig
from cdc_assets.config.secret import FETCHED
from cdc_assets.databases.kinds import catalog_of
from cdc_assets.databases.postgres.rows import PostgresRows
from cdc_assets.databases.rows import Access, TableReading
from cdc_assets.errors import LoginRefusedError
from cdc_assets.schema.types import Column, Primitive, TableSchema, Wire
from cdc_assets_tests.pipeline import Session
from cdc_assets_tests.toy.profiles import in_soak

pytestmark = [pytest.mark.stack, in_soak]

ID = Column("id", Primitive.LONG, Wire.LONG)
NAME = ("login", "numbers")


@pytest.fixture
def renewed(postgres_dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The database of a user whose password is in a file, and what replaces it on the server."""
    monkeypatch.setattr("cdc_assets.config.secret.LEAST_SECONDS", 0)
    FETCHED.forget()
    file, at = tmp_path / "password", urlsplit(postgres_dsn)
    with psycopg.connect(postgres_dsn, autocommit=True) as admin:
        for each in (
            "DROP SCHEMA IF EXISTS login CASCADE", "DROP ROLE IF EXISTS etl_by_command",
            "CREATE ROLE etl_by_command LOGIN", "CREATE SCHEMA login",
            "CREATE TABLE login.numbers AS SELECT n::bigint AS id FROM generate_series(1, 9) AS n",
            "ALTER TABLE login.numbers ADD PRIMARY KEY (id)",
            "GRANT USAGE ON SCHEMA login TO etl_by_command",
            "GRANT SELECT ON login.numbers TO etl_by_command",
        ):  # fmt: skip
            admin.execute(each)

        def change(password: str, *, told: bool = True) -> None:
            admin.execute(sql.SQL("ALTER ROLE etl_by_command PASSWORD {}").format(password))
            if told:
                file.write_text(f"{password}\n")

        change("first%:/@")
        dsn = f"postgresql://etl_by_command@{at.hostname}:{at.port}{at.path}"
        said = {"kind": "postgres", "dsn": dsn, "password": {"command": ["cat", str(file)]}}
        yield DatabaseConfig.model_validate(said), change
        admin.execute("DROP SCHEMA login CASCADE")
        admin.execute("DROP ROLE etl_by_command")


def test_a_password_is_fetched_again_once_it_is_refused(renewed, spark: Session):
    database, change = renewed
    catalog, table = catalog_of(database), TableName("shop", *NAME)
    assert catalog.existing([table]) == {table}
    rows = PostgresRows.of(Access(database.login, NAME, TableSchema((ID,), ("id",)), "table=t"))
    reading = TableReading(rows)

    def read() -> int:
        with reading.wave(None, 100, 1) as wave:
            (options,) = wave.parts
            return spark().read.format("jdbc").options(**options).load().count()

    assert read() == 9
    change("second")
    with pytest.raises(LoginRefusedError) as caught:
        catalog.existing([table])
    assert "first" not in str(caught.value)
    assert catalog.existing([table]) == {table}
    assert read() == 9, "the connection is the former one, and Spark's readers log in by the new"
    rows.close()
