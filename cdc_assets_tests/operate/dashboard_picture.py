"""Draws the dashboard's panels with the figures of a running Prometheus: no Grafana is needed.

``python -m cdc_assets_tests.operate.dashboard_picture http://127.0.0.1:9090 dashboard.png``. Each
panel's own queries are asked; what Grafana does with them (grid, units, thresholds, legends) is
followed as far as a picture of the data needs it.
"""

from __future__ import annotations

import html
import json
import re
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import requests

DASHBOARD: Final = Path(__file__).parents[2] / "deploy" / "grafana" / "cdc-assets.json"
COLORS: Final = ("#7eb26d", "#eab839", "#6ed0e0", "#ef843c", "#e24d42", "#1f78c1", "#ba43a9")
CHROMIUM: Final = "/usr/bin/chromium"
FLAGS: Final = ("--no-sandbox", "--disable-gpu")
UNIT_WIDTH: Final = 60
UNIT_HEIGHT: Final = 34
STYLE: Final = """
body {margin: 0; background: #111217; color: #ccccdc; font: 12px sans-serif}
.panel {position: absolute; background: #181b1f; border: 1px solid #2c3035; border-radius: 2px;
        box-sizing: border-box; padding: 6px 8px; overflow: hidden}
.panel h2 {font-size: 12px; margin: 0 0 4px; font-weight: 500}
.figure {font-size: 30px; text-align: center; padding-top: 18px}
.good {color: #73bf69} .bad {color: #f2495c}
.legend {white-space: nowrap; overflow: hidden} .legend i {display: inline-block; width: 12px;
         height: 3px; margin: 0 4px 3px 8px}
table {border-collapse: collapse; width: 100%} td, th {text-align: left; padding: 4px 6px;
       border-bottom: 1px solid #2c3035}
"""


@dataclass(frozen=True)
class Series:
    """A line of a panel: moments and values."""

    labels: Mapping[str, str]
    points: Sequence[tuple[float, float]]


class Prometheus:
    """Its HTTP API, over the last ``minutes``."""

    def __init__(self, url: str, minutes: float) -> None:
        self._url, self._minutes = url.rstrip("/"), minutes

    def ask(self, expression: str, *, over_time: bool) -> list[Series]:
        """The answer to a query of the dashboard, with all its variables at *All*."""
        query = re.sub(r"\$(source|schema|table)\b", ".*", expression)
        now = time.time()
        asked: dict[str, str] = {"query": query}
        if over_time:
            begin = now - self._minutes * 60
            asked |= {"start": str(begin), "end": str(now), "step": "5"}
        path = "query_range" if over_time else "query"
        answer = requests.get(f"{self._url}/api/v1/{path}", asked, timeout=30)
        answer.raise_for_status()
        return [
            Series(
                each["metric"],
                [
                    (float(at), float(value))
                    for at, value in each.get("values", [each.get("value")])
                ],
            )
            for each in answer.json()["data"]["result"]
        ]


def shown(value: float, unit: str) -> str:
    """A value in Grafana's unit."""
    if unit == "percentunit":
        return f"{value:.1%}"
    if unit == "bytes":
        power = next((n for n in (3, 2, 1) if abs(value) >= 1024**n), 0)
        return f"{value / 1024**power:.1f} {('B', 'KiB', 'MiB', 'GiB')[power]}"
    if unit == "dateTimeAsIso":
        return datetime.fromtimestamp(value / 1000, UTC).strftime("%H:%M:%S")
    text = f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.2f}"
    return f"{text} s" if unit == "s" else text


def legend(template: str, labels: Mapping[str, str]) -> str:
    return re.sub(r"\{\{(\w+)\}\}", lambda found: labels.get(found[1], ""), template)


def drawn(panel: Mapping[str, Any], prometheus: Prometheus) -> str:
    """The panel's content as HTML."""
    unit = panel["fieldConfig"]["defaults"]["unit"]
    answers = [
        (target, prometheus.ask(target["expr"], over_time=panel["type"] == "timeseries"))
        for target in panel["targets"]
    ]
    if not any(series for _, series in answers):
        return "<div class=figure>No data</div>"
    match panel["type"]:
        case "stat":
            return "".join(_figures(panel, unit, answers[0][1]))
        case "table":
            return _table(panel, answers)
        case _:
            lines = [
                (legend(target["legendFormat"], each.labels), each)
                for target, series in answers
                for each in series
            ]
            return _chart(panel["gridPos"], unit, lines)


def _figures(panel: Mapping[str, Any], unit: str, series: Sequence[Series]) -> Iterator[str]:
    steps = panel["fieldConfig"]["defaults"]["thresholds"]["steps"]
    for each in series:
        value = each.points[-1][1]
        color = [s["color"] for s in steps if s["value"] is None or value >= s["value"]][-1]
        name = "bad" if color == "red" else "good"
        said = html.escape(each.labels.get("source", ""))
        yield f"<div class='figure {name}'>{shown(value, unit)} <small>{said}</small></div>"


