"""How tables are compared with their source."""

from __future__ import annotations

from pydantic import Field

from cdc_assets.config.strict import Strict


class VerifyConfig(Strict):
    """How a source's tables are compared with the lake, and how much that may ask of its database.

    Attributes:
        bucket_rows: about so many rows have a checksum together.
        chunk_rows: about so many are read with one statement.
        rows_per_second: no more than these are read; None for no bound.
        statement_seconds: a statement may take.
        wait_seconds: the connector and the lake may take to come up to what was read.
        looks: so often keys are looked at that keep changing.
        most_keys: no more keys than these are looked at one by one.
        slot: the connector's, in PostgreSQL; None for all of its database.
        nudge: write a logical message to PostgreSQL's log, so that a connector at rest tells how
            far it is.
    """

    bucket_rows: int = Field(default=1_000, ge=10)
    chunk_rows: int = Field(default=50_000, ge=10)
    rows_per_second: float | None = Field(default=None, gt=0)
    statement_seconds: float = Field(default=60, gt=0)
    wait_seconds: float = Field(default=180, ge=0)
    looks: int = Field(default=5, ge=1)
    most_keys: int = Field(default=10_000, ge=1)
    slot: str | None = Field(default=None, min_length=1)
    nudge: bool = False
