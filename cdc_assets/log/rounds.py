"""Asks about several positions in one topic: tables may share a topic, and be at other places."""

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
    """The answer for each position, asking for as many at once as lie in different topics.

    Args:
        wanted: topic and position of each.
        ask: by topic, about one position in it.
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
