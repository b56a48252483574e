"""Finds and prepares the shop's database, of the kind that its DSN names."""

from __future__ import annotations

from cdc_assets_devstack.shop.dialect import Shop
from cdc_assets_devstack.shop.mariadb import MariaDBShop
from cdc_assets_devstack.shop.postgres import PostgresShop
from cdc_assets_devstack.shop.stock import TABLES

__all__ = ["TABLES", "prepare_shop", "shop_at"]


def shop_at(dsn: str) -> Shop:
    """Returns the shop in a database: ``mysql://…`` is MariaDB, anything else PostgreSQL."""
    return MariaDBShop(dsn) if dsn.startswith("mysql://") else PostgresShop(dsn)


def prepare_shop(dsn: str, seed: int = 7) -> tuple[str, ...]:
    """Creates and fills the database of a DSN. The same seed gives the same rows.

    All tables and rows appear at once: an interrupted call leaves nothing behind, or only what the
    next call removes, and a second call changes nothing. An existing shop stays as people have
    altered it: new tables would reuse old ids, for which the lake may have other rows.

    Returns:
        The shop's tables that are missing.
    """
    return shop_at(dsn).prepare(seed)
