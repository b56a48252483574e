"""Judges the configuration: of tables by those that there are, of logins by itself."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Final

from cdc_assets.config.strict import nearest
from cdc_assets.naming import some_of
from cdc_assets.operate.assess.finding import Finding, Place, yes_but
from cdc_assets.operate.plaintext import Plaintext

_NAMED: Final = 10


def judge_configured(
    at: Place, configured: Collection[str], known: Collection[str]
) -> Iterator[Finding]:
    """Yields a finding if the configuration has something to say of tables that are not known.

    Args:
        at: the source.
        configured: names of the tables in its ``tables``, as ``schema.table``.
        known: those of its tables in the registry.
    """
    missing = sorted(set(configured) - set(known))
    if not missing:
        return
    others = set(known) - set(configured)
    close = {name: nearest(name, others) for name in missing}
    words = [f"{name} ({other}?)" if (other := close[name]) else name for name in missing]
    yield yes_but(
        "table_unknown", at,
        f"tables: has {some_of(words, _NAMED)}, and no table of the source is called so",
        "what it says there (key, types, excluded and masked columns) holds for no table",
        "write the name as the source does, in its case too; or take it out",
    )  # fmt: skip


def judge_logins(at: Place, logins: Iterable[Plaintext]) -> Iterator[Finding]:
    """Yields a finding for each login of a source that whoever sits between may read or take."""
    for each in logins:
        if each.source in {"", at.source}:
            yield yes_but(
                "plaintext_login", at, f"{each.part}: {each.problem}",
                "whoever sits between may read the login, or answer in the server's place",
                each.remedy,
            )  # fmt: skip
