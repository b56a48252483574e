"""Writes a dashboard for Grafana and rules for Prometheus, from the table of metrics.

Expressions name metrics as ``{table_lag_records}``; a wrong name or label fails when the module is
loaded. A panel of one metric is described by the help of that metric.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from string import Formatter
from typing import Any, Final

import yaml

from cdc_assets.changes.slo import BURN_RULES
from cdc_assets.operate.exposition import FAMILIES, Family
from cdc_assets.operate.seen_states import Condition

BY_NAME: Final[Mapping[str, Family]] = {each.name: each for each in FAMILIES}
FILTER: Final = ("source", "schema", "table")
"""The labels that have a variable on the dashboard."""

UNITS: Final = {"seconds": "s", "bytes": "bytes", "ratio": "percentunit", "": "short"}
"""Grafana's units for ours."""

DATASOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}
FAILING: Final = f'cdc_assets_table_state="{Condition.FAILING}"'
SLOT_BYTES: Final = 10 << 30
"""The default of ``alerts.slot_bytes``."""


class _Selector:
    """A metric in an expression: ``{name:label="value"}`` adds matchers."""

    def __init__(self, family: Family, filters: tuple[str, ...]) -> None:
        self._family, self._filters = family, filters

    def __format__(self, spec: str) -> str:
        mine = [f'{each}=~"${each}"' for each in self._filters if each in self._family.labels]
        known = (*self._family.labels, self._family.metric)
        for matcher in filter(None, spec.split(",")):
            if matcher.partition("=")[0] not in known:
                msg = f"{self._family.metric} has no label for {matcher}"
                raise ValueError(msg)
            mine.append(matcher)
        return self._family.metric + (f"{{{','.join(mine)}}}" if mine else "")


def expression(template: str, filters: tuple[str, ...] = ()) -> str:
    """Returns PromQL for a template; its metrics are filtered by the dashboard's variables."""
    selectors = {name: _Selector(each, filters) for name, each in BY_NAME.items()}
    return template.format_map(selectors)


def named(template: str) -> list[Family]:
    """Returns the families that a template names."""
    return [BY_NAME[name] for _, name, _, _ in Formatter().parse(template) if name]


# ── dashboard ─────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Panel:
    """One panel of a dashboard, whose grid has 24 columns.

    Attributes:
        title: of the panel.
        queries: templates of expressions, with the legend of each.
        kind: Grafana's type of panel.
        unit: Grafana's; by default that of the first metric.
        bad: the value from which a figure is red; ``bad_below`` the one under which it is.
        width, height: in columns and rows of the grid.
    """

    title: str
    queries: tuple[tuple[str, str], ...]
    kind: str = "timeseries"
    unit: str = ""
    bad: float | None = None
    bad_below: float | None = None
    width: int = 8
    height: int = 8


def _figure(title: str, query: str, **more: Any) -> Panel:
    return Panel(title, ((query, ""),), "stat", width=4, height=4, **more)


_TABLE: Final = "{{source}}.{{schema}}.{{table}}"

PANELS: Final = (
    _figure("All parts answer", "min({survey_success})", bad_below=1),
    _figure("Tables", "sum({tables})"),
    _figure("Tables that fail", "sum({table_state:" + FAILING + "})", bad=1),
    _figure("Records in quarantine", "sum({table_quarantined_records})", bad=1),
    _figure("Least error budget left", "min({table_slo_budget_left})", bad_below=0),
    _figure("Connectors down", "sum(1 - {connector_up})", bad=1),
    Panel("Source to Kafka, at most",
          (("max by (source) ({table_source_to_kafka_lag})", "{{source}}"),)),
    Panel("Kafka to lake, the last table", (("{source_kafka_to_lake_lag}", "{{source}}"),)),
    Panel("Behind the source, at most", (("{source_valid_through_age}", "{{source}}"),)),
    Panel("Records that wait, the last table", (("{source_lag_records}", "{{source}}"),)),
    Panel("Tables by state",
          (("sum by (cdc_assets_table_state) ({table_state}) > 0",
            "{{cdc_assets_table_state}}"),)),
    Panel("Failed attempts since the last success",
          (("sum by (source) ({table_failed_attempts})", "{{source}}"),)),
    Panel("Changes in time: the lowest ten, and the target",
          (("bottomk(10, {table_slo_within})", _TABLE),
           ("min({table_slo_target})", "target"))),
    Panel("Burn of the error budget: the highest ten",
          (("topk(10, {table_slo_burn_rate})", _TABLE),)),
    Panel("From commit to visible, p95: the highest ten",
          (("topk(10, {table_latency_p95})", _TABLE),)),
    Panel("Tables", (
        ("{table_state} == 1", "state"),
        ("{table_lag_records}", "records that wait"),
        ("{table_kafka_to_lake_lag}", "Kafka to lake, s"),
        ("{table_valid_through_age}", "behind the source, s"),
        ("{table_slo_changes}", "changes"),
        ("{table_slo_late_changes}", "late"),
        ("{table_rows}", "rows"),
        ("{table_data_files}", "files"),
        ("time() - {table_last_publish_timestamp}", "last publish, s ago"),
    ), "table", width=24, height=10),
    Panel("Connectors that run",
          (("{connector_up}", "{{source}} {{connector}}"),), bad_below=1),
    Panel("Tasks of connectors",
          (("sum by (source, connector, state) ({connector_tasks}) > 0",
            "{{source}} {{connector}} {{state}}"),)),
    Panel("WAL kept for slots",
          (("{slot_retained_wal}", "{{source}} {{slot}}"),
           ("{slot_unconfirmed_wal}", "{{source}} {{slot}}, unconfirmed"))),
    Panel("Slots that are read",
          (("{slot_active}", "{{source}} {{slot}}"),
           ("{slots_known}", "{{source}}: the database answers")), bad_below=1),
    Panel("Records before the log's beginning: the fewest ten",
          (("bottomk(10, {table_retention_headroom_records})", _TABLE),), bad_below=0),
    Panel("The last look: how long it took, and its age",
          (("{survey_duration}", "took"), ("time() - {survey_timestamp}", "age"))),
    Panel("Complete through, by the source's clock",
          (("{source_valid_through_timestamp} * 1000", "{{source}}"),),
          "stat", "dateTimeAsIso", width=12, height=4),
    Panel("Complete through, the last table",
          (("min by (source) ({table_valid_through_timestamp}) * 1000", "{{source}}"),),
          "stat", "dateTimeAsIso", width=12, height=4),
)  # fmt: skip


