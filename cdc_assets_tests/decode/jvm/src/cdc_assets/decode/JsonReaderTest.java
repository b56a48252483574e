package cdc_assets.decode;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.json.JsonReadFeature;
import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.cfg.JsonNodeFeature;
import com.fasterxml.jackson.databind.json.JsonMapper;
import java.io.IOException;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.charset.StandardCharsets;
import java.time.ZoneOffset;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Random;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.types.variant.Variant;
import org.apache.spark.unsafe.types.UTF8String;
import org.apache.spark.unsafe.types.VariantVal;
import org.junit.jupiter.api.Test;

/** One pass of our reader, against the tree that Jackson makes of the same bytes. */
class JsonReaderTest {
    private static final StructType INNER = new StructType().add("a", DataTypes.IntegerType);
    private static final StructType TYPE =
            new StructType()
                    .add("id", DataTypes.LongType)
                    .add("name", DataTypes.StringType)
                    .add("ok", DataTypes.BooleanType)
                    .add("inner", INNER);
    private static final ObjectMapper TREES =
            JsonMapper.builder(JsonFactory.builder().disable(JsonFactory.Feature.CHARSET_DETECTION)
                            .enable(JsonReadFeature.ALLOW_NON_NUMERIC_NUMBERS)
                            .build())
                    .enable(DeserializationFeature.FAIL_ON_TRAILING_TOKENS)
                    .enable(DeserializationFeature.USE_BIG_DECIMAL_FOR_FLOATS)
                    .disable(JsonNodeFeature.STRIP_TRAILING_BIGDECIMAL_ZEROES)
                    .build();
    private static final String[][] FITTING = {
        {"7", "-12", "9223372036854775807", "null"}, {"\"text\"", "1.50", "12345678901234567890123.4500", "[1, {\"a\": 2}]"},
        {"true", "false", "null"}, {"{\"a\": 5}", "{}", "{\"a\": null, \"b\": 1.25}", "null"},
    };
    private static final String[] VALUES = {
        "0", "7", "-12", "9223372036854775807", "9223372036854775808", "12345678901234567890123.4500", "1.50",
        "true", "false", "null", "\"\"", "\"text\"", "\"é\\u00e9\\n\"", "{}", "[]", "[1, {\"a\": 2}]",
        "{\"a\": 5}", "{\"a\": null, \"b\": 1.25}", "{\"a\": \"5\"}", "{\"a\": 4294967296}", "NaN",
    };

    private final JsonReader reader = new JsonReader(TYPE, false);

    @Test
    void documentsAreReadAsJacksonReadsThem() throws IOException {
        Random random = new Random(1);
        int sound = 0;
        for (int n = 0; n < 30_000; n++) {
            String text = document(random);
            byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
            JsonNode tree = TREES.readTree(bytes);
            InternalRow found = read(bytes);
            if (fits(tree)) {
                sound++;
                assertNull(found.get(1, DataTypes.StringType), text);
                same(tree, found.getStruct(0, 4), text);
            } else {
                assertNotNull(found.get(1, DataTypes.StringType), text);
            }
        }
        assertTrue(sound > 5_000, "documents that fit");
    }

    @Test
    void brokenDocumentsAreToldAndNeverRaised() {
        Random random = new Random(2);
        int broken = 0;
        for (int n = 0; n < 50_000; n++) {
            byte[] bytes = document(random).getBytes(StandardCharsets.UTF_8);
            for (int times = random.nextInt(3); times >= 0 && bytes.length > 0; times--) {
                bytes = mutated(bytes, random);
            }
            InternalRow found = read(bytes);
            boolean isText = UTF8String.fromBytes(bytes).isValid();
            if (isText && !isReadable(bytes)) {
                broken++;
                assertTrue(found.isNullAt(0) && !found.isNullAt(1), new String(bytes, StandardCharsets.UTF_8));
            }
            assertTrue(isText || !found.isNullAt(1), "bytes that are not UTF-8");
        }
        assertTrue(broken > 10_000, "documents that are no JSON");
    }

