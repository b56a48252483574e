"""The tag on what a rebuild replaces: moved by its own tries, never by another rebuild."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from cdc_assets.operations.rebuild.tables import tag_number

pytestmark = pytest.mark.unit

HEAD, BEFORE, OTHER = 9, 8, 1


@pytest.mark.parametrize(
    ("tags", "generation", "number"),
    [
        ({}, 1, 1),
        ({1: OTHER, 2: OTHER}, 3, 3),
        ({1: HEAD}, 1, 1),
        ({1: BEFORE}, 1, 1),
        ({1: OTHER}, 1, 2),
        ({1: OTHER, 4: OTHER}, 1, 5),
        ({1: OTHER, 2: HEAD}, 1, 2),
        ({1: HEAD}, 2, 2),
    ],
    ids=[
        "the_first", "one_more", "a_try_before", "a_try_before_another_publish", "counted_again",
        "counted_again_after_several", "counted_again_a_try_before", "of_a_head_that_stayed",
    ],
)  # fmt: skip
def test_only_a_tag_of_the_same_rebuild_is_moved(
    tags: Mapping[int, int], generation: int, number: int
) -> None:
    assert tag_number(tags, generation, {HEAD, BEFORE}) == number
