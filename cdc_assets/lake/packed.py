"""Packs a publish's state into few bytes: a table's metadata stores it once per snapshot.

Everything that grows with the topic's partitions and with the hours of the SLO goes into one
property: numbers as columns over the partitions, each as the difference to the previous partition,
then LZMA. Short texts for people (topic, attempt, times, counts, offsets of few partitions) stay
unchanged.
"""

from __future__ import annotations

import json
import lzma
import re
from base64 import b85decode, b85encode
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Any, Final

PACKED: Final = "packed"
OFFSETS_AS_TEXT: Final = 16
"""The most partitions for which the snapshot's summary shows offsets as plain text."""

_CODEC: Final = [{"id": lzma.FILTER_LZMA2, "dict_size": 2**20, "lc": 0, "lp": 0, "pb": 0}]
"""For digits; without a header. What was written with it has to stay readable."""

_POSITION: Final = re.compile("(?:[0-9A-F]{16})+")
_DIGITS: Final = 16

Rows = Mapping[int, Sequence[int]]


def pack(document: Any) -> str:
    """Packs a JSON document into ASCII text without quotes and backslashes."""
    return b85encode(
        lzma.compress(_text(document).encode(), lzma.FORMAT_RAW, -1, None, _CODEC)
    ).decode()


def unpack(text: str) -> Any:
    """Reads what `pack` wrote.

    Raises:
        ValueError: if the text is something else.
    """
    try:
        return json.loads(lzma.decompress(b85decode(text), lzma.FORMAT_RAW, None, _CODEC))
    except lzma.LZMAError as error:
        msg = f"not a packed document: {error}"
        raise ValueError(msg) from None


def packed_values(values: Mapping[str, str]) -> dict[str, str]:
    """Packs a publish's properties.

    Args:
        values: properties as text, among them ``offsets``, ``start``, ``carried`` and ``slo``.
    """
    rest = dict(values)
    offsets, start, carried, slo = (
        json.loads(rest.pop(name)) for name in ("offsets", "start", "carried", "slo")
    )
    end = {int(partition): offset for partition, offset in offsets.items()}
    document: dict[str, Any] = {
        "start": to_columns({int(p): [end.get(int(p), 0) - at] for p, at in start.items()}),
        "hours": _steps(map(int, slo)),
        "slo": list(slo.values()),
    }
    few = len(end) <= OFFSETS_AS_TEXT
    if not few:
        document["offsets"] = to_columns({p: [offset] for p, offset in end.items()})
    needs = [PACKED, *carried["needs"]]  # a version that cannot unpack refuses it
    _take_positions(carried, document, end)
    _take_starts(carried, document)
    _take_last(carried, document, end)
    document["carried"] = {name: value for name, value in carried.items() if value}
    return {
        **rest,
        "offsets": values["offsets"] if few else "{}",
        "carried": _text({"needs": needs}),
        PACKED: pack(document),
    }


def unpacked_values(values: Mapping[str, str]) -> Mapping[str, str]:
    """Reads what `packed_values` wrote; returns an older version's values unchanged.

    Raises:
        ValueError: if the text is something else.
    """
    if PACKED not in values:
        return values
    said = unpack(values[PACKED])
    offsets = (
        {partition: at for partition, (at,) in of_columns(said["offsets"]).items()}
        if "offsets" in said
        else {int(p): at for p, at in json.loads(values["offsets"]).items()}
    )
    start = {p: offsets.get(p, 0) - before for p, (before,) in of_columns(said["start"]).items()}
    carried = said["carried"]
    if "applied" in said:
        carried["applied"] = {
            str(p): _position([*numbers, offsets.get(p, 0) - before])
            for p, (*numbers, before) in of_columns(said["applied"]).items()
        }
    if "starts" in said:
        rows = of_columns(said["starts"]).items()
        carried["snapshot_starts"] = {str(p): _pairs(row) for p, row in rows}
    if "last" in said:
        carried["last_merged"] = _last(said["last"], said["digests"], offsets)
    slo = dict(zip(accumulate(said["hours"]), said["slo"], strict=True))
    rest = {name: text for name, text in values.items() if name != PACKED}
    return {**rest, "offsets": _text(offsets), "start": _text(start),
            "carried": _text(carried), "slo": json.dumps(slo)}  # fmt: skip


