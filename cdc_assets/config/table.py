"""Configures single tables of a source."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field, field_validator, model_validator

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
from cdc_assets.schema.row_condition import RowCondition

LEAST_SALT: Final = 16
"""Characters of a salt, below which it could be guessed together with a value."""
ModeName = Literal["mirror", "changelog", "history"]
Initial = Literal["log", "read"]
Names = Annotated[tuple[str, ...], Field(strict=False)]


class TableOverrides(Strict):
    """The configuration of one table, which overrides its schema.

    ``columns`` are types, or `ColumnOverrides`.
    ``deletes: soft`` keeps deleted rows, marked; it is chosen before the table is made.
    ``mode`` is the lake table's mode, also chosen before that; it overrides the source's, as
    ``initial`` does, which says where the table's first rows come from.
    ``absent_columns`` may be missing in records, and are then emptied in the rows these change.
    ``row_filter: accept`` accepts a table whose rows the publication filters.
    ``layout`` is that of the lake table's files.
    ``where`` is the condition on the source's rows that the lake table gets; None for all.
    ``schema_changes``, ``on_incompatible``, ``dropped_columns``, ``dropped_table``,
    ``recreated_table``, ``renamed_table``, ``silent_changes`` and each key of ``maintenance``
    override the source's.
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

    @property
    def condition(self) -> RowCondition | None:
        """The condition of ``where``, without knowledge of the table's columns."""
        return None if self.where is None else _condition(self.where)

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


def _condition(text: str) -> RowCondition:
    """Parses a condition; sqlglot takes longer to load than the rest of the configuration."""
    from cdc_assets.config.where import parse_where

    return parse_where(text)
