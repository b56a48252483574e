"""Generated Avro schemas with values, and schemas as Connect's converters write them."""

from __future__ import annotations

import itertools

from hypothesis import strategies as st

from cdc_assets_tests.schema.avro_binary import PRIMITIVES

NAMES = st.sampled_from(["id", "name", "_x", "Größe", "select", "a1", "value", "member0", "t0"])
NAMESPACES = st.sampled_from(["", "a", "a.b", "my-server.public"])
PROPS = st.fixed_dictionaries(
    {},
    optional={
        "doc": st.sampled_from(["what it is", '"; DROP TABLE']),
        "default": st.none() | st.integers(),
        "connect.name": st.sampled_from(["io.debezium.time.Date", "acme.Thing"]),
        "connect.version": st.just(1),
        "connect.parameters": st.just({"scale": "2"}),
        "connect.default": st.just("x"),
        "logicalType": st.sampled_from(["date", "decimal", "timestamp-micros", "uuid", "nonsense"]),
        "precision": st.just(9),
        "scale": st.just(2),
        "aliases": st.just(["other"]),
    },
)
_VALUES = {
    "null": st.none(),
    "boolean": st.booleans(),
    "int": st.integers(-(2**31), 2**31 - 1),
    "long": st.integers(-(2**63), 2**63 - 1),
    "float": st.floats(width=32, allow_nan=False),
    "double": st.floats(allow_nan=False),
    "bytes": st.binary(max_size=20),
    "string": st.text(max_size=20),
}


@st.composite
def schemas_with_values(draw):
    """A schema, and a strategy for values of it as `avro_binary` takes them."""
    return _Drawing(draw).record(0, "")


class _Drawing:
    def __init__(self, draw):
        self.draw = draw
        self.numbers = itertools.count()
        self.known = []  # (full name, namespace, values)

    def any(self, depth, space, *, in_union=False):
        kinds = ["primitive", "enum", "fixed"]
        kinds += ["record", "array", "map"] if depth < 4 else []
        kinds += [] if in_union or depth >= 4 else ["union", "optional"]
        kinds += ["mention"] if self.known and not in_union else []
        kind = self.draw(st.sampled_from(kinds))
        return getattr(self, kind)(depth, space)

    def primitive(self, depth, space):
        name = self.draw(st.sampled_from(PRIMITIVES))
        props = self.draw(PROPS)
        return ({**props, "type": name} if props else name), _VALUES[name]

    def mention(self, depth, space):
        full, inner, values = self.draw(st.sampled_from(self.known))
        short = full.rpartition(".")[2]
        return (short if inner == space and inner else full), values

    def enum(self, depth, space):
        symbols = self.draw(st.lists(NAMES, min_size=1, max_size=4, unique=True))
        values = st.integers(0, len(symbols) - 1)
        return self._named("enum", space, {"symbols": symbols}, values)

    def fixed(self, depth, space):
        size = self.draw(st.integers(0, 9))
        return self._named("fixed", space, {"size": size}, st.binary(min_size=size, max_size=size))

    def array(self, depth, space):
        items, values = self.any(depth + 1, space)
        return {"type": "array", "items": items}, st.lists(values, max_size=3)

    def map(self, depth, space):
        inner, values = self.any(depth + 1, space)
        return {"type": "map", "values": inner}, st.dictionaries(
            st.text(max_size=4), values, max_size=3
        )

    def optional(self, depth, space):
        inner, values = self.any(depth, space, in_union=True)
        if inner == "null" or (isinstance(inner, dict) and inner["type"] == "null"):
            return inner, values
        first = self.draw(st.booleans())
        branches = ["null", inner] if first else [inner, "null"]
        null, other = (0, 1) if first else (1, 0)
        return branches, st.just((null, None)) | st.tuples(st.just(other), values)

    def union(self, depth, space):
        several = self.draw(
            st.lists(st.sampled_from(PRIMITIVES), min_size=1, max_size=4, unique=True)
        )
        found = [(name, _VALUES[name]) for name in several]
        found += [self.record(depth + 1, space) for _ in range(self.draw(st.integers(0, 2)))]
        choices = [st.tuples(st.just(n), values) for n, (_, values) in enumerate(found)]
        return [each for each, _ in found], st.one_of(choices)

    def record(self, depth, space):
        names = self.draw(st.lists(NAMES, max_size=4, unique=True))
        head, full, inner = self._head(space)
        fields = [(name, *self.any(depth + 1, inner)) for name in names]
        values = st.fixed_dictionaries({name: each for name, _, each in fields})
        listed = [{**self.draw(PROPS), "name": name, "type": type_} for name, type_, _ in fields]
        self.known.append((full, inner, values))
        return {**head, "type": "record", "fields": listed}, values

    def _named(self, kind, space, parts, values):
        head, full, inner = self._head(space)
        self.known.append((full, inner, values))
        return {**head, "type": kind, **parts}, values

    def _head(self, space):
        name, given = f"T{next(self.numbers)}", self.draw(st.none() | NAMESPACES)
        inner = space if given is None else given
        full = f"{inner}.{name}" if inner else name
        if given and self.draw(st.booleans()):
            return {**self.draw(PROPS), "name": full}, full, inner
        head = {} if given is None else {"namespace": given}
        return {**self.draw(PROPS), **head, "name": name}, full, inner


