package cdc_assets.decode.values;

import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.types.variant.VariantBuilder;
import org.apache.spark.unsafe.types.UTF8String;

/** Decodes values of formats in which JSON alone tells types: a column's type decides. */
final class Scalar {
    static final String TEXT = "scalar text";
    static final String BYTES = "scalar bytes";
    static final String DECIMAL = "scalar decimal";
    static final String LOCAL = "scalar local";
    static final String INSTANT = "scalar instant";

    private static final UTF8String TRUE = UTF8String.fromString("true");
    private static final UTF8String FALSE = UTF8String.fromString("false");
    private static final UTF8String ONE = UTF8String.fromString("1");
    private static final UTF8String ZERO = UTF8String.fromString("0");

    private Scalar() {}

    /** Returns the encoding of a scalar in a column of this type. */
    static String wire(DataType to) {
        if (to instanceof DecimalType) {
            return DECIMAL;
        }
        return switch (to.typeName()) {
            case "integer", "long" -> "integer_text";
            case "float", "double" -> "floating_text";
            case "boolean" -> "boolean_text";
            case "date" -> "date_text";
            case "string" -> TEXT;
            case "binary" -> BYTES;
            default -> to.equals(DataTypes.TimestampType)
                    ? INSTANT
                    : to.equals(DataTypes.TimestampNTZType) ? LOCAL : "";
        };
    }

    static Boolean bool(UTF8String text) {
        if (text.equals(ONE) || text.equals(TRUE)) {
            return true;
        }
        return text.equals(ZERO) || text.equals(FALSE) ? (Boolean) false : null;
    }

    /** Returns 1 for true and 0 for false. */
    static UTF8String digit(UTF8String text) {
        return text.equals(TRUE) ? ONE : text.equals(FALSE) ? ZERO : text;
    }

    /** Returns a text that is JSON, or empty, as is an old row of a column added since. */
    static UTF8String json(UTF8String text) {
        if (text.numBytes() == 0) {
            return text;
        }
        try {
            VariantBuilder.parseJson(text.toString(), false);
            return text;
        } catch (java.io.IOException | RuntimeException error) {
            return null;
        }
    }
}
