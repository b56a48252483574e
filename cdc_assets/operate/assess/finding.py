"""Represents an assessment's findings (place, verdict, problem, impact, remedy), and its rules.

A `Rule` is data: the page ``docs/reference/findings.md`` is generated from all rules.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Generic, TypeVar

from cdc_assets.changes.names import TableName
from cdc_assets.reference import finding_page

F = TypeVar("F")


class Verdict(StrEnum):
    """A verdict on exact replication, best first."""

    YES = "YES"
    PARTIAL = "PARTIAL"
    NO = "NO"

    @classmethod
    def worst(cls, verdicts: Iterable[Verdict]) -> Verdict:
        """Returns the worst verdict; YES if there are none."""
        order = list(cls)
        return max(verdicts, key=order.index, default=cls.YES)


@dataclass(frozen=True, slots=True)
class Subject:
    """A source, a table of it, or a column of that."""

    source: str
    table: TableName | None = None
    column: str = ""

    @property
    def scope(self) -> str:
        """``source``, ``table`` or ``column``."""
        return "source" if self.table is None else "column" if self.column else "table"

    def __str__(self) -> str:
        whole = self.source if self.table is None else str(self.table)
        return f"{whole}.{self.column}" if self.column else whole


@dataclass(frozen=True, slots=True)
class Finding:
    """One obstacle to exact replication.

    Attributes:
        name: the name of the kind of finding, by which a configuration accepts it.
        at: the place.
        verdict: PARTIAL or NO.
        problem: the fact that was found.
        impact: its consequences.
        remedy: the action to take.
        stops: whether rows would be wrong, or missing, unnoticed, so that a table's first batch is
            refused. Only for findings with the verdict NO.
    """

    name: str
    at: Subject
    verdict: Verdict
    problem: str
    impact: str
    remedy: str
    stops: bool = False

    def __str__(self) -> str:
        return f"{self.verdict} {self.at}: {self.problem}: {self.impact} → {self.remedy}"

    def to_dict(self) -> dict[str, Any]:
        """Returns the finding for JSON."""
        table = self.at.table
        return {
            "name": self.name,
            "page": finding_page(self.name),
            "scope": self.at.scope,
            "source": self.at.source,
            "table": str(table) if table is not None else None,
            "column": self.at.column or None,
            "verdict": self.verdict.value,
            "problem": self.problem,
            "impact": self.impact,
            "remedy": self.remedy,
            "stops_first_batch": self.stops,
        }


@dataclass(frozen=True, slots=True)
class Obstacle:
    """An obstacle that a rule's check has found.

    Attributes:
        problem: the fact.
        column: the column that it concerns; empty if it concerns the place as a whole.
        words: the words in braces of the rule's impact and remedy.
    """

    problem: str
    column: str = ""
    words: Mapping[str, str] = field(default_factory=dict[str, str])


Check = Callable[[F], str | Iterable[Obstacle] | None]
"""Returns the problem, or several; nothing if there is none."""


@dataclass(frozen=True, slots=True)
class Rule(Generic[F]):
    """A kind of obstacle to exact replication.

    Attributes:
        name: the name of its findings, by which a configuration accepts them.
        verdict: PARTIAL or NO.
        looks_at: the facts that it judges, for people.
        check: finds the obstacle in the facts.
        impact: its consequences; words in braces come from the check.
        remedy: the action to take; likewise.
        stops: see `Finding`.
    """

    name: str
    verdict: Verdict
    looks_at: str
    check: Check[F]
    impact: str
    remedy: str
    stops: bool = False

    def judge(self, at: Subject, facts: F) -> Iterator[Finding]:
        """Yields the findings on some facts about a place."""
        for each in _seen(self.check(facts)):
            yield Finding(
                self.name,
                Subject(at.source, at.table, each.column) if each.column else at,
                self.verdict,
                each.problem,
                self.impact.format_map(each.words),
                self.remedy.format_map(each.words),
                self.stops,
            )


def _seen(found: str | Iterable[Obstacle] | None) -> Iterable[Obstacle]:
    if isinstance(found, str):
        return (Obstacle(found),) if found else ()
    return found or ()


def judged(rules: Iterable[Rule[F]], at: Subject, facts: F) -> Iterator[Finding]:
    """Yields the findings of all rules."""
    for rule in rules:
        yield from rule.judge(at, facts)


@dataclass(frozen=True, slots=True)
class Note:
    """A part that was not looked at, or not completely, by the assessment's own choice.

    Attributes:
        text: the part.
        table: the table that it concerns; None for all of them.
    """

    text: str
    table: TableName | None = None

    def __str__(self) -> str:
        return self.text if self.table is None else f"{self.table}: {self.text}"


@dataclass(frozen=True, slots=True)
class Assessment:
    """All findings on some sources and tables.

    Attributes:
        at: the time of the assessment.
        sources: the assessed sources.
        tables: the assessed tables.
        findings: the findings, sorted by place.
        notes: the parts that its depth left out.
    """

    at: datetime
    sources: tuple[str, ...]
    tables: tuple[TableName, ...]
    findings: tuple[Finding, ...]
    notes: tuple[Note, ...] = ()

    def of_source(self, source: str) -> tuple[Finding, ...]:
        """Returns the findings on a source as a whole."""
        return tuple(f for f in self.findings if f.at.table is None and f.at.source == source)

    def of_table(self, table: TableName) -> tuple[Finding, ...]:
        """Returns the findings on a table and its columns, without those on its source."""
        return tuple(f for f in self.findings if f.at.table == table)

    def notes_on(self, table: TableName) -> tuple[Note, ...]:
        """Returns the notes that concern a table."""
        return tuple(each for each in self.notes if each.table in (None, table))

    def lines(self) -> Iterator[tuple[Subject, Verdict]]:
        """Yields each source and table with its verdict; columns only if they have findings."""
        for source in self.sources:
            yield Subject(source), worst(self.of_source(source))
            for table in (each for each in self.tables if each.source == source):
                mine = self.of_table(table)
                yield Subject(source, table), worst(mine)
                for column in dict.fromkeys(f.at.column for f in mine if f.at.column):
                    at = Subject(source, table, column)
                    yield at, worst(f for f in mine if f.at == at)

    @property
    def failing(self) -> tuple[Subject, ...]:
        """The sources and tables that cannot be replicated exactly."""
        return tuple(at for at, verdict in self.lines() if verdict is Verdict.NO and not at.column)

    def to_json(self) -> str:
        """Returns the assessment as one document."""
        places = [
            {
                "scope": at.scope,
                "source": at.source,
                "table": str(at.table) if at.table is not None else None,
                "column": at.column or None,
                "verdict": verdict.value,
            }
            for at, verdict in self.lines()
        ]
        document = {
            "at": self.at.isoformat(),
            "places": places,
            "findings": [each.to_dict() for each in self.findings],
            "notes": [str(each) for each in self.notes],
        }
        return json.dumps(document, indent=1)


def worst(findings: Iterable[Finding]) -> Verdict:
    """Returns the verdict on all findings together."""
    return Verdict.worst(each.verdict for each in findings)


def ordered(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Sorts findings by place, worst first, and removes duplicates."""
    rank = list(Verdict)
    return tuple(
        sorted(
            dict.fromkeys(findings),
            key=lambda f: (f.at.source, str(f.at.table or ""), f.at.column,
                           -rank.index(f.verdict), f.name, f.problem),
        )
    )  # fmt: skip


def accepted(findings: Iterable[Finding], names: Sequence[str]) -> tuple[Finding, ...]:
    """Returns the findings without those that the configuration accepts."""
    return tuple(each for each in findings if each.name not in names)
