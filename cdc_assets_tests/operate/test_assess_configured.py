"""What the configuration says of tables that are not there is said by `assess`."""

from __future__ import annotations

import pytest

from cdc_assets.config.assess import FINDINGS
from cdc_assets.operate.assess.finding import Subject, Verdict
from cdc_assets.operate.assess.look import judge_configured

pytestmark = pytest.mark.unit

AT = Subject("shop")


def test_names_of_tables_are_no_finding() -> None:
    assert [*judge_configured(AT, ["public.orders"], ["public.orders", "public.items"])] == []


@pytest.mark.parametrize(
    ("name", "said"),
    [("public.custmers", "public.custmers (public.customers?)"),
     ("PUBLIC.CUSTOMERS", "PUBLIC.CUSTOMERS (public.customers?)"),
     ("x.y", "x.y, and")],
)  # fmt: skip
def test_one_that_no_table_has_is_named_with_the_table_that_is_meant(name: str, said: str) -> None:
    (found,) = judge_configured(AT, ["public.orders", name], ["public.orders", "public.customers"])
    assert (found.name, found.verdict, found.stops) == ("table_unknown", Verdict.PARTIAL, False)
    assert found.name in FINDINGS
    assert said in found.problem
