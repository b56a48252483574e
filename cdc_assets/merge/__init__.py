"""Merges batches with Spark: plans, reads, decodes, folds, applies and publishes them."""

from cdc_assets.merge.plan.result import BatchResult, Waiting
from cdc_assets.merge.replicate import Replicator

__all__ = ["BatchResult", "Replicator", "Waiting"]
