package cdc_assets.decode.avro;

import cdc_assets.decode.Named;
import java.nio.ByteBuffer;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;

/**
 * A function for Spark: the id of a schema before the data, of 4 or 8 bytes; NULL if there is none
 * below 2^31. The rules are those of {@code cdc_assets.formats.wire_id}.
 */
public final class SchemaId extends Named<Long> {
    private static final long serialVersionUID = 1;
    private static final int SHORT = 5, LONG = 9;

    public SchemaId() {
        super("schema_id");
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
        byte[] bytes = parts.isNullAt(0) ? new byte[0] : parts.getBinary(0);
        if (bytes.length < SHORT || bytes[0] != 0) {
            return null;
        }
        ByteBuffer buffer = ByteBuffer.wrap(bytes);
        int id = buffer.getInt(1);
        if (id == 0 && bytes.length >= LONG) {
            id = buffer.getInt(SHORT);
        }
        return id > 0 ? (Long) (long) id : null;
    }

    /** Returns where the data begins behind an id. */
    static int end(byte[] bytes) {
        return bytes.length >= SHORT && ByteBuffer.wrap(bytes).getInt(1) > 0 ? SHORT : Math.min(LONG, bytes.length);
    }
}
