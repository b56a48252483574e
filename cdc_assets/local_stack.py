"""Finds the local stack, a distribution of its own: a deployment on a cluster has none."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Final

from cdc_assets.errors import TerminalError

DEVSTACK: Final = "cdc_assets_devstack"
"""Its package."""


def devstack(module: str) -> ModuleType:
    """Imports a module of the local stack's package.

    Raises:
        TerminalError: if the package is not installed.
    """
    if find_spec(DEVSTACK) is None:
        msg = "the local stack is not installed"
        raise TerminalError(
            msg,
            remedy="pip install 'cdc-assets[stack]', or name a Spark server: spark.remote: sc://…",
        )
    return import_module(f"{DEVSTACK}.{module}")
