"""A small Avro encoder and decoder, by the specification and by a schema's own JSON.

It knows nothing of `cdc_assets.schema`, so that it can say whether a schema that was rewritten
still has the same bytes. Values: None, bool, int, float, bytes, str, lists, dicts; of a union a
pair of the branch's number and its value; of an enum the number of its symbol.
"""

import struct

PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")


def encode(schema, value):
    """Bytes of a value."""
    out = bytearray()
    _write(schema, value, out, Names(), "")
    return bytes(out)


def decode(schema, data):
    """A value, and the bytes that follow it."""
    reader = _Reader(data)
    return reader.read(schema, Names(), ""), data[reader.at :]


class Names(dict):
    """Named types that have been met, with the namespace that each was defined in."""

    def find(self, schema, space):
        """The definition behind a schema, and the namespace within it."""
        if isinstance(schema, str):
            for name in (f"{space}.{schema}", schema):
                if name in self:
                    return self[name]
            return schema, space
        if isinstance(schema, list) or schema["type"] not in ("record", "enum", "fixed"):
            return schema, space
        name = schema["name"]
        inner = schema.get("namespace", space)
        inner = name.rpartition(".")[0] if "." in name else inner
        full = name if "." in name or not inner else f"{inner}.{name}"
        self[full] = (schema, inner)
        return schema, inner


def _type(schema):
    if isinstance(schema, list):
        return "union"
    return schema if isinstance(schema, str) else schema["type"]


def _write(schema, value, out, names, space):  # noqa: PLR0912
    schema, space = names.find(schema, space)
    match _type(schema):
        case "null":
            pass
        case "boolean":
            out.append(1 if value else 0)
        case "int" | "long" | "enum":
            _write_long(value, out)
        case "float":
            out += struct.pack("<f", value)
        case "double":
            out += struct.pack("<d", value)
        case "bytes" | "string":
            data = value.encode() if isinstance(value, str) else value
            _write_long(len(data), out)
            out += data
        case "fixed":
            out += value
        case "union":
            _write_long(value[0], out)
            for number, branch in enumerate(schema):
                if number == value[0]:
                    _write(branch, value[1], out, names, space)
                else:
                    _meet(branch, names, space)
        case "array":
            if value:
                _write_long(len(value), out)
            else:
                _meet(schema["items"], names, space)
            for each in value:
                _write(schema["items"], each, out, names, space)
            out.append(0)
        case "map":
            if value:
                _write_long(len(value), out)
            else:
                _meet(schema["values"], names, space)
            for key, each in value.items():
                _write("string", key, out, names, space)
                _write(schema["values"], each, out, names, space)
            out.append(0)
        case "record":
            for field in schema["fields"]:
                _write(field["type"], value[field["name"]], out, names, space)


def _meet(schema, names, space):
    """Learn the names that are defined within a schema of which there is no value."""
    schema, space = names.find(schema, space) if not isinstance(schema, str) else (schema, space)
    match schema:
        case list():
            for branch in schema:
                _meet(branch, names, space)
        case {"type": "record", "fields": fields}:
            for field in fields:
                _meet(field["type"], names, space)
        case {"items": inner} | {"values": inner}:
            _meet(inner, names, space)


def _write_long(number, out):
    rest = ((number << 1) ^ (number >> 63)) & (2**64 - 1)
    while rest >= 0x80:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)


class _Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def read(self, schema, names, space):
        schema, space = names.find(schema, space)
        match _type(schema):
            case "null":
                return None
            case "boolean":
                return self._take(1) == b"\x01"
            case "int" | "long" | "enum":
                return self._long()
            case "float":
                return struct.unpack("<f", self._take(4))[0]
            case "double":
                return struct.unpack("<d", self._take(8))[0]
            case "bytes":
                return self._take(self._long())
            case "string":
                return self._take(self._long()).decode()
            case "fixed":
                return self._take(schema["size"])
            case "union":
                return self._union(schema, names, space)
            case "array":
                return self._blocks(
                    schema["items"],
                    names,
                    space,
                    list,
                    lambda: self.read(schema["items"], names, space),
                )
            case "map":

                def entry():
                    return self.read("string", names, space), self.read(
                        schema["values"], names, space
                    )

                return self._blocks(schema["values"], names, space, dict, entry)
            case _:
                return {f["name"]: self.read(f["type"], names, space) for f in schema["fields"]}

    def _union(self, schema, names, space):
        chosen, found = self._long(), None
        for number, branch in enumerate(schema):
            if number == chosen:
                found = self.read(branch, names, space)
            else:
                _meet(branch, names, space)
        return chosen, found

    def _blocks(self, inner, names, space, make, item):
        _meet(inner, names, space)
        found = []
        while count := self._long():
            found += [item() for _ in range(count)]
        return make(found)

    def _take(self, count):
        self.at += count
        return self.data[self.at - count : self.at]

    def _long(self):
        shift = number = 0
        while True:
            byte = self._take(1)[0]
            number |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return (number >> 1) ^ -(number & 1)