    @Test
    void aWrapperWithoutASchemaIsTakenOff() {
        InternalRow found = read("{\"schema\": null, \"payload\": {\"id\": 3}}".getBytes(StandardCharsets.UTF_8));
        assertEquals(3, found.getStruct(0, 4).getLong(0));
        InternalRow row = read("{\"schema\": 1, \"payload\": {\"id\": 3}}".getBytes(StandardCharsets.UTF_8));
        assertTrue(row.getStruct(0, 4).isNullAt(0), "a row with columns of these names");
    }

    @Test
    void doublesAreReadAsConnectorsWriteThem() {
        Random random = new Random(3);
        for (int n = 0; n < 100_000; n++) {
            double number = (random.nextDouble() + 1) * Math.pow(2, random.nextInt(-80, 80));
            assertEquals(number, valueOf(DataTypes.DoubleType, "" + number), () -> "" + number);
        }
        for (String nothing : new String[] {"0", "0.00", "0e-400"}) {
            assertEquals(0.0, valueOf(DataTypes.DoubleType, nothing), nothing);
        }
        String[] others = {"0.1000000000000000055511151231257827", "1e400", "-1e-400", "2.29052324282634035"};
        for (String other : others) {
            assertEquals(Fault.OTHER_SHAPE.text, faultOf(DataTypes.DoubleType, other), other);
        }
    }

    @Test
    void numbersInSinglePrecisionAreReadAsTheyAreOrAsDoubles() {
        Random random = new Random(4);
        for (int n = 0; n < 100_000; n++) {
            float number = Float.intBitsToFloat(random.nextInt());
            if (Float.isFinite(number)) {
                assertEquals(number, valueOf(DataTypes.FloatType, "" + number), () -> "" + number);
                assertEquals(number, valueOf(DataTypes.FloatType, "" + (double) number), () -> "" + (double) number);
            }
        }
        assertEquals(Float.NEGATIVE_INFINITY, valueOf(DataTypes.FloatType, "-Infinity"));
        for (String other : new String[] {"3.1415926535", "1234567891", "0.12345678901234567", "1e-50", "1e39", "1e400"}) {
            assertEquals(Fault.OTHER_SHAPE.text, faultOf(DataTypes.FloatType, other), other);
        }
    }

    @Test
    void numbersInJsonAreKeptOrTold() {
        String long38 = "12345678901234567890123456789012345678";
        String[] kept = {
            "-9223372036854775808", "18446744073709551615", long38, "-0." + long38, "-123." + long38.substring(3),
            "1.7976931348623157E308", "4.9E-324", "0e-400", "1e2", "0." + "0".repeat(60) + "1",
        };
        for (String number : kept) {
            String found = jsonOf("{\"a\": [" + number + "]}");
            assertEquals(0, new BigDecimal(number).compareTo(new BigDecimal(found.substring(6, found.length() - 2))), number);
        }
        for (String number : new String[] {long38 + "9", "-0." + long38 + "9", long38 + "e1", "1e400", "1e-400", "NaN"}) {
            for (String text : new String[] {number, "{\"a\": [" + number + "]}"}) {
                assertEquals(Fault.NOT_KEPT.text, faultOf(DataTypes.VariantType, text), text);
            }
        }
    }

    @Test
    void aKeyWithHalfACharacterIsNone() {
        KeyReader ofKeys = new KeyReader(new StructType().add("id", DataTypes.StringType));
        byte[] whole = "{\"id\": \"\\ud83d\\ude00\"}".getBytes(StandardCharsets.UTF_8);
        byte[] half = "{\"id\": \"\\ud83d\"}".getBytes(StandardCharsets.UTF_8);
        assertEquals("\ud83d\ude00", ofKeys.invoke(new GenericInternalRow(new Object[] {whole})).getString(0));
        assertNull(ofKeys.invoke(new GenericInternalRow(new Object[] {half})));
    }

    private static InternalRow readAs(DataType type, String value) {
        byte[] bytes = ("{\"x\": " + value + "}").getBytes(StandardCharsets.UTF_8);
        JsonReader ofValues = new JsonReader(new StructType().add("x", type), false);
        return ofValues.invoke(new GenericInternalRow(new Object[] {bytes}));
    }

