"""Guards of a batch: each module holds one corner case, and nothing else of a batch knows it."""

from cdc_assets.merge.guards.guard import Guard, Refold, Setting
from cdc_assets.merge.guards.guards import GUARDS, Guards

__all__ = ["GUARDS", "Guard", "Guards", "Refold", "Setting"]
