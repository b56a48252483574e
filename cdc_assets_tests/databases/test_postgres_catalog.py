"""Reading a real PostgreSQL's catalog, and failing to."""

import uuid

import psycopg
import pytest

from cdc_assets.changes.names import TableName
from cdc_assets.databases.catalog import ColumnFacts
from cdc_assets.databases.postgres.catalog import read_tables
from cdc_assets.databases.postgres.table import ReplicaIdentity, RowIdentity
from cdc_assets.errors import ConfigError, TerminalError, UnreachableError
from cdc_assets.schema.existing import of_text
from cdc_assets.schema.modes import ConnectorModes, TimeMode
from cdc_assets.schema.types import Column, Decimal, ListOf, Primitive

SECRET = "hunter2"


@pytest.fixture
def schema(postgres_dsn):
    name = f"Odd name {uuid.uuid4().hex}"
    with psycopg.connect(postgres_dsn, autocommit=True) as connection:
        connection.execute(f'CREATE SCHEMA "{name}"')
        connection.execute(f'SET search_path TO "{name}"')
        connection.execute("""
            CREATE TYPE mood AS ENUM ('glad', 'sad');
            CREATE DOMAIN price AS numeric(12,2) NOT NULL;
            CREATE DOMAIN list_price AS price;
            CREATE TABLE "Orders" (
                id bigint, gone int, region text, total list_price, state mood NOT NULL,
                tags text[], at timestamptz(3), doubled int GENERATED ALWAYS AS (1) STORED,
                PRIMARY KEY (region, id)
            );
            ALTER TABLE "Orders" DROP COLUMN gone;
            ALTER TABLE "Orders" REPLICA IDENTITY FULL;
            COMMENT ON TABLE "Orders" IS 'what was bought';
            COMMENT ON COLUMN "Orders".total IS 'with tax';
            CREATE TABLE keyless (a int) PARTITION BY RANGE (a);
            CREATE VIEW no_table AS SELECT 1;
        """)
        yield name
        connection.execute(f'DROP SCHEMA "{name}" CASCADE')


@pytest.mark.stack
def test_one_query_describes_many_tables(postgres_dsn, schema):
    orders, keyless = TableName("s", schema, "Orders"), TableName("s", schema, "keyless")
    missing = [TableName("s", schema, "no_table"), TableName("s", schema, "orders")]
    found = read_tables(postgres_dsn, [orders, keyless, *missing])
    assert set(found) == {orders, keyless}
    assert found[orders].primary_key == ("region", "id")
    assert found[orders].replica_identity is ReplicaIdentity.FULL
    assert found[keyless].primary_key == ()
    assert found[keyless].replica_identity is ReplicaIdentity.DEFAULT


@pytest.mark.stack
def test_a_table_becomes_an_exact_schema(postgres_dsn, schema):
    orders = TableName("s", schema, "Orders")
    table = read_tables(postgres_dsn, [orders])[orders]
    described = table.described(ConnectorModes()).without(table.unpublished(None))
    exact = described.exact()
    assert {column.name: (column.type, column.required) for column in exact.columns} == {
        "id": (Primitive.LONG, True),
        "region": (Primitive.STRING, True),
        "total": (Decimal(12, 2), True),
        "state": (Primitive.STRING, True),
        "tags": (ListOf(Primitive.STRING), False),
        "at": (Primitive.TIMESTAMPTZ, False),
    }
    assert (exact.key, exact.comment) == (("region", "id"), "what was bought")
    assert exact.column("total").comment == "with tax"


@pytest.fixture
def including(postgres_dsn):
    """Tables whose indexes include columns that are no part of their keys."""
    name = f"i{uuid.uuid4().hex}"
    with psycopg.connect(postgres_dsn, autocommit=True) as connection:
        connection.execute(f"""
            CREATE SCHEMA {name};
            CREATE TABLE {name}.primary_key (note text, id int, PRIMARY KEY (id) INCLUDE (note));
            CREATE TABLE {name}.deferrable (
                id int, note text, PRIMARY KEY (id) INCLUDE (note) DEFERRABLE
            );
            CREATE TABLE {name}.by_index (id int PRIMARY KEY, email text NOT NULL);
            CREATE UNIQUE INDEX emails ON {name}.by_index (email) INCLUDE (id);
            ALTER TABLE {name}.by_index REPLICA IDENTITY USING INDEX emails;
        """)
        names = ("primary_key", "deferrable", "by_index")
        tables = [TableName("s", name, each) for each in names]
        yield {each.name: found for each, found in read_tables(postgres_dsn, tables).items()}
        connection.execute(f"DROP SCHEMA {name} CASCADE")


