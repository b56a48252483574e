"""Configures how tables are compared with their source."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Annotated, Final, Literal

from pydantic import BeforeValidator, Field, field_validator

from cdc_assets.changes.cron import Cron
from cdc_assets.changes.names import TableName
from cdc_assets.config.strict import Strict, refuse, require_pattern

OFF: Final = "off"
Patterns = Annotated[tuple[str, ...], Field(strict=False)]


def _off(said: object) -> object:
    """Undoes that YAML reads ``off`` as false."""
    return OFF if said is False else said


class VerifyConfig(Strict):
    """Settings to compare a source's tables with the lake, and to limit the load on its database.

    Attributes:
        bucket_rows: approximate number of rows that share a checksum.
        chunk_rows: approximate number of rows read with one statement.
        rows_per_second: maximum rows that the database reads per second on average.
        statement_seconds: maximum seconds of a statement.
        wait_seconds: maximum seconds for the connector and the lake to reach the rows that were
            read.
        looks: maximum number of checks of a key that keeps changing.
        most_keys: maximum number of keys that are checked one by one.
        slot: PostgreSQL: the connector's replication slot. Default: all logical slots of the
            database.
        nudge: write to the database's log so that an idle connector reports its position. ``true``:
            PostgreSQL's logical message. Text: a statement.
        schedule: cron expression, in UTC, of the check ``matches_source``; ``off`` for never.
        every_hours: minimum hours between two checks of a table. Each scheduled time checks a share
            of the tables.
        tables: regular expressions over ``schema.table`` of the tables that are checked
            automatically.
    """

    bucket_rows: int = Field(default=1_000, ge=10)
    chunk_rows: int = Field(default=50_000, ge=10)
    rows_per_second: float | None = Field(default=None, gt=0)
    statement_seconds: float = Field(default=60, gt=0)
    wait_seconds: float = Field(default=180, ge=0)
    looks: int = Field(default=5, ge=1)
    most_keys: int = Field(default=10_000, ge=1)
    slot: str | None = Field(default=None, min_length=1)
    nudge: bool | Annotated[str, Field(min_length=1)] = False
    schedule: Annotated[str, BeforeValidator(_off, json_schema_input_type=str | Literal[False])] = (
        "*/30 * * * *"
    )
    every_hours: float = Field(default=24, gt=0, le=31 * 24)
    tables: Patterns = (".*",)

    @field_validator("schedule")
    @classmethod
    def _is_cron(cls, text: str) -> str:
        if text == OFF:
            return text
        try:
            Cron.parse(text)
        except ValueError as error:
            what = f"{text!r} is not a cron expression: {error}"
            raise refuse(what, "write '*/30 * * * *', '0 1-5 * * *', or off") from error
        return text

    @field_validator("tables")
    @classmethod
    def _compiles(cls, patterns: tuple[str, ...]) -> tuple[str, ...]:
        for pattern in patterns:
            require_pattern(pattern, r"write 'public\..*', for example")
        return patterns

    @property
    def cron(self) -> Cron | None:
        """The parsed `schedule`; None for off."""
        return None if self.schedule == OFF else Cron.parse(self.schedule)

    @property
    def every(self) -> timedelta:
        """`every_hours` as a duration."""
        return timedelta(hours=self.every_hours)

    def compares(self, table: TableName) -> bool:
        """Returns whether the check compares a table by itself."""
        return any(re.fullmatch(each, table.qualified) for each in self.tables)
