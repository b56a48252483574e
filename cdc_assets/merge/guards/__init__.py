"""Guards of a batch: each module holds one corner case, and nothing else of a batch knows it."""

from cdc_assets.merge.guards.guard import Again, Guard, Setting
from cdc_assets.merge.guards.guards import GUARDS, Guards

__all__ = ["GUARDS", "Again", "Guard", "Guards", "Setting"]
