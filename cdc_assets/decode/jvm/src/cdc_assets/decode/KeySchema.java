package cdc_assets.decode;

import static java.nio.charset.StandardCharsets.US_ASCII;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.XXH64;
import org.apache.spark.sql.connector.catalog.functions.ScalarFunction;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.unsafe.Platform;

/**
 * A function for Spark: a hash of the schema that comes before the payload in a key of JSON; NULL for
 * keys without one. It is Spark's ``xxhash64`` of the text before the first ``"payload"``.
 */
public final class KeySchema implements ScalarFunction<Long> {
    private static final long serialVersionUID = 1;
    private static final byte[] COMPACT = "{\"schema\":{".getBytes(US_ASCII);
    private static final byte[] SPACED = "{\"schema\": {".getBytes(US_ASCII);
    private static final byte[] PAYLOAD = "\"payload\"".getBytes(US_ASCII);
    private static final long SEED = 42;

    @Override
    public DataType[] inputTypes() {
        return new DataType[] {DataTypes.BinaryType};
    }

    @Override
    public DataType resultType() {
        return DataTypes.LongType;
    }

    @Override
    public String name() {
        return "key_schema";
    }

    @Override
    public String canonicalName() {
        return "cdc_assets.key_schema";
    }

    @Override
    public Long produceResult(InternalRow input) {
        return invoke(input.isNullAt(0) ? null : input.getBinary(0));
    }

    /** What Spark's generated code calls. */
    public Long invoke(byte[] key) {
        if (key == null || !Around.isThere(key, 0, COMPACT) && !Around.isThere(key, 0, SPACED)) {
            return null;
        }
        for (int at = COMPACT.length; at <= key.length - PAYLOAD.length; at++) {
            if (key[at] == '"' && Around.isThere(key, at, PAYLOAD)) {
                return XXH64.hashUnsafeBytes(key, Platform.BYTE_ARRAY_OFFSET, at, SEED);
            }
        }
        return null;
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof KeySchema;
    }

    @Override
    public int hashCode() {
        return KeySchema.class.hashCode();
    }
}
