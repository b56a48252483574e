"""Merges one table in a run: the work of materializing its asset.

- `run` takes the table's turns: one, or turn after turn as long as the run stays.
- `batches` merges in a turn: the next batches, hours once more, the rows of a renamed table.
- `report` shows and records the outcome: events, checks, failures.
- `step` holds what all of them share, and reads the run's intention and the table's directives.
"""

from cdc_assets.orchestration.table_run.report import Event
from cdc_assets.orchestration.table_run.run import TableRun
from cdc_assets.orchestration.table_run.step import Intention, OnBatch, intention_of

__all__ = ["Event", "Intention", "OnBatch", "TableRun", "intention_of"]
