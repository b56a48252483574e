"""Formats the result of `cdc-assets accept-restart`."""

from __future__ import annotations

from collections.abc import Sequence

from cdc_assets.changes.names import TableName


def restart_words(table: TableName, found: Sequence[str], *, dry_run: bool) -> str:
    """Says what was found and done.

    Args:
        table: the table whose source may have restarted.
        found: the findings: another table of its name, and each place where its positions went
            back, with both positions.
        dry_run: whether nothing was recorded.
    """
    if not found:
        return f"{table}: no restart in what is not merged yet"
    done = f"accepted; `cdc-assets replicate --table {table}` merges what follows as newer"
    lines = [*found, "would be accepted" if dry_run else done]
    return "\n".join(f"{table}: {line}" for line in lines)
