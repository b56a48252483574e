"""Holds the definitions that Dagster loads as ``cdc_assets.definitions``.

With a configuration (``$CDC_ASSETS_CONFIG``, else ``./replication.yaml``) they are that
replication. Without one they load, too, and show how to write one. A configuration that is
wrong, or that is named but missing, is a load error that says what to correct.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import dagster as dg

from cdc_assets.config import CONFIG_VARIABLE, DEFAULT_FILE, load_config
from cdc_assets.orchestration import build_definitions, build_guide
from cdc_assets.registry import RegistryFile

GUIDE = f"""There is no configuration yet, so there is nothing to replicate.

Write `{DEFAULT_FILE}` into the folder that Dagster is started from, or name a file in the
environment variable `{CONFIG_VARIABLE}`, and reload this code location:

    kafka: {{bootstrap_servers: 127.0.0.1:19092}}
    lake: {{catalog: {{type: sql, uri: "sqlite:///.cdc/lake/catalog.db"}}, warehouse: .cdc/lake}}
    sources:
      shop:
        format: debezium-json
        topics: {{include: ['shop\\..*']}}
"""


@dg.definitions
def defs() -> dg.Definitions:
    """Returns the definitions, read again at each load."""
    if not os.environ.get(CONFIG_VARIABLE) and not Path(DEFAULT_FILE).exists():
        return build_guide(GUIDE)
    config = load_config()
    registry = RegistryFile(config.registry).load()
    with _collector_paused():
        return build_definitions(config, registry)


@contextmanager
def _collector_paused() -> Iterator[None]:
    """Keeps Python's garbage collector from scanning definitions, all of which stay.

    For a thousand tables it takes a third of the loading time. A process loads them once.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if was_enabled:
            gc.enable()
