"""Configures the topics of a source.

Configures the names of a source's tables in the lake: templates and their fields.
"""

from __future__ import annotations

import re
from string import Formatter
from typing import Annotated

from pydantic import Field, field_validator

from cdc_assets.changes.names import LakeName, TableName, stored_lake_name
from cdc_assets.config.strict import Strict, did_you_mean, refuse, require_pattern


class TopicsConfig(Strict):
    r"""The source's topics: regular expressions over whole topic names.

    Attributes:
        include: regular expressions, one of which must match a whole topic name.
        exclude: the same for topics to leave out. Exclusion wins.
        prefix: the connector's ``topic.prefix``. Needed if a schema or table name contains a dot,
            and for ``initial: read``.
        transaction: the connector's ``topic.transaction``: transaction metadata is in
            ``<prefix>.<this>``.
        schema_changes: topic of Debezium's schema changes. Default: the prefix.
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


TABLE_FIELDS = ("source", "schema", "table")


class TargetConfig(Strict):
    """Templates of the lake's names; fields: ``{source}``, ``{schema}``, ``{table}``.

    Attributes:
        namespace: template of the lake table's namespace.
        table: template of the lake table's name. Two tables with one target, case aside, are
            refused.
    """

    namespace: str = Field(default="{source}_{schema}", min_length=1)
    table: str = Field(default="{table}", min_length=1)

    @field_validator("namespace", "table")
    @classmethod
    def _known_fields(cls, template: str) -> str:
        require_fields(template, TABLE_FIELDS)
        return template

    def lake_name(self, table: TableName) -> LakeName:
        """Returns the lake table of a source table."""
        fields = fields_of(table)
        return stored_lake_name(self.namespace.format_map(fields), self.table.format_map(fields))


def fields_of(table: TableName) -> dict[str, str]:
    """Returns the fields that templates of the lake's names may use: `TABLE_FIELDS`."""
    return dict(zip(TABLE_FIELDS, (table.source, table.schema, table.name), strict=True))


def require_fields(template: str, known: tuple[str, ...], where: str = "") -> None:
    """Refuses a template that has other fields than these.

    Raises:
        PydanticCustomError: if it does.
    """
    try:
        fields = [field for _, field, _, _ in Formatter().parse(template) if field is not None]
    except ValueError as error:
        what = f"{where}is not a template: {error}"
        raise refuse(what, "for example '{schema}'") from error
    for field in fields:
        if field not in known:
            what = f"{where}unknown field {{{field}}} in the template"
            raise refuse(what, did_you_mean(field, known))
