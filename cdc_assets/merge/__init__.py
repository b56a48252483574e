"""Spark: session, read, decode, fold, apply, publish."""

from cdc_assets.merge.plan.result import BatchResult, Waiting
from cdc_assets.merge.replicate import Replicator

__all__ = ["BatchResult", "Replicator", "Waiting"]
