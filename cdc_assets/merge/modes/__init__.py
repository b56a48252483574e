"""The modes of tables: what each decides about the batches that are merged into them."""

from cdc_assets.changes.mode import Mode
from cdc_assets.merge.modes.application import Application
from cdc_assets.merge.modes.changelog import Changelog
from cdc_assets.merge.modes.history import History
from cdc_assets.merge.modes.keyless import Keyless
from cdc_assets.merge.modes.mirror import Mirror
from cdc_assets.merge.modes.mode import TableMode
from cdc_assets.merge.plan.plan import BatchPlan

__all__ = ["Application", "TableMode", "mode_of"]


def mode_of(plan: BatchPlan) -> TableMode:
    """Returns how the table of a plan takes changes."""
    match plan.mode:
        case Mode.CHANGELOG:
            return Changelog()
        case Mode.HISTORY:
            return History()
        case Mode.MIRROR:
            return Mirror() if plan.schema.key else Keyless()
