"""Names the kinds of publishes, by the rows that each kind puts into the table."""

from __future__ import annotations

from enum import StrEnum


class PublishKind(StrEnum):
    """The rows that a publish has put into its table. Snapshots store these words."""

    TAIL = "tail"
    """The records after the committed offsets."""
    REPLAY = "replay"
    """Records before the committed offsets: of hours, or from the quarantine."""
    REPAIR = "repair"
    """Rows of the source, where a comparison has found different ones in the lake; offsets stay."""
    RESNAPSHOT = "resnapshot"
    """Rows of the source, where a wave of a re-snapshot found different ones; offsets stay."""
    READ = "read"
    """Rows of the source in a shadow table, which will be swapped in, or in an adopted table."""
    REBUILD = "rebuild"
    """The shadow table's rows, in place of the table's."""
    RENAME = "rename"
    """No rows: the table continues with the topic of its new name."""
