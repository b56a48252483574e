"""Looks at keys one by one, and puts their rows right as their source has them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cdc_assets.databases.rows import SourceRows
from cdc_assets.merge.verifying.judging import DifferenceKind
from cdc_assets.merge.verifying.verification import Verification
from cdc_assets.registry import TableEntry
from cdc_assets.schema.comparing import Key


@dataclass(frozen=True, slots=True)
class SettledKeys:
    """The outcome for the keys.

    Attributes:
        put: the number of keys that were put right, or removed.
        removed: the number of keys that the source does not have.
        left: the number of keys that were not proven, or cannot be put right.
        why: the reason why keys were not proven.
    """

    put: int = 0
    removed: int = 0
    left: int = 0
    why: str = ""


def repair_keys(
    verification: Verification,
    entry: TableEntry,
    source: SourceRows,
    keys: Sequence[Key],
    looks: int,
    say: Callable[[str], None],
) -> SettledKeys:
    """Judges keys until each of them is right, or until they were looked at so often.

    A key may change once more between being judged and being put right, or at each look.
    """
    done = SettledKeys()
    for _ in range(looks):
        if not keys:
            break
        found = verification.of_keys(entry, source, keys)
        gone = sum(each.kind is DifferenceKind.ONLY_IN_LAKE for each in found.differences)
        left = found.not_judged + len(found.differences) - found.repaired
        removed = done.removed + (gone if found.repaired == len(found.differences) else 0)
        done = SettledKeys(done.put + found.repaired, removed, left, found.why)
        if not left:
            break
        say(f"{left} keys changed before they were put right: looking again")
    return done
