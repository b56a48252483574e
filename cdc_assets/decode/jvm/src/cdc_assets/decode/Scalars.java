package cdc_assets.decode;

import cdc_assets.decode.values.Digits;
import cdc_assets.decode.values.Octets;
import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonGenerator;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import java.io.IOException;
import java.io.StringWriter;
import java.math.BigDecimal;
import java.time.ZoneOffset;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.types.variant.Variant;
import org.apache.spark.types.variant.VariantBuilder;
import org.apache.spark.unsafe.types.UTF8String;
import org.apache.spark.unsafe.types.VariantVal;

/** The readers of values without fields of their own. */
final class Scalars {
    private static final int MOST_DIGITS = 20;

    /** No number that is as short has more digits than a double, or one in single precision, may need. */
    private static final int FEW_OF_A_DOUBLE = 17, FEW_OF_A_FLOAT = 9;

    /** No longer number without an exponent is a decimal of Spark's: 38 digits, {@code -0.} before them. */
    private static final int LONGEST_DECIMAL = DecimalType.MAX_PRECISION() + 3;

    private static final JsonFactory WRITER = new JsonFactory();

    private Scalars() {}

    static final class Booleans extends ValueReader {
        @Override
        DataType type() {
            return DataTypes.BooleanType;
        }

        @Override
        Object some(JsonToken token, JsonParser parser, Faults faults) {
            return token.isBoolean() ? (Object) (token == JsonToken.VALUE_TRUE) : null;
        }
    }

    static final class Ints extends ValueReader {
        @Override
        DataType type() {
            return DataTypes.IntegerType;
        }

        @Override
        Object some(JsonToken token, JsonParser parser, Faults faults) throws IOException {
            Long found = whole(token, parser);
            return found == null || found.intValue() != found ? null : (Object) found.intValue();
        }
    }

    static final class Longs extends ValueReader {
        @Override
        DataType type() {
            return DataTypes.LongType;
        }

        @Override
        Object some(JsonToken token, JsonParser parser, Faults faults) throws IOException {
            return whole(token, parser);
        }
    }

    static final class Floats extends ValueReader {
        @Override
        DataType type() {
            return DataTypes.FloatType;
        }

        @Override
        Object some(JsonToken token, JsonParser parser, Faults faults) throws IOException {
            if (!token.isNumeric()) {
                Double found = word(token, parser);
                return found == null ? null : (Object) found.floatValue();
            }
            float found = parser.getFloatValue();
            if (Float.isInfinite(found) || Float.isNaN(found)) {
                return parser.isNaN() ? (Object) found : null;
            }
            boolean mayBeRounded = found == 0 || parser.getTextLength() > FEW_OF_A_FLOAT;
            return mayBeRounded && Digits.areRounded(parser.getText(), found) ? null : (Object) found;
        }
    }

    static final class Doubles extends ValueReader {
        @Override
        DataType type() {
            return DataTypes.DoubleType;
        }

        @Override
        Object some(JsonToken token, JsonParser parser, Faults faults) throws IOException {
            if (!token.isNumeric()) {
                return word(token, parser);
            }
            double found = parser.getDoubleValue();
            if (Double.isInfinite(found) || Double.isNaN(found)) {
                return parser.isNaN() ? (Object) found : null;
            }
            boolean mayBeRounded = found == 0 || parser.getTextLength() > FEW_OF_A_DOUBLE;
            return mayBeRounded && Digits.areRounded(parser.getText(), found) ? null : (Object) found;
        }
    }

    /** Reads a text; of anything else its JSON, numbers with all their digits as they are written. */
    static final class Strings extends ValueReader {
        private final boolean isSorted;

        /**
         * @param isSorted whether objects and arrays are written as Spark writes a variant: the fields
         *     by name, numbers without needless digits
         */
        Strings(boolean isSorted) {
            this.isSorted = isSorted;
        }

        @Override
        DataType type() {
            return DataTypes.StringType;
        }

