"""Defines the replication in Dagster: assets, partitions, sensors, checks, jobs, resources."""

from cdc_assets.orchestration.build import build_definitions, build_guide, mounted_definitions

__all__ = ["build_definitions", "build_guide", "mounted_definitions"]
