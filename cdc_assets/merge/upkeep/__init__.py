"""Upkeep of a lake table and its side tables: needs by figures, and Iceberg's procedures."""

from cdc_assets.merge.upkeep.needs import Needs
from cdc_assets.merge.upkeep.statements import UpkeepStep
from cdc_assets.merge.upkeep.upkeep import Upkeep

__all__ = ["Needs", "Upkeep", "UpkeepStep"]
