"""`cdc-assets accept-restart` in words."""

from __future__ import annotations

from collections.abc import Sequence

from cdc_assets.changes.names import TableName


def restart_words(table: TableName, found: Sequence[str], *, dry_run: bool) -> str:
    """What was found, and what was done.

    Args:
        table: whose source may have begun again.
        found: that another table has its name, and where its positions went back, with both.
        dry_run: nothing was recorded.
    """
    if not found:
        return f"{table}: no restart in what is not merged yet"
    done = f"accepted; `cdc-assets replicate --table {table}` merges what follows as newer"
    lines = [*found, "would be accepted" if dry_run else done]
    return "\n".join(f"{table}: {line}" for line in lines)
