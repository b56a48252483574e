"""Knows which engines read which tables of Iceberg, and chooses a format that all of some read.

``docs/engines.md`` has the source of each fact: tried here, or the engine's documentation.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from cdc_assets.schema.file_layout import DeleteMode

VERSIONS: Final = (2, 3)


@dataclass(frozen=True, slots=True)
class Engine:
    """An engine that reads tables.

    Attributes:
        name: for people.
        newest: the newest format version that it reads.
        position_deletes: whether it applies the position deletes of version 2.
        vectors: whether it applies the deletion vectors of version 3.
    """

    name: str
    newest: int = 3
    position_deletes: bool = True
    vectors: bool = True

    def applies_deletes(self, version: int) -> bool:
        """Returns whether it applies what marks rows as deleted in tables of a version."""
        return self.vectors if version > VERSIONS[0] else self.position_deletes

    def fault(self, version: int, mode: DeleteMode) -> str:
        """Returns what it does with a table instead of reading its rows; empty if it reads them."""
        if version > self.newest:
            return f"{self.name} does not read format version {version}"
        if mode is DeleteMode.MERGE_ON_READ and not self.applies_deletes(version):
            kind = "deletion vectors" if version > VERSIONS[0] else "position deletes"
            return f"{self.name} does not apply {kind}: it fails, or shows deleted rows"
        return ""


READERS: Final[Mapping[str, Engine]] = {
    "athena": Engine("Athena", newest=2),
    "bigquery": Engine("BigQuery"),
    "clickhouse": Engine("ClickHouse", vectors=False),
    "daft": Engine("Daft", vectors=False),
    "databricks": Engine("Databricks"),
    "dremio": Engine("Dremio"),
    "duckdb": Engine("DuckDB"),
    "flink": Engine("Flink"),
    "impala": Engine("Impala"),
    "polars": Engine("Polars"),
    "pyiceberg": Engine("PyIceberg"),
    "redshift": Engine("Redshift"),
    "snowflake": Engine("Snowflake"),
    "spark": Engine("Spark"),
    "trino": Engine("Trino", vectors=False),
    "without_deletes": Engine("a reader that applies no deletes", newest=2, position_deletes=False),
}
"""The known engines. ``without_deletes`` is any other, which reads data files alone."""


def version_for(readers: Iterable[str]) -> int:
    """Returns the format version of new tables: the newest with deletes that all readers apply.

    If there is none, the newest that all of them read: its files are copied.
    """
    all_ = [READERS[each] for each in readers]
    newest = min((each.newest for each in all_), default=max(VERSIONS))
    readable = [each for each in VERSIONS if each <= newest]
    applied = [v for v in readable if all(each.applies_deletes(v) for each in all_)]
    return max(applied, default=newest)


def mode_for(readers: Iterable[str], version: int) -> DeleteMode | None:
    """Returns the delete mode of tables of a version that all readers read; None without any."""
    all_ = [READERS[each] for each in readers]
    if not all_:
        return None
    is_applied = all(each.applies_deletes(version) for each in all_)
    return DeleteMode.MERGE_ON_READ if is_applied else DeleteMode.COPY_ON_WRITE


def faults(readers: Iterable[str], version: int, mode: DeleteMode) -> Iterator[str]:
    """Yields what each reader would do wrongly with a table."""
    found = (READERS[each].fault(version, mode) for each in readers)
    yield from (each for each in found if each)
