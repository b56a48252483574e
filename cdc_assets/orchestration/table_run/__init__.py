"""Merges one table in a run: the work of materializing its asset.

- `run` takes the table's turns and shows failures, as the run's `intention` and people's `wishes`
  demand.
- `one_turn` and `turn_by_turn` are the two ways of a run: until the table has caught up, or as
  long as the run stays. Both go through `beginning` (with `renamed`) and `draining`; one turn may
  be `replaying`.
- `batch_report`, `events`, `step_checks` and `failure_record` show and record the outcome.
- `step` holds what all of them share.
"""

from cdc_assets.orchestration.table_run.events import Event
from cdc_assets.orchestration.table_run.intention import Intention, intention_of
from cdc_assets.orchestration.table_run.run import TableRun
from cdc_assets.orchestration.table_run.step import OnBatch

__all__ = ["Event", "Intention", "OnBatch", "TableRun", "intention_of"]
