"""Named points at every effect outside of this process.

An *effect* is a call that others can see or that others answer: a statement that Spark
executes, a commit to a catalog, a request to Kafka, a file, an event in Dagster. Each passes a
point here, so that tests can let each of them fail in each way: before it happens, or after it
has happened and its reply is lost. Without a hook, passing a point costs a look at a variable.

Names are ``part: what``, such as ``spark: fast-forward main``; docs/proof.md lists them.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from enum import Enum, auto


class Moment(Enum):
    """When a point is passed."""

    BEFORE = auto()
    AFTER = auto()
    """Only of an effect that has succeeded."""


Hook = Callable[[str, Moment], None]
"""Called at each point of each thread; what it raises is what the caller of the effect sees."""

_hook: Hook | None = None


@contextmanager
def effect(name: str) -> Generator[None]:
    """Surrounds one effect."""
    hook = _hook
    if hook is None:
        yield
        return
    hook(name, Moment.BEFORE)
    yield
    hook(name, Moment.AFTER)


@contextmanager
def hooked(hook: Hook) -> Generator[None]:
    """With a hook at every point of this process, until the block ends."""
    global _hook  # noqa: PLW0603 - one switch for all threads, like a tracer
    before, _hook = _hook, hook
    try:
        yield
    finally:
        _hook = before