@pytest.mark.stack
def test_included_columns_of_an_index_are_no_part_of_its_key(including):
    assert including["primary_key"].primary_key == ("id",)
    including["primary_key"].require_key_logged(("id",), "here")
    with pytest.raises(TerminalError, match="primary key is deferrable"):
        including["deferrable"].require_key_logged(("id",), "here")
    assert including["by_index"].identity_key == ("email",)
    with pytest.raises(TerminalError, match=r"an index of \(email\), not of its key"):
        including["by_index"].require_key_logged(("id",), "here")


@pytest.mark.stack
def test_dimensions_of_arrays_are_those_that_are_declared(postgres_dsn):
    name = f"a{uuid.uuid4().hex}"
    with psycopg.connect(postgres_dsn, autocommit=True) as connection:
        connection.execute(f"""
            CREATE SCHEMA {name};
            CREATE DOMAIN {name}.grid AS int[][];
            CREATE DOMAIN {name}.board AS {name}.grid;
            CREATE TABLE {name}.t (a int, b int[], c int[][], d {name}.board, e text[3][3][3]);
        """)
        before = _dimensions(postgres_dsn, name)
        connection.execute(f"ALTER TABLE {name}.t ALTER COLUMN c TYPE int[]")
        after = _dimensions(postgres_dsn, name)
        table = TableName("s", name, "t")
        columns = read_tables(postgres_dsn, [table])[table].columns
        connection.execute(f"DROP SCHEMA {name} CASCADE")
    assert before == {"a": 0, "b": 1, "c": 2, "d": 2, "e": 3}
    assert after == {**before, "c": 1}
    assert [each.name for each in columns if each.in_domain] == ["d"]


def _dimensions(dsn, schema):
    table = TableName("s", schema, "t")
    return {each.name: each.dimensions for each in read_tables(dsn, [table])[table].columns}