    private static Object valueOf(DataType type, String value) {
        return readAs(type, value).getStruct(0, 1).get(0, type);
    }

    private static UTF8String faultOf(DataType type, String value) {
        return readAs(type, value).getUTF8String(1);
    }

    private static String jsonOf(String value) {
        VariantVal found = (VariantVal) valueOf(DataTypes.VariantType, value);
        return new Variant(found.getValue(), found.getMetadata()).toJson(ZoneOffset.UTC);
    }

    private InternalRow read(byte[] bytes) {
        return reader.invoke(new GenericInternalRow(new Object[] {bytes}));
    }

    private static boolean isReadable(byte[] bytes) {
        try (JsonParser parser = TREES.createParser(bytes)) {
            if (parser.nextToken() == null) {
                return false;
            }
            parser.skipChildren();
            return parser.currentToken() != null && parser.nextToken() == null;
        } catch (IOException error) {
            return false;
        }
    }

    private static String document(Random random) {
        List<String> fields = new ArrayList<>();
        String[] names = {"id", "name", "ok", "inner", "other", "schema"};
        for (int at = 0; at < names.length; at++) {
            String[] values = at < FITTING.length && random.nextInt(9) > 0 ? FITTING[at] : VALUES;
            if (random.nextInt(4) > 0) {
                fields.add("\"" + names[at] + "\": " + values[random.nextInt(values.length)]);
            }
        }
        Collections.shuffle(fields, random);
        return "{" + String.join(", ", fields) + "}";
    }

    private static byte[] mutated(byte[] bytes, Random random) {
        byte[] found = bytes.clone();
        int at = random.nextInt(found.length);
        switch (random.nextInt(3)) {
            case 0 -> found[at] = (byte) random.nextInt(256);
            case 1 -> found[at] = (byte) "{}[]\",:\\0".charAt(random.nextInt(9));
            default -> found = java.util.Arrays.copyOf(found, at);
        }
        return found;
    }

    /** Returns whether each value that is read fits its type; JSON's null fits all. */
    private static boolean fits(JsonNode tree) {
        JsonNode id = tree.path("id"), ok = tree.path("ok"), inner = tree.path("inner");
        boolean isInner = isNothing(inner) || inner.isObject() && isWhole(inner.path("a"), 31);
        return isWhole(id, 63) && (isNothing(ok) || ok.isBoolean()) && isInner;
    }

    private static boolean isNothing(JsonNode node) {
        return node.isMissingNode() || node.isNull();
    }

    private static boolean isWhole(JsonNode node, int bits) {
        return isNothing(node) || node.isIntegralNumber() && node.bigIntegerValue().bitLength() <= bits;
    }

    private static void same(JsonNode tree, InternalRow row, String text) {
        JsonNode id = tree.path("id"), name = tree.path("name"), ok = tree.path("ok"), inner = tree.path("inner");
        assertEquals(isNothing(id), row.isNullAt(0), text);
        assertEquals(isNothing(id) ? BigInteger.ZERO : id.bigIntegerValue(), BigInteger.valueOf(longOf(row)), text);
        assertEquals(isNothing(ok) ? null : (Object) ok.asBoolean(), row.get(2, DataTypes.BooleanType), text);
        assertEquals(isNothing(name) ? null : written(name), asText(row.getUTF8String(1)), text);
        assertEquals(isNothing(inner), row.isNullAt(3), text);
        if (!isNothing(inner)) {
            JsonNode a = inner.path("a");
            Object found = row.getStruct(3, 1).get(0, DataTypes.IntegerType);
            assertEquals(isNothing(a) ? null : (Object) a.asInt(), found, text);
        }
    }

    private static long longOf(InternalRow row) {
        return row.isNullAt(0) ? 0 : row.getLong(0);
    }

    private static String asText(UTF8String text) {
        return text == null ? null : text.toString();
    }

    private static String written(JsonNode node) {
        return node.isValueNode() ? node.asText() : node.toString();
    }
}
