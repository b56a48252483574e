"""How records' keys hold the key of a table: told by records that also hold their row."""

import json

import pytest

from cdc_assets.formats.key_form import KeyForm, form_of
from cdc_assets_tests.formats.debezium import debezium_json
from cdc_assets_tests.formats.decoding import TABLE, Bytes, raw

pytestmark = pytest.mark.unit


def schema(kind, payload):
    return json.dumps({"schema": {"type": kind, "optional": False}, "payload": payload}).encode()


@pytest.mark.parametrize(
    ("shown", "form"),
    [
        ([(b"17", 17), (b"-3", -3)], KeyForm.JSON),
        ([(b'"a"', "a")], KeyForm.JSON),
        ([(schema("int64", 17), 17)], KeyForm.JSON),
        ([(schema("string", "a"), "a")], KeyForm.JSON),
        ([(b"a", "a"), (b"17", "17")], KeyForm.TEXT),
        ([(b'"a"', '"a"')], KeyForm.TEXT),
        ([(b"", "")], KeyForm.TEXT),
        ([((17).to_bytes(8), 17), ((-3).to_bytes(8, signed=True), -3)], KeyForm.LONG),
        ([(b"12345678", 12345678)], KeyForm.JSON),
        ([(b"12345678", 0x3132333435363738)], KeyForm.LONG),
        ([((17).to_bytes(4), 17)], KeyForm.INTEGER),
        ([(b"17", 17), (b"b", "a")], None),
        ([(b"1", True)], None),
        ([(b"17", 18)], None),
        ([(b"Struct{id=1}", 1)], None),
        ([(b"null", None)], None),
        ([], None),
    ],
)
def test_the_form_is_the_one_that_fits_all(shown, form):
    assert form_of(shown) is form


def test_keys_that_are_the_only_column_key_a_table():
    value = json.dumps({"op": "c", "after": {"id": 17, "n": 17}, "source": {}}).encode()
    other = json.dumps({"op": "c", "after": {"id": 18, "n": 17}, "source": {}}).encode()
    sample = debezium_json().look(raw([Bytes(b"17", value), Bytes(b"18", other)]), TABLE)
    assert sample.is_keyed_by(("id",))
    assert not sample.is_keyed_by(("n",))
    assert not sample.is_keyed_by(("id", "n"))
    assert sample.key_names == ()
