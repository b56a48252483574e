"""Generates ``docs/reference/findings.md`` from the rules of assess."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import import_module
from pkgutil import iter_modules
from typing import Any, Final

from cdc_assets.operate import assess
from cdc_assets.operate.assess.finding import Rule
from cdc_assets.operate.assess.gate import BY_PLANNING

HEAD: Final = (
    "# Findings\n\n"
    "Generated from the rules of `cdc-assets assess` (`python -m cdc_assets_tests.pages`). To use "
    "them: [Assess sources](../how-to/run/assess-sources.md). Accept a finding by its name: "
    "`sources.<name>.assess.accept: [compacted]`. `assess` prints problem and impact. *Stops*: the "
    "table's first batch is refused. "
    "Words in braces come from the facts. Where this process lacks the secret of a part, the "
    "finding of a silent part is PARTIAL: see the check `assessed`, whose process may have the "
    "secret.\n"
)
WITHOUT_SECRET: Final = "without its secret in this process"
TITLES: Final = {
    "look.CONFIGURED": "Configuration",
    "look.LOGINS": "Logins",
    "look.ASKED": "Parts without access",
    "look.UNSEARCHED": "Values that were not searched",
    "parts.AWAY": "Parts that do not answer",
    "database.POSTGRES": "PostgreSQL's server",
    "database.BINLOG": "The server of MySQL or MariaDB",
    "database.USERS": "The connector's user",
    "connector_rules.RULES": "Connectors",
    "topics.RULES": "Topics",
    "tables.MISSING": "Tables that are gone",
    "tables.RULES": "Tables and columns",
    "parts.SPARK": "Spark",
    "parts.WAREHOUSE": "The warehouse",
    "lake.READ": "The lake's readers",
    "lake.MAINTAINED": "Catalogs that maintain tables themselves",
    "writing.CATALOG": "The catalog",
    "writing.NAMESPACES": "Spark's account",
    "database.CLOCKS": "Clocks",
}
"""Of each tuple of rules: a new one needs a title here."""


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
    untitled = found.keys() - TITLES.keys()
    anchors = set[str]()
    parts = [_part(title, found[key], anchors) for key, title in TITLES.items()]
    assert not untitled, f"rules without a title on the page: {untitled}"
    return "\n".join([HEAD, *parts])


def _part(title: str, mine: tuple[Rule[Any], ...], anchors: set[str]) -> str:
    head = "| finding | verdict | looks at | what to do |\n|---|---|---|---|\n"
    shown = [each for each in mine if not each.looks_at.endswith(WITHOUT_SECRET)]
    return f"## {title}\n\n{head}" + "".join(_row(each, anchors) for each in shown)


def _row(rule: Rule[Any], anchors: set[str]) -> str:
    stops = ""
    if rule.stops:
        stops = ", stops (by planning)" if rule.name in BY_PLANNING else ", stops"
    anchor = "" if rule.name in anchors else f'<a id="{rule.name}"></a>'
    anchors.add(rule.name)
    cells = (f"{anchor}`{rule.name}`", f"{rule.verdict}{stops}", rule.looks_at,
             _text(rule.remedy))  # fmt: skip
    return f"| {' | '.join(cells)} |\n"


def _text(words: str) -> str:
    """Words as Markdown shows them: a bar would end the cell, ``<…>`` would be a tag."""
    if re.fullmatch(r"\{\w+\}", words):
        return "*in the finding*"
    return re.sub(r"[|<>*]", lambda found: f"\\{found[0]}", words)
