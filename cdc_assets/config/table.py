"""Configures single tables of a source."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Annotated, Final, Literal

from pydantic import Field, ValidationError, field_validator, model_validator
from pydantic_core import PydanticCustomError

from cdc_assets.changes.names import TableName
from cdc_assets.config.column import ColumnOverrides
from cdc_assets.config.layout import LayoutConfig
from cdc_assets.config.maintenance import MaintenanceConfig
from cdc_assets.config.schema_changes import (
    OnDropped,
    OnIncompatible,
    OnRecreated,
    OnRenamed,
    SchemaChangesOrMode,
    SilentChangesOrOne,
)
from cdc_assets.config.strict import Strict, as_mapping, refuse
from cdc_assets.errors import ConfigError, TerminalError
from cdc_assets.schema.parse import TypeSpec, parse_spec
from cdc_assets.schema.row_condition import RowCondition, text_of

LEAST_SALT: Final = 16
"""Characters of a salt, below which it could be guessed together with a value."""
ModeName = Literal["mirror", "changelog", "history"]
Initial = Literal["log", "read"]
Names = Annotated[tuple[str, ...], Field(strict=False)]


class TableOverrides(Strict):
    """The configuration of one table, which overrides its source's.

    Attributes:
        primary_key: names of the key columns. Default: the record's key. Fixed at creation.
        mode: mode of this table. Default: the source's.
        initial: origin of this table's first rows. Default: the source's.
        deletes: ``soft``: deleted rows stay, with ``_cdc_deleted`` and ``_cdc_deleted_at``. Fixed
            at creation.
        columns: settings of single columns, by name: a type, or a mapping.
        absent_columns: columns that records may lack. Such records empty them.
        row_filter: ``accept``: replicate despite the publication's row filter. Only if the
            connector's snapshot filters the same rows.
        schema_changes: reactions of this table. Default: the source's.
        on_incompatible: reaction of this table. Default: the source's.
        dropped_columns: reaction of this table. Default: the source's.
        dropped_table: reaction of this table. Default: the source's.
        recreated_table: reaction of this table. Default: the source's.
        renamed_table: reaction of this table. Default: the source's.
        silent_changes: reactions of this table. Default: the source's.
        maintenance: maintenance of this table, key by key. Default: the source's.
        layout: layout of the lake table's files.
        where: condition on the source's rows that the lake table gets. Default: all rows.
    """

    primary_key: Names = ()
    mode: ModeName | None = None
    initial: Initial | None = None
    deletes: Literal["hard", "soft"] = "hard"
    columns: dict[str, ColumnOverrides] = Field(default_factory=dict)
    absent_columns: Names = ()
    row_filter: Literal["fail", "accept"] = "fail"
    schema_changes: SchemaChangesOrMode | None = None
    on_incompatible: OnIncompatible | None = None
    dropped_columns: OnDropped | None = None
    dropped_table: OnDropped | None = None
    recreated_table: OnRecreated | None = None
    renamed_table: OnRenamed | None = None
    silent_changes: SilentChangesOrOne | None = None
    maintenance: MaintenanceConfig | None = None
    layout: LayoutConfig = LayoutConfig()
    where: str | None = None

    @field_validator("where")
    @classmethod
    def _is_condition(cls, text: str | None) -> str | None:
        if text is not None:
            try:
                _condition(text)
            except TerminalError as error:
                raise refuse(error.what, error.remedy) from error
        return text

    @field_validator(
        "columns", mode="before", json_schema_input_type=dict[str, str | ColumnOverrides]
    )
    @classmethod
    def _types_alone(cls, columns: object) -> object:
        said = as_mapping(columns)
        if not said:
            return columns
        return {n: {"type": each} if isinstance(each, str) else each for n, each in said.items()}

    @model_validator(mode="after")
    def _keeps_its_key(self) -> TableOverrides:
        for name in self.primary_key:
            if name in self.excluded:
                what = f"column {name!r} of the primary key is excluded"
                raise refuse(what, "mask it instead ({mask: sha256}), or choose another key")
        return self

    @model_validator(mode="after")
    def _has_a_name_for_each(self) -> TableOverrides:
        names = [name.casefold() for name in self.renames.values()]
        if len(set(names)) < len(names):
            what = "two columns are to have one name in the lake (rename), whatever its case"
            raise refuse(what, "choose another for one of them")
        return self

    @cached_property
    def condition(self) -> RowCondition | None:
        """The condition of ``where``, without knowledge of the table's columns."""
        return None if self.where is None else _condition(self.where)

    @property
    def condition_text(self) -> str:
        """The condition in one spelling; empty for none."""
        return "" if self.condition is None else text_of(self.condition)

    @property
    def column_types(self) -> dict[str, TypeSpec]:
        """The types of ``columns``."""
        return {n: parse_spec(each.type) for n, each in self.columns.items() if each.type}

    @property
    def renames(self) -> dict[str, str]:
        """Configured names of columns in the lake, by names in records."""
        return {name: each.rename for name, each in self.columns.items() if each.rename}

    @property
    def existing(self) -> dict[str, str | None]:
        """Configured values of columns in rows older than the column; None for no value."""
        return {name: each.existing for name, each in self.columns.items() if each.tells_existing}

    @property
    def excluded(self) -> tuple[str, ...]:
        """Columns that the lake does not get."""
        return tuple(name for name, each in self.columns.items() if each.exclude)

    @property
    def masked(self) -> frozenset[str]:
        """Columns of which the lake gets digests only."""
        return frozenset(name for name, each in self.columns.items() if each.mask)

    def salts(self) -> dict[str, str]:
        """Returns the salts of masked columns, by names in records.

        Raises:
            ConfigError: if a salt is not set, or is so short that it could be guessed.
        """
        found = {name: each.salt.reveal() for name, each in self.columns.items() if each.salt}
        for name, salt in found.items():
            if len(salt) < LEAST_SALT:
                msg = f"the salt of column {name!r} has fewer than {LEAST_SALT} characters"
                raise ConfigError(msg, remedy="make one, for example: openssl rand -hex 32")
        return found

    @property
    def accepted(self) -> frozenset[str]:
        """Columns whose large values may be lost."""
        return frozenset(name for name, each in self.columns.items() if each.accepts_lost)

    @property
    def withholds(self) -> bool:
        """Whether a part of a record must not get into the lake."""
        return bool(self.excluded or self.masked)


