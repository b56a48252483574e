"""A pipeline of one table, keyed by ``id``: its messages merged, its names read back."""

from __future__ import annotations

from collections.abc import Callable

from cdc_assets.operations.accept_restart.desk import RestartDesk
from cdc_assets_tests.command import run_command
from cdc_assets_tests.operated import session_of
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
    desk = RestartDesk(session_of(made.config, made.entry(TABLE), made.spark))
    found = desk.restart()
    if found is not None:
        desk.accept(found)
    return found.text if found else None


def accept_restart(made: Pipeline, table: str, *, dry_run: bool) -> str:
    """The command; what it prints."""
    path = made.config.path
    assert path is not None
    dry = ["--dry-run"] if dry_run else []
    done = run_command(path.parent, "accept-restart", table, *dry, config=path)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()
