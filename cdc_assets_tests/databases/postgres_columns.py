"""Columns as PostgreSQL's catalog tells them."""

from __future__ import annotations

from typing import Any

from cdc_assets.databases.postgres.columns import PostgresColumn


def column(type_name: str, modifier: int = -1, **more: Any) -> PostgresColumn:
    """One of a type, with what else the catalog has of it."""
    return PostgresColumn("c", type_name, type_name, modifier, **more)


def numeric(precision: int, scale: int) -> PostgresColumn:
    """A ``numeric(p,s)``, with its modifier as PostgreSQL packs it."""
    return column("numeric", ((precision << 16) | (scale & 0x7FF)) + 4)
