"""Records the new name of a source table that was renamed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cdc_assets.changes.offsets import OffsetVector


@dataclass(frozen=True, slots=True)
class RenamedTable:
    """A table whose name at its source has changed since discovery.

    Attributes:
        schema, name: the table's present name.
        topic: the topic of its changes under this name.
        before: the topic of its changes under the previous name.
        end: the next-to-read offsets at the end of the topic ``before``; everything before the end
            was merged.
        topic_id: the id of the topic ``before``: if that topic is recreated, all its records are
            another table's. Empty if an earlier version noted the end.
    """

    schema: str
    name: str
    topic: str
    before: str
    end: OffsetVector
    topic_id: str = ""

    def to_dict(self) -> dict[str, str]:
        """Returns the content as a dict, for documents."""
        said = {"schema": self.schema, "name": self.name, "topic": self.topic}
        said |= {"before": self.before, "end": self.end.to_json()}
        return {**said, "topic_id": self.topic_id} if self.topic_id else said

    @classmethod
    def of_dict(cls, said: Mapping[str, Any]) -> RenamedTable:
        """Reads what `to_dict` returned."""
        end = OffsetVector.from_json(said["end"])
        topic_id = said.get("topic_id", "")
        return cls(said["schema"], said["name"], said["topic"], said["before"], end, topic_id)

    def to_json(self) -> str:
        """Returns canonical text."""
        return json.dumps(self.to_dict(), separators=(",", ":"), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> RenamedTable:
        """Reads what `to_json` wrote."""
        return cls.of_dict(json.loads(text))
