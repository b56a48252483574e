"""Asks about several positions in one topic: tables may share a topic at different positions."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import TypeVar

from cdc_assets.changes.offsets import OffsetVector

Key = TypeVar("Key", bound=Hashable)
Answer = TypeVar("Answer")


def in_rounds(
    wanted: Mapping[Key, tuple[str, OffsetVector]],
    ask: Callable[[Mapping[str, OffsetVector]], Mapping[str, Answer]],
) -> dict[Key, Answer]:
    """Returns the answer for each position; one request covers positions in different topics.

    Args:
        wanted: topic and position of each.
        ask: answers by topic, about one position in each.
    """
    found: dict[Key, Answer] = {}
    left = dict(wanted)
    while left:
        asked: dict[str, OffsetVector] = {}
        now = {k: t for k, (t, at) in left.items() if asked.setdefault(t, at) == at}
        answers = ask(asked)
        found |= {key: answers[topic] for key, topic in now.items() if topic in answers}
        left = {key: each for key, each in left.items() if key not in now}
    return found
