"""Serves and prints ``cdc-assets metrics``: OpenMetrics, and the older text format."""

from __future__ import annotations

import signal
import threading
from functools import partial
from typing import TYPE_CHECKING, Final

import click
from prometheus_client.exposition import generate_latest, start_http_server
from prometheus_client.registry import CollectorRegistry

from cdc_assets.config import load_config
from cdc_assets.errors import ConfigError, UnreachableError
from cdc_assets.operate import dashboard as made_of_metrics
from cdc_assets.operate.exposition import NumbersCollector
from cdc_assets.operate.numbers import NumbersCache, read_numbers
from cdc_assets.operate.services import Services

if TYPE_CHECKING:
    from wsgiref.simple_server import WSGIServer

    from cdc_assets.config import ReplicationConfig

LISTEN: Final = "127.0.0.1:9464"
GOOD_FOR_SECONDS: Final = 15.0


@click.command()
@click.option(
    "--listen",
    default=LISTEN,
    show_default=True,
    metavar="HOST:PORT",
    help="Address of /metrics. There is no login: keep it within your network.",
)
@click.option("--once", is_flag=True, help="Print the metrics and end.")
@click.option(
    "--every",
    default=GOOD_FOR_SECONDS,
    show_default=True,
    type=click.FloatRange(min=1, max=3600),
    metavar="SECONDS",
    help="Minimum seconds between two surveys.",
)
@click.option("--dashboard", is_flag=True, help="Print a Grafana dashboard and end.")
@click.option("--rules", is_flag=True, help="Print Prometheus' alerting rules and end.")
def metrics(listen: str, every: float, *, once: bool, dashboard: bool, rules: bool) -> None:
    """Serve or print metrics of all tables and sources for Prometheus.

    Serves OpenMetrics to clients that ask for it, else Prometheus' text format. --once prints the
    text format, which Pushgateway and textfile collectors need.

    Needs neither Spark nor Dagster, and changes nothing.
    """  # fmt: skip
    if dashboard or rules:
        click.echo(made_of_metrics.dashboard() if dashboard else made_of_metrics.rules(), nl=False)
        return
    registry = numbers_registry(load_config(), every)
    if once:
        click.echo(generate_latest(registry).decode(), nl=False)
        return
    host, port = _address(listen)
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    server = _serving(host, port, registry)
    try:
        click.echo(f"serving http://{host}:{server.server_port}/metrics", err=True)
        stop.wait()
    finally:
        server.shutdown()
        server.server_close()


def numbers_registry(config: ReplicationConfig, good_for_seconds: float) -> CollectorRegistry:
    """Returns a registry of this configuration's numbers alone; does not read anything yet."""
    registry = CollectorRegistry(auto_describe=False)
    look = NumbersCache(partial(read_numbers, Services(config)), good_for_seconds)
    registry.register(NumbersCollector(look.get))
    return registry


def _serving(host: str, port: int, registry: CollectorRegistry) -> WSGIServer:
    try:
        return start_http_server(port, host, registry)[0]
    except OSError as error:
        what = f"cannot listen ({error.strerror or type(error).__name__})"
        raise UnreachableError(what, where=f"{host}:{port}", remedy="--listen HOST:PORT") from None


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not port.isdigit() or int(port) > 65_535:
        what = f"{text!r} is not an address"
        raise ConfigError(what, remedy="--listen 127.0.0.1:9464, for example")
    return host.strip("[]"), int(port)
