"""Seconds, CPU seconds and peak memory of processes."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

import psutil

SAMPLE_SECONDS = 0.25


@dataclass(frozen=True)
class Taken:
    """What one thing took."""

    seconds: float
    cpu_seconds: float


class Meter:
    """Measures work that a server does for this process.

    Args:
        pid: of the server, whose CPU seconds are counted.
    """

    def __init__(self, pid: int) -> None:
        self._process = psutil.Process(pid)

    def take(self, work: Callable[[], object]) -> Taken:
        """Do it, once."""
        cpu, started = self.cpu_seconds(), time.perf_counter()
        work()
        return Taken(time.perf_counter() - started, self.cpu_seconds() - cpu)

    def cpu_seconds(self) -> float:
        """What the server has taken since its start."""
        times = self._process.cpu_times()
        return times.user + times.system


Roles = Callable[[], Mapping[str, list[psutil.Process]]]
"""Processes by what they are, looked up anew for each sample: they come and go."""


@dataclass
class MemoryPeaks:
    """The highest resident size of any one process of each role, in bytes."""

    roles: Roles
    peaks: dict[str, int] = field(default_factory=dict)

    @contextmanager
    def sampled(self) -> Iterator[None]:
        """Look several times a second while the block runs."""
        stop = threading.Event()
        thread = threading.Thread(target=self._sample, args=(stop,), daemon=True)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()

    def _sample(self, stop: threading.Event) -> None:
        while not stop.wait(SAMPLE_SECONDS):
            for role, processes in self.roles().items():
                for process in processes:
                    with contextlib.suppress(psutil.Error):
                        size = process.memory_info().rss
                        self.peaks[role] = max(size, self.peaks.get(role, 0))

    def rows(self, goals: Mapping[str, str]) -> list[dict[str, object]]:
        """For a table."""
        return [
            {"process": role, "peak MiB": round(size / 2**20), "goal": goals.get(role, "")}
            for role, size in sorted(self.peaks.items())
        ]
