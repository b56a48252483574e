package cdc_assets.decode.values;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.UUID;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.NumericType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.unsafe.types.UTF8String;
import org.apache.spark.unsafe.types.VariantVal;

/**
 * Tells Debezium's placeholder of an unchanged value: a whole value, in the column's own form.
 *
 * <p>As observed: bytes hold its UTF-8 bytes; text arrays hold it as their only element, uuid arrays
 * a hash of it, arrays of numbers its bytes with their signs, and {@code hstore} (a map, or JSON text) maps it to
 * itself. Structures have none. See {@code unavailable.value.placeholder} in
 * https://debezium.io/documentation/reference/stable/connectors/postgresql.html.
 */
public final class Placeholder {
    private final byte[] bytes;
    private final UTF8String text;
    private final UTF8String map;
    private final UTF8String uuid;

    /**
     * @param text the placeholder
     * @param map a map from it to itself, as the connector writes that
     */
    public Placeholder(String text, String map) {
        this.text = UTF8String.fromString(text);
        this.map = UTF8String.fromString(map);
        bytes = text.getBytes(StandardCharsets.UTF_8);
        uuid = UTF8String.fromString(UUID.nameUUIDFromBytes(bytes).toString());
    }

    /** Returns whether a value of this type is it. */
    public boolean is(Object value, DataType type) {
        if (value instanceof UTF8String given) {
            return given.equals(text) || given.equals(map);
        }
        if (value instanceof byte[] given) {
            return Arrays.equals(given, bytes);
        }
        if (value instanceof VariantVal) {
            return Digest.json(value).equals(map);
        }
        return value instanceof ArrayData given && isOf(given, ((ArrayType) type).elementType());
    }

    private boolean isOf(ArrayData list, DataType element) {
        if (element instanceof NumericType) {
            return areBytes(list, element);
        }
        if (list.numElements() != 1 || list.isNullAt(0)) {
            return false;
        }
        if (element instanceof StringType) {
            UTF8String only = list.getUTF8String(0);
            return only.equals(text) || only.equals(uuid);
        }
        return element instanceof BinaryType && Arrays.equals(list.getBinary(0), bytes);
    }

    private boolean areBytes(ArrayData list, DataType element) {
        boolean found = list.numElements() == bytes.length;
        for (int at = 0; found && at < bytes.length; at++) {
            found = !list.isNullAt(at)
                    && ((Number) list.get(at, element)).doubleValue() == bytes[at];
        }
        return found;
    }
}
