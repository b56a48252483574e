"""Reading a record's JSON in Python: whatever it holds, an answer."""

import sys

import pytest

from cdc_assets.changes.json_text import natural, read_json, read_object

DEEP = 100_000

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    "text",
    [
        None, b"", b"   ", b"\xff", '{"a":1}'.encode("utf-16"), b"\xef\xbb\xbf{}", b"{", b"{}{}",
        b"[1,]",
        b"[" * DEEP, b"[" * DEEP + b"]" * DEEP, b'{"a":' * DEEP + b"1" + b"}" * DEEP,
        b"9" * 10_000, b"-" + b"9" * 1000, b"0." + b"9" * 10_000, b"1e" + b"9" * 10_000,
        b'{"a":' + b"9" * 10_000 + b"}", b'"\\ud800"', b'{"\\udfff":1}', b'"a\x01b"',
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_none(text):
    assert read_json(text) is None
    assert read_object(text) == {}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (b'{"a":1,"a":2}', {"a": 2}),
        (b"9" * 1000, int("9" * 1000)),
        (b"1e400", float("inf")),
        ('"\\ud83d\\ude00\\\\ud800"', "\U0001f600\\ud800"),
        (b"[[[[1]]]]", [[[[1]]]]),
        (b"null", None),
    ],
)
def test_what_can_be_read(text, value):
    assert read_json(text) == value


def test_the_bound_is_not_pythons_own():
    before = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(0)
    try:
        assert read_json(b"9" * 100_000) is None
    finally:
        sys.set_int_max_str_digits(before)


NO_NUMBERS = [None, True, -1, 1.5, "", "-1", "1.0", "²", "9" * 10_000, 2**63, [1]]


@pytest.mark.parametrize("value", NO_NUMBERS)
def test_what_is_no_natural_number(value):
    assert natural(value) is None


def test_natural_numbers_and_their_texts():
    assert [natural(each) for each in (0, 7, "7", 2**63 - 1)] == [0, 7, 7, 2**63 - 1]
