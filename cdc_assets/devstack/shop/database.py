"""The shop's database, of whichever kind its DSN says."""

from __future__ import annotations

from cdc_assets.devstack.shop.dialect import Shop
from cdc_assets.devstack.shop.mariadb import MariaDBShop
from cdc_assets.devstack.shop.postgres import PostgresShop
from cdc_assets.devstack.shop.stock import TABLES

__all__ = ["TABLES", "prepare_shop", "shop_at"]


def shop_at(dsn: str) -> Shop:
    """The shop in a database: ``mysql://…`` is MariaDB's, anything else PostgreSQL's."""
    return MariaDBShop(dsn) if dsn.startswith("mysql://") else PostgresShop(dsn)


def prepare_shop(dsn: str, seed: int = 7) -> tuple[str, ...]:
    """Create and fill the database of a DSN. The same seed gives the same rows.

    All tables and rows appear at once: an interrupted call leaves nothing behind, or what the
    next call does away with, and a second call changes nothing. A shop that is there is left as
    people have altered it: tables made anew would bring old ids back, for which the lake may
    have other rows.

    Returns:
        The shop's tables that are missing.
    """
    return shop_at(dsn).prepare(seed)
