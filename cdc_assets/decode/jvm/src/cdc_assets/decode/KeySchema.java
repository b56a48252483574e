package cdc_assets.decode;

import static java.nio.charset.StandardCharsets.US_ASCII;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.XXH64;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.unsafe.Platform;

/**
 * A function for Spark: a hash of the schema that comes before the payload in a key of JSON; NULL for
 * keys without one. It is Spark's ``xxhash64`` of the text before the first ``"payload"``.
 */
public final class KeySchema extends Named<Long> {
    private static final long serialVersionUID = 1;
    private static final byte[] COMPACT = "{\"schema\":{".getBytes(US_ASCII);
    private static final byte[] SPACED = "{\"schema\": {".getBytes(US_ASCII);
    private static final byte[] PAYLOAD = "\"payload\"".getBytes(US_ASCII);
    private static final long SEED = 42;

    KeySchema() {
        super("key_schema");
    }

    @Override
    public DataType[] inputTypes() {
        return ofBytes();
    }

    @Override
    public DataType resultType() {
        return DataTypes.LongType;
    }

    /** What Spark's generated code calls. */
    public Long invoke(InternalRow parts) {
        byte[] key = parts.isNullAt(0) ? null : parts.getBinary(0);
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
}
