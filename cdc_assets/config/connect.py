"""Configures where Kafka Connect is asked for a source's connector."""

from __future__ import annotations

from pydantic import Field

from cdc_assets.config.secret import SecretUrl
from cdc_assets.config.strict import Strict


class ConnectConfig(Strict):
    """Kafka Connect's REST interface, asked for the connector's state when a table waits for it.

    ``connector`` names it; without a name, the connectors whose ``topic.prefix`` begins the table's
    topic are asked.
    """

    url: SecretUrl
    connector: str | None = Field(default=None, min_length=1)
