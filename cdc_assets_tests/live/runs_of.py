"""The runs of a running demo, as its Dagster instance tells of them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import dagster as dg

from cdc_assets.orchestration.keys import TAG_MODE, TAIL

_PID = re.compile(r"side by side \(pid: (\d+)\)")


@dataclass(frozen=True)
class Runs:
    """Those that sensors have started."""

    instance: dg.DagsterInstance

    def staying(self, table: dg.AssetKey) -> str | None:
        """A run that is under way, and has materialized this table more than once."""
        for each in self._runs(dg.DagsterRunStatus.STARTED):
            if self.materialized(each.run_id)[table] > 1:
                return each.run_id
        return None

    def status(self, run: str) -> dg.DagsterRunStatus:
        """Of one."""
        found = self.instance.get_run_by_id(run)
        assert found is not None
        return found.status

    def materialized(self, run: str) -> Counter[dg.AssetKey]:
        """How often it has materialized what."""
        records = self.instance.all_logs(run, of_type=dg.DagsterEventType.ASSET_MATERIALIZATION)
        events = (each.dagster_event for each in records)
        return Counter(each.asset_key for each in events if each and each.asset_key)

    def pid(self, run: str) -> int:
        """Of its process."""
        told = (each.dagster_event.message or "" if each.dagster_event else ""
                for each in self.instance.all_logs(run))  # fmt: skip
        return next(int(match[1]) for each in told if (match := _PID.search(each)))

    def _runs(self, *statuses: dg.DagsterRunStatus) -> list[dg.DagsterRun]:
        wanted = dg.RunsFilter(statuses=list(statuses), tags={TAG_MODE: TAIL})
        return list(self.instance.get_runs(wanted))


@contextmanager
def runs_of(home: Path) -> Iterator[Runs]:
    """Those of an instance in this folder."""
    with dg.DagsterInstance.from_config(str(home)) as instance:
        yield Runs(instance)
