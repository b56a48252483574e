"""Defines the shape of an operation: options, a printable plan, and steps that end in a report."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from cdc_assets.operate.services import Services
from cdc_assets.operations.options import Options
from cdc_assets.operations.session import Host, TableSession
from cdc_assets.registry import TableEntry

Tables = tuple[TableEntry, ...]
"""The tables of one session: one, or all that are merged into one lake table."""


class Plan(Protocol):
    """The plan of an operation. Making it has changed nothing."""

    def lines(self) -> Sequence[str]:
        """Returns the plan for people, as a dry run prints it."""
        ...

    def to_dict(self) -> dict[str, Any]:
        """Returns the plan for ``--json``."""
        ...


class Markdown(str):
    """A value of metadata that is shown as Markdown."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class ReportTable:
    """A value of metadata that is shown as a table, whose records have the same columns."""

    columns: tuple[str, ...]
    records: tuple[Mapping[str, str | int], ...]
    integers: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Observation:
    """A statement about a table for the page of its asset.

    Attributes:
        entry: the table.
        text: the statement.
        metadata: its figures: texts, numbers, `Markdown` or `ReportTable`.
        partition: the hour that the statement concerns; None for the whole table.
    """

    entry: TableEntry
    text: str
    metadata: Mapping[str, object] = field(default_factory=dict[str, object])
    partition: str | None = None


@dataclass(frozen=True, slots=True)
class Progress:
    """A message about a step, for people."""

    words: str
    is_warning: bool = False


@dataclass(frozen=True, slots=True)
class Report:
    """The result of an operation on one table.

    Attributes:
        document: the result for ``--json``.
        lines: the result for people, without lines that were shown as progress.
        failure: why the operation has not reached its goal; empty if it has.
        metadata: figures for a materialization.
        observations: for the pages of assets.
        log_lines: lines for a job's log instead of `lines`, which may name keys of rows.
    """

    document: Mapping[str, Any]
    lines: tuple[str, ...] = ()
    failure: str = ""
    metadata: Mapping[str, object] = field(default_factory=dict[str, object])
    observations: tuple[Observation, ...] = ()
    log_lines: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Job:
    """The Dagster job of an operation; users' configurations name job, op and fields.

    Attributes:
        name: the job's name, without the replication's.
        op: the name of its op.
        mode: `cdc/mode` of its runs.
        about: its description.
    """

    name: str
    op: str
    mode: str
    about: str


@dataclass(frozen=True, slots=True)
class Results:
    """The results of an operation on all selected tables.

    Attributes:
        reports: by the name of the table.
        failed: the tables that failed, by name, with the reason.
    """

    reports: dict[str, Report] = field(default_factory=dict[str, Report])
    failed: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def is_bad(self) -> bool:
        """Whether a table failed, or is not as was asked for."""
        return bool(self.failed) or any(each.failure for each in self.reports.values())


O = TypeVar("O", bound=Options)  # noqa: E741
P = TypeVar("P", bound=Plan)


class Operation(ABC, Generic[O, P]):
    """An operation on tables. A subclass's docstring is the help of the command.

    Steps can be interrupted at any point: a second run looks at what is there, and continues.

    Attributes:
        name: the command's name.
        options: the model of its options.
        job: the Dagster job that does the same; None for a command alone.
        is_asset: whether each lake table's part is a materialization of an asset of its own.
        is_look: whether it only reads, and a job alone shows its reports on assets.
        is_observed: whether a command, too, shows its reports on assets; a job always does.
        if_empty: what a command prints if no table is selected.
        is_progress_apart: whether progress goes to standard error, also without ``--json``.
    """

    name: ClassVar[str]
    options: type[O]
    job: ClassVar[Job | None] = None
    is_asset: ClassVar[bool] = False
    is_look: ClassVar[bool] = False
    is_observed: ClassVar[bool] = True
    if_empty: ClassVar[str] = "no table is chosen"
    is_progress_apart: ClassVar[bool] = False

    def check(self, options: O) -> None:
        """Refuses options that exclude each other, before anything is read.

        Raises:
            ConfigError: if they do.
        """

    def check_command(self, options: O) -> None:
        """Refuses options that are wrong on the command line, and that a job accepts.

        Raises:
            ConfigError: if there are some.
        """

    def chosen(self, services: Services, options: O) -> Sequence[Tables]:
        """Returns the tables of each session.

        Raises:
            CdcError: as `Options.entries` raises.
        """
        return [(each,) for each in options.entries(services)]

    def label(self, tables: Tables) -> str:
        """Returns the name by which a session's failure is reported."""
        return str(tables[0].table)

    def prepare(self, host: Host, options: O) -> Iterator[Progress]:
        """Requires conditions before the first table is changed; not called for a dry run.

        Raises:
            CdcError: if one does not hold.
        """
        yield from ()

    @abstractmethod
    def plan(self, session: TableSession, options: O) -> P:
        """Returns what is to be done. Changes nothing.

        Raises:
            CdcError: if it cannot be done, or a part does not answer.
        """

    @abstractmethod
    def steps(self, session: TableSession, options: O, plan: P) -> Iterator[Progress | Report]:
        """Carries the plan out; yields progress, and the report as the last item.

        Raises:
            CdcError: if a step fails; the steps before it stay done.
        """

    def document(self, options: O, results: Results) -> Mapping[str, Any]:
        """Returns what ``--json`` prints."""
        reports = [dict(each.document) for each in results.reports.values()]
        dry_run = {"dry_run": options.is_dry_run} if "dry_run" in self.options.model_fields else {}
        if options.names_one:
            return {**reports[0], **dry_run}
        return {"tables": reports, "failed": dict(results.failed), **dry_run}
