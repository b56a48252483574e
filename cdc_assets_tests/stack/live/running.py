"""The running Dagster, as a user meets it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import requests

from cdc_assets.devstack.demo_parts import Dagster
from cdc_assets_tests.stack.replicated import Replicated
from cdc_assets_tests.stack.waiting import until

SECONDS_TO_APPEAR = 180


@dataclass(frozen=True)
class Live:
    """The shop and the Dagster that replicates it."""

    shop: Replicated
    dagster: Dagster

    def ask(self, query: str, **variables: object) -> Any:
        """GraphQL; the answer's ``data``."""
        answer = requests.post(
            f"{self.dagster.url}/graphql",
            json={"query": query, "variables": variables},
            timeout=30,
        )
        answer.raise_for_status()
        document = answer.json()
        assert "errors" not in document, document["errors"]
        return document["data"]

    def wait_until_equal(self, *tables: str) -> None:
        """Until the daemon has merged everything that was committed before this call."""
        self.shop.wait_until_delivered()
        until(
            lambda: not self.shop.differences(*tables),
            f"the lake equals the database: {tables}",
            within_seconds=SECONDS_TO_APPEAR,
            every_seconds=1,
        )
