package cdc_assets.decode;

import java.nio.ByteBuffer;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;

/**
 * A function for Spark: the bytes of a position, of its numbers: 8 bytes of each, the most significant
 * first, as {@code cdc_assets.changes.position.encode} makes them. NULL if one of them is.
 */
public final class Place extends Named<byte[]> {
    private static final long serialVersionUID = 1;

    Place() {
        super("place");
    }

    @Override
    public DataType[] inputTypes() {
        return new DataType[] {DataTypes.createArrayType(DataTypes.LongType)};
    }

    @Override
    public DataType resultType() {
        return DataTypes.BinaryType;
    }

    /** What Spark's generated code calls. */
    public byte[] invoke(ArrayData numbers) {
        ByteBuffer found = ByteBuffer.allocate(Long.BYTES * numbers.numElements());
        for (int at = 0; at < numbers.numElements(); at++) {
            if (numbers.isNullAt(at)) {
                return null;
            }
            found.putLong(numbers.getLong(at));
        }
        return found.array();
    }
}
