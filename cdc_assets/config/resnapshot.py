"""Configures how tables are read again from their source."""

from __future__ import annotations

from pydantic import Field

from cdc_assets.config.strict import Strict


class ResnapshotConfig(Strict):
    """Limits on the load that reading tables again puts on a source's database or connector.

    Attributes:
        chunk_rows: number of rows read with one statement.
        parallel: number of statements that read at once; a wave then has
            ``chunk_rows * parallel`` rows, which Spark keeps until they are compared.
        rows_per_second: the most rows read per second on average; None for no bound.
        answer_seconds: the longest silence of a connector about a snapshot that a signal asked for.
    """

    chunk_rows: int = Field(default=100_000, ge=10)
    parallel: int = Field(default=4, ge=1, le=64)
    rows_per_second: float | None = Field(default=None, gt=0)
    answer_seconds: float = Field(default=300, gt=0)
