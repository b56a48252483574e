"""Generates ``docs/reference/findings.md`` from the rules of assess."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from importlib import import_module
from pkgutil import iter_modules
from typing import Any, Final

from cdc_assets.operate import assess
from cdc_assets.operate.assess.finding import Rule
from cdc_assets.operate.assess.gate import BY_PLANNING
from cdc_assets.operate.assess.parts import REMEDY

HEAD: Final = (
    "# Findings\n\n"
    "Generated from the rules of `cdc-assets assess` (`python -m cdc_assets_tests.pages`); see "
    "[Assess sources](../how-to/run/assess-sources.md). `assess` also prints problem and impact. "
    "Accept a finding by its name: `sources.<name>.assess.accept: [compacted]`.\n\n"
    "- *stops*: the table's first batch is refused until the finding is corrected or accepted.\n"
    "- *refused*: planning refuses the batch as well, also if the finding is accepted.\n"
    "- `{…}`: filled in from the facts. No action: the finding names it.\n\n"
    "Where this process lacks a part's secret, the finding of a silent part is PARTIAL. The check "
    "`assessed` may run where the secret is.\n"
)
WITHOUT_SECRET: Final = "without its secret in this process"
JARS: Final = f"; {REMEDY}"
SECTIONS: Final = {
    "Configuration and access": (
        "look.CONFIGURED", "look.LOGINS", "look.ACCESS", "look.UNSEARCHED",
    ),
    "Parts that do not answer": ("parts.AWAY",),
    "Databases": ("database.POSTGRES", "database.BINLOG", "database.USERS", "database.CLOCKS"),
    "Connectors": ("connector_rules.RULES",),
    "Topics": ("topics.RULES",),
    "Tables and columns": ("tables.MISSING", "tables.RULES"),
    "Spark": ("parts.SPARK", "writing.NAMESPACES"),
    "The catalog": ("writing.CATALOG", "lake.MAINTAINED"),
    "The lake": ("lake.READ", "parts.WAREHOUSE"),
}  # fmt: skip
"""The tuples of rules in each section of the page: a new one needs a place here."""


def rules() -> dict[str, tuple[Rule[Any], ...]]:
    """All rules of assess, by module and name of their tuple: whatever its modules define."""
    return dict(_defined())


def _defined() -> Iterator[tuple[str, tuple[Rule[Any], ...]]]:
    for module in iter_modules(assess.__path__):
        made = import_module(f"{assess.__name__}.{module.name}")
        for name in made.__annotations__:  # what it defines itself
            value = getattr(made, name, None)
            here = f"{module.name}.{name}"
            if isinstance(value, dict) and name == "AWAY":
                yield here, tuple(rule for each in value.values() for rule in each)
            elif (
                isinstance(value, tuple) and value and all(isinstance(each, Rule) for each in value)
            ):
                yield here, value


def page() -> str:
    """The whole page."""
    found = rules()
    placed = {each for keys in SECTIONS.values() for each in keys}
    assert found.keys() == placed, f"rules without a section: {found.keys() - placed}"
    anchors = set[str]()
    parts = [
        _part(title, [rule for key in keys for rule in found[key]], anchors)
        for title, keys in SECTIONS.items()
    ]
    return "\n".join([HEAD, *parts])


def _part(title: str, mine: Sequence[Rule[Any]], anchors: set[str]) -> str:
    head = "| finding | verdict | looks at | action |\n|---|---|---|---|\n"
    rows = dict[tuple[str, str], list[Rule[Any]]]()
    for each in mine:
        if not each.looks_at.endswith(WITHOUT_SECRET):
            rows.setdefault((each.name, each.remedy.removesuffix(JARS)), []).append(each)
    note = f"{JARS[2:]}.\n\n" if any(each.remedy.endswith(JARS) for each in mine) else ""
    lines = (_row(name, remedy, alike, anchors) for (name, remedy), alike in rows.items())
    return f"## {title}\n\n{note}{head}{''.join(lines)}"


def _row(name: str, remedy: str, alike: Sequence[Rule[Any]], anchors: set[str]) -> str:
    anchor = "" if name in anchors else f'<a id="{name}"></a>'
    anchors.add(name)
    verdicts = ", ".join(dict.fromkeys(map(_verdict, alike)))
    looks_at = ", ".join(dict.fromkeys(each.looks_at for each in alike))
    return f"| {anchor}`{name}` | {verdicts} | {looks_at} | {_text(remedy)} |\n"


def _verdict(rule: Rule[Any]) -> str:
    stops = f" ({'refused' if rule.name in BY_PLANNING else 'stops'})" if rule.stops else ""
    return f"{rule.verdict}{stops}"


def _text(words: str) -> str:
    """Words as Markdown shows them: a bar would end the cell, ``<…>`` would be a tag."""
    if re.fullmatch(r"\{\w+\}", words):
        return ""
    return re.sub(r"[|<>*]", lambda found: f"\\{found[0]}", words)
