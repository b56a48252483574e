"""Step 1 of a rebuild: makes the table beside, which says from its creation on where it begins."""

from __future__ import annotations

import uuid

from cdc_assets.changes.offsets import OffsetVector
from cdc_assets.errors import TerminalError
from cdc_assets.lake import TableState
from cdc_assets.lake.at_source import AtSource
from cdc_assets.merge.intake.layouts import execute_steps
from cdc_assets.merge.intake.planning import BEGIN, BEGIN_TOPIC, BEGIN_WHOLE
from cdc_assets.merge.intake.unlogged_changes import look_at
from cdc_assets.merge.plan.table_steps import created_with
from cdc_assets.merge.rebuild.site import Site
from cdc_assets.merge.rebuild.standing import ID, Standing, awaits_snapshot, has_place, id_of


def begin(site: Site, standing: Standing, *, from_now: bool) -> TableState:
    """Makes the table beside, if it is not there, and returns it; see `Rebuild.begin`."""
    entry = site.entry_beside(standing.generation)
    begins = from_now or (standing.beside is not None and has_place(standing.beside))
    if site.entry.renamed is not None and not begins:
        what = "its topic holds only what came since it was renamed at its source"
        remedy = site.config.source(entry.table.source).built_anew_by(entry.table)
        raise TerminalError(what, where=site.where, remedy=remedy)
    if from_now and standing.beside is not None and not awaits_snapshot(standing.beside):
        option = "--from-snapshot"
        raise site.begun_from_log(option)
    place = {ID: str(uuid.uuid4()), **_beginning(site, standing.old, from_now=from_now)}
    tables = site.planner.tables(entry)
    steps = created_with(tables.plan(standing.beside).steps, place)
    execute_steps(site.spark(), site.catalog, entry, steps)
    state = site.state_beside(standing.generation)
    if state is None or id_of(state) != (id_of(standing.beside) if standing.beside else place[ID]):
        raise site.moved()
    return state


def began(site: Site, old: TableState) -> OffsetVector | None:
    """Returns where its log begins, if its topic holds other changes before; else None.

    A table that began behind another one of its name, or with a new snapshot, begins there
    again.
    """
    before = old.published
    if before is None or before.topic_id != site.planner.identity(site.entry).topic_id:
        return None
    log_begin = site.planner.marks(site.entry).begin
    behind = before.carried.begun_behind(log_begin)
    if behind and site.config.source(site.entry.table.source).lost_start == "accept":
        return behind.merged_max(log_begin)
    return behind


def _beginning(site: Site, old: TableState, *, from_now: bool) -> dict[str, str]:
    """Returns properties that say where a new table begins; none for the log's beginning."""
    topic = site.planner.identity(site.entry).topic_id
    if from_now:
        said, source = AtSource.of(old, site.entry.shard_value), site.entry.table.source
        look = look_at(site.config.source(source), site.entry)
        begun = AtSource(silent=said.silent).read_anew(look, site.entry.shard_value)
        end = site.planner.marks(site.entry).end
        return {BEGIN: end.to_json(), BEGIN_TOPIC: topic, **begun}
    behind = began(site, old)
    if behind is None:
        return {}
    return {BEGIN: behind.to_json(), BEGIN_TOPIC: topic, BEGIN_WHOLE: "true"}
