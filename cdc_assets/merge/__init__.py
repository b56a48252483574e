"""Spark: session, read, decode, fold, apply, publish."""

from cdc_assets.merge.replicate import Replicator
from cdc_assets.merge.result import BatchResult, Waiting

__all__ = ["BatchResult", "Replicator", "Waiting"]
