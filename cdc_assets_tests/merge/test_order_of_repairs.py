"""Rows are put right only where a position tells which change of a key is newer."""

from __future__ import annotations

import pytest

from cdc_assets.changes.position import Scheme
from cdc_assets.errors import ConfigError
from cdc_assets.merge.verifying.repair import require_order

pytestmark = pytest.mark.unit


def test_offsets_of_several_partitions_tell_nothing() -> None:
    with pytest.raises(ConfigError, match="only offsets order its changes") as caught:
        require_order(Scheme.OFFSET, 2, "table=shop.orders")
    assert "table=shop.orders" in str(caught.value)


@pytest.mark.parametrize(
    ("scheme", "partitions"), [(Scheme.OFFSET, 1), (Scheme.MARIADB, 4), (Scheme.POSTGRES, 4)]
)
def test_one_partition_and_positions_of_the_source_do(scheme: Scheme, partitions: int) -> None:
    require_order(scheme, partitions, "table=shop.orders")
