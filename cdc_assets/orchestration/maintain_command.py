"""Maintains lake tables without the daemon, for `cdc-assets maintain`."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from rich.console import Console

from cdc_assets.config import ReplicationConfig
from cdc_assets.errors import CdcError, ConfigError
from cdc_assets.operate.discovery import find_table, replicated
from cdc_assets.operate.services import Services
from cdc_assets.orchestration import liveness
from cdc_assets.orchestration.failing import message_of
from cdc_assets.orchestration.instance import QUIET, open_instance, reason_of
from cdc_assets.orchestration.keys import (
    MAINTENANCE,
    TAG_PROCESS,
    maintenance_op,
    run_tags,
    spark_key,
)
from cdc_assets.orchestration.maintaining import (
    Tables,
    by_target,
    maintenance_asset,
    needed,
    no_session,
    upkeep_of,
    words,
)
from cdc_assets.orchestration.resources import spark_resource
from cdc_assets.orchestration.side_by_side import materialize

if TYPE_CHECKING:
    from cdc_assets.merge.upkeep import Done


def run_maintain(
    config: ReplicationConfig, table: str | None, *, dry_run: bool, orphans: bool
) -> dict[str, str]:
    """Maintains tables, or says what they need.

    Args:
        config: the configuration.
        table: ``[source.][schema.]table``; None for all.
        dry_run: whether only to say what is needed.
        orphans: whether also to remove the files that no snapshot names.

    Returns:
        The lake tables that failed, with the reason.

    Raises:
        CdcError: if a part that all tables need does not answer, or nothing is selected.
    """
    services, out = Services(config), Console()
    entries = replicated(config, services.registry.load())
    if table is not None:
        target = find_table(config, services.registry.load(), table).target
        entries = [each for each in entries if each.target == target]
    if not entries:
        msg = "no table is known yet"
        raise ConfigError(msg, remedy="start cdc-assets replicate first")
    if not dry_run:
        return _maintained(config, by_target(entries), orphans=orphans, say=out.print)
    failed = dict[str, str]()
    for tables in by_target(entries):
        try:
            for needs in upkeep_of(config, tables, services.lake, no_session).needs():
                out.print(needed(needs), highlight=False, soft_wrap=True)
        except CdcError as error:
            failed[str(tables[0].target)] = message_of(error)
    return failed


def _maintained(
    config: ReplicationConfig,
    groups: Sequence[Tables],
    *,
    orphans: bool,
    say: Callable[..., None],
) -> dict[str, str]:
    """Maintains lake tables, one after the other.

    Args:
        config: the configuration.
        groups: for each lake table, the tables that are merged into it.
        orphans: whether also to remove the files that no snapshot names.
        say: receives each step in words.

    Returns:
        The lake tables that failed, with the reason.
    """
    failed, name = dict[str, str](), uuid.uuid4().hex
    with open_instance() as instance:
        for tables in groups:
            target, steps = tables[0].target, list[str]()

            def told(done: Done, steps: list[str] = steps) -> None:
                steps.append(words(done))
                say(words(done), highlight=False, soft_wrap=True)

            liveness.hold(config.home, name)
            wish = {"orphans": orphans, "whole": True}
            result = materialize(
                [maintenance_asset(config, tables, told)],
                instance=instance,
                resources={spark_key(config): spark_resource(config)},
                run_config={**QUIET, "ops": {maintenance_op(config, target): {"config": wish}}},
                tags={**run_tags(config, MAINTENANCE, tables), TAG_PROCESS: name},
            )
            for event in result.get_step_failure_events():
                failed[str(target)] = reason_of(event)
            if not steps and str(target) not in failed:
                say(f"{target}: nothing to do", highlight=False)
    return failed
