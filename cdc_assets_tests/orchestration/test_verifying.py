"""`cdc-assets verify` where it does not get as far as a database."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from cdc_assets.changes.names import TableName
from cdc_assets.desired import DesiredBook, Directive, DirectiveNote
from cdc_assets.errors import TerminalError
from cdc_assets.merge.attempt import Attempts, Connections
from cdc_assets.merge.verifying.judging import Difference, DifferenceKind
from cdc_assets.merge.verifying.report import ComparisonReport
from cdc_assets.merge.verifying.verification import Verification
from cdc_assets.operate.services import utc_now
from cdc_assets.operations.operation import Results
from cdc_assets.operations.verify import VERIFY, VerifyOptions, report_on
from cdc_assets.registry import RegistryFile, TableEntry
from cdc_assets_tests.command import run_command
from cdc_assets_tests.configuration import NOWHERE, database_of, platform, source, write
from cdc_assets_tests.world import NOW, entry_of, registry_of, write_config

pytestmark = pytest.mark.unit

TABLE = TableName("shop", "public", "orders")


def report(**more: object) -> ComparisonReport:
    return ComparisonReport(TABLE, ("id",), 7, **more)  # pyright: ignore[reportArgumentType]


def test_without_tables_it_says_so(tmp_path: Path) -> None:
    write_config(tmp_path)
    done = run_command(tmp_path, "verify")
    assert done.returncode == 2
    assert "no table is known yet" in done.stderr


def test_a_changelog_is_not_compared_with_rows(tmp_path: Path) -> None:
    shop = {**source("shop"), "mode": "changelog"}
    config = write(tmp_path / "replication.yaml", platform(sources={"shop": shop}))
    with pytest.raises(TerminalError, match="nothing to compare"):
        Verification(Attempts(config, Connections.of(config), _no_session, utc_now), "run").of(
            entry_of("orders", config), repair=True
        )


def _no_session() -> Any:
    pytest.fail("a session was asked for")


def test_what_has_nothing_to_compare_is_named_and_no_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_DSN", f"postgresql://me@{NOWHERE}/shop")
    (tmp_path / "lake").mkdir()
    shop = {**source("shop", **database_of("SHOP_DSN")),
            "tables": {"public.log": {"mode": "changelog"}}}  # fmt: skip
    alone = {**source("alone"), "topics": {"include": ["alone\\..*"]}}
    document = platform(sources={"shop": shop, "alone": alone}, registry=".cdc/registry.json")
    config = write(tmp_path / "replication.yaml", document)
    it, paused = TableName("alone", "public", "it"), TableName("shop", "public", "paused")
    entry = TableEntry(it, "alone.public.it", config.sources["alone"].lake_name(it), NOW)
    known = registry_of(config, "log", "new", "paused").with_entries([entry])
    RegistryFile(config.registry).add(known)
    wish = DirectiveNote(NOW, "cdc-assets pause", "moving house")
    DesiredBook.of_registry(config.registry).put(paused, Directive.PAUSED, wish)

    done = run_command(tmp_path, "verify", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"tables": [], "failed": {}, "not_compared": {
        "alone.public.it": "no database is named that could be asked: sources.alone.database",
        "shop.public.log": "a changelog holds the source's changes, not its rows",
        "shop.public.new": "nothing of it was merged yet",
        "shop.public.paused": f"paused {wish.words()} → "
        "cdc-assets resume --table shop.public.paused",
    }}  # fmt: skip
    done = run_command(tmp_path, "verify", "--source", "shop")
    assert done.returncode == 0
    assert "shop.public.log: not compared: a changelog holds" in done.stdout
    assert "alone" not in done.stdout
    done = run_command(tmp_path, "verify", "--table", "log")
    assert done.returncode == 1
    assert "failed: shop.public.log: " in done.stderr


def test_an_unknown_source_is_named(tmp_path: Path) -> None:
    write_config(tmp_path)
    done = run_command(tmp_path, "verify", "--source", "elsewhere")
    assert done.returncode != 0
    assert "elsewhere" in done.stderr


@pytest.mark.parametrize(
    ("found", "is_bad"),
    [
        (report(), False),
        (report(not_judged=1), True),
        (report(has_more=True), True),
        (report(differences=(Difference(("1",), DifferenceKind.MISSING, (), 0, None),)), True),
        (
            report(
                differences=(Difference(("1",), DifferenceKind.MISSING, (), 0, None),), repaired=1
            ),
            False,
        ),
    ],
    ids=["equal", "not judged", "more", "different", "put right"],
)
def test_it_is_well_only_where_all_is_proven_or_put_right(
    tmp_path: Path, found: ComparisonReport, is_bad: bool
) -> None:
    outcome = Results({str(TABLE): report_on(entry_of("orders", write_config(tmp_path)), found)})
    assert outcome.is_bad is is_bad
    assert said(outcome)["tables"][0]["table"] == "shop.public.orders"


def said(outcome: Results) -> Mapping[str, Any]:
    return VERIFY.document(VerifyOptions(every=True), outcome)


def test_a_table_that_failed_is_named() -> None:
    outcome = Results(failed={str(TABLE): "the database does not answer"})
    assert outcome.is_bad
    assert said(outcome)["failed"] == {str(TABLE): "the database does not answer"}
