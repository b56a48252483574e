"""What a real PostgreSQL says of logical replication, and which of its values cannot arrive."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import psycopg
import pytest

from cdc_assets.changes.names import TableName
from cdc_assets.databases.postgres.catalog import read_tables
from cdc_assets.databases.postgres.server import OddValues, odd_values, read_server

pytestmark = pytest.mark.stack


@pytest.fixture
def schema(postgres_dsn: str) -> Iterator[str]:
    """A schema, a publication and a user of one name."""
    name = f"s{uuid.uuid4().hex}"
    with psycopg.connect(postgres_dsn, autocommit=True) as connection:
        connection.execute(
            f"""
            CREATE SCHEMA {name};
            CREATE TABLE {name}.odd (
                n numeric, m numeric(9,2), d date, at timestamptz, t timestamp DEFAULT now()
            );
            INSERT INTO {name}.odd VALUES
                ('NaN', 1, 'infinity', '0044-03-15 BC', '2020-01-01'), (1, 1, NULL, NULL, NULL);
            CREATE UNLOGGED TABLE {name}.unlogged (id int);
            CREATE PUBLICATION {name} FOR TABLE {name}.odd WITH (publish = 'insert, update');
            CREATE ROLE {name} LOGIN;
            GRANT USAGE ON SCHEMA {name} TO {name};
            GRANT SELECT ON {name}.odd TO {name};
            """.encode()
        )
        yield name
        connection.execute(
            f"DROP SCHEMA {name} CASCADE; DROP PUBLICATION {name}; DROP ROLE {name}".encode()
        )


def test_settings_publications_and_rights_are_told(postgres_dsn: str, schema: str) -> None:
    tables = [TableName("s", schema, each) for each in ("odd", "unlogged", "none")]
    found = read_server(postgres_dsn, tables, [schema, "nobody"])
    assert found.wal_level == "logical"
    assert found.publications[schema].missing == ("delete",)
    assert not found.publications[schema].truncate
    assert set(found.roles) == {schema}
    assert not found.roles[schema].may_replicate
    assert found.roles[schema].unreadable == {(schema, "unlogged")}
    assert found.now is not None

    read = read_tables(postgres_dsn, tables)
    assert [each.is_unlogged for each in read.values()] == [False, True]
    assert [each.name for each in read[tables[0]].columns if each.has_default] == ["t"]


def test_the_right_to_replicate_may_come_from_the_role_that_amazon_grants(
    postgres_dsn: str, schema: str
) -> None:
    """RDS and Aurora have no superuser, and no attribute of a user, but a role: also indirectly."""
    with psycopg.connect(postgres_dsn, autocommit=True) as connection:
        connection.execute(
            f"""
            CREATE ROLE rds_replication;
            CREATE ROLE {schema}_between;
            GRANT rds_replication TO {schema}_between;
            """.encode()
        )
        before = read_server(postgres_dsn, [], [schema]).roles[schema]
        connection.execute(f"GRANT {schema}_between TO {schema}".encode())
        after = read_server(postgres_dsn, [], [schema]).roles[schema]
        connection.execute(f"DROP ROLE {schema}_between; DROP ROLE rds_replication".encode())
    assert (before.may_replicate, after.may_replicate) == (False, True)


def test_values_that_cannot_arrive_are_found(postgres_dsn: str, schema: str) -> None:
    odd, other = TableName("s", schema, "odd"), TableName("s", schema, "unlogged")
    types = {"n": "numeric", "m": "numeric", "d": "date", "at": "timestamptz", "t": "timestamp"}
    found = odd_values(postgres_dsn, {odd: types, other: {}}, 2)
    assert found == {odd: OddValues(("n",), ("d", "at")), other: OddValues()}
    assert odd_values(postgres_dsn, {odd: types}, 1)[odd].is_sample
