"""Snapshot properties: what one publish says about itself, in the snapshot itself.

They are the only place where offsets are stored. A snapshot carries them in the same commit
that completes its rows, so that rows and offsets cannot part.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from cdc_assets.changes.offsets import OffsetVector
from cdc_assets.changes.slo import SloWindow
from cdc_assets.lake.carried import PROPERTY as CARRIED
from cdc_assets.lake.carried import Carried

PREFIX: Final = "cdc-assets."
OFFSETS: Final = PREFIX + "offsets"
ATTEMPT: Final = PREFIX + "attempt"
ACCEPTED_RESTART: Final = PREFIX + "accepted-restart"
"""Of the table, not of a snapshot: `cdc_assets.changes.restarts.Permit`."""


@dataclass(frozen=True, slots=True)
class Published:
    """What a publish records.

    Attributes:
        offsets: next-to-read offset per partition, after this publish.
        start: the same before it. For a replay both are the vector that it left untouched.
        topic, topic_id, cluster_id: the log that the offsets belong to.
        attempt: unique per try; found in ``main``'s ancestry, the try succeeded.
        run: the Dagster run, for people.
        kind: ``tail`` or ``replay``.
        published_at: when the commit was written, aware.
        carried: what the next batch must know.
        counts: records, inserted, updated, deleted and others, of this publish.
        slo: latencies of the hours that the SLO looks at, this publish included.
    """

    offsets: OffsetVector
    start: OffsetVector
    topic: str
    topic_id: str
    cluster_id: str
    attempt: str
    run: str
    kind: str
    published_at: datetime
    carried: Carried = field(default_factory=Carried)
    counts: Mapping[str, int] = field(default_factory=dict[str, int])
    slo: SloWindow = field(default_factory=SloWindow)

    def to_properties(self) -> dict[str, str]:
        """As text, with our prefix."""
        values = {
            "offsets": self.offsets.to_json(),
            "start": self.start.to_json(),
            "topic": self.topic,
            "topic-id": self.topic_id,
            "cluster-id": self.cluster_id,
            "attempt": self.attempt,
            "run": self.run,
            "kind": self.kind,
            "published-at": self.published_at.astimezone(UTC).isoformat(timespec="milliseconds"),
            CARRIED: self.carried.to_json(),
            "counts": json.dumps(dict(self.counts), separators=(",", ":"), sort_keys=True),
            "slo": self.slo.to_json(),
        }
        return {PREFIX + name: text for name, text in values.items()}

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> Published:
        """Reads what `to_properties` wrote, of this version or an older one.

        Raises:
            KeyError: if this is not the summary of one of our publishes.
            TerminalError: if a newer version wrote what this one must not overlook.
        """
        ours = (item for item in properties.items() if item[0].startswith(PREFIX))
        get = {key.removeprefix(PREFIX): text for key, text in ours}
        carried = get.get(CARRIED)
        return cls(
            offsets=OffsetVector.from_json(get["offsets"]),
            start=OffsetVector.from_json(get["start"]),
            topic=get["topic"],
            topic_id=get["topic-id"],
            cluster_id=get["cluster-id"],
            attempt=get["attempt"],
            run=get.get("run", ""),
            kind=get.get("kind", "tail"),
            published_at=datetime.fromisoformat(get["published-at"]),
            carried=Carried.from_0_1(get) if carried is None else Carried.from_json(carried),
            counts={name: int(n) for name, n in json.loads(get.get("counts", "{}")).items()},
            slo=SloWindow.from_json(get.get("slo", "{}")),
        )
