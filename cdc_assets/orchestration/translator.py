"""Lets projects with their own conventions decide how Dagster shows replicated tables."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import dagster as dg

from cdc_assets.config import ReplicationConfig
from cdc_assets.registry import TableEntry


@dataclass(frozen=True, slots=True)
class TableProps:
    """The input of a translator.

    Attributes:
        config: the replication's configuration.
        entry: the table: its name at the source, its topic, its name in the lake.
        spec: the default asset spec.
    """

    config: ReplicationConfig
    entry: TableEntry
    spec: dg.AssetSpec


class Translator:
    """The base class of translators. Subclass it and override `get_asset_spec`, or `execute`.

    `get_asset_spec` is called often and in several processes: its result must follow from the
    table's name alone, and two tables must never have the same key. Everything that concerns the
    table (its runs, checks, observations, the parent of its upkeep) belongs to the asset with this
    key.
    Partitions cannot be changed.
    """

    def get_asset_spec(self, props: TableProps) -> dg.AssetSpec:
        """Returns key, group, owners, tags, kinds, automation condition, description and metadata.

        >>> class Ours(Translator):
        ...     def get_asset_spec(self, props):
        ...         return props.spec.replace_attributes(
        ...             key=["lake", *props.spec.key.path], owners=["team:data"]
        ...         )
        """
        return props.spec

    def execute(self, context: dg.AssetExecutionContext, events: Iterator[Any]) -> Iterator[Any]:
        """Yields the events of a table's step; the table is merged while they are taken.

        Override it to do something before or after, or to add metadata to events. It runs in the
        process of the step. An error of it is one of the step; what was merged stays merged.

        >>> class Ours(Translator):
        ...     def execute(self, context, events):
        ...         with our_tracing(context.asset_key):
        ...             yield from events
        """
        yield from events
