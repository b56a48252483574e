"""A database whose connector takes no snapshot, and whose tables are read from it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from cdc_assets_devstack.stack import LocalStack

from cdc_assets.config import ReplicationConfig
from cdc_assets.lake import Lake, TableState
from cdc_assets.operate.own_tables import shadow_name
from cdc_assets.operations.rebuild.first_read import FirstRead
from cdc_assets.registry import TableEntry
from cdc_assets_tests.operated import session_of
from cdc_assets_tests.pipeline import Session
from cdc_assets_tests.stack.read_beside import SIZES, Kind
from cdc_assets_tests.stack.replicated import Replicated, replicated

NO_SNAPSHOT = {"snapshot.mode": "no_data"}


@contextmanager
def unread(
    stack: LocalStack,
    base: ReplicationConfig,
    name: str,
    kind: Kind,
    debezium: Mapping[str, str] = NO_SNAPSHOT,
    **source: object,
) -> Iterator[Replicated]:
    """A database of a kind behind a connector, of which nothing is in the lake yet."""
    dsn = kind.make(stack, name)
    said = {
        "initial": "read",
        "topics": {"include": [rf"{name}\..*"], "prefix": name},
        "verify": kind.verify,
        "resnapshot": SIZES,
        **source,
    }
    with replicated(stack, base, name, dsn, debezium=debezium, **said) as database:
        yield database


def read(
    database: Replicated, spark: Session, table: str = "ledger", entry: TableEntry | None = None
) -> None:
    """Reads a table for the first time, or goes on with that, in this process."""
    session = session_of(database.config, entry or database.entry(table), spark)
    for _ in FirstRead(session).steps():
        pass


def target(database: Replicated, table: str = "ledger") -> TableState | None:
    """The lake table as readers see it; None if there is none."""
    return Lake(database.config).state(database.entry(table).target)


def shadow(database: Replicated, table: str = "ledger") -> TableState | None:
    """The table that is filled meanwhile."""
    return Lake(database.config).state(shadow_name(database.entry(table), 0))
