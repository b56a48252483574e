"""The dashboard and the rules name metrics and labels that a scrape has; Prometheus reads both."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Final

import pytest
import yaml
from click.testing import CliRunner
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import CollectorRegistry

from cdc_assets.cli import cli
from cdc_assets.databases.postgres.server import Slot
from cdc_assets.operate.dashboard import BY_NAME, PANELS, RULES, expression, named
from cdc_assets.operate.exposition import FAMILIES, NumbersCollector
from cdc_assets.operate.numbers import Numbers, SourceNumbers, SourceSlots
from cdc_assets_tests.operate.statuses import connector_of, status_of, table_status, view_of

DEPLOY: Final = Path(__file__).parents[2] / "deploy"
DASHBOARD: Final = DEPLOY / "grafana" / "cdc-assets.json"
RULE_FILE: Final = DEPLOY / "prometheus" / "cdc-assets.rules.yaml"
BUILT_IN: Final = {"__name__"}
"""Labels that Prometheus itself gives."""


def expressions() -> list[str]:
    """All PromQL of both files as they are committed."""
    panels = json.loads(DASHBOARD.read_text())["panels"]
    groups = yaml.safe_load(RULE_FILE.read_text())["groups"]
    return [
        *(target["expr"] for panel in panels for target in panel["targets"]),
        *(rule["expr"] for group in groups for rule in group["rules"]),
    ]


def labels_of(scraped: Iterable[Metric]) -> Mapping[str, set[str]]:
    """The labels of each name that a scrape has samples of."""
    found: dict[str, set[str]] = {}
    for family in scraped:
        for sample in family.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
    return found


def unknown(scraped: Mapping[str, set[str]], wanted: Collection[str]) -> list[str]:
    """Metrics and labels of expressions that a scrape does not have."""
    lacking: list[str] = []
    for each in wanted:
        names = re.findall(r"cdc_assets_\w+", each)
        assert names, f"no metric in {each}"
        of_all = set().union(*(scraped.get(name, set()) for name in names)) | BUILT_IN
        lacking += [name for name in names if name not in scraped]
        for name, matchers in re.findall(r"(cdc_assets_\w+)\{([^}]*)\}", each):
            used = re.findall(r"(\w+)(?:=~?|!~?)", matchers)
            lacking += [f"{name}.{label}" for label in used if label not in scraped.get(name, ())]
        grouped = re.findall(r"by \(([^)]*)\)", each)
        lacking += [f"by {label}" for group in grouped for label in group.split(", ")
                    if label not in of_all]  # fmt: skip
    return lacking


@pytest.fixture
def everything(tmp_path: Path) -> Mapping[str, set[str]]:
    """What is exposed if all is known."""
    connector = connector_of("RUNNING", "FAILED")
    slots = SourceSlots((Slot("cdc_shop", True, 10_000, 400, "reserved"),))
    status = status_of(table_status(tmp_path, connector=view_of(connector)))
    numbers = Numbers(status, (SourceNumbers("shop", (connector,), slots),), 0.5)
    registry = CollectorRegistry(auto_describe=False)
    registry.register(NumbersCollector(lambda: numbers))
    return labels_of(registry.collect())


@pytest.mark.unit
def test_the_committed_files_are_those_that_are_printed() -> None:
    for option, file in (("--dashboard", DASHBOARD), ("--rules", RULE_FILE)):
        printed = CliRunner().invoke(cli, ["metrics", option]).stdout
        assert file.read_text() == printed, f"cdc-assets metrics {option} > {file.name}"


@pytest.mark.unit
def test_every_metric_and_label_that_they_name_is_exposed(
    everything: Mapping[str, set[str]],
) -> None:
    assert unknown(everything, expressions()) == []
    wrong = ["cdc_assets_tables_total", 'max by (topic) (cdc_assets_table_rows{slot="x"})']
    assert unknown(everything, wrong) == [
        "cdc_assets_tables_total",
        "cdc_assets_table_rows.slot",
        "by topic",
    ]


@pytest.mark.unit
def test_every_metric_is_on_the_dashboard(everything: Mapping[str, set[str]]) -> None:
    shown = {each.name for panel in PANELS for query, _ in panel.queries for each in named(query)}
    assert shown == set(BY_NAME)
    assert {each.metric for each in FAMILIES} == set(everything)


@pytest.mark.unit
def test_a_name_or_label_that_is_none_is_refused() -> None:
    with pytest.raises(KeyError):
        expression("{table_lag}")
    with pytest.raises(ValueError, match="no label"):
        expression('{tables:source="shop"}')


@pytest.mark.unit
def test_panels_do_not_overlap() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in json.loads(DASHBOARD.read_text())["panels"]:
        at = panel["gridPos"]
        assert at["x"] + at["w"] <= 24
        mine = {(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])}
        assert not mine & taken, panel["title"]
        taken |= mine


# ── Prometheus ────────────────────────────────────────────────────────────────────────────

TABLE: Final = 'source="shop",schema="public",table="orders"'
SLOT: Final = 'source="shop",slot="cdc"'
STATE: Final = f"cdc_assets_table_state{{{TABLE},cdc_assets_table_state="

WELL: Final = {
    "cdc_assets_survey_success": "1x60",
    "cdc_assets_survey_timestamp_seconds": "0+60x60",
    STATE + '"FAILING"}': "0x60",
    f"cdc_assets_table_slo_budget_left_ratio{{{TABLE}}}": "0.5x60",
    f"cdc_assets_table_slo_burn_rate{{{TABLE}}}": "1x60",
    f"cdc_assets_table_quarantined_records{{{TABLE}}}": "0x60",
    f"cdc_assets_table_retention_headroom_records{{{TABLE}}}": "100000-1x60",
    f"cdc_assets_table_lag_records{{{TABLE}}}": "3x60",
    'cdc_assets_connector_up{source="shop",connector="c"}': "1x60",
    f"cdc_assets_slot_retained_wal_bytes{{{SLOT}}}": "1000x60",
    f"cdc_assets_slot_active{{{SLOT}}}": "1x60",
    'cdc_assets_slots_known{source="shop"}': "1x60",
}
"""Values at each minute of an hour."""

BAD: Final = {
    "CdcAssetsNotScraped": ("survey_success", "stale"),
    "CdcAssetsPartAway": ("survey_success", "0x60"),
    "CdcAssetsLookIsOld": ("survey_timestamp", "60x60"),
    "CdcAssetsTableFails": ("table_state", "1x60"),
    "CdcAssetsBudgetSpent": ("table_slo_budget_left", "-0.1x60"),
    "CdcAssetsBudgetBurns": ("table_slo_burn_rate", "7x60"),
    "CdcAssetsQuarantine": ("table_quarantined_records", "1x60"),
    "CdcAssetsChangesLost": ("table_retention_headroom_records", "-5x60"),
    "CdcAssetsRetentionNear": ("table_retention_headroom_records", "100000-1000x60"),
    "CdcAssetsConnectorDown": ("connector_up", "0x60"),
    "CdcAssetsSlotGrows": ("slot_retained_wal", "10737418241x60"),
    "CdcAssetsSlotNotRead": ("slot_active", "0x60"),
    "CdcAssetsSlotsUnknown": ("slots_known", "0x60"),
}
"""For each alert, the one metric that is wrong."""

ALSO: Final = {"CdcAssetsChangesLost": ["CdcAssetsRetentionNear"]}
"""Alerts that the same values raise."""


def promtool(*arguments: str) -> str:
    program = shutil.which("promtool")
    if program is None:
        pytest.skip("promtool is not installed: apt-get install prometheus")
    done = subprocess.run([program, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def one_hour(series: Mapping[str, str], alerts: Iterable[str], begins: str) -> object:
    """A test of promtool: what fires after 50 minutes, and what does before it can last."""
    firing = 'count by (alertname) (ALERTS{alertstate="firing"})'
    expected = [{"labels": f'{{alertname="{each}"}}', "value": 1} for each in sorted(alerts)]
    return {
        "interval": "1m",
        "name": begins,
        "input_series": [{"series": name, "values": each} for name, each in series.items()],
        "promql_expr_test": [{"expr": firing, "eval_time": "50m", "exp_samples": expected}],
    }


@pytest.mark.slow
def test_each_rule_alerts_of_its_own_metric_and_of_nothing_else(tmp_path: Path) -> None:
    assert list(BAD) == [each.name for each in RULES]
    tests = [one_hour(WELL, (), "all is well")]
    for alert, (name, values) in BAD.items():
        metric = BY_NAME[name].metric
        (wrong,) = (each for each in WELL if each.partition("{")[0] == metric)
        tests.append(one_hour(WELL | {wrong: values}, [alert, *ALSO.get(alert, [])], alert))
    document = {"rule_files": [str(RULE_FILE)], "evaluation_interval": "1m", "tests": tests}
    (tmp_path / "tests.yaml").write_text(yaml.safe_dump(document))
    promtool("test", "rules", str(tmp_path / "tests.yaml"))
    assert f"{len(RULES)} rules found" in promtool("check", "rules", str(RULE_FILE))


@pytest.mark.slow
def test_prometheus_reads_every_query_of_the_dashboard(tmp_path: Path) -> None:
    """As rules, which is how it checks expressions that it is not to evaluate."""
    chosen = [each.replace("$", "") for each in expressions()]
    made = [{"record": f"q:{n}", "expr": each} for n, each in enumerate(chosen)]
    (tmp_path / "q.yaml").write_text(yaml.safe_dump({"groups": [{"name": "q", "rules": made}]}))
    promtool("check", "rules", str(tmp_path / "q.yaml"))
