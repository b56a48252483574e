"""Every cut of a source is a state that the source had; the heads of its tables are not.

PostgreSQL under load of transfers over three tables → Debezium → Kafka → runs of
``cdc-assets replicate`` → Iceberg → PyIceberg at the snapshots of the cuts.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

import pytest
from cdc_assets_devstack.stack import LocalStack
from pyiceberg.catalog import Catalog
from pyiceberg.table import Table

from cdc_assets import consistent
from cdc_assets.config import ReplicationConfig
from cdc_assets.lake.connection import CatalogConnection
from cdc_assets.lake.cuts import TAG, CutLake, StoredCut, cuts_name
from cdc_assets_tests.stack.bank import MAKE, TABLES, Rows, Transfers, violations
from cdc_assets_tests.stack.replicated import Replicated, new_database, replicated
from cdc_assets_tests.waiting import until

pytestmark = [pytest.mark.stack, pytest.mark.timeout(1200)]

NAME = "bank"
SEED = int(os.environ.get("CDC_ASSETS_SEED", "11"))


@pytest.fixture
def bank(stack: LocalStack, stack_config: ReplicationConfig) -> Iterator[Replicated]:
    dsn = new_database(stack, NAME, *MAKE)
    topics = {"include": [rf"{NAME}\.(transaction|public\.({'|'.join(TABLES)}))"]}
    with replicated(
        stack, stack_config, NAME, dsn, topics=topics, consistent={"every": "1s", "keep": "1d"}
    ) as made:
        yield made
    stack.up(["connect"])


def catalog_of(config: ReplicationConfig) -> Catalog:
    return CatalogConnection(config.lake).catalog


def rows(table: Table) -> Rows:
    return table.scan().to_arrow().to_pylist()


def heads(bank: Replicated) -> Mapping[str, Rows]:
    catalog = catalog_of(bank.config)
    targets = {each: bank.entry(each).target for each in TABLES}
    return {each: rows(catalog.load_table((to.namespace, to.name))) for each, to in targets.items()}


def at_cut(bank: Replicated, cut: StoredCut) -> Mapping[str, Rows]:
    found = consistent(catalog_of(bank.config), NAME, cut.committed_at)
    assert found.cut.committed_at == cut.committed_at
    return {name.partition(".")[2]: rows(each) for name, each in found.items()}


def test_every_cut_is_a_state_of_the_source_and_heads_are_not(
    bank: Replicated, capsys: pytest.CaptureFixture[str]
) -> None:
    work = Transfers(bank.side, SEED)
    broken = looks = 0
    with work.running(lambda over: over.wait(0.02)):
        until(lambda: work.done > 20, "there is some load", within_seconds=60)
        bank.replicate()
        for _ in range(3):
            before = work.done
            run = bank.start("replicate", "--until-caught-up")
            while run.poll() is None:
                broken += bool(violations(heads(bank)))
                looks += 1
            assert run.wait() == 0, bank.last_words()
            until(lambda seen=before: work.done > seen + 20, "it goes on", within_seconds=60)
    bank.wait_until_delivered()
    bank.replicate()
    assert not bank.differences(*TABLES)
    cuts = CutLake(bank.config).cuts(NAME)
    assert len(cuts) >= 4
    for cut in cuts:
        assert not violations(at_cut(bank, cut)), cut
    assert broken, "the heads agreed at each look, so the test proves nothing"
    newest = at_cut(bank, cuts[0])
    last = max(row["transfers"] for row in newest["totals"])
    catalog = catalog_of(bank.config)
    for each in cuts[0].tables:
        table = catalog.load_table((each.lake_namespace, each.lake_table))
        assert table.metadata.refs[TAG].snapshot_id == each.snapshot
    with capsys.disabled():
        print(f"\n{work.done} transfers, {len(cuts)} cuts, none violated; "
              f"{broken} of {looks} looks at heads were; the newest cut has {last} transfers; "
              f"{cuts_name(NAME)}")  # fmt: skip