def to_columns(rows: Rows) -> list[list[int]]:
    """Returns partitions, row lengths and each column of the rows, all as differences downwards."""
    partitions = sorted(rows)
    ordered = [rows[partition] for partition in partitions]
    width = max(map(len, ordered), default=0)
    columns = ([row[n] for row in ordered if n < len(row)] for n in range(width))
    return [_steps(each) for each in (partitions, [len(row) for row in ordered], *columns)]


def of_columns(columns: Sequence[Sequence[int]]) -> dict[int, list[int]]:
    """Reads what `to_columns` wrote."""
    partitions, lengths, *rest = (list(accumulate(each)) for each in columns)
    left = [iter(each) for each in rest]
    return {
        partition: [next(column) for column in left[:length]]
        for partition, length in zip(partitions, lengths, strict=True)
    }


def _steps(numbers: Iterable[int]) -> list[int]:
    return [after - before for before, after in pairwise([0, *numbers])]


def _take_positions(
    carried: dict[str, Any], document: dict[str, Any], end: Mapping[int, int]
) -> None:
    """Moves ``applied`` to columns; the last number of a position is close to the offset."""
    applied: Mapping[str, str] = carried.get("applied", {})
    if not applied or not all(_POSITION.fullmatch(each) for each in applied.values()):
        return
    del carried["applied"]
    rows: dict[int, list[int]] = {}
    for partition, position in applied.items():
        *numbers, offset = _numbers(position)
        rows[int(partition)] = [*numbers, end.get(int(partition), 0) - offset]
    document["applied"] = to_columns(rows)


def _take_starts(carried: dict[str, Any], document: dict[str, Any]) -> None:
    starts = carried.pop("snapshot_starts", {})
    rows = {int(p): [n for pair in pairs for n in pair] for p, pairs in starts.items()}
    document["starts"] = to_columns(rows)


def _take_last(carried: dict[str, Any], document: dict[str, Any], end: Mapping[int, int]) -> None:
    """Moves ``last_merged`` to columns: the offset is close to the end, digests are at random."""
    last = {int(p): each for p, each in sorted(carried.pop("last_merged", {}).items(), key=_number)}
    if last:
        document["last"] = to_columns({p: [end.get(p, 0) - at] for p, (at, _) in last.items()})
        width = max(len(f"{digest:x}") for _, digest in last.values())
        document["digests"] = "".join(f"{digest:0{width}x}" for _, digest in last.values())


def _last(
    columns: Sequence[Sequence[int]], digests: str, end: Mapping[int, int]
) -> dict[str, list[int]]:
    """Reads what `_take_last` wrote."""
    rows = of_columns(columns)
    width = len(digests) // len(rows)
    each = (int(digests[n : n + width], 16) for n in range(0, len(digests), width))
    return {
        str(p): [end.get(p, 0) - before, digest]
        for (p, (before,)), digest in zip(rows.items(), each, strict=True)
    }


def _number(item: tuple[str, Any]) -> int:
    return int(item[0])


def _pairs(row: Sequence[int]) -> list[list[int]]:
    return [[begin, at] for begin, at in zip(row[::2], row[1::2], strict=True)]


def _numbers(position: str) -> list[int]:
    return [int(position[n : n + _DIGITS], 16) for n in range(0, len(position), _DIGITS)]


def _position(numbers: Iterable[int]) -> str:
    return "".join(f"{number:016X}" for number in numbers)


def _text(document: Any) -> str:
    return json.dumps(document, separators=(",", ":"), sort_keys=True)