def _chart(at: Mapping[str, int], unit: str, lines: Sequence[tuple[str, Series]]) -> str:
    width, height = at["w"] * UNIT_WIDTH - 90, at["h"] * UNIT_HEIGHT - 75
    moments = [moment for _, each in lines for moment, _ in each.points]
    values = [value for _, each in lines for _, value in each.points]
    first, last = min(moments), max(*moments, min(moments) + 1)
    low, high = min(0.0, *values), max(*values, 0.0)
    high = high if high > low else low + 1

    def place(moment: float, value: float) -> str:
        x = 60 + (moment - first) / (last - first) * width
        return f"{x:.1f},{8 + (high - value) / (high - low) * height:.1f}"

    parts = [f"<svg width={width + 75} height={height + 32} font-size=10 fill='#8e8e99'>"]
    for share in (0, 0.5, 1):
        value = low + (high - low) * share
        y = 8 + (1 - share) * height
        parts.append(f"<line x1=60 x2={60 + width} y1={y} y2={y} stroke='#2c3035'/>")
        parts.append(f"<text x=55 y={y + 3} text-anchor=end>{shown(value, unit)}</text>")
    for share in (0, 0.5, 1):
        clock = datetime.fromtimestamp(first + (last - first) * share, UTC).strftime("%H:%M")
        parts.append(
            f"<text x={60 + width * share} y={height + 24} text-anchor=middle>{clock}</text>"
        )
    for number, (_, each) in enumerate(lines):
        points = " ".join(place(*point) for point in each.points)
        color = COLORS[number % len(COLORS)]
        parts.append(f"<polyline points='{points}' fill=none stroke='{color}' stroke-width='1.5'/>")
    names = "".join(
        f"<i style='background:{COLORS[number % len(COLORS)]}'></i>{html.escape(name)}"
        for number, (name, _) in enumerate(lines)
    )
    return "".join(parts) + f"</svg><div class=legend>{names}</div>"


def _table(panel: Mapping[str, Any], answers: Sequence[tuple[Any, list[Series]]]) -> str:
    """One row for each table, as the panel's own steps join its queries."""
    renamed = panel["transformations"][-1]["options"]["renameByName"]
    state, *rest = renamed
    rows: dict[tuple[str, ...], list[str]] = {}
    keys = ("source", "schema", "table")
    for number, (_, series) in enumerate(answers):
        for each in series:
            row = rows.setdefault(tuple(each.labels.get(k, "") for k in keys), [""] * len(answers))
            row[number] = shown(each.points[-1][1], "") if number else each.labels[state]
    names = (*keys, renamed[state], *(renamed[each] for each in rest))
    head = "".join(f"<th>{html.escape(each)}</th>" for each in names)
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in (*key, *row)) + "</tr>"
        for key, row in sorted(rows.items())
    )
    return f"<table><tr>{head}</tr>{body}</table>"


def page(prometheus: Prometheus) -> tuple[str, int, int]:
    """The dashboard as HTML, with its width and height in pixels."""
    parts: list[str] = []
    bottom = 0
    for panel in json.loads(DASHBOARD.read_text())["panels"]:
        at = panel["gridPos"]
        bottom = max(bottom, (at["y"] + at["h"]) * UNIT_HEIGHT)
        place = {"left": at["x"] * UNIT_WIDTH + 2, "width": at["w"] * UNIT_WIDTH - 4,
                 "top": at["y"] * UNIT_HEIGHT + 2, "height": at["h"] * UNIT_HEIGHT - 4}  # fmt: skip
        where = ";".join(f"{name}:{pixels}px" for name, pixels in place.items())
        title = html.escape(panel["title"])
        parts.append(f"<div class=panel style='{where}'><h2>{title}</h2>"
                     f"{drawn(panel, prometheus)}</div>")  # fmt: skip
    return f"<style>{STYLE}</style>{''.join(parts)}", 24 * UNIT_WIDTH, bottom


def draw(url: str, file: Path, minutes: float = 15) -> None:
    """Writes the picture of a Prometheus' last minutes."""
    from playwright.sync_api import sync_playwright

    text, width, height = page(Prometheus(url, minutes))
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=[*FLAGS])
        shot = browser.new_page(viewport={"width": width, "height": height})
        shot.set_content(text)
        shot.screenshot(path=str(file))
        browser.close()


if __name__ == "__main__":
    draw(sys.argv[1], Path(sys.argv[2]), float(sys.argv[3]) if len(sys.argv) > 3 else 15)
