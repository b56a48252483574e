"""Snapshot properties: what one publish says about itself, in the snapshot itself.

They are the only place where offsets are stored. A snapshot carries them in the same commit
that completes its rows, so that rows and offsets cannot part.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from cdc_assets.changes.offsets import OffsetVector
from cdc_assets.changes.position import Floors
from cdc_assets.changes.slo import SloWindow

PREFIX: Final = "cdc-assets."
OFFSETS: Final = PREFIX + "offsets"
ATTEMPT: Final = PREFIX + "attempt"


@dataclass(frozen=True, slots=True)
class Published:
    """What a publish records.

    Attributes:
        offsets: next-to-read offset per partition, after this publish.
        start: the same before it. For a replay both are the vector that it left untouched.
        topic, topic_id, cluster_id: the log that the offsets belong to.
        attempt: unique per try; found in ``main``'s ancestry, the try succeeded.
        run: the Dagster run, for people.
        kind: ``create``, ``tail`` or ``replay``.
        published_at: when the commit was written, aware.
        applied: per partition, the highest position applied, as hexadecimal text.
        partitions: how many partitions the topic had at the table's first publish;
            ``partitions_seen`` at this one.
        floors: where complete snapshots begin, see `cdc_assets.changes.position.floor_at`.
        tombstones: the highest position of a remembered delete, as hexadecimal text.
        truncated: the highest position of a truncate, likewise: older rows are gone for good.
        numbering: how binlog files are numbered, see `cdc_assets.changes.numbering`.
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
    applied: Mapping[int, str] = field(default_factory=dict)
    partitions: int = 0
    partitions_seen: int = 0
    floors: Floors = field(default_factory=dict[int, Sequence[tuple[int, int]]])
    tombstones: str = ""
    truncated: str = ""
    numbering: str = ""
    counts: Mapping[str, int] = field(default_factory=dict)
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
            "applied": _compact({str(p): position for p, position in self.applied.items()}),
            "partitions": str(self.partitions),
            "partitions-seen": str(self.partitions_seen),
            "read-floors": _compact({str(p): list(each) for p, each in self.floors.items()}),
            "tombstones": self.tombstones,
            "truncated": self.truncated,
            "numbering": self.numbering,
            "counts": _compact(dict(self.counts)),
            "slo": self.slo.to_json(),
        }
        return {PREFIX + name: text for name, text in values.items()}

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> Published:
        """Read what `to_properties` wrote.

        Raises:
            KeyError: if this is not the summary of one of our publishes.
        """
        ours = (item for item in properties.items() if item[0].startswith(PREFIX))
        get = {key.removeprefix(PREFIX): text for key, text in ours}
        return cls(
            offsets=OffsetVector.from_json(get["offsets"]),
            start=OffsetVector.from_json(get["start"]),
            topic=get["topic"],
            topic_id=get["topic-id"],
            cluster_id=get["cluster-id"],
            attempt=get["attempt"],
            run=get["run"],
            kind=get["kind"],
            published_at=datetime.fromisoformat(get["published-at"]),
            applied={int(p): position for p, position in json.loads(get["applied"]).items()},
            partitions=int(get["partitions"]),
            partitions_seen=int(get["partitions-seen"]),
            floors=_floors(get["read-floors"]),
            tombstones=get["tombstones"],
            truncated=get["truncated"],
            numbering=get["numbering"],
            counts={name: int(count) for name, count in json.loads(get["counts"]).items()},
            slo=SloWindow.from_json(get["slo"]),
        )


def _floors(text: str) -> Floors:
    said = json.loads(text)
    return {int(p): tuple((begin, lsn) for begin, lsn in each) for p, each in said.items()}


def _compact(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), sort_keys=True)
