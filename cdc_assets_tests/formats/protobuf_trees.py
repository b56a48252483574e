"""Messages in protobuf's wire format as trees, to change one place and leave the lengths right.

https://protobuf.dev/programming-guides/encoding/
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

VARINT, LENGTH = 0, 2
Shape = Mapping[int, "Shape"]
"""Which fields of a message are messages, and of what shape."""


@dataclass
class Field:
    """A number, a text, or a message."""

    number: int
    value: int | bytes | list[Field]


def read(data: bytes, shape: Shape) -> list[Field]:
    found, at = [], 0
    while at < len(data):
        tag, at = _varint(data, at)
        number, kind = tag >> 3, tag & 7
        value, at = _varint(data, at)
        if kind == LENGTH:
            content, at = data[at : at + value], at + value
            inner = shape.get(number)
            found.append(Field(number, content if inner is None else read(content, inner)))
        else:
            found.append(Field(number, value))
    return found


def write(fields: list[Field]) -> bytes:
    return b"".join(map(_written, fields))


def _written(field: Field) -> bytes:
    match field.value:
        case int(value):
            return varint(field.number << 3 | VARINT) + varint(value)
        case value:
            content = value if isinstance(value, bytes) else write(value)
            return varint(field.number << 3 | LENGTH) + varint(len(content)) + content


def varint(value: int) -> bytes:
    low, rest = value & 0x7F, value >> 7
    return bytes([low | 0x80]) + varint(rest) if rest else bytes([low])


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if data[at - 1] < 0x80:
            return value, at


_ODD = [
    0, 1, 2, 3, 5, 7, 16, 2**31, 2**63, 2**64 - 1, b"", b"x", b"\xff\xfe", b"\xed\xa0\x80", b"\x00",
    b"9" * 5000, b"\x0a" * 3000, [], [Field(1, 1)] * 3,
]  # fmt: skip


@st.composite
def broken(draw: DrawFn, data: bytes, shape: Shape) -> bytes:
    """One or two fields replaced, left out, there twice, renamed or moved."""
    fields = read(data, shape)
    for _ in range(draw(st.integers(1, 2))):
        places = [*_places(fields)]
        if not places:
            break
        within, at = draw(st.sampled_from(places))
        match draw(st.integers(0, 5)):
            case 0 | 1:
                within[at] = Field(within[at].number, deepcopy(draw(st.sampled_from(_ODD))))
            case 2:
                del within[at]
            case 3:
                within.append(within[at])
            case 4:
                within[at] = Field(draw(st.integers(1, 20)), within[at].value)
            case _:
                within.insert(0, within.pop(at))
    return write(fields)


def _places(fields: list[Field]) -> Iterator[tuple[list[Field], int]]:
    for at, field in enumerate(fields):
        yield fields, at
        if isinstance(field.value, list):
            yield from _places(field.value)
