"""A pipeline of one table, keyed by ``id``: its messages merged, its names read back."""

from __future__ import annotations

from collections.abc import Callable

from cdc_assets.merge.accepting import RestartDesk
from cdc_assets.merge.replicate import utc_now
from cdc_assets_tests.pipeline import Message, Pipeline

Make = Callable[..., Pipeline]
TABLE = "public.t"


def start(pipeline: Make, *messages: Message, partitions: int = 1, **source: object) -> Pipeline:
    made = pipeline(**source)
    made.create_topic(TABLE, partitions)
    made.produce(TABLE, messages)
    made.merge(TABLE)
    return made


def names(pipeline: Pipeline) -> dict[object, object]:
    return {key: row["name"] for key, row in pipeline.by_key(TABLE).items()}


def accept(made: Pipeline) -> str | None:
    """What a person does; the restart in words."""
    desk = RestartDesk(made.config, made.spark, clock=utc_now)
    found = desk.restart(made.entry(TABLE))
    if found is not None:
        desk.accept(made.entry(TABLE), found)
    return found.text if found else None
