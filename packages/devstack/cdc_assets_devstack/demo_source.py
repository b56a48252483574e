"""Describes the demo's source: the shop's server, its connector, and all that depends on them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import assert_never

from cdc_assets_devstack import jars
from cdc_assets_devstack.shop.connector import (
    CONNECTOR,
    EXACT,
    EXACT_DATES,
    EXACT_NUMBERS,
    MARIADB_CONNECTOR,
    connector_config,
    mariadb_connector_config,
    signal_settings,
)
from cdc_assets_devstack.shop.database import prepare_shop
from cdc_assets_devstack.stack import LocalStack

SHOP = "shop"


class Server(StrEnum):
    """The part of the stack that has the shop."""

    POSTGRES = "postgres"
    MARIADB = "mariadb"


@dataclass(frozen=True, slots=True)
class DemoSource:
    """A shop, its server and its connector.

    Attributes:
        server: the name of the part.
        address: the part's address.
        dsn: the shop's DSN.
        connector: the name of the connector, of its source and of its topics' prefix.
        settings: the connector's settings.
        schema: the schema of the shop's tables, as topics and assets name it.
        opened_by: the arguments of the command that opens the server's shell.
        invited: statements to try there, each with its effect in Dagster.
    """

    server: Server
    address: str
    dsn: str = field(repr=False)
    connector: str
    settings: Mapping[str, str]
    schema: str
    opened_by: str
    invited: Mapping[str, str]

    @property
    def parts(self) -> tuple[str, ...]:
        """The parts of the stack that it needs."""
        return (self.server.value, "kafka", "connect", "spark")

    @property
    def jars(self) -> tuple[str, ...]:
        """The parts whose jars must be installed."""
        return (*jars.PARTS, *(part for part in jars.OPTIONAL_PARTS if part == self.server))

    def prepare(self, stack: LocalStack) -> tuple[str, ...]:
        """Creates the shop and registers its connector; returns the shop's missing tables."""
        missing = prepare_shop(self.dsn)
        if self.server is Server.MARIADB:
            stack.mariadb.let_capture(SHOP)
        stack.register_connector(self.connector, self.settings)
        return missing


def demo_source(server: Server, stack: LocalStack) -> DemoSource:
    """Returns the demo's source in a server of the stack."""
    layout = stack.layout
    match server:
        case Server.POSTGRES:
            return DemoSource(
                server=server,
                address=f"PostgreSQL at {stack.postgres.address}",
                dsn=stack.postgres.dsn(SHOP),
                connector=CONNECTOR,
                settings={
                    **connector_config(layout),
                    **EXACT,
                    **EXACT_NUMBERS,
                    **signal_settings(layout, CONNECTOR),
                },
                schema="public",
                opened_by=f"stack psql {SHOP}",
                invited={
                    "ALTER TABLE products ADD COLUMN rating int DEFAULT 10": (
                        "a column, with 10 in all rows"
                    ),
                    "ALTER TABLE customers RENAME COLUMN email TO mail": (
                        "the column by its new name, values and history kept"
                    ),
                    "ALTER TABLE products ALTER COLUMN price TYPE numeric(14,2)": (
                        "a wider column"
                    ),
                    "ALTER TABLE orders DROP COLUMN promised_for": (
                        "the column stays, and is emptied in the rows that change"
                    ),
                    "ALTER TABLE inventory ALTER COLUMN on_hand TYPE text": (
                        "the table stops with an error, the other tables continue"
                    ),
                },
            )
        case Server.MARIADB:
            return DemoSource(
                server=server,
                address=f"MariaDB at {stack.mariadb.address}",
                dsn=stack.mariadb.dsn(SHOP),
                connector=MARIADB_CONNECTOR,
                # With schemas: there is no catalog yet that tells MariaDB's types exactly.
                settings={
                    **mariadb_connector_config(layout),
                    **EXACT,
                    **EXACT_DATES,
                    **signal_settings(layout, MARIADB_CONNECTOR),
                },
                schema=SHOP,
                opened_by=f"stack mariadb {SHOP}",
                invited={
                    "ALTER TABLE products ADD COLUMN rating int DEFAULT 10": (
                        "a column, with 10 in all rows"
                    ),
                    "ALTER TABLE products MODIFY price decimal(14,2) NOT NULL": "a wider column",
                    "ALTER TABLE orders DROP COLUMN promised_for": (
                        "the column stays, and is emptied in the rows that change"
                    ),
                    "CREATE TABLE notes (id int PRIMARY KEY, text text)": (
                        "an asset and an Iceberg table, once it has a row"
                    ),
                    "ALTER TABLE inventory MODIFY on_hand text": (
                        "the table stops with an error, the other tables continue"
                    ),
                },
            )
        case _:
            assert_never(server)
