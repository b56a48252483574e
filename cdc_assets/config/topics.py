"""Configures the topics of a source."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import Field, field_validator

from cdc_assets.config.strict import Strict, require_pattern


class TopicsConfig(Strict):
    r"""The source's topics: regular expressions over whole topic names.

    ``prefix`` is the connector's ``topic.prefix``. It is only needed if a schema or table name
    contains a dot; without it, the last two parts of a topic's name are schema and table.
    ``transaction`` is its ``topic.transaction``: the metadata topic's name after the prefix.
    ``schema_changes`` is the topic of its schema changes, if that is not the prefix.
    """

    include: Annotated[tuple[str, ...], Field(strict=False, min_length=1)]
    exclude: Annotated[tuple[str, ...], Field(strict=False)] = ()
    prefix: str | None = None
    transaction: str = Field(default="transaction", min_length=1)
    schema_changes: str | None = Field(default=None, min_length=1)

    def matches(self, topic: str) -> bool:
        """Returns whether the whole name matches; ``exclude`` wins."""
        return _matches(topic, self.include) and not _matches(topic, self.exclude)

    @field_validator("include", "exclude")
    @classmethod
    def _compiles(cls, patterns: tuple[str, ...]) -> tuple[str, ...]:
        for pattern in patterns:
            require_pattern(pattern, r"for a prefix write 'shop\..*'")
        return patterns


def _matches(topic: str, patterns: tuple[str, ...]) -> bool:
    return any(re.fullmatch(pattern, topic) for pattern in patterns)
