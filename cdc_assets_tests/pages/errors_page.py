"""Generates ``docs/reference/errors.md`` from the table of errors."""

# ruff: noqa: E501 (lines of a page)

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from cdc_assets.reference import ERRORS, ErrorEntry

HEAD: Final = """\
# Errors

Generated from the code (`python -m cdc_assets_tests.pages`).

A message has one form: what failed `[where]` → next step; see the address of its entry here. It
never contains a row's value or a secret. Dagster shows the same parts as metadata of the failed
step.

| kind | meaning | what happens |
|---|---|---|
| transient | a part did not answer, or another writer committed first | two more attempts within the run, then the sensor retries. A step that hung is not retried within the run |
| login refused | a part refused the login or its rights | retried after 1 minute, then up to every 5; checks are red and an alert goes out at once |
| terminal | a retry cannot help | the table stops; an operator acts. It is still retried after 1 minute, doubling up to an hour |
| outcome unknown | the reply to a commit was lost, and the table cannot be read | nothing is removed; the next run finds out before it merges |
| unexpected | an error of another program | type and line of code are shown, never its text; the table stops |

What a stopped table does: [When a table stops](states.md#when-a-table-stops).
"""
MESSAGES: Final = "Messages"
KINDS: Final = "Kinds of errors"


def page() -> str:
    """The whole page."""
    own = [each for each in ERRORS if each.phrases]
    others = [each for each in ERRORS if not each.phrases]
    about = "Each other message has the entry of its kind."
    parts = [HEAD, f"## {MESSAGES}\n", *map(_entry, own), f"## {KINDS}\n\n{about}\n"]
    return "\n".join([*parts, *map(_entry, others)])


def _entry(each: ErrorEntry) -> str:
    return f'<a id="{each.id}"></a>\n\n### {_title(each)}\n\n{"".join(_lines(each))}'


def _title(each: ErrorEntry) -> str:
    return each.id.replace("-", " ").capitalize()


def _lines(each: ErrorEntry) -> Iterator[str]:
    if each.phrases:
        shown = ", ".join(f"`{_shown(phrase)}`" for phrase in each.phrases)
        yield f"Message: {shown}\n\n"
    elif each.kind not in {"Exception", "CdcError"}:
        yield f"Kind: `{each.kind}`\n\n"
    yield f"{each.means}\n\n**Do:** {each.remedy}\n"


def _shown(phrase: str) -> str:
    """Returns a part of a message with dots where the message continues."""
    before = "…" if phrase[0] in " ,)" or phrase.startswith(("of ", "and ", "record", "bytes",
             "deleted", "created", "document", "which")) else ""  # fmt: skip
    return f"{before}{phrase}{'…' if phrase.endswith((' ', '(')) else ''}"
