"""Every type of a database without configuration: the lake gives the source's values back."""

from __future__ import annotations

import pytest
from cdc_assets_devstack.stack import LocalStack

from cdc_assets.config import ReplicationConfig
from cdc_assets_tests.pipeline import Session
from cdc_assets_tests.stack.given_back import require_given_back
from cdc_assets_tests.stack.kinds import (
    MARIADB,
    MARIADB_SETTINGS,
    MARIADB_TOLD,
    POSTGRES,
    POSTGRES_SETTINGS,
    POSTGRES_TOLD,
    POSTGRES_TYPES,
    Kind,
    Kinds,
    create,
    rows,
)
from cdc_assets_tests.stack.merging import Merging
from cdc_assets_tests.stack.replicated import (
    Replicated,
    new_database,
    new_mariadb_database,
    record_settings,
    replicated,
)
from cdc_assets_tests.toy import profiles

pytestmark = pytest.mark.stack


each_way = pytest.mark.parametrize(
    "records", ["schemas", pytest.param("bare", marks=profiles.in_soak)]
)


@each_way
def test_postgresql(
    stack: LocalStack, stack_config: ReplicationConfig, spark: Session, records: str
) -> None:
    name = f"everytype{records}"
    dsn = new_database(stack, name, *POSTGRES_TYPES, create(POSTGRES), *rows(POSTGRES, 0))
    settings = {**POSTGRES_SETTINGS, **record_settings(stack, records)}
    with replicated(
        stack, stack_config, name, dsn, debezium=settings, connector=POSTGRES_TOLD
    ) as database:
        require_given_back_twice(database, spark, POSTGRES)


@each_way
def test_mariadb(
    stack: LocalStack, stack_config: ReplicationConfig, spark: Session, records: str
) -> None:
    name = f"everytypemy{records}"
    dsn = new_mariadb_database(stack, name, create(MARIADB), *rows(MARIADB, 0))
    settings = {**MARIADB_SETTINGS, **record_settings(stack, records)}
    with replicated(
        stack, stack_config, name, dsn, debezium=settings, connector=MARIADB_TOLD
    ) as database:
        require_given_back_twice(database, spark, MARIADB)


@profiles.in_soak
def test_labels_of_mariadb_that_the_connector_escapes(
    stack: LocalStack, stack_config: ReplicationConfig, spark: Session
) -> None:
    """With schemas, which list them: it writes ``d\\,e`` in changes, and not in its snapshot."""
    kinds = {
        "an_enum": Kind("enum('a','d,e','x\\\\y')", ("'d,e'", "'x\\\\y'", "'a'")),
        "an_int": Kind("int", ("1",)),
        "a_set": Kind("set('p','v\\\\w')", ("'p,v\\\\w'", "'v\\\\w'", "''")),
    }
    dsn = new_mariadb_database(stack, "everylabel", create(kinds), *rows(kinds, 0))
    settings = {**MARIADB_SETTINGS, **record_settings(stack, "schemas")}
    with replicated(
        stack, stack_config, "everylabel", dsn, debezium=settings, connector=MARIADB_TOLD
    ) as database:
        require_given_back_twice(database, spark, kinds)


def require_given_back_twice(database: Replicated, spark: Session, kinds: Kinds) -> None:
    """The rows of the snapshot, and then such rows as changes."""
    merging = Merging(database, spark)
    merging.merge("kinds")
    require_given_back(database, spark, kinds)
    database.execute(*rows(kinds, 100), "UPDATE kinds SET an_int = 7 WHERE id < 100")
    merging.merge("kinds")
    require_given_back(database, spark, kinds)
