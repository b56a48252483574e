"""How tables are read again from their source."""

from __future__ import annotations

from pydantic import Field

from cdc_assets.config.strict import Strict


class ResnapshotConfig(Strict):
    """How much reading a source's tables again may ask of its database, or its connector.

    Attributes:
        chunk_rows: so many rows are read with one statement.
        parallel: so many statements read at once; with them a wave has ``chunk_rows * parallel``
            rows, which Spark keeps until they are compared.
        rows_per_second: no more than these are read on average; None for no bound.
        answer_seconds: so long a connector may say nothing of a snapshot that a signal asked for.
    """

    chunk_rows: int = Field(default=100_000, ge=10)
    parallel: int = Field(default=4, ge=1, le=64)
    rows_per_second: float | None = Field(default=None, gt=0)
    answer_seconds: float = Field(default=300, gt=0)
