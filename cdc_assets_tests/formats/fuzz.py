"""Records as nobody should write them: whatever they hold, a format says what they are.

For any format: records as bytes in, made of good ones by chance, all decoded by one Spark job. A
failure shows the record.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy
from pyspark.errors import PySparkException
from pyspark.sql import Row

from cdc_assets.errors import TerminalError
from cdc_assets.formats.format import Format
from cdc_assets.formats.spec import CONTROL, OTHER, ROW_OPS, STATEMENT, TOMBSTONE
from cdc_assets.log.values import RawRecord
from cdc_assets_tests.formats.decoding import TABLE, Bytes, Table, decoded, raw, told_or_decoded
from cdc_assets_tests.pipeline import Session
from cdc_assets_tests.toy import profiles

Decode = Callable[[Sequence[Bytes]], dict[int, list[Row]]]
MOST_SECONDS = 120
_KNOWN = {*ROW_OPS, "d", "t", TOMBSTONE, CONTROL, STATEMENT, OTHER}
_DEEP = "[" * 3000 + "]" * 3000
_NESTED = '{"a":' * 3000 + "1" + "}" * 3000
_ODD_LITERALS = [
    *("null", "true", "-1", "0", "1.5", "1e999999", "1e-999999", "NaN", "-Infinity", "9" * 5000),
    *(str(2**63), str(-(2**63) - 1), f"0.{'9' * 5000}", '""', '"x"', '"17"', '"@@@"', "[]", "{}"),
    *("[null]", '[{"a":[1]}]', r'"\ud800"', r'"\\\ud83d\ude00"', '"a\x01b"', r'"\u0000"'),
    *('"__debezium_unavailable_value"', '["__debezium_unavailable_value"]', _DEEP, _NESTED),
]
_MARK = "\ue000"


def records_like(good: Sequence[Bytes]) -> SearchStrategy[Bytes]:
    """Good records with something wrong, and some that were never any."""
    keys = st.one_of(st.sampled_from([each.key for each in good]), _any_bytes(), _broken(good))
    values = st.one_of(_broken(good), _broken_json(good), _any_bytes(), st.none())
    usual_keys = st.sampled_from([each.key for each in good])
    return st.one_of(
        st.builds(Bytes, usual_keys, _broken(good)),
        st.builds(Bytes, usual_keys, _broken_json(good)),
        st.builds(Bytes, keys, values),
    )


def require_told(
    spark: Session,
    fmt: Format,
    table: Table,
    good: Sequence[Bytes],
    *,
    count: int,
    odd: SearchStrategy[Bytes] | None = None,
) -> dict[str, int]:
    """Every record is a change or a rejection, by the format's both sides, in bounded time.

    A record may also name a schema that nobody knows: the table stops at it, with an error that
    says so.

    Args:
        spark: gives the session.
        fmt: the format.
        table: of the good records.
        good: what the others are made of; each of them is a change.
        count: how many to make.
        odd: how to make half of them; as `records_like` if not given.

    Returns:
        How many there were of each operation, how many ``rejected``, and at how many the table
        ``stopped``.
    """
    usual = records_like(good)
    chosen = usual if odd is None else st.one_of(usual, odd)
    made = [*good, *_examples(chosen, profiles.examples(count))]
    records = [each for each in made if _is_read_in_python(fmt, table, each)]
    assert records[: len(good)] == [*good]
    began = time.monotonic()
    changes = _decoded(partial(decoded, spark, fmt, table, most_schemas=10, as_json=True), records)
    assert time.monotonic() - began < MOST_SECONDS
    counts = {"stopped": len(made) - len(records), "rejected": 0}
    for record, rows in zip(records, changes.values(), strict=True):
        assert rows, record
        for row in rows:
            is_rejected = row["reject"] is not None
            assert is_rejected or row["op"] in _KNOWN, (record, row)
            assert is_rejected or row["op"] not in ROW_OPS or row["row"] is not None, (record, row)
            assert not is_rejected or _is_discreet(row["reject"]), (record, row)
            name = "rejected" if is_rejected else row["op"]
            counts[name] = counts.get(name, 0) + 1
    told = [changes[at][0]["reject"] for at in range(len(good))]
    assert told == [None] * len(good)
    return counts


def require_apart(
    spark: Session,
    fmt: Format,
    table: Table,
    good: Sequence[Bytes],
    *,
    count: int,
    odd: SearchStrategy[Bytes] | None = None,
) -> int:
    """A table that shares a reading is told what it tells of all records by itself.

    Args:
        spark, fmt, table, count, odd: as of `require_told`.
        good: records of the table and of others.

    Returns:
        Of how many changes it was only told that they are another table's.
    """
    usual = records_like(good)
    chosen = usual if odd is None else st.one_of(usual, odd)
    made = [*good, *_examples(chosen, profiles.examples(count))]
    records = [each for each in made if _is_read_in_python(fmt, table, each)]
    alone, told = told_or_decoded(spark, fmt, table, records, most_schemas=10)
    assert alone == told, (alone - told, told - alone)
    return sum(count for what, count in told.items() if ": a change of " in what)


def _decoded(decode: Decode, records: Sequence[Bytes]) -> dict[int, list[Row]]:
    """The changes; if that raises, the record because of which it does."""
    try:
        return decode(records)
    except PySparkException as error:
        half = len(records) // 2
        if half:
            _decoded(decode, records[:half])
            _decoded(decode, records[half:])
        msg = f"raises, but only together: {records}" if half else f"raises: {records[0]}"
        raise AssertionError(msg) from error


def _is_read_in_python(fmt: Format, table: Table, given: Bytes) -> bool:
    """Nothing raises; alone, so that none is passed over because of another.

    Returns:
        False if the table stops at the record.
    """
    (record,) = raw([given])
    error = _stopped(fmt, table, record)
    if error is None:
        return True
    assert _is_discreet(str(error)), given
    assert record.coordinate.topic in str(error), given
    return False


def _stopped(fmt: Format, table: Table, record: RawRecord) -> TerminalError | None:
    try:
        if record.value is not None:
            assert fmt.kind(record)
            assert fmt.look([record], TABLE).count == 1
            assert fmt.tables([record], TABLE.source) is not None
            for message in fmt.unpacked(record, TABLE):
                fmt.written(message, table.layout)
        fmt.holds_row(record, TABLE)
        fmt.mark(record, only_partition=True)
        fmt.ended(record)
        fmt.statements(record, table.layout.scheme)
    except TerminalError as error:
        return error
    return None


def _is_discreet(reason: str) -> bool:
    return len(reason) < 300 and _MARK not in reason


def _examples(strategy: SearchStrategy[Any], chosen: settings) -> list[Any]:
    """Examples without a test around each: they are looked at together."""
    found: list[Any] = []

    @settings(chosen, database=None, phases=[Phase.generate], deadline=None,
              suppress_health_check=list(HealthCheck))  # fmt: skip
    @given(strategy)
    def collect(example: Any) -> None:
        found.append(example)

    collect()
    return found


# ── broken bytes ──────────────────────────────────────────────────────────────────────────


def _any_bytes() -> SearchStrategy[bytes]:
    literals = st.sampled_from([each.encode("utf-8", "surrogatepass") for each in _ODD_LITERALS])
    return st.one_of(st.binary(max_size=200), literals, _any_json())


def _any_json() -> SearchStrategy[bytes]:
    leaves = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=20))
    trees = st.recursive(
        leaves,
        lambda inner: st.one_of(
            st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=8), inner, max_size=4)
        ),
        max_leaves=20,
    )
    return trees.map(lambda tree: json.dumps(tree).encode("utf-8", "surrogatepass"))


@st.composite
def _broken(draw: DrawFn, good: Sequence[Bytes]) -> bytes:
    """A good value, cut, spliced or overwritten."""
    values = [each.value for each in good if each.value is not None]
    value = draw(st.sampled_from(values))
    start = draw(st.integers(0, len(value)))
    end = draw(st.integers(start, min(len(value), start + 40)))
    match draw(st.integers(0, 4)):
        case 0:
            return value[:start]
        case 1:
            return value[:start] + value[end:]
        case 2:
            return value[:start] + draw(st.binary(max_size=8)) + value[end:]
        case 3:
            return value[:start] + value[start:end] * 3 + value[end:]
        case _:
            return value[:start] + draw(st.sampled_from(values))[start:]


# ── broken JSON ───────────────────────────────────────────────────────────────────────────

Edit = Callable[[Any], Any]


@st.composite
def _broken_json(draw: DrawFn, good: Sequence[Bytes]) -> bytes:
    """A good value with one or two of its parts replaced, left out, or there twice."""
    values = [each.value for each in good if each.value is not None and _is_object(each.value)]
    if not values:
        return draw(_broken(good))
    text = draw(st.sampled_from(values)).decode()
    for _ in range(draw(st.integers(1, 2))):
        text = _edited(draw, text)
    return text.encode("utf-8", "surrogatepass")


def _edited(draw: DrawFn, text: str) -> str:
    """Unchanged if an edit before has left no object."""
    document = _read(text)
    if not isinstance(document, dict):
        return text
    within = _nodes(document)
    parent, name = draw(st.sampled_from(within))
    literal = draw(st.sampled_from(_ODD_LITERALS))
    match draw(st.integers(0, 3)):
        case 0 | 1:
            parent[name] = _MARK
            return _write(document).replace(json.dumps(_MARK, ensure_ascii=False), literal)
        case 2:
            value = parent.pop(name)
            if draw(st.booleans()):
                parent[f"{name}s"] = value
            return _write(document)
        case _:
            twice = f"{literal},{json.dumps(name)}:{_write(parent[name])}"
            parent[name] = _MARK
            return _write(document).replace(json.dumps(_MARK, ensure_ascii=False), twice)


def _nodes(document: dict[str, Any]) -> list[tuple[dict[str, Any], str]]:
    """Every field of it and of the objects in it, by its parent and name."""
    found = [(document, name) for name in document]
    for value in document.values():
        if isinstance(value, dict):
            found += _nodes(value)
    return found or [({"it": document}, "it")]


def _is_object(value: bytes) -> bool:
    return isinstance(_read(value.decode("utf-8", "replace")), dict)


def _read(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _write(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
