"""The values that the log returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from zlib import crc32

from cdc_assets.changes.offsets import Coordinate, OffsetVector
from cdc_assets.errors import CdcError


@dataclass(frozen=True, slots=True)
class TopicIdentity:
    """The identity of a topic's offsets: a recreated topic or cluster has another identity.

    ``topic_id`` is empty for a topic that does not exist yet: all of its records are still to come.
    """

    cluster_id: str
    topic_id: str


@dataclass(frozen=True, slots=True)
class Watermarks:
    """The log's bounds, per partition: first offset kept, and next-to-read after the last.

    ``end`` is the *last stable offset*: records of open transactions are at or after it.
    """

    begin: OffsetVector
    end: OffsetVector


@dataclass(frozen=True, slots=True)
class Bounds:
    """The watermarks of topics; ``problems``: why those of the other topics cannot be read.

    Topics that do not exist are in neither.
    """

    marks: Mapping[str, Watermarks] = field(default_factory=dict[str, Watermarks])
    problems: Mapping[str, CdcError] = field(default_factory=dict[str, CdcError])


Headers = tuple[tuple[str, bytes | None], ...]
"""A record's headers, in order; a name may occur several times."""


@dataclass(frozen=True, slots=True)
class RawRecord:
    """One record as stored in the log; ``timestamp`` is aware.

    A record that is too large to be read has an empty value: it is unreadable, and no tombstone.
    """

    coordinate: Coordinate
    timestamp: datetime
    key: bytes | None
    value: bytes | None
    headers: Headers = ()

    @property
    def size(self) -> int:
        """Bytes of key, value and headers."""
        headers = sum(len(name) + len(value or b"") for name, value in self.headers)
        return len(self.key or b"") + len(self.value or b"") + headers

    @property
    def digest(self) -> int:
        """A 32-bit checksum, by which a different record at the same offset is detected."""
        head = f"{self.timestamp.timestamp():.3f} {len(self.key or b'')} "
        return crc32(self.value or b"", crc32(self.key or b"", crc32(head.encode())))

    def within(self, most_bytes: int) -> RawRecord:
        """Returns the record, without its content if key and value together exceed a size."""
        key, value = self.key or b"", self.value or b""
        if len(key) + len(value) <= most_bytes:
            return self
        fits = self.key is not None and len(key) <= most_bytes
        return replace(self, key=self.key if fits else None, value=b"", headers=())
