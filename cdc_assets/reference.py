"""Gives the addresses of the documentation's pages, which messages end with."""

from __future__ import annotations

from typing import Final

from cdc_assets.errors import CdcError, message_of

PAGES: Final = "https://github.com/cdc-assets/cdc-assets/blob/main/docs/"
"""The address below which all pages are."""

_UNEXPECTED: Final = "unexpected"
"""The entry of errors that are not ours."""


def page(path: str) -> str:
    """Returns the address of a page of the documentation, by the page's path below ``docs/``."""
    return PAGES + path


def finding_page(name: str) -> str:
    """Returns the address of a finding's entry."""
    return page(f"reference/findings.md#{name}")


def error_page(error: Exception) -> str:
    """Returns the address of an error's entry."""
    entry = error.page if isinstance(error, CdcError) else _UNEXPECTED
    return page(f"reference/errors.md#{entry}")


def explained(error: Exception) -> str:
    """Returns an error's message, followed by the address of its entry.

    A message that repeats an explained one has that one's address.
    """
    message = message_of(error)
    return message if PAGES in message else f"{message}; see {error_page(error)}"
