"""What is recorded of a column with its table reads back the same."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc_assets.schema.stored import column_from_json, column_to_json
from cdc_assets.schema.types import Column, Existing, Identity, Primitive, Wire
from cdc_assets_tests.toy.profiles import examples

NAMES = st.lists(st.text()).map(tuple)
IDENTITIES = st.builds(Identity, st.text(), NAMES, NAMES, st.integers(0), st.integers(0))
EXISTING = st.none() | st.builds(Existing, st.none() | st.text(), st.text())


@pytest.mark.property
@examples(200)
@given(name=st.text(), identity=IDENTITIES, existing=EXISTING)
def test_identity_and_existing_value_read_back_the_same(name, identity, existing) -> None:
    column = Column(name, Primitive.LONG, Wire.LONG, identity=identity, existing=existing)
    assert column_from_json(column_to_json(column)) == column


@pytest.mark.unit
def test_a_column_of_before_there_were_identities_reads_back_without() -> None:
    text = '{"name":"id","type":"bigint","wire":"long"}'
    column = Column("id", Primitive.LONG, Wire.LONG)
    assert column_from_json(text) == column
    assert column_to_json(column) == text
