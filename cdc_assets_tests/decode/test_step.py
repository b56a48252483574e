"""The number of the step that an age is in, and the age that the number stands for."""

from __future__ import annotations

import math
import random

import pytest
from pyspark.sql import functions as F

from cdc_assets.changes.latency import BOUNDS
from cdc_assets.merge.intake.observe import age_number, seconds_of
from cdc_assets_tests.pipeline import Session

YEAR = 366 * 86_400.0


@pytest.mark.spark
def test_an_age_is_rounded_up_to_the_end_of_its_step(spark: Session) -> None:
    rng = random.Random(7)
    ages = [-5.0, 0.0, *BOUNDS, *(rng.uniform(0, 10 ** rng.uniform(-3, 7.4)) for _ in range(2000))]
    frame = spark().createDataFrame([(each,) for each in [*ages, YEAR + 1, None]], "age double")
    rows = frame.select("age", age_number(F.col("age")).alias("number")).collect()
    found = {row["age"]: row["number"] for row in rows}
    assert found[None] is None
    assert seconds_of(found[YEAR + 1]) == math.inf
    for age in ages:
        told = seconds_of(found[age])
        width = next(
            w for high, w in ((10, 0.01), (600, 0.5), (86_400, 15), (YEAR, 10_800)) if age <= high
        )
        assert max(age, 0) <= told + 1e-9, age
        assert told < max(age, 0) + width + 1e-9, age
