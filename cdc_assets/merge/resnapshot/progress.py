"""The progress of reading a table again, kept between waves.

Each wave can be done again without harm, so what is kept only saves work. It holds the key that the
next wave begins with.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from typing import Any, Final

from cdc_assets.merge.resnapshot.comparing import State
from cdc_assets.merge.resnapshot.wave import Done
from cdc_assets.schema.comparing import Key

VERSION = 1
MOST: Final = 10_000
"""So many keys are kept to be looked at one by one."""


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress with one table.

    Attributes:
        begun: when, aware.
        key: names of the table's key columns, by which it is read.
        generation: how often the table had been built anew.
        next: the key that the next wave begins with; None for the first one.
        attempt: of the newest publish, by which a table that was taken back is noticed.
        waves: that are done.
        rows: that the source had.
        counts: keys by state.
        put: keys that were put in or removed.
        doubtful: keys to be looked at one by one at the end.
        unnamed: how many more there are, beyond what is kept.
        in_doubt: ids of the silent changes that the table remembered when it was begun.
    """

    begun: datetime
    key: tuple[str, ...]
    generation: int
    next: Key | None = None
    attempt: str = ""
    waves: int = 0
    rows: int = 0
    counts: Mapping[str, int] = field(default_factory=dict[str, int])
    put: int = 0
    doubtful: tuple[Key, ...] = ()
    unnamed: int = 0
    in_doubt: tuple[str, ...] = ()

    def after(self, wave: Done) -> Progress:
        """Returns it with one wave more."""
        named = len(wave.compared.doubtful) + len(wave.overtaken)
        states = self.counts.keys() | wave.compared.counts.keys()
        counts = {
            each: self.counts.get(each, 0) + wave.compared.counts.get(each, 0) for each in states
        }
        return replace(
            self,
            next=wave.end,
            attempt=wave.attempt or self.attempt,
            waves=self.waves + 1,
            rows=self.rows + wave.compared.rows,
            counts=counts,
            put=self.put + wave.put,
            doubtful=(*self.doubtful, *wave.compared.doubtful, *wave.overtaken)[:MOST],
            unnamed=self.unnamed
            + wave.compared.counts.get(State.DOUBTFUL, 0)
            - len(wave.compared.doubtful)
            + max(0, len(self.doubtful) + named - MOST),
        )

    def to_json(self) -> str:
        """Returns it as a document."""
        said = asdict(self) | {"begun": self.begun.isoformat(), "version": VERSION}
        return json.dumps(said)

    @classmethod
    def from_json(cls, text: str) -> Progress:
        """Reads what `to_json` wrote.

        Raises:
            ValueError: if it is none, or another version's.
            KeyError, TypeError: likewise.
        """
        said: dict[str, Any] = json.loads(text)
        if said.pop("version") != VERSION:
            msg = "another version wrote it"
            raise ValueError(msg)
        said["begun"] = datetime.fromisoformat(said["begun"])
        said["key"], said["next"] = tuple(said["key"]), said["next"] and tuple(said["next"])
        said["in_doubt"] = tuple(said.get("in_doubt", ()))
        said["doubtful"] = tuple(map(tuple, said["doubtful"]))
        return cls(**said)
