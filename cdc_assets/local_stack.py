"""Imports what only some installations have: the local stack, and what an extra brings."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Final

from cdc_assets.errors import TerminalError

DEVSTACK: Final = "cdc_assets_devstack"
"""The local stack's package, a distribution of its own: a deployment on a cluster has none."""


def devstack(module: str) -> ModuleType:
    """Imports a module of the local stack's package, for the Spark server on this machine.

    Raises:
        TerminalError: if the package is not installed.
    """
    otherwise = "or name another Spark server: spark.remote: sc://…"
    require(DEVSTACK, "spark.remote: local needs a Spark server that is", "local", otherwise)
    return import_module(f"{DEVSTACK}.{module}")


def require(package: str, what: str, extra: str, otherwise: str = "") -> None:
    """Requires a package that an extra of ours brings.

    Args:
        package: its import name, at the top.
        what: what it is for, with its verb: ``spark.master needs Spark, which is``.
        extra: the extra's name.
        otherwise: another way out.

    Raises:
        TerminalError: if it is not installed.
    """
    if find_spec(package) is None:
        remedy = f"pip install 'cdc-assets[{extra}]'"
        msg = f"{what} not installed"
        raise TerminalError(msg, remedy=f"{remedy}, {otherwise}" if otherwise else remedy)
