"""Marks every effect outside of this process with a named point.

An *effect* is a call that others can see or answer: a statement that Spark executes, a commit to a
catalog, a request to Kafka, a file, an event in Dagster. Each passes a point here, so that tests
can make each of them fail in each way: before it happens, or after it has happened and its reply is
lost. Without a hook, passing a point costs only reading a variable.

Names are ``part: what``, such as ``spark: fast-forward main``.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from enum import Enum, auto


class Moment(Enum):
    """The moment at which a point is passed."""

    BEFORE = auto()
    AFTER = auto()
    """Only for an effect that has succeeded."""


Hook = Callable[[str, Moment], None]
"""A function called at each point of each thread; its exceptions reach the effect's caller."""

_hook: Hook | None = None


class effect:
    """Surrounds one effect.

    Not made of a generator: that would write to errors on their way, and those of Hive's client
    refuse it.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._hook = _hook

    def __enter__(self) -> None:
        """Calls the hook before the effect."""
        if self._hook is not None:
            self._hook(self._name, Moment.BEFORE)

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        """Calls the hook after an effect that has succeeded."""
        if self._hook is not None and error is None:
            self._hook(self._name, Moment.AFTER)


@contextmanager
def hooked(hook: Hook) -> Generator[None]:
    """Installs a hook at every point of this process until the block ends."""
    global _hook  # noqa: PLW0603 - one switch for all threads, like a tracer
    before, _hook = _hook, hook
    try:
        yield
    finally:
        _hook = before
