"""Column types as people write them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc_assets.errors import TerminalError
from cdc_assets.schema.parse import TypeSpec, parse_spec, parse_type, type_text
from cdc_assets.schema.types import Decimal, ListOf, Primitive

DECIMALS = st.integers(1, 38).flatmap(
    lambda precision: st.integers(0, precision).map(lambda scale: Decimal(precision, scale))
)
SCALARS = st.sampled_from(Primitive) | DECIMALS


@pytest.mark.unit
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("decimal(12,2)", Decimal(12, 2)),
        ("NUMERIC ( 12 , 2 )", Decimal(12, 2)),
        ("decimal(9)", Decimal(9, 0)),
        ("Double  Precision", Primitive.DOUBLE),
        ("varchar(20)", Primitive.STRING),
        ("timestamp without time zone", Primitive.TIMESTAMP),
        ("timestamp", Primitive.TIMESTAMP),
        ("timestamptz(3)", Primitive.TIMESTAMPTZ),
        ("text[]", ListOf(Primitive.STRING)),
        ("array<decimal(5,1)>", ListOf(Decimal(5, 1))),
        ("list<bigint>", ListOf(Primitive.LONG)),
    ],
)
def test_the_words_of_sql_and_iceberg_are_understood(text, expected):
    assert parse_type(text) == expected


@pytest.mark.unit
def test_the_digits_of_a_timestamp_are_kept():
    assert parse_spec("timestamp(3)") == TypeSpec(Primitive.TIMESTAMP, 3)
    assert parse_spec("timestamp(0)") == TypeSpec(Primitive.TIMESTAMP, 0)
    assert parse_spec("timestamp").precision is None


@pytest.mark.unit
@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        ("decimal", "needs its digits"),
        ("decimal(39,0)", "1 to 38"),
        ("decimal(2,3)", "0 to the precision"),
        ("decimal(1,2,3)", "needs its digits"),
        ("decimal(12;2)", "for example"),
        ("decimal(,)", "as in decimal"),
        ("intger", "did you mean 'integer'"),
        ("int(3)", "takes no number"),
        ("timestamp(9)", "0 to 6 digits"),
        ("int[][]", "for example"),
        ("", "for example"),
        ("$$$", "for example"),
    ],
)
def test_what_is_no_type_is_refused_with_a_remedy(text, remedy):
    with pytest.raises(TerminalError, match="not a column type") as caught:
        parse_type(text)
    assert remedy in str(caught.value)


@pytest.mark.property
@given(SCALARS | SCALARS.map(ListOf))
def test_the_text_of_a_type_is_read_back_as_it(type_):
    assert parse_type(type_text(type_)) == type_


@pytest.mark.property
@given(st.text(max_size=30))
def test_no_text_breaks_the_parser(text):
    try:
        parse_type(text)
    except TerminalError:
        pass
