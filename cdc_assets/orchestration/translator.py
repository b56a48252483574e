"""What Dagster shows of replicated tables, for projects that have their own conventions."""

from __future__ import annotations

from dataclasses import dataclass

import dagster as dg

from cdc_assets.config import ReplicationConfig
from cdc_assets.registry import TableEntry


@dataclass(frozen=True, slots=True)
class TableProps:
    """What a translator is given.

    Attributes:
        config: of the replication.
        entry: the table: its name at the source, its topic, its name in the lake.
        spec: what is shown if nothing is said.
    """

    config: ReplicationConfig
    entry: TableEntry
    spec: dg.AssetSpec


class Translator:
    """Says what Dagster shows of a replicated table. Subclass it and override `get_asset_spec`.

    It is asked often and in several processes: the answer follows from the table's name alone, and
    two tables never have one key. Whatever the key is, everything that is said of the table (its
    runs, checks, observations, its upkeep's parent) is said of this asset. Partitions are ours.
    """

    def get_asset_spec(self, props: TableProps) -> dg.AssetSpec:
        """Key, group, owners, tags, kinds, automation condition, description and metadata.

        >>> class Ours(Translator):
        ...     def get_asset_spec(self, props):
        ...         return props.spec.replace_attributes(
        ...             key=["lake", *props.spec.key.path], owners=["team:data"]
        ...         )
        """
        return props.spec
