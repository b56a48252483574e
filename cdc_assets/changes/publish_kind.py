"""Names the kinds of publishes, by what they have put into the table."""

from __future__ import annotations

from enum import StrEnum


class PublishKind(StrEnum):
    """What a publish has put into its table. The words are stored in snapshots."""

    TAIL = "tail"
    """The records after the committed offsets."""
    REPLAY = "replay"
    """Records before the committed offsets: of hours, or from the quarantine."""
    REPAIR = "repair"
    """Rows of the source where a comparison with it has found others; offsets stay."""
    RESNAPSHOT = "resnapshot"
    """Rows of the source where a wave of a re-snapshot has found others; offsets stay."""
    READ = "read"
    """Rows of the source in a table beside, which is there to be swapped in."""
    REBUILD = "rebuild"
    """The rows of a table beside, in place of the table's."""
    RENAME = "rename"
    """No rows: the table goes on with the topic of its new name."""
