"""The tree of comparisons finds the same bucket as bisection."""

from __future__ import annotations

from bisect import bisect_right

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc_assets.schema.comparing import BucketTree, Key, tree
from cdc_assets_tests.toy.profiles import examples

pytestmark = pytest.mark.property

keys = st.tuples(st.text("ab", max_size=3), st.text("ab", max_size=2))


def bucket(of: BucketTree, key: Key) -> int:
    while not isinstance(of, int):
        of = of.below if key < of.bound else of.above
    return of


@examples(300)
@given(st.sets(keys, max_size=20), keys)
def test_a_key_is_in_the_bucket_that_begins_at_or_below_it(found: set[Key], key: Key) -> None:
    bounds = sorted(found)
    assert bucket(tree(bounds), key) == bisect_right(bounds, key)
