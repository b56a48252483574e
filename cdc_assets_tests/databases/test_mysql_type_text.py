"""Reading a type's text, however it is spelt."""

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc_assets.databases.mysql.type_text import MysqlType, parse_column_type

WORDS = ["tinyint", "int", "decimal", "varchar", "enum", "datetime", "bit", "year", "inet6"]
ESCAPED = {"\0": "\\0", "\n": "\\n", "\r": "\\r", "\\": "\\\\", "'": "''"}


@pytest.mark.unit
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("bigint(20) unsigned zerofill", MysqlType("bigint", (20,), unsigned=True)),
        ("BIGINT UNSIGNED", MysqlType("bigint", unsigned=True)),
        ("int(11) zerofill", MysqlType("int", (11,), unsigned=True)),
        ("int unsigned(10)", MysqlType("int", (10,), unsigned=True)),
        ("INT SIGNED", MysqlType("int")),
        ("INTEGER", MysqlType("int")),
        ("middleint", MysqlType("mediumint")),
        ("int8", MysqlType("bigint")),
        ("serial", MysqlType("bigint", unsigned=True)),
        ("tinyint(1)", MysqlType("tinyint", (1,))),
        ("bool", MysqlType("tinyint", (1,))),
        ("BOOLEAN", MysqlType("tinyint", (1,))),
        ("decimal(10,2)", MysqlType("decimal", (10, 2))),
        ("DECIMAL", MysqlType("decimal")),
        ("NUMERIC( 12 , 3 ) unsigned", MysqlType("decimal", (12, 3), unsigned=True)),
        ("double precision", MysqlType("double")),
        ("DOUBLE PRECISION UNSIGNED", MysqlType("double", unsigned=True)),
        ("real", MysqlType("double")),
        ("float(7,4)", MysqlType("float", (7, 4))),
        ("varchar(255)", MysqlType("varchar", (255,))),
        (
            "VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_ai_ci",
            MysqlType("varchar", (255,)),
        ),
        ("varchar(9) charset binary", MysqlType("varbinary", (9,))),
        ("char(10) binary", MysqlType("char", (10,))),
        ("char byte(3)", MysqlType("binary", (3,))),
        ("national character varying(3)", MysqlType("varchar", (3,))),
        ("long varbinary", MysqlType("mediumblob")),
        ("enum('a','b''c')", MysqlType("enum", labels=("a", "b'c"))),
        ("ENUM( 'a' , \"b\" )", MysqlType("enum", labels=("a", "b"))),
        (r"set('x,y)(','z\\w','\'')", MysqlType("set", labels=("x,y)(", r"z\w", "'"))),
        ("enum('')", MysqlType("enum", labels=("",))),
        ("datetime(3)", MysqlType("datetime", (3,))),
        ("timestamp(6)", MysqlType("timestamp", (6,))),
        ("year(4)", MysqlType("year", (4,))),
        ("bit(12)", MysqlType("bit", (12,))),
        ("json", MysqlType("json")),
        ("geomcollection", MysqlType("geometrycollection")),
        ("inet6", MysqlType("inet6")),
        ("vector(3)", MysqlType("vector", (3,))),
        (
            "varchar(10) /*M!100301 COMPRESSED*/",
            MysqlType("varchar", (10,), remarks=("compressed",)),
        ),
        ("datetime /* mariadb-5.3 */", MysqlType("datetime", remarks=("mariadb-5.3",))),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_type_is_read_as_what_it_means(text, expected):
    assert parse_column_type(text) == expected


@pytest.mark.unit
@pytest.mark.parametrize(
    "text",
    [
        "int foo",
        "enum('a'",
        "enum()",
        "enum(a)",
        "decimal(x)",
        "int(1",
        "set('a' 'b')",
        "bit(1)(2)",
    ],
)
def test_what_is_not_understood_is_remarked(text):
    assert parse_column_type(text).remarks


@pytest.mark.unit
@pytest.mark.parametrize("text", ["", "   ", "(3)", "'int'", "3int", "\0"])
def test_what_is_no_type_has_no_name(text):
    assert parse_column_type(text).name == ""


@pytest.mark.property
@given(st.text() | st.text(alphabet="'\"\\(),ae n", max_size=60))
def test_any_text_is_taken(text):
    parse_column_type(text)


@pytest.mark.property
@given(st.sampled_from(WORDS), st.text(alphabet="'\"\\(),a0n/*! \n", max_size=200))
def test_any_text_is_taken_after_a_name(word, rest):
    parse_column_type(word + rest)


@pytest.mark.unit
def test_many_quotes_take_no_time():
    assert parse_column_type("enum('" + "''" * 50_000).remarks


@pytest.mark.property
@given(st.lists(st.text(), min_size=1, max_size=8), st.sampled_from(["enum", "SET"]))
def test_labels_come_back_as_they_were(labels, word):
    """As ``append_unescaped`` of the server writes them."""
    written = ("'" + "".join(ESCAPED.get(sign, sign) for sign in each) + "'" for each in labels)
    found = parse_column_type(f"{word}({','.join(written)})")
    assert found == MysqlType(word.lower(), labels=tuple(labels))


@pytest.mark.property
@given(
    st.sampled_from(["tinyint", "int", "decimal", "varchar", "datetime", "bit", "vector"]),
    st.lists(st.integers(0, 10**9 - 1), max_size=2).map(tuple),
    st.booleans(),
    st.sampled_from([str.lower, str.upper, string.capwords]),
    st.sampled_from(["", " ", "\n\t"]),
)
def test_numbers_come_back_as_they_were(name, arguments, unsigned, case, space):
    numbers = f"({','.join(f'{space}{each}{space}' for each in arguments)})" if arguments else ""
    text = f"{space}{name}{space}{numbers}{' unsigned' if unsigned else ''}{space}"
    assert parse_column_type(case(text)) == MysqlType(name, arguments, unsigned=unsigned)
