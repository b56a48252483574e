package cdc_assets.decode.avro;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cdc_assets.decode.Json;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericData;
import org.apache.avro.generic.GenericDatumWriter;
import org.apache.avro.io.BinaryEncoder;
import org.apache.avro.io.EncoderFactory;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.catalyst.util.MapData;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;
import org.junit.jupiter.api.Test;

/** What Avro's own library has written, whole, cut off and changed at random. */
class AvroReaderTest {
    private static final String TEXT =
            """
            {"type": "record", "name": "t0", "fields": [
              {"name": "flag", "type": "boolean"}, {"name": "number", "type": "int"},
              {"name": "large", "type": "long"}, {"name": "single", "type": "float"},
              {"name": "real", "type": ["null", "double"]}, {"name": "text", "type": ["string", "null"]},
              {"name": "octets", "type": "bytes"}, {"name": "three", "type": {"type": "fixed", "name": "t1", "size": 3}},
              {"name": "label", "type": {"type": "enum", "name": "t2", "symbols": ["X", "Y"]}},
              {"name": "list", "type": {"type": "array", "items": ["null", "long"]}},
              {"name": "map", "type": {"type": "map", "values": "string"}},
              {"name": "any", "type": ["null", "int", "string"]},
              {"name": "row", "type": ["null", {"type": "record", "name": "t3", "fields": [
                {"name": "a", "type": "int"}, {"name": "b", "type": {"type": "array", "items": "string"}}]}]},
              {"name": "again", "type": ["null", "t3"]}]}
            """;
    private static final Schema SCHEMA = new Schema.Parser().parse(TEXT);

    private final Random random = new Random(1);

    @Test
    void whatWasWrittenIsRead() throws IOException {
        AvroReader all = reader("{}");
        StructType type = (StructType) all.resultType();
        for (int n = 0; n < 5_000; n++) {
            GenericData.Record record = record();
            InternalRow found = read(all, encoded(record), true);
            for (int at = 0; at < type.size(); at++) {
                same(record.get(at), found.get(at, type.apply(at).dataType()), type.apply(at).dataType());
            }
        }
    }

    @Test
    void whatIsNotWantedIsPassedOver() throws IOException {
        AvroReader all = reader("{}");
        AvroReader some = reader("{\"octets\": {}, \"again\": {\"b\": {}, \"other\": {}}, \"any\": {}}");
        StructType whole = (StructType) all.resultType(), type = (StructType) some.resultType();
        assertEquals(List.of("octets", "any", "again"), Arrays.asList(type.fieldNames()));
        for (int n = 0; n < 5_000; n++) {
            byte[] bytes = encoded(record());
            InternalRow found = read(some, bytes, true), of = read(all, bytes, true);
            assertEquals(show(of, whole, "octets"), show(found, type, "octets"));
            assertEquals(show(of, whole, "any"), show(found, type, "any"));
            InternalRow inner = found.getStruct(2, 1), ofInner = of.getStruct(whole.fieldIndex("again"), 2);
            assertEquals(ofInner == null, inner == null);
            if (inner != null) {
                assertEquals(Arrays.toString(texts(ofInner.getArray(1))), Arrays.toString(texts(inner.getArray(0))));
            }
        }
    }

    @Test
    void whateverTheBytesAreNothingIsRaised() throws IOException {
        AvroReader all = reader("{}"), none = reader("{\"other\": {}}");
        int broken = 0;
        for (int n = 0; n < 50_000; n++) {
            byte[] bytes = encoded(record());
            bytes = random.nextBoolean() ? Arrays.copyOf(bytes, random.nextInt(bytes.length)) : bytes;
            for (int times = random.nextInt(4); times > 0 && bytes.length > 0; times--) {
                bytes[random.nextInt(bytes.length)] = (byte) random.nextInt(256);
            }
            broken += read(all, bytes, true).isNullAt(0) ? 1 : 0;
            assertEquals(0, read(none, bytes, true).numFields());
        }
        assertTrue(broken > 10_000, "bytes that cannot be read");
        assertNull(all.invoke(new GenericInternalRow(2)));
    }

