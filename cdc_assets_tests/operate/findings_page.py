"""``docs/findings.md``, made of assess's rules themselves: ``python -m … > docs/findings.md``."""

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
    "Made of the rules of [`cdc-assets assess`](operations.md#assessment) themselves "
    "(`python -m cdc_assets_tests.operate.findings_page`), and held against them by a test. A "
    "finding is accepted by its name: `sources.<name>.assess.accept: [compacted]`. *Stops* is what "
    "a table's first batch does not pass. Words in braces come from what was found.\n"
)
TITLES: Final = {
    "look.CONFIGURED": "Configuration",
    "look.LOGINS": "Logins",
    "look.ASKED": "Parts that nobody can ask",
    "look.UNSEARCHED": "Values that nobody has searched",
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
    parts = [_part(title, found[key]) for key, title in TITLES.items()]
    assert not untitled, f"rules without a title on the page: {untitled}"
    return "\n".join([HEAD, *parts])


def _part(title: str, mine: tuple[Rule[Any], ...]) -> str:
    head = "| finding | verdict | looks at | impact | what to do |\n|---|---|---|---|---|\n"
    return f"## {title}\n\n{head}" + "".join(_row(each) for each in mine)


def _row(rule: Rule[Any]) -> str:
    stops = ""
    if rule.stops:
        stops = ", stops (by planning)" if rule.name in BY_PLANNING else ", stops"
    cells = (f"`{rule.name}`", f"{rule.verdict}{stops}", rule.looks_at,
             _text(rule.impact), _text(rule.remedy))  # fmt: skip
    return f"| {' | '.join(cells)} |\n"


def _text(words: str) -> str:
    """Words as Markdown shows them: a bar would end the cell, ``<…>`` would be a tag."""
    if re.fullmatch(r"\{\w+\}", words):
        return "*the finding says it*"
    return re.sub(r"[|<>*]", lambda found: f"\\{found[0]}", words)


if __name__ == "__main__":
    print(page(), end="")
