"""Two registries in one folder: neither sees, takes or overwrites anything of the other."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from cdc_assets.changes.alerting import AlertKind, Group
from cdc_assets.changes.names import TableName
from cdc_assets.desired import NOTHING, DesiredBook, Directive, DirectiveNote
from cdc_assets.operate.alerts import AlertBook
from cdc_assets.operate.failures import FailureKind
from cdc_assets.operate.seen_states import Condition, SeenState
from cdc_assets.operate.services import Services
from cdc_assets.operations.resnapshot.notes import ResnapshotBook, ResnapshotProgress
from cdc_assets_tests.configuration import platform, source, write

pytestmark = pytest.mark.unit

AT = datetime(2026, 3, 4, 12, tzinfo=UTC)
ORDERS = TableName("shop", "public", "orders")
EAST_ONLY = TableName("shop", "public", "east_only")
BEGUN = ResnapshotProgress(AT, ("id",), 2)


@pytest.fixture
def both(tmp_path: Path) -> tuple[Services, Services]:
    """Replications whose registries have one folder, and whose sources have one name."""

    def of(name: str) -> Services:
        document = platform(registry=f"{name}.json", sources={"shop": source("shop")})
        return Services(write(tmp_path / f"{name}.yaml", document))

    return of("east"), of("west")


def test_what_is_kept_of_one_is_not_the_others(both: tuple[Services, Services]) -> None:
    east, west = both
    east.desired.put(ORDERS, Directive.PAUSED, DirectiveNote(AT))
    east.failures.record(ORDERS, FailureKind.TERMINAL, "x", AT)
    ResnapshotBook.of_registry(east.config.registry).keep(ORDERS, BEGUN)
    alerts = AlertBook.of_registry(east.config.registry)
    alerts.save({(AlertKind.TABLE_FAILED, "shop"): Group({}, None, None, ())})

    assert west.desired.load() == {}
    assert west.desired.of(ORDERS) == NOTHING
    assert west.failures.load() == {}
    assert ResnapshotBook.of_registry(west.config.registry).load(ORDERS) is None
    assert AlertBook.of_registry(west.config.registry).load() == {}

    west.desired.remove(ORDERS, Directive.PAUSED)
    west.failures.clear(ORDERS)
    assert not ResnapshotBook.of_registry(west.config.registry).forget(ORDERS)
    assert east.desired.of(ORDERS).paused == DirectiveNote(AT)
    assert east.failures.load_one(ORDERS) is not None
    assert ResnapshotBook.of_registry(east.config.registry).load(ORDERS) == BEGUN


def test_a_look_at_one_forgets_no_states_of_the_other(both: tuple[Services, Services]) -> None:
    east, west = both
    east.states.note({EAST_ONLY: Condition.REPLICATING, ORDERS: Condition.FAILING}, AT)
    west.states.note({ORDERS: Condition.REPLICATING}, AT)
    assert east.states.load() == {
        EAST_ONLY: SeenState(Condition.REPLICATING, None),
        ORDERS: SeenState(Condition.FAILING, None),
    }
    assert west.states.load() == {ORDERS: SeenState(Condition.REPLICATING, None)}


def test_a_registrys_documents_are_named_after_it_wherever_it_is(tmp_path: Path) -> None:
    assert DesiredBook.of_registry("memory://a.b/east.json").url == "memory://a.b/east.desired"
    assert DesiredBook.of_registry(f"{tmp_path}/a.json/b").url == f"{tmp_path}/a.json/b.desired"