    @Test
    void anIdComesBeforeTheData() throws IOException {
        GenericData.Record record = record();
        byte[] data = encoded(record);
        byte[] small = ByteBuffer.allocate(5 + data.length).put((byte) 0).putInt(7).put(data).array();
        byte[] large = ByteBuffer.allocate(9 + data.length).put((byte) 0).putLong(7).put(data).array();
        for (byte[] framed : new byte[][] {small, large}) {
            assertEquals(record.get("number"), read(reader("{}"), framed, false).getInt(1));
            assertEquals(7L, id(framed));
        }
        assertNull(id(new byte[] {0, 0, 0, 0}));
        assertNull(id(new byte[] {1, 0, 0, 0, 7}));
        assertNull(id(new byte[] {0, -1, 0, 0, 7}));
        assertNull(id(new byte[] {0, 0, 0, 0, 0, 7}));
        assertNull(id(new byte[] {0, 0, 0, 0, 0, -1, 0, 0, 0, 9}));
    }

    @Test
    void aTextThatIsNotUtf8IsTold() throws IOException {
        AvroReader looking = reader("{\"map\": {}, \"row\": {}, \"__utf8\": [\"map\", \"row\"]}");
        GenericData.Record record = record();
        record.put("map", Map.of("k", "v"));
        GenericData.Record row = new GenericData.Record(SCHEMA.getField("row").schema().getTypes().get(1));
        row.put("a", 1);
        row.put("b", List.of("abc"));
        record.put("row", row);
        byte[] bytes = encoded(record);
        assertNull(told(looking, bytes));
        assertEquals("row", told(looking, replaced(bytes, "abc", (byte) 0xff)));
        record.put("map", Map.of("kkkk", "v"));
        assertEquals("map", told(looking, replaced(encoded(record), "kkkk", (byte) 0xff)));
    }

    // ── records ──────────────────────────────────────────────────────────────────────────────

    @Test
    void whatGlueHasFramedIsRead() throws IOException {
        AvroReader all = reader("{}");
        StructType type = (StructType) all.resultType();
        InternalRow none = new GenericInternalRow(type.size());
        for (int n = 0; n < 500; n++) {
            GenericData.Record record = record();
            byte[] plain = encoded(record);
            byte[] uuid = octets(16);
            byte[] packed = joined(new byte[] {3, 5}, uuid, deflated(plain));
            for (byte[] framed : List.of(joined(new byte[] {3, 0}, uuid, plain), packed)) {
                InternalRow found = read(all, framed, false);
                for (int at = 0; at < type.size(); at++) {
                    DataType of = type.apply(at).dataType();
                    same(record.get(at), found.get(at, of), of);
                }
            }
            int end = 18 + random.nextInt(packed.length - 18);
            assertEquals(none, read(all, Arrays.copyOf(packed, end), false));
            assertEquals(none, read(all, joined(new byte[] {3, 5}, uuid, octets(9)), false));
        }
    }

    @Test
    void whatGrowsBeyondAnyRecordIsNotInflated() {
        byte[] bomb = deflated(new byte[Glue.MOST_INFLATED + 1]);
        assertTrue(bomb.length < Glue.MOST_INFLATED >> 8);
        AvroReader all = reader("{}");
        InternalRow none = new GenericInternalRow(((StructType) all.resultType()).size());
        assertEquals(none, read(all, joined(new byte[] {3, 5}, new byte[16], bomb), false));
    }

    private static byte[] deflated(byte[] plain) {
        java.util.zip.Deflater deflater = new java.util.zip.Deflater();
        deflater.setInput(plain);
        deflater.finish();
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        byte[] chunk = new byte[1 << 13];
        while (!deflater.finished()) {
            out.write(chunk, 0, deflater.deflate(chunk));
        }
        deflater.end();
        return out.toByteArray();
    }

    private static byte[] joined(byte[]... parts) {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        for (byte[] part : parts) {
            out.writeBytes(part);
        }
        return out.toByteArray();
    }

    private GenericData.Record record() {
        GenericData.Record found = new GenericData.Record(SCHEMA);
        found.put("flag", random.nextBoolean());
        found.put("number", random.nextInt() >> random.nextInt(32));
        found.put("large", random.nextLong() >> random.nextInt(64));
        found.put("single", random.nextFloat());
        found.put("real", maybe(random.nextDouble()));
        found.put("text", maybe("é" + random.nextInt(1000)));
        found.put("octets", ByteBuffer.wrap(octets(random.nextInt(9))));
        found.put("three", new GenericData.Fixed(SCHEMA.getField("three").schema(), octets(3)));
        String label = random.nextBoolean() ? "X" : "Y";
        found.put("label", new GenericData.EnumSymbol(SCHEMA.getField("label").schema(), label));
        found.put("list", random.nextBoolean() ? List.of() : Arrays.asList(maybe(random.nextLong()), 5L));
        found.put("map", random.nextBoolean() ? Map.of() : Map.of("k", "v" + random.nextInt(9)));
        found.put("any", maybe(random.nextBoolean() ? (Object) random.nextInt() : "text"));
        found.put("row", maybe(row()));
        found.put("again", maybe(row()));
        return found;
    }

