"""The databases' catalogs behind one door."""

import pytest

from cdc_assets.changes.position import Scheme
from cdc_assets.config import Secret
from cdc_assets.config.database import DatabaseConfig
from cdc_assets.databases.catalog import SourceTable
from cdc_assets.databases.kinds import SourceCatalog, catalog_of
from cdc_assets.databases.mysql import table as mysql
from cdc_assets.databases.postgres import table as postgres
from cdc_assets.errors import UnreachableError


def database(kind):
    return DatabaseConfig(kind=kind, dsn=Secret(env="SOME_DSN"))


@pytest.mark.unit
@pytest.mark.parametrize(
    ("kind", "scheme", "dsn"),
    [
        ("postgres", Scheme.POSTGRES, "postgresql://u:p@127.0.0.1:1/d"),
        ("postgresql", Scheme.POSTGRES, "postgresql://u:p@127.0.0.1:1/d"),
        ("mysql", Scheme.BINLOG, "mysql://u:p@127.0.0.1:1/d"),
        ("mariadb", Scheme.MARIADB, "mariadb://u:p@127.0.0.1:1/d"),
    ],
)
def test_each_kind_of_database_has_its_catalog(monkeypatch, kind, scheme, dsn):
    catalog: SourceCatalog = catalog_of(database(kind))
    assert catalog.scheme is scheme
    monkeypatch.setenv("SOME_DSN", dsn)
    with pytest.raises(UnreachableError, match=r"127\.0\.0\.1:1/d"):
        catalog.read([])


@pytest.mark.unit
def test_a_renewed_secret_in_a_file_is_used_by_the_next_connection(tmp_path):
    file = tmp_path / "dsn"
    catalog = catalog_of(DatabaseConfig(kind="postgres", dsn=Secret(file=str(file))))
    for name in ("before", "after"):
        file.write_text(f"postgresql://u:p@127.0.0.1:1/{name}\n")
        with pytest.raises(UnreachableError, match=rf"127\.0\.0\.1:1/{name}\b"):
            catalog.read([])


@pytest.mark.unit
def test_tables_of_each_kind_answer_the_same_questions():
    tables: list[SourceTable] = [
        mysql.MysqlTable((), ()),
        postgres.PostgresTable((), (), postgres.ReplicaIdentity.FULL, ""),
    ]
    for table in tables:
        assert (table.names, table.root, table.partitions) == ((), None, ())
        assert table.unpublished(None) == {}
        assert not table.filters_rows(None)
        assert not table.sent_by_partition(None)
        table.require_key_logged(("id",), "table=x")