        @Override
        Object some(JsonToken token, JsonParser parser, Faults faults) throws IOException {
            if (token.isScalarValue()) {
                return UTF8String.fromString(parser.getText());
            }
            if (!isSorted) {
                return UTF8String.fromString(written(parser, new Faults()));
            }
            Variant found = variant(parser, faults);
            return found == null ? null : UTF8String.fromString(found.toJson(ZoneOffset.UTC));
        }
    }

    static final class Binaries extends ValueReader {
        @Override
        DataType type() {
            return DataTypes.BinaryType;
        }

        @Override
        Object some(JsonToken token, JsonParser parser, Faults faults) throws IOException {
            boolean isText = token == JsonToken.VALUE_STRING;
            return isText ? Octets.base64(UTF8String.fromString(parser.getText())) : null;
        }
    }

    static final class Variants extends ValueReader {
        @Override
        DataType type() {
            return DataTypes.VariantType;
        }

        @Override
        Object nothing() {
            VariantBuilder builder = new VariantBuilder(false);
            builder.appendNull();
            return value(builder.result());
        }

        @Override
        Object some(JsonToken token, JsonParser parser, Faults faults) throws IOException {
            Variant found = variant(parser, faults);
            return found == null ? null : value(found);
        }

        private static VariantVal value(Variant found) {
            return new VariantVal(found.getValue(), found.getMetadata());
        }
    }

    /**
     * Returns null if Spark's variants cannot hold it: a name twice in an object, a number that they
     * would round, or too much.
     */
    private static Variant variant(JsonParser parser, Faults faults) throws IOException {
        String json = written(parser, faults);
        try {
            return faults.isUnkept ? null : VariantBuilder.parseJson(json, false);
        } catch (IOException | RuntimeException error) {
            faults.isUnkept = true;
            return null;
        }
    }

    /**
     * Writes the value that the parser is at as JSON, numbers as they are written.
     *
     * @param faults then know whether one is a number that a variant would round
     */
    private static String written(JsonParser parser, Faults faults) throws IOException {
        StringWriter text = new StringWriter();
        try (JsonGenerator to = WRITER.createGenerator(text)) {
            copy(parser, to, faults);
        }
        return text.toString();
    }

    private static void copy(JsonParser parser, JsonGenerator to, Faults faults) throws IOException {
        int open = 0;
        for (JsonToken token = parser.currentToken(); ; token = parser.nextToken()) {
            if (token == null) {
                throw new IOException("no end");
            } else if (token.isNumeric()) {
                to.writeNumber(parser.getText());
                faults.isUnkept |= parser.isNaN() || isRounded(parser.getText());
            } else {
                to.copyCurrentEvent(parser);
            }
            open += token.isStructStart() ? 1 : token.isStructEnd() ? -1 : 0;
            if (open == 0) {
                return;
            }
        }
    }

    /** Returns whether a variant has neither a decimal nor a double for this number. */
    private static boolean isRounded(String number) {
        boolean hasPower = number.indexOf('e') >= 0 || number.indexOf('E') >= 0;
        if (!hasPower && number.length() <= LONGEST_DECIMAL) {
            BigDecimal decimal = new BigDecimal(number);
            if (Math.max(decimal.precision(), decimal.scale()) <= DecimalType.MAX_PRECISION()) {
                return false;
            }
        }
        double found = Double.parseDouble(number);
        return Double.isInfinite(found) || Digits.areRounded(number, found);
    }

    private static Long whole(JsonToken token, JsonParser parser) throws IOException {
        if (token != JsonToken.VALUE_NUMBER_INT || parser.getTextLength() > MOST_DIGITS) {
            return null;
        }
        return parser.getNumberType() == JsonParser.NumberType.BIG_INTEGER ? null : parser.getLongValue();
    }

    private static Double word(JsonToken token, JsonParser parser) throws IOException {
        if (token != JsonToken.VALUE_STRING || parser.getTextLength() > MOST_DIGITS) {
            return null;
        }
        return switch (parser.getText()) {
            case "NaN" -> Double.NaN;
            case "Infinity", "+Infinity", "+INF", "INF" -> Double.POSITIVE_INFINITY;
            case "-Infinity", "-INF" -> Double.NEGATIVE_INFINITY;
            default -> null;
        };
    }
}