def is_pattern(name: str) -> bool:
    """Returns whether a key of ``tables`` is a pattern: ``*`` for any text, ``?`` for a letter."""
    return not {"*", "?"}.isdisjoint(name)


def matches(pattern: str, table: TableName) -> bool:
    """Returns whether a pattern matches a table's ``schema.table`` as a whole."""
    parts = ({"*": ".*", "?": "."}.get(each, re.escape(each)) for each in pattern)
    return re.fullmatch("".join(parts), table.qualified, re.DOTALL) is not None


def combined(
    patterns: Mapping[str, TableOverrides],
    own: TableOverrides | None,
    where: str,
    require: Callable[[str, TableOverrides], None],
) -> TableOverrides:
    """Returns the settings of all patterns that match a table, with its own over them.

    Args:
        patterns: settings by the patterns.
        own: those of the table's name; None if it is not listed.
        where: coordinates for the error.
        require: checks a table's settings together.

    Raises:
        ConfigError: if two patterns contradict each other, or their settings do not fit.
    """
    said = dict[str, tuple[str, object]]()
    settled = _leaves("", own) if own is not None else {}
    for pattern, each in patterns.items():
        for name, value in _leaves("", each).items():
            other, before = said.setdefault(name, (pattern, value))
            if before != value and name not in settled:
                what = f"tables: {other} and {pattern} both match, and differ in {name}"
                remedy = f"say it once more under the table's own name (tables.{where[6:]})"
                raise ConfigError(what, where=where, remedy=remedy)
    document: dict[str, object] = {}
    for each in (*patterns.values(), *([own] if own is not None else [])):
        document = _laid_over(document, each)
    try:
        made = TableOverrides.model_validate(document)
        require(where, made)
    except (ValidationError, PydanticCustomError) as error:
        what = f"the settings of all entries of tables that match do not fit together: {error}"
        raise ConfigError(what, where=where, remedy="correct the entries") from error
    return made


def _parts(value: object) -> Mapping[str, object] | None:
    """Returns what is set of a part of the configuration; None of a single value."""
    if isinstance(value, Strict):
        return {name: getattr(value, name) for name in value.model_fields_set}
    return {str(name): each for name, each in as_mapping(value).items()} or None


def _leaves(prefix: str, value: object) -> dict[str, object]:
    """Returns all single values that are set, by their paths."""
    parts = _parts(value)
    if parts is None:
        return {prefix.removesuffix("."): value}
    found = (_leaves(f"{prefix}{name}.", each) for name, each in parts.items())
    return {name: each for some in found for name, each in some.items()}


def _laid_over(under: Mapping[str, object], value: object) -> dict[str, object]:
    found = dict(under)
    for name, each in (_parts(value) or {}).items():
        there = found.get(name)
        is_deep = _parts(each) is not None
        found[name] = _laid_over(_parts(there) or {}, each) if is_deep else each
    return found


def _condition(text: str) -> RowCondition:
    """Parses a condition; sqlglot takes longer to load than the rest of the configuration."""
    from cdc_assets.config.where import parse_where

    return parse_where(text)
