"""Declares options once: a model whose fields are a command's options and a job's configuration.

A field's description is its help text, and its type decides the form: a ``bool`` is a flag (with
``--no-…`` if it is on by default), a ``Literal`` a choice, a ``list[str]`` an option that may be
given more than once. `Cli` says what differs on the command line.
"""

from __future__ import annotations

import types
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, Union, cast, get_args, get_origin

import annotated_types
import click
from pydantic import BaseModel, ConfigDict, Field
from pydantic.fields import FieldInfo

from cdc_assets.errors import ConfigError
from cdc_assets.operate.known_tables import find_table, replicated
from cdc_assets.operate.services import Services
from cdc_assets.registry import Registry, TableEntry


@dataclass(frozen=True, slots=True)
class Cli:
    """The form of a field on the command line.

    Attributes:
        flag: the option's name, such as ``--all``; empty for the field's.
        is_argument: whether it is a required argument instead of an option.
        is_flags: whether each value of a ``Literal`` but the default is a flag of its own.
        always: the value that a command gives instead of showing the option; None to show it.
    """

    flag: str = ""
    is_argument: bool = False
    is_flags: bool = False
    always: object = None


_PLAIN: Final = Cli()


class Options(BaseModel):
    """The options of an operation, as a command or a job's run gives them."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @property
    def is_dry_run(self) -> bool:
        """Whether only the plan is wanted."""
        return False

    @property
    def names_one(self) -> bool:
        """Whether they select one table, whose failure is that of the whole operation."""
        return False

    def entries(self, services: Services) -> Sequence[TableEntry]:
        """Returns the selected tables.

        Raises:
            CdcError: if a name is none of a replicated table, or nothing is selected.
        """
        raise NotImplementedError


class Planned(Options):
    """Options of an operation whose plan can be printed alone."""

    dry_run: bool = Field(default=False, description="Print the plan, and change nothing.")

    @property
    def is_dry_run(self) -> bool:
        """Whether only the plan is wanted."""
        return self.dry_run


class OneTable(Options):
    """Options of an operation on one table."""

    table: Annotated[str, Cli(is_argument=True)] = Field(description="[source.][schema.]table")

    @property
    def names_one(self) -> bool:
        """Whether they select one table, whose failure is that of the whole operation."""
        return True

    def entries(self, services: Services) -> Sequence[TableEntry]:
        """Returns the table."""
        return [find_table(services.config, services.registry.load(), self.table)]


class NamedTables(Options):
    """Options of an operation on tables that are named, or are of one source."""

    tables: Annotated[list[str], Cli("--table")] = Field(
        default=[], description="This table: [source.][schema.]table. Repeatable."
    )
    source: str | None = Field(
        default=None, description="All tables of this source, or its named ones."
    )

    def entries(self, services: Services) -> Sequence[TableEntry]:
        """Returns the selected tables.

        Raises:
            ConfigError: if nothing is selected, the source is not configured, or a table is not
                replicated, or not of that source.
        """
        entries = replicated(services.config, services.registry.load())
        if self.source is not None:
            services.config.source(self.source)
            entries = tuple(each for each in entries if each.table.source == self.source)
        elif not self.tables and not getattr(self, "every", False):
            msg = "which tables? Nothing is chosen"
            raise ConfigError(msg, remedy="give --table, --source, or --all where there is one")
        if not self.tables:
            return tuple(entries)
        there = Registry.of(entries)
        return tuple(
            dict.fromkeys(find_table(services.config, there, each) for each in self.tables)
        )


class AnyTables(NamedTables):
    """Options of an operation on tables that are named, or on all tables."""

    every: Annotated[bool, Cli("--all")] = Field(default=False, description="All tables.")


class AssessOptions(Options):
    """The options of an assessment. It covers everything, unless a source or tables are given."""

    source: str | None = Field(default=None, description="Only this source and its tables.")
    tables: Annotated[list[str], Cli("--table")] = Field(
        default=[],
        description="Only this table and its source: [source.][schema.]table. Repeatable.",
    )
    read_only: bool = Field(default=False, description="Do not try to write files and tables.")


def cli_of(field: FieldInfo) -> Cli:
    """Returns the form of a field on the command line."""
    return next((each for each in field.metadata if isinstance(each, Cli)), _PLAIN)


def parameters(options: type[Options]) -> Iterator[click.Parameter]:
    """Yields the parameters of the command: arguments, then options, the dry run last."""
    fields = options.model_fields.items()
    last = {name: each for name, each in fields if name == "dry_run"}
    for name, field in ({n: each for n, each in fields if n not in last} | last).items():
        cli = cli_of(field)
        if cli.is_argument:
            yield click.Argument([name])
        elif cli.is_flags:
            yield from _flags(name, field)
        elif cli.always is None:
            yield _option(name, field, cli)


def constant_values(options: type[Options]) -> dict[str, object]:
    """Returns the values that a command always gives."""
    forms = {name: cli_of(field) for name, field in options.model_fields.items()}
    return {name: form.always for name, form in forms.items() if form.always is not None}


def _flags(name: str, field: FieldInfo) -> Iterator[click.Option]:
    default = field.get_default()
    for value in get_args(field.annotation):
        if value != default:
            yield click.Option(
                [f"--{value}", name], flag_value=value, default=default, help=field.description
            )


def _option(name: str, field: FieldInfo, cli: Cli) -> click.Option:
    flag, type_ = cli.flag or f"--{name.replace('_', '-')}", _required_type(field)
    common: dict[str, Any] = {"help": field.description, "default": field.get_default()}
    if field.is_required():
        common = {"help": field.description, "required": True}
    if type_ is bool and common.get("default"):
        names = [f"{flag}/--no-{flag.removeprefix('--')}", name]
        return click.Option(names, show_default=True, **common)
    if type_ is bool:
        return click.Option([flag, name], is_flag=True, **common)
    if get_origin(type_) is Literal:
        choice = click.Choice(get_args(type_))
        return click.Option([flag, name], type=choice, show_default=True, **common)
    if get_origin(type_) is list:
        return click.Option([flag, name], multiple=True, help=field.description)
    if type_ is int:
        limits = [each for each in field.metadata if isinstance(each, annotated_types.Ge)]
        least = cast("int", limits[0].ge) if limits else None
        number = click.IntRange(min=least)
        return click.Option([flag, name], type=number, show_default=True, **common)
    return click.Option([flag, name], **common)


def _required_type(field: FieldInfo) -> Any:
    """Returns a field's type without its None."""
    if get_origin(field.annotation) in {Union, types.UnionType}:
        return next(each for each in get_args(field.annotation) if each is not type(None))
    return field.annotation
