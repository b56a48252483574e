"""The key of a new table identifies its rows in every change of them, or the table is refused."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from cdc_assets.changes.names import LakeName, TableName
from cdc_assets.databases.postgres.table import PostgresTable, ReplicaIdentity
from cdc_assets.errors import TerminalError
from cdc_assets.formats.sample import Sample
from cdc_assets.merge.intake.replicable import keyed, require_in_one_partition
from cdc_assets.registry import TableEntry
from cdc_assets.schema.described import Described
from cdc_assets.schema.types import Column, Primitive, Wire

pytestmark = pytest.mark.unit

NAMES = ("tenant", "id", "email")
ENTRY = TableEntry(
    TableName("s", "public", "users"), "s.public.users", LakeName("l", "users"),
    datetime(2026, 1, 1, tzinfo=UTC),
)  # fmt: skip
BY_ID = PostgresTable((), ("id",), ReplicaIdentity.DEFAULT, "")
FULL = replace(BY_ID, replica_identity=ReplicaIdentity.FULL)
BY_INDEX = replace(BY_ID, replica_identity=ReplicaIdentity.INDEX, identity_key=("email",))
KEYLESS = replace(BY_ID, primary_key=())


def described(*required: str, key: tuple[str, ...] = ()) -> Described:
    columns = (Column(n, Primitive.STRING, Wire.STRING, required=n in required) for n in NAMES)
    return Described(tuple(columns), key)


def sample(*key: str, with_schema: bool = False) -> Sample:
    keys = (dict.fromkeys(key, "x"),) if key else ()
    source = {"connector": "postgresql", "lsn": 1, "sequence": '["1","2"]'}
    table = described("id") if with_schema else None
    return Sample(1, 1, (), has_row=True, keys=keys, sources=(source,), dialect="", described=table)


@pytest.mark.parametrize(
    ("table", "key", "wanted"),
    [
        (BY_ID, ("id",), ("id",)),
        (BY_ID, ("email",), ("id",)),
        (BY_ID, ("tenant", "id"), ("id",)),
        (BY_ID, ("ID",), ("id",)),
        (BY_ID, ("id", "__dbz__physicalTableIdentifier"), ("id",)),
        (replace(BY_ID, primary_key=("tenant", "id")), ("id",), ("tenant", "id")),
        (replace(BY_ID, primary_key=("tenant", "id")), ("id", "tenant"), ("id", "tenant")),
        (BY_ID, (), ("id",)),
        (BY_INDEX, ("email",), ("email",)),
        (BY_INDEX, ("tenant",), ("id",)),
        (KEYLESS, ("email",), ("email",)),
        (None, ("email",), ("email",)),
        (None, (), ()),
    ],
    ids=["its own", "another", "more", "renamed", "a router's", "a part", "in another order",
         "none", "an identity's", "no identity's", "a keyless table's", "without a catalog",
         "nothing"],
)  # fmt: skip
def test_the_primary_key_of_the_catalog_is_the_tables(
    table: PostgresTable | None, key: tuple[str, ...], wanted: tuple[str, ...]
) -> None:
    assert keyed(ENTRY, described(), sample(*key), table).key == wanted


@pytest.mark.parametrize("key", [("id", "shard"), ("ID",)])
def test_a_key_with_a_field_that_no_row_has_is_refused(key: tuple[str, ...]) -> None:
    with pytest.raises(TerminalError, match="which no row has") as caught:
        keyed(ENTRY, described(), sample(*key), None)
    assert "primary_key" in str(caught.value)


def test_a_key_that_may_be_null_is_no_primary_key_of_postgresql() -> None:
    with pytest.raises(TerminalError, match="updates and deletes do not tell it without"):
        keyed(ENTRY, described("id"), sample("email", with_schema=True), None)
    assert keyed(ENTRY, described("id"), sample("id", with_schema=True), None).key == ("id",)
    whole = replace(KEYLESS, replica_identity=ReplicaIdentity.FULL)
    told = keyed(ENTRY, described("id"), sample("email", with_schema=True), whole)
    assert told.key == ("email",), "the catalog says that the row before an update is logged"


def test_a_key_that_may_be_null_may_be_that_of_several_rows_of_mysql() -> None:
    source = {"connector": "mysql", "file": "bin.000001", "pos": 4}
    of_mysql = replace(sample("email", with_schema=True), sources=(source,))
    with pytest.raises(TerminalError, match="several rows may have one of its values") as caught:
        keyed(ENTRY, described("id"), of_mysql, None)
    assert "primary_key" in str(caught.value)
    assert keyed(ENTRY, described("email"), of_mysql, None).key == ("email",)
    guessed = replace(of_mysql, described=None)
    assert keyed(ENTRY, described("id"), guessed, None).key == ("email",)


def test_a_row_that_is_deleted_and_created_in_two_partitions_is_refused() -> None:
    with pytest.raises(TerminalError, match="in no order"):
        require_in_one_partition(ENTRY, sample("email"), FULL, 2)
    require_in_one_partition(ENTRY, sample("email"), FULL, 1)
    require_in_one_partition(ENTRY, sample("id"), FULL, 2)
    require_in_one_partition(ENTRY, sample("email"), BY_ID, 2)
    require_in_one_partition(ENTRY, sample("email"), None, 2)
