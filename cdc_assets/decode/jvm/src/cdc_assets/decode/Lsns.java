package cdc_assets.decode;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.connector.catalog.functions.ScalarFunction;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * A function for Spark: the two LSNs in Debezium's {@code source.sequence} of PostgreSQL, such as
 * {@code ["24023128","24023200"]} or {@code [null,"24023200"]}.
 *
 * <p>It returns {@code struct<last_commit: bigint, lsn: bigint>}; each is NULL if it is not there, is
 * no number, or has more than 63 bits. NULL for NULL.
 */
public final class Lsns implements ScalarFunction<InternalRow> {
    private static final long serialVersionUID = 1;

    @Override
    public DataType[] inputTypes() {
        return new DataType[] {DataTypes.StringType};
    }

    @Override
    public DataType resultType() {
        return new StructType()
                .add("last_commit", DataTypes.LongType)
                .add("lsn", DataTypes.LongType);
    }

    @Override
    public String name() {
        return "lsns";
    }

    @Override
    public String canonicalName() {
        return "cdc_assets.lsns";
    }

    /** What Spark's generated code calls. */
    public InternalRow invoke(UTF8String sequence) {
        if (sequence == null) {
            return null;
        }
        byte[] text = sequence.getBytes();
        return new GenericInternalRow(new Object[] {lastCommit(text), lsn(text)});
    }

    private static Long lastCommit(byte[] text) {
        if (text.length < 2 || text[0] != '[' || text[1] != '"') {
            return null;
        }
        int end = 2;
        while (end < text.length && text[end] != '"') {
            end++;
        }
        return number(text, 2, end);
    }

    private static Long lsn(byte[] text) {
        int end = text.length - 2;
        if (end < 1 || text[end] != '"' || text[end + 1] != ']') {
            return null;
        }
        int start = end;
        while (start > 0 && text[start - 1] != '"') {
            start--;
        }
        return start == 0 || text[start] == '-' ? null : number(text, start, end);
    }

    private static Long number(byte[] text, int start, int end) {
        boolean isNegative = start < end && text[start] == '-';
        int at = isNegative ? start + 1 : start;
        if (at == end) {
            return null;
        }
        long found = 0;
        for (; at < end; at++) {
            int digit = text[at] - '0';
            if (digit < 0 || digit > 9 || found > (Long.MAX_VALUE - digit) / 10) {
                return null;
            }
            found = 10 * found + digit;
        }
        return isNegative ? -found : found;
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof Lsns;
    }

    @Override
    public int hashCode() {
        return Lsns.class.hashCode();
    }
}