@pytest.fixture
def published(postgres_dsn):
    """A schema with publications of every kind; drops both."""
    name = f"p{uuid.uuid4().hex}"
    publications = {
        "plain": f"FOR TABLE {name}.t",
        "stored": f"FOR TABLE {name}.t WITH (publish_generated_columns = stored)",
        "listed": f"FOR TABLE {name}.t (id, g)",
        "filtered": f"FOR TABLE {name}.t WHERE (id > 5)",
        "by_root": f"FOR TABLE {name}.parts WITH (publish_via_partition_root = true)",
        "by_leaf": f"FOR TABLE {name}.parts",
    }
    with psycopg.connect(postgres_dsn, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {name}")
        connection.execute(f"""
            CREATE TABLE {name}.t (id int PRIMARY KEY, a int, g int GENERATED ALWAYS AS (id) STORED,
                v int GENERATED ALWAYS AS (id) VIRTUAL);
            CREATE TABLE {name}.parts (id int PRIMARY KEY) PARTITION BY RANGE (id);
            CREATE TABLE {name}.middle PARTITION OF {name}.parts FOR VALUES FROM (0) TO (9)
                PARTITION BY RANGE (id);
            CREATE TABLE {name}.leaf PARTITION OF {name}.middle FOR VALUES FROM (0) TO (5);
        """)

        def make(*wanted):
            for each in wanted:
                connection.execute(f"CREATE PUBLICATION {name}_{each} {publications[each]}")
            tables = [TableName("s", name, each) for each in ("t", "parts", "leaf")]
            found = read_tables(postgres_dsn, tables)
            return [found[each] for each in tables], f"{name}_{wanted[0]}"

        yield make
        made = connection.execute(
            "SELECT pubname FROM pg_publication WHERE pubname LIKE %s", (f"{name}%",)
        ).fetchall()
        for (each,) in made:
            connection.execute(f"DROP PUBLICATION {each}")
        connection.execute(f"DROP SCHEMA {name} CASCADE")


@pytest.mark.stack
@pytest.mark.parametrize(
    ("publications", "unpublished", "filters"),
    [
        (["plain"], {"g", "v"}, False),
        (["stored"], {"v"}, False),
        (["listed"], {"a", "v"}, False),
        (["filtered"], {"g", "v"}, True),
        (["plain", "stored"], {"v"}, False),
        (["listed", "plain"], {"v"}, False),
        (["filtered", "plain"], {"g", "v"}, False),
    ],
    ids=lambda value: "+".join(sorted(value)) if isinstance(value, list | set) else str(value),
)
def test_what_publications_leave_out(published, publications, unpublished, filters):
    (table, _, _), _ = published(*publications)
    assert set(table.unpublished(None)) == unpublished
    assert table.filters_rows(None) is filters
    assert set(table.unpublished("another")) == {"g", "v"}


@pytest.mark.stack
def test_a_publication_may_be_named(published):
    (table, _, _), first = published("listed", "plain", "filtered")
    assert set(table.unpublished(first)) == {"a", "v"}
    assert not table.filters_rows(first)
    assert table.filters_rows(first.replace("listed", "filtered"))


@pytest.mark.stack
@pytest.mark.parametrize(("publication", "by_partition"), [("by_root", False), ("by_leaf", True)])
def test_partitioned_tables_and_their_partitions(published, publication, by_partition):
    (_, parts, leaf), name = published(publication)
    assert parts.sent_by_partition(None) is by_partition
    assert parts.sent_by_partition(name) is by_partition
    assert not parts.sent_by_partition("another")
    assert [each[1] for each in parts.partitions] == ["leaf"]
    assert leaf.root is not None
    assert leaf.root[1] == "parts"
    assert bool(leaf.publications) is by_partition


@pytest.fixture
def partitioned(postgres_dsn):
    """Makes a table with two leaves, one of them below a partition that is partitioned too."""
    name = f"l{uuid.uuid4().hex}"
    table = TableName("s", name, "parts")

    def make(*statements):
        with psycopg.connect(postgres_dsn, autocommit=True) as connection:
            for each in statements:
                connection.execute(f"SET search_path TO {name}; {each}")
        return read_tables(postgres_dsn, [table])[table]

    with psycopg.connect(postgres_dsn, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {name}")
        make(
            "CREATE TABLE parts (id int, code text NOT NULL, b bytea, PRIMARY KEY (id))"
            " PARTITION BY RANGE (id)"
        )
        yield make
        connection.execute(f"DROP SCHEMA {name} CASCADE")


LEAVES = (
    "CREATE TABLE low PARTITION OF parts FOR VALUES FROM (0) TO (9)",
    "CREATE TABLE middle PARTITION OF parts FOR VALUES FROM (9) TO (20) PARTITION BY RANGE (id)",
    "CREATE TABLE high PARTITION OF middle FOR VALUES FROM (9) TO (15)",
)
FOREIGN = (
    "CREATE FOREIGN DATA WRAPPER none",
    "CREATE SERVER nowhere FOREIGN DATA WRAPPER none",
    "CREATE FOREIGN TABLE far (id int NOT NULL, code text NOT NULL, b bytea) SERVER nowhere",
)


def full(*tables):
    return [f"ALTER TABLE {each} REPLICA IDENTITY FULL" for each in tables]


def plain(table):
    columns = (f"ALTER COLUMN {each} SET STORAGE PLAIN" for each in ("code", "b"))
    return f"ALTER TABLE ONLY {table} {', '.join(columns)}"


@pytest.mark.stack
@pytest.mark.parametrize(
    ("statements", "toasted"),
    [
        ([], {"code", "b"}),
        (full("parts"), set()),
        ([*LEAVES, *full("parts", "middle")], {"code", "b"}),
        ([*LEAVES, *full("low")], {"code", "b"}),
        ([*LEAVES, *full("low", "high")], set()),
        (
            [*LEAVES, *full("low", "high"), "CREATE TABLE n PARTITION OF parts DEFAULT"],
            {"code", "b"},
        ),
        ([*LEAVES, *full("low"), plain("high")], set()),
        ([*LEAVES, plain("parts"), plain("low")], {"code", "b"}),
        (
            [*LEAVES, plain("low"), "ALTER TABLE high ALTER COLUMN b SET STORAGE PLAIN"],
            {"code"},
        ),
        ([*LEAVES, *full("low"), "ALTER TABLE high REPLICA IDENTITY NOTHING"], {"code", "b"}),
    ],
    ids=[
        "no partition",
        "no partition, full",
        "only the table is full",
        "one partition is not",
        "all partitions",
        "a new partition",
        "full or plain",
        "plain in some",
        "plain in all, one column",
        "nothing",
    ],
)
def test_partitions_decide_whether_large_values_are_logged(partitioned, statements, toasted):
    found = partitioned(*statements)
    assert {each.name for each in found.columns if each.may_be_toasted} == toasted
    assert all(each.in_partitions for each in found.columns)


@pytest.mark.stack
@pytest.mark.parametrize(
    ("statements", "is_logged"),
    [(full("parts", "middle"), False), (full("low", "high"), True)],
    ids=["the table is full", "its partitions are"],
)
def test_the_server_logs_large_values_as_the_catalog_is_read(
    postgres_dsn, partitioned, statements, is_logged
):
    large = "(SELECT string_agg(sha256(i::text::bytea), '') FROM generate_series(1, 500) AS i)"
    found = partitioned(*LEAVES, *statements, f"INSERT INTO parts SELECT 1, 'x', {large}")
    (b,) = (each for each in found.columns if each.name == "b")
    assert b.may_be_toasted is not is_logged
    with psycopg.connect(postgres_dsn, autocommit=True) as connection:
        name = connection.execute("SELECT 'w' || txid_current()").fetchone()[0]
        partitioned(
            f"CREATE PUBLICATION {name} FOR TABLE parts WITH (publish_via_partition_root = true)"
        )
        slot = "SELECT pg_create_logical_replication_slot(%s, 'pgoutput')"
        connection.execute(slot, (name,))
        try:
            partitioned("UPDATE parts SET code = 'y'")
            sent = connection.execute(
                "SELECT data FROM pg_logical_slot_get_binary_changes(%s, NULL, NULL,"
                " 'proto_version', '1', 'publication_names', %s)",
                (name, name),
            ).fetchall()
        finally:
            connection.execute("SELECT pg_drop_replication_slot(%s)", (name,))
            connection.execute(f"DROP PUBLICATION {name}")
    (update,) = (data for (data,) in sent if data[:1] == b"U")
    assert (len(update) > 16_000) is is_logged


@pytest.mark.stack
def test_plain_storage_leaves_values_out_of_line_until_the_table_is_rewritten(
    postgres_dsn, partitioned
):
    """The catalog's columns are the same before and after, so the remedy has to say it."""
    partitioned(*LEAVES, "ALTER TABLE parts ALTER COLUMN b SET STORAGE EXTERNAL")
    partitioned("INSERT INTO parts SELECT 1, 'x', decode(repeat('00', 3000), 'hex')")
    before = partitioned("ALTER TABLE parts ALTER COLUMN b SET STORAGE PLAIN")
    assert [each.name for each in before.columns if each.may_be_toasted] == ["code"]
    low = f"{before.partitions[0][0]}.low"
    is_out_of_line = f"SELECT pg_column_toast_chunk_id(b) IS NOT NULL FROM {low}"
    with psycopg.connect(postgres_dsn, autocommit=True) as connection:
        assert connection.execute(is_out_of_line).fetchone() == (True,)
        partitioned("UPDATE parts SET code = 'y'")
        assert connection.execute(is_out_of_line).fetchone() == (True,)
        connection.execute("VACUUM FULL " + low)
        assert connection.execute(is_out_of_line).fetchone() == (False,)
    assert partitioned().columns == before.columns


@pytest.mark.stack
def test_numbers_stay_in_the_page_unless_their_storage_is_another(partitioned):
    found = partitioned(*LEAVES, "ALTER TABLE parts ADD COLUMN n numeric")
    assert {c.name for c in found.columns if c.stays_in_page} == {"n"}
    found = partitioned("ALTER TABLE high ALTER COLUMN n SET STORAGE EXTERNAL")
    assert not any(each.stays_in_page for each in found.columns)
    assert {c.name for c in found.columns if c.may_be_toasted} == {"code", "b", "n"}


@pytest.mark.stack
def test_a_foreign_partition_logs_nothing(partitioned):
    partitioned("ALTER TABLE parts DROP CONSTRAINT parts_pkey", *FOREIGN)
    try:
        attach = "ALTER TABLE parts ATTACH PARTITION far FOR VALUES FROM (30) TO (40)"
        found = partitioned(*LEAVES, attach, *full("low", "high"))
    finally:
        partitioned("DROP FOREIGN DATA WRAPPER none CASCADE")
    assert not any(each.may_be_toasted for each in found.columns)
    assert found.row_identities == (RowIdentity(ReplicaIdentity.FULL),)


@pytest.mark.stack
def test_partitions_decide_which_old_row_is_logged(partitioned):
    found = partitioned(
        *LEAVES,
        "ALTER TABLE parts REPLICA IDENTITY USING INDEX parts_pkey",
        "CREATE UNIQUE INDEX codes ON high (code)",
    )
    assert found.row_identities == (RowIdentity(ReplicaIdentity.DEFAULT),)
    found.require_key_logged(("id",), "here")
    found = partitioned("ALTER TABLE high REPLICA IDENTITY USING INDEX codes")
    kinds = {RowIdentity(ReplicaIdentity.DEFAULT), RowIdentity(ReplicaIdentity.INDEX, ("code",))}
    assert set(found.row_identities) == kinds
    with pytest.raises(TerminalError, match=r"a partition's .* index of \(code\)") as caught:
        found.require_key_logged(("id",), "here")
    assert "each partition" in caught.value.remedy
    found.require_key_logged(("code",), "here")


@pytest.mark.stack
def test_an_unlogged_partition_makes_a_table_unlogged(partitioned):
    assert not partitioned(*LEAVES).is_unlogged
    assert partitioned("ALTER TABLE high SET UNLOGGED").is_unlogged


@pytest.mark.stack
def test_a_database_that_does_not_exist_is_refused_by_its_server(postgres_dsn):
    with pytest.raises(TerminalError, match="does not exist"):
        read_tables(psycopg.conninfo.make_conninfo(postgres_dsn, dbname="nowhere"), [])


@pytest.mark.unit
def test_an_unreachable_database_is_named_without_its_password():
    with pytest.raises(UnreachableError) as caught:
        read_tables(f"postgresql://me:{SECRET}@127.0.0.1:1/shop", [])
    assert "database 127.0.0.1:1/shop" in str(caught.value)
    assert SECRET not in f"{caught.value} {caught.value.__cause__}"


@pytest.mark.unit
def test_a_broken_dsn_is_not_repeated():
    with pytest.raises(ConfigError) as caught:
        read_tables(f"host=127.0.0.1 password {SECRET}", [])
    assert SECRET not in f"{caught.value} {caught.value.__cause__}"
    assert caught.value.__suppress_context__


GROWN = {
    "a": ("int DEFAULT 5", "5"),
    "b": ("text DEFAULT 'it''s'", "it's"),
    "c": ("boolean DEFAULT true", "true"),
    "d": ("real DEFAULT 1.2345678", "1.2345678"),
    "e": ("double precision DEFAULT '-Infinity'", "-Infinity"),
    "f": ("numeric(40,2) DEFAULT 1.5", "1.50"),
    "g": ("bytea DEFAULT '\\x00ff'", "00ff"),
    "h": ("date DEFAULT '2020-02-29'", "2020-02-29"),
    "i": ("timestamptz DEFAULT '2020-02-29 12:00:00.5+02'", "2020-02-29 10:00:00.5+00:00"),
    "j": ("time DEFAULT '10:00'", "36000000000"),
    "k": ("bit(8) DEFAULT B'00000101'", "5"),
    "l": ("date DEFAULT '0044-03-15 BC'", None),
    "m": ("timestamp DEFAULT 'infinity'", None),
    "n": ("time DEFAULT '24:00'", None),
    "o": ("numeric(5,2) DEFAULT 'NaN'", None),
    "p": ("timetz DEFAULT '10:00+02'", None),
    "q": ("interval DEFAULT '1 day'", None),
    "r": ("int[] DEFAULT '{1}'", None),
}


@pytest.mark.stack
def test_what_older_rows_have_is_told_exactly_or_not(postgres_dsn, schema):
    added = ", ".join(f"ADD COLUMN {name} {words}" for name, (words, _) in GROWN.items())
    with psycopg.connect(postgres_dsn, autocommit=True) as connection:
        connection.execute(f'CREATE TABLE "{schema}".grown (id int, gone int)')
        connection.execute(f'INSERT INTO "{schema}".grown VALUES (1)')
        connection.execute(f'ALTER TABLE "{schema}".grown DROP COLUMN gone')
        connection.execute(f'ALTER TABLE "{schema}".grown {added}, ADD COLUMN s text'.encode())
    table = TableName("s", schema, "grown")
    found = read_tables(postgres_dsn, [table])[table]
    columns = found.described(ConnectorModes(time=TimeMode.MICROSECONDS)).exact()
    values = {
        name: told(columns.column(name), facts)
        for name, facts in found.facts.items()
        if name in GROWN
    }
    assert values == {name: value for name, (_, value) in GROWN.items()}
    assert (found.facts["id"], found.facts["s"]) == (ColumnFacts(1), ColumnFacts(len(GROWN) + 3))


def told(column: Column, facts: ColumnFacts) -> str | None:
    assert facts.is_unknown or facts.existing is not None
    return None if facts.existing is None else of_text(facts.existing, column).text