    private GenericData.Record row() {
        GenericData.Record found = new GenericData.Record(SCHEMA.getField("row").schema().getTypes().get(1));
        found.put("a", random.nextInt());
        found.put("b", List.of("x", "y" + random.nextInt(9)));
        return found;
    }

    private byte[] octets(int size) {
        byte[] found = new byte[size];
        random.nextBytes(found);
        return found;
    }

    private <T> T maybe(T value) {
        return random.nextInt(3) > 0 ? value : null;
    }

    private static byte[] encoded(GenericData.Record record) throws IOException {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        BinaryEncoder encoder = EncoderFactory.get().binaryEncoder(out, null);
        new GenericDatumWriter<GenericData.Record>(SCHEMA).write(record, encoder);
        encoder.flush();
        return out.toByteArray();
    }

    private static byte[] replaced(byte[] bytes, String text, byte with) {
        byte[] wanted = text.getBytes(java.nio.charset.StandardCharsets.US_ASCII);
        for (int at = 0; at <= bytes.length - wanted.length; at++) {
            if (Arrays.equals(bytes, at, at + wanted.length, wanted, 0, wanted.length)) {
                byte[] found = bytes.clone();
                found[at] = with;
                return found;
            }
        }
        throw new AssertionError(text + " is not there");
    }

    // ── reading ──────────────────────────────────────────────────────────────────────────────

    private static AvroReader reader(String fields) {
        return new AvroReader("{\"schema\": " + Json.read(TEXT) + ", \"fields\": " + fields + "}");
    }

    private static InternalRow read(AvroReader reader, byte[] bytes, boolean isBare) {
        return reader.invoke(new GenericInternalRow(new Object[] {bytes, isBare}));
    }

    private static Long id(byte[] bytes) {
        return new SchemaId().invoke(new GenericInternalRow(new Object[] {bytes}));
    }

    private static String told(AvroReader reader, byte[] bytes) {
        InternalRow found = read(reader, bytes, true);
        return found.isNullAt(2) ? null : found.getUTF8String(2).toString();
    }

    private static void same(Object written, Object read, DataType type) {
        if (written == null) {
            assertNull(read);
        } else if (written instanceof ByteBuffer buffer) {
            assertEquals(buffer, ByteBuffer.wrap((byte[]) read));
        } else if (written instanceof GenericData.Fixed fixed) {
            assertEquals(ByteBuffer.wrap(fixed.bytes()), ByteBuffer.wrap((byte[]) read));
        } else if (written instanceof List<?> list) {
            ArrayData array = (ArrayData) read;
            assertEquals(list.size(), array.numElements());
            for (int at = 0; at < list.size(); at++) {
                assertEquals(list.get(at), array.isNullAt(at) ? null : array.getLong(at));
            }
        } else if (written instanceof Map<?, ?> map) {
            MapData data = (MapData) read;
            assertEquals(map.size(), data.numElements());
            for (int at = 0; at < map.size(); at++) {
                assertEquals(map.get(texts(data.keyArray())[at]), texts(data.valueArray())[at]);
            }
        } else if (written instanceof GenericData.Record record) {
            InternalRow row = (InternalRow) read;
            assertEquals(record.get("a"), row.getInt(0));
            assertEquals(record.get("b"), Arrays.asList(texts(row.getArray(1))));
        } else if (type instanceof StructType) { // one of two types
            InternalRow row = (InternalRow) read;
            boolean isNumber = written instanceof Integer;
            assertTrue(row.isNullAt(isNumber ? 1 : 0));
            assertEquals(written, isNumber ? (Object) row.getInt(0) : row.getUTF8String(1).toString());
        } else {
            assertEquals(written.toString(), read.toString());
        }
    }

    private static String[] texts(ArrayData array) {
        String[] found = new String[array.numElements()];
        Arrays.setAll(found, at -> array.getUTF8String(at).toString());
        return found;
    }

    private static String show(InternalRow row, StructType type, String name) {
        int at = type.fieldIndex(name);
        DataType of = type.apply(at).dataType();
        if (row.isNullAt(at)) {
            return "null";
        }
        if (of == DataTypes.BinaryType) {
            return Arrays.toString(row.getBinary(at));
        }
        InternalRow inner = row.getStruct(at, 2);
        UTF8String text = inner.isNullAt(1) ? null : inner.getUTF8String(1);
        return inner.isNullAt(0) ? "" + text : inner.getInt(0) + " " + text;
    }
}
