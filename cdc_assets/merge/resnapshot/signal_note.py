"""The note kept about a signalled snapshot, from before the signal is sent to the end."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from cdc_assets.changes.offsets import OffsetVector
from cdc_assets.log.signalling import SignalEnds

VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class SignalNote:
    """The note about one table.

    Attributes:
        id: of the signal.
        begun: when it was about to be sent, aware.
        topic: id of the table's topic.
        since: where that ended then: whatever the snapshot sends lies behind.
        ends: where the topics of signals and notifications ended then.
    """

    id: str
    begun: datetime
    topic: str
    since: OffsetVector
    ends: SignalEnds

    def to_json(self) -> str:
        """Returns it as a document."""
        return json.dumps({
            "version": VERSION,
            "id": self.id,
            "begun": self.begun.isoformat(),
            "topic": self.topic,
            "since": self.since.to_json(),
            "signals": self.ends.signals,
            "notices": self.ends.notices.to_json(),
        })  # fmt: skip

    @classmethod
    def from_json(cls, text: str) -> SignalNote:
        """Reads what `to_json` wrote.

        Raises:
            ValueError: if it is none, or another version's.
            KeyError, TypeError: likewise.
        """
        said: dict[str, Any] = json.loads(text)
        if said["version"] != VERSION:
            msg = "another version wrote it"
            raise ValueError(msg)
        ends = SignalEnds(int(said["signals"]), OffsetVector.from_json(said["notices"]))
        return cls(
            str(said["id"]),
            datetime.fromisoformat(said["begun"]),
            str(said["topic"]),
            OffsetVector.from_json(said["since"]),
            ends,
        )
