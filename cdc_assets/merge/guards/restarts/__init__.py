"""A numbering of positions that went back, as after a restore of the source."""

from cdc_assets.merge.guards.restarts.guard import RestartedSource

__all__ = ["RestartedSource"]