def dashboard() -> str:
    """Returns the dashboard as JSON for Grafana's import, or its folder of provisioned ones."""
    document = {
        "title": "cdc-assets",
        "uid": "cdc-assets",
        "description": "Made of the table of metrics: cdc-assets metrics --dashboard",
        "tags": ["cdc-assets"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {"list": [*_variables()]},
        "panels": [*_placed()],
    }
    return json.dumps(document, indent=1) + "\n"


def _variables() -> Iterator[dict[str, Any]]:
    yield {"name": "datasource", "type": "datasource", "query": "prometheus"}
    state = BY_NAME["table_state"].metric
    for n, name in enumerate(FILTER):
        matchers = ",".join(f'{each}=~"${each}"' for each in FILTER[:n])
        chosen = f"{{{matchers}}}" if matchers else ""
        query = f"label_values({state}{chosen}, {name})"
        yield {
            "name": name,
            "type": "query",
            "datasource": DATASOURCE,
            "definition": query,
            "query": {"query": query, "refId": name},
            "includeAll": True,
            "multi": True,
            "allValue": ".*",
            "current": {"selected": True, "text": ["All"], "value": ["$__all"]},
            "refresh": 2,
            "sort": 1,
        }


def _placed() -> Iterator[dict[str, Any]]:
    """Yields the panels from left to right, in rows of equal height."""
    column = row = height = 0
    for number, panel in zip(count(1), PANELS, strict=False):
        if column + panel.width > 24:
            column, row, height = 0, row + height, 0
        height = max(height, panel.height)
        place = {"x": column, "y": row, "w": panel.width, "h": panel.height}
        yield {"id": number, "gridPos": place, **_panel(panel)}
        column += panel.width


def _panel(panel: Panel) -> dict[str, Any]:
    families = [each for query, _ in panel.queries for each in named(query)]
    steps: list[dict[str, Any]] = [{"color": "green", "value": None}]
    if panel.bad is not None:
        steps.append({"color": "red", "value": panel.bad})
    if panel.bad_below is not None:
        steps = [{"color": "red", "value": None}, {"color": "green", "value": panel.bad_below}]
    made: dict[str, Any] = {
        "title": panel.title,
        "type": panel.kind,
        "description": " ".join(dict.fromkeys(each.help for each in families)),
        "datasource": DATASOURCE,
        "targets": [_target(panel, *each) for each in enumerate(panel.queries)],
        "fieldConfig": {
            "defaults": {
                "unit": panel.unit or ("none" if panel.kind == "table" else _unit(families[0])),
                "thresholds": {"mode": "absolute", "steps": steps},
            },
            "overrides": [],
        },
    }
    if panel.kind == "table":
        made["transformations"] = _one_row_a_table(panel)
    return made


def _unit(family: Family) -> str:
    return UNITS[family.unit]


def _target(panel: Panel, number: int, query: tuple[str, str]) -> dict[str, Any]:
    template, legend = query
    at_once = panel.kind != "timeseries"
    return {
        "refId": chr(ord("A") + number),
        "datasource": DATASOURCE,
        "expr": expression(template, FILTER),
        "legendFormat": legend if legend and panel.kind != "table" else "__auto",
        "instant": at_once,
        "range": not at_once,
        "format": "table" if panel.kind == "table" else "time_series",
    }


def _one_row_a_table(panel: Panel) -> list[dict[str, Any]]:
    """Returns the steps that lay the queries of a table's panel next to each other."""
    names = {f"Value #{chr(ord('A') + n)}": each for n, (_, each) in enumerate(panel.queries)}
    state = BY_NAME["table_state"].metric
    del names["Value #A"]  # the state is in a label
    shown = {"include": {"names": [*FILTER, state, *names]}}
    return [  # names of metrics differ by query, and would keep the rows apart
        {"id": "filterFieldsByName", "options": shown},
        {"id": "merge", "options": {}},
        {"id": "organize", "options": {"renameByName": {state: "state", **names}}},
    ]


# ── rules ─────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class AlertRule:
    """A rule that alerts.

    Attributes:
        name: of the alert.
        query: a template that has a sample for each thing that is wrong.
        minutes: how long it must last.
        severity: ``critical`` or ``warning``.
        what: the summary, in Prometheus' templates.
        remedy: the next step.
    """

    name: str
    query: str
    minutes: int
    severity: str
    what: str
    remedy: str


_T: Final = "{{ $labels.source }}.{{ $labels.schema }}.{{ $labels.table }}"
_S: Final = "slot {{ $labels.slot }} of source {{ $labels.source }}"

RULES: Final = (
    AlertRule("CdcAssetsNotScraped", "absent({survey_success})", 5, "critical",
              "no figures of cdc-assets arrive",
              "look whether the process of cdc-assets metrics runs, and is scraped"),
    AlertRule("CdcAssetsPartAway", "{survey_success} == 0", 5, "critical",
              "a part does not answer", "cdc-assets status"),
    AlertRule("CdcAssetsLookIsOld", "time() - {survey_timestamp} > 300", 5, "critical",
              "the newest figures are {{ $value | humanizeDuration }} old",
              "restart cdc-assets metrics, then: cdc-assets status"),
    AlertRule("CdcAssetsTableFails", "{table_state:" + FAILING + "} == 1", 10, "critical",
              f"{_T} fails", "cdc-assets status"),
    AlertRule("CdcAssetsBudgetSpent", "{table_slo_budget_left} < 0", 2, "critical",
              f"{_T} has missed its SLO", "cdc-assets status"),
    AlertRule("CdcAssetsBudgetBurns", f"{{table_slo_burn_rate}} >= {BURN_RULES[0].rate:g}", 2,
              "warning",
              f"{_T} burns its error budget {{{{ $value | humanize }}}} times too fast",
              "cdc-assets status"),
    AlertRule("CdcAssetsQuarantine", "{table_quarantined_records} > 0", 0, "warning",
              f"{_T} has {{{{ $value }}}} records in quarantine", "cdc-assets quarantine list"),
    AlertRule("CdcAssetsChangesLost", "{table_retention_headroom_records} < 0", 0, "critical",
              f"the log of {_T} no longer holds changes that are not merged",
              "cdc-assets status names the ways to read the table again"),
    AlertRule("CdcAssetsRetentionNear",
              "predict_linear({table_retention_headroom_records}[1h], 14400) < 0 "
              "and {table_lag_records} > 0", 15, "critical",
              f"the log of {_T} loses changes within 4 hours that are not merged",
              "cdc-assets status; raise the topic's retention meanwhile"),
    AlertRule("CdcAssetsConnectorDown", "{connector_up} == 0", 5, "critical",
              "connector {{ $labels.connector }} of source {{ $labels.source }} does not run",
              "cdc-assets status names its task"),
    AlertRule("CdcAssetsSlotGrows", "{slot_retained_wal} > " + str(SLOT_BYTES), 5, "warning",
              f"{_S} keeps {{{{ $value | humanize1024 }}}}B of WAL",
              "look whether its connector runs: cdc-assets status"),
    AlertRule("CdcAssetsSlotNotRead", "{slot_active} == 0", 10, "warning",
              f"nobody reads {_S}", "look whether its connector runs: cdc-assets status"),
    AlertRule("CdcAssetsSlotsUnknown", "{slots_known} == 0", 10, "warning",
              "the database of source {{ $labels.source }} does not name its slots",
              "cdc-assets status"),
)  # fmt: skip


def rules() -> str:
    """Returns the rules as a file for Prometheus' ``rule_files``."""
    made = [
        {
            "alert": each.name,
            "expr": expression(each.query),
            **({"for": f"{each.minutes}m"} if each.minutes else {}),
            "labels": {"severity": each.severity},
            "annotations": {"summary": each.what, "description": f"Next step: {each.remedy}."},
        }
        for each in RULES
    ]
    head = "# Made of the table of metrics: cdc-assets metrics --rules\n"
    document = {"groups": [{"name": "cdc-assets", "rules": made}]}
    return head + yaml.safe_dump(document, sort_keys=False, width=1000)