_AVRO = {
    "int8": "int", "int16": "int", "int32": "int", "int64": "long", "float": "float",
    "double": "double", "boolean": "boolean", "string": "string", "bytes": "bytes",
}  # fmt: skip
_LOGICAL = {
    "org.apache.kafka.connect.data.Date": "date",
    "org.apache.kafka.connect.data.Time": "time-millis",
    "org.apache.kafka.connect.data.Timestamp": "timestamp-millis",
}
DECIMAL = "org.apache.kafka.connect.data.Decimal"


def as_converters_write(schema, *, apicurio=False):
    """Connect's inline JSON schema as ``AvroData`` makes Avro of it: properties and their order."""
    return _Converter(apicurio).of(schema)


class _Converter:
    def __init__(self, apicurio):
        self.apicurio = apicurio
        self.seen = {}
        self.nameless = itertools.count(1)

    def of(self, schema):
        base = self._base(schema)
        if not schema.get("optional"):
            return base
        return [base, "null"] if "default" in schema else ["null", base]

    def _base(self, schema):
        match schema["type"]:
            case "struct":
                return self._struct(schema)
            case "array":
                return {"type": "array", "items": self.of(schema["items"]), **self._props(schema)}
            case "map":
                return {"type": "map", "values": self.of(schema["values"]), **self._props(schema)}
        props = self._props(schema)
        if schema["type"] in ("int8", "int16"):
            props["connect.type"] = schema["type"]
        type_ = _AVRO[schema["type"]]
        return {"type": type_, **props} if props else type_

    def _struct(self, schema):
        number = "" if (n := next(self.nameless)) == 1 else n
        full = schema.get("name") or f"io.confluent.connect.avro.ConnectDefault{number}"
        if full in self.seen:
            return full
        self.seen[full] = schema
        space, _, name = full.rpartition(".")
        fields = []
        for each in schema["fields"]:
            default = {"default": each.get("default")} if each.get("optional") else {}
            fields.append({"name": each["field"], "type": self.of(each), **default})
        return {
            "type": "record",
            "name": name,
            **({"namespace": space} if space else {}),
            "fields": fields,
            **self._props(schema),
        }

    def _props(self, schema):
        name, parameters = schema.get("name"), schema.get("parameters")
        props = {}
        if name == DECIMAL:
            props |= self._decimal(parameters)
        for key in ("doc", "version"):
            if schema.get(key):
                props[f"connect.{key}"] = schema[key]
        if parameters:
            props["connect.parameters"] = parameters
        if "default" in schema:
            props["connect.default"] = schema["default"]
        if name:
            props["connect.name"] = name
        if name in _LOGICAL:
            props["logicalType"] = _LOGICAL[name]
        return props

    def _decimal(self, parameters):
        precision = int(parameters.get("connect.decimal.precision", 64))
        scale = int(parameters["scale"])
        if self.apicurio and not 0 <= scale <= precision:
            return {}
        return {"scale": scale, "precision": precision, "logicalType": "decimal"}
