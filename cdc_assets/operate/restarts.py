"""`cdc-assets accept-restart` in words."""

from __future__ import annotations

from cdc_assets.changes.names import TableName


def restart_words(table: TableName, restart: str | None, *, dry_run: bool) -> str:
    """What was found, and what was done.

    Args:
        table: whose positions went back.
        restart: where, and both positions; None if nothing shows that they did.
        dry_run: nothing was recorded.
    """
    if restart is None:
        return f"{table}: no restart in what is not merged yet"
    if dry_run:
        return f"{table}: {restart}\n{table}: would be accepted"
    done = f"accepted; `cdc-assets replicate --table {table}` merges what follows as newer"
    return f"{table}: {restart}\n{table}: {done}"
