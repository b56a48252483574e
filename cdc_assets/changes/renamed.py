"""What has become of the name of a source table."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cdc_assets.changes.offsets import OffsetVector


@dataclass(frozen=True, slots=True)
class Renamed:
    """A table that is called otherwise at its source than where it was first met.

    Attributes:
        schema, name: what it is called now.
        topic: where its changes arrive under this name.
        before: where they arrived under the name before this one.
        end: the next-to-read offsets of that topic, all of which was merged.
    """

    schema: str
    name: str
    topic: str
    before: str
    end: OffsetVector

    def to_dict(self) -> dict[str, str]:
        """For documents."""
        said = {"schema": self.schema, "name": self.name, "topic": self.topic}
        return {**said, "before": self.before, "end": self.end.to_json()}

    @classmethod
    def of_dict(cls, said: Mapping[str, Any]) -> Renamed:
        """The inverse of `to_dict`."""
        end = OffsetVector.from_json(said["end"])
        return cls(said["schema"], said["name"], said["topic"], said["before"], end)

    def to_json(self) -> str:
        """Canonical text."""
        return json.dumps(self.to_dict(), separators=(",", ":"), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Renamed:
        """The inverse of `to_json`."""
        return cls.of_dict(json.loads(text))
