"""Jobs of a project that is not ours alone, under the executors that users have."""

from __future__ import annotations

import os

import dagster as dg

import cdc_assets

CONFIG = "CDC_ASSETS_TESTS_MOUNTED"


def multiprocess() -> dg.JobDefinition:
    """Each step in a process of its own."""
    return _job(dg.multiprocess_executor)


def in_process() -> dg.JobDefinition:
    """One step after the other."""
    return _job(dg.in_process_executor)


def _job(executor: dg.ExecutorDefinition) -> dg.JobDefinition:
    ours = cdc_assets.build_definitions(os.environ[CONFIG], name="mounted")
    tables = dg.AssetSelection.all() - dg.AssetSelection.groups("maintenance")
    job = dg.define_asset_job("all_tables", tables)
    project = dg.Definitions(executor=executor, jobs=[job])
    return dg.Definitions.merge(project, ours).resolve_job_def("all_tables")
