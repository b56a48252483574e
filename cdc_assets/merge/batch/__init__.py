"""Executes one batch: reads, decodes, folds, applies it to a branch, and publishes."""

from cdc_assets.merge.batch.execution import BatchExecution, ExecutionResult

__all__ = ["BatchExecution", "ExecutionResult"]
