"""Configures the reactions to changes of a source's columns and tables."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator

from cdc_assets.config.strict import Strict
from cdc_assets.schema.policy import Reaction
from cdc_assets.schema.silent import OnSilent, SilentKind, SilentPolicy

ReactionName = Literal["evolve", "strict", "ignore"]
OnIncompatible = Literal["stop", "new_column"]
OnDropped = Literal["keep", "drop"]
OnRecreated = Literal["stop", "truncate", "keep"]
OnRenamed = Literal["follow", "new"]
OnSilentName = Literal["stop", "mark", "ignore"]


class SchemaChanges(Strict):
    """The reactions to changes of the source's columns; ``mode`` decides the ones not named.

    Attributes:
        mode: reaction to every kind of change that has no own key.
        add: reaction to a new column.
        widen: reaction to a wider type, such as ``int`` to ``bigint``.
        rename: reaction to a rename that the database reports.
        drop: reaction to a dropped column.
        incompatible: reaction to any other type.
    """

    mode: ReactionName = "evolve"
    add: ReactionName | None = None
    widen: ReactionName | None = None
    rename: ReactionName | None = None
    drop: ReactionName | None = None
    incompatible: ReactionName | None = None

    @property
    def reactions(self) -> dict[str, Reaction]:
        """The reactions by kind of change."""
        kinds = ("add", "widen", "rename", "drop", "incompatible")
        return {each: Reaction(getattr(self, each) or self.mode) for each in kinds}


class SilentChanges(Strict):
    """The reactions to rows that changed at the source without events, by kind.

    Attributes:
        cascades: reaction to foreign keys that change rows without a log entry (MySQL, MariaDB).
        unlogged: reaction to changes that neither the log nor a publication has.
        partitions: reaction to rows that came or went with a whole partition.
        rewritten: reaction to a statement that may have changed older rows.
    """

    cascades: OnSilentName = "stop"
    unlogged: OnSilentName = "stop"
    partitions: OnSilentName = "stop"
    rewritten: OnSilentName = "mark"

    @property
    def policy(self) -> SilentPolicy:
        """The reactions."""
        return SilentPolicy({kind: OnSilent(getattr(self, kind.value)) for kind in SilentKind})


def _mode_alone(said: object) -> object:
    return {"mode": said} if isinstance(said, str) else said


def _all_kinds(said: object) -> object:
    return {kind.value: said for kind in SilentKind} if isinstance(said, str) else said


SchemaChangesOrMode = Annotated[
    SchemaChanges, BeforeValidator(_mode_alone, json_schema_input_type=SchemaChanges | ReactionName)
]
"""A mode alone is short for ``{mode: …}``."""

SilentChangesOrOne = Annotated[
    SilentChanges, BeforeValidator(_all_kinds, json_schema_input_type=SilentChanges | OnSilent)
]
"""One reaction alone is that to all kinds."""
