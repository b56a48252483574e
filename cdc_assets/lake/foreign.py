"""Reads the parts of a lake table that matter when the table was made by another program."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyiceberg.manifest import DataFileContent, ManifestContent
from pyiceberg.table import Table
from pyiceberg.transforms import VoidTransform


@dataclass(frozen=True, slots=True)
class ForeignTable:
    """The layout, the references and the delete files of a table.

    Attributes:
        partitioned_by: the names of the columns whose values make its present partitions, by the
            names of the partition fields.
        refs: the names of its branches and tags, ``main`` excluded.
        equality_deletes: the number of files with equality deletes at the head of ``main``.
    """

    partitioned_by: Mapping[str, str]
    refs: tuple[str, ...]
    equality_deletes: int


def read_foreign(table: Table) -> ForeignTable:
    """Reads these parts of a loaded table.

    Raises:
        OSError: if a manifest cannot be read.
    """
    schema = table.schema()
    return ForeignTable(
        partitioned_by={
            each.name: schema.find_column_name(each.source_id) or ""
            for each in table.spec().fields
            if not isinstance(each.transform, VoidTransform)
        },
        refs=tuple(sorted(name for name in table.metadata.refs if name != "main")),
        equality_deletes=_equality_deletes(table),
    )


def _equality_deletes(table: Table) -> int:
    head = table.current_snapshot()
    manifests = head.manifests(table.io) if head else []
    deletes = (each for each in manifests if each.content is ManifestContent.DELETES)
    files = (each.data_file for m in deletes for each in m.fetch_manifest_entry(table.io))
    return sum(each.content is DataFileContent.EQUALITY_DELETES for each in files)
