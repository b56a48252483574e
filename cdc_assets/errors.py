"""Defines the errors that a caller must tell apart, by what to do next.

Every error says what happened, where (table, topic, partition, offset) and what to do.
None contains row values or secrets: messages end up in logs and in the Dagster UI.

Each has an entry in ``docs/reference/errors.md``: the one of its class, or of its place in the code
if errors of one class have different remedies. A test compares the ids with the page's headings.
"""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from copy import copy
from typing import ClassVar, Final, Self

_PACKAGE: Final = "cdc_assets"


def printable(text: str, *, lines: bool = False) -> str:
    """Returns a text with escapes for what a terminal or a log would act on: ESC, line ends.

    Args:
        text: that somebody else may have written, such as a name.
        lines: whether line ends stay.
    """
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() or (lines and each == "\n") else _escaped(each) for each in text
    )


def _escaped(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")


class CdcError(Exception):
    """An error with its place and its remedy; characters that are not printable are escaped.

    Args:
        what: the problem, in one sentence without row values and without secrets.
        where: coordinates such as ``table=… topic=… partition=… offset=…``, or a file and key.
        remedy: the check or action that the reader should take.
        page: the id of its entry on the page of errors; that of its class if empty.
    """

    page: str = "other"

    def __init__(self, what: str, *, where: str = "", remedy: str = "", page: str = "") -> None:
        self.page = page or self.page
        self.what, self.where, self.remedy = (
            printable(each, lines=True) for each in (what, where, remedy)
        )
        parts = [
            self.what,
            f"[{self.where}]" if where else "",
            f"→ {self.remedy}" if remedy else "",
        ]
        super().__init__(" ".join(part for part in parts if part))

    def __reduce__(self) -> tuple[object, ...]:
        """Copies and pickles it whole: a class may need other arguments than the message."""
        return type(self).__new__, (type(self), *self.args), self.__dict__

    def but(self, *, where: str = "", remedy: str = "") -> Self:
        """Returns the same error with another place or another remedy."""
        found = copy(self)
        place, way = where or self.where, remedy or self.remedy
        CdcError.__init__(found, self.what, where=place, remedy=way, page=self.page)
        return found


class TransientError(CdcError):
    """Nothing was published; the same work may be retried unchanged."""

    page = "transient"


class UnreachableError(TransientError):
    """A part of the system did not answer: the message names it and its address."""

    page = "unreachable"


class LoginRefusedError(UnreachableError):
    """A part answered and refused our login or its rights; it works once they are renewed.

    Whoever keeps a client of that part makes a new one after it, which reads settings, secrets and
    certificates again.

    Attributes:
        count: the number of logins that were refused in this process. By it a secret that was
            fetched before is known to be in doubt.
    """

    page = "login-refused"
    count: ClassVar[int] = 0

    def __init__(self, what: str, *, where: str = "", remedy: str = "") -> None:
        super().__init__(what, where=where, remedy=remedy)
        LoginRefusedError.count += 1


class HungError(UnreachableError):
    """A step took too long and was ended; its unpublished work will not be published later."""

    page = "hung"


class ConflictError(TransientError):
    """Another writer published first; start again from the table's new head."""

    page = "conflict"


class CutShortError(TransientError):
    """A batch ends inside a unit such as a transaction; a longer batch may contain the rest."""

    page = "cut-short"


class TerminalError(CdcError):
    """A retry cannot help; the table stops until a person has acted."""

    page = "terminal"


class ConfigError(TerminalError):
    """The configuration is wrong; names file, key and remedy."""

    page = "config"


class UnsetVariableError(ConfigError):
    """This process lacks a variable or file with a secret; another process may have it."""

    page = "unset-variable"


class LostRangeError(TerminalError):
    """The log no longer holds offsets that were never merged; names the exact range."""

    page = "lost-range"


class SilentChangeError(TerminalError):
    """Rows changed at the source without events, or will; names the reason.

    Args:
        what: as for any error.
        where: likewise.
        remedy: likewise.
        learned: properties of the lake table that remember it: what was seen once is not shown by
            the next look.
    """

    page = "silent-change"

    def __init__(self, what: str, *, where: str, remedy: str, learned: Mapping[str, str]) -> None:
        super().__init__(what, where=where, remedy=remedy)
        self.learned = learned


class LogReplacedError(TerminalError):
    """The topic or the cluster is not the one that the table's offsets belong to."""

    page = "log-replaced"


class RejectedRecordError(TerminalError):
    """A record cannot be merged exactly; names the first coordinate and how many there are."""

    page = "rejected-record"


class StalledError(TerminalError):
    """A table has waited too long for the end of a transaction; it continues once that comes."""

    page = "stalled"


class HeldError(TerminalError):
    """People have paused or dropped the table: nothing is merged into it until they resume it."""

    page = "paused"


class OutcomeUnknownError(CdcError):
    """The catalog may or may not have accepted a publish: look for the attempt id first."""

    page = "outcome-unknown"


def message_of(error: Exception) -> str:
    """Returns an error's message without anything that must not be shown or stored."""
    if isinstance(error, CdcError):
        return str(error)
    condition = _spark_condition(error)
    about = f" ({condition})" if condition else ""
    return f"unexpected {type(error).__qualname__}{about} at {_place(error)}"


def _spark_condition(error: Exception) -> str:
    """Returns Spark's name of the error, such as ``CAST_INVALID_INPUT``, without parameters."""
    for name in ("getCondition", "getErrorClass"):
        read = getattr(error, name, None)
        if callable(read) and (condition := read()):
            return str(condition)
    return ""


def _place(error: Exception) -> str:
    """Returns the innermost line of our code in the traceback; of any code if none is ours."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if f"/{_PACKAGE}/" in frame.filename] or frames
    return f"{ours[-1].filename.rpartition('/')[2]}:{ours[-1].lineno}" if ours else "?"


def frames_of(error: Exception) -> str:
    """Returns the lines of code of an error's traceback, without its text."""
    frames = traceback.extract_tb(error.__traceback__)
    return "\n".join(f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames)
