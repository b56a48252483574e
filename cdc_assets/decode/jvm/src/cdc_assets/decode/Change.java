package cdc_assets.decode;

import cdc_assets.decode.values.Times;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * A function for Spark: a change of one row, decoded, from the parts of its record. See {@link
 * Changes} for what it is told in its name and what it returns.
 */
public final class Change extends Named<InternalRow> {
    private static final long serialVersionUID = 1;

    private static final int AFTER = 2, BEFORE = 3, KEY = 4;

    private final String wanted;
    private final StructType parts;
    private transient Changes changes;

    /**
     * @param wanted in JSON
     * @param arguments a struct of the parts, see {@link #invoke}
     */
    Change(String wanted, StructType arguments) {
        super("change." + wanted + arguments.json());
        this.wanted = wanted;
        parts = (StructType) arguments.fields()[0].dataType();
    }

    @Override
    public DataType[] inputTypes() {
        return new DataType[] {parts};
    }

    @Override
    public DataType resultType() {
        return changes().type();
    }

    /**
     * What Spark's generated code calls.
     *
     * @param given the operation; whether it is a row of a snapshot; the row as it arrives, the same
     *     before the change, and the record's own key, each NULL if the record has none; the names of
     *     columns that the row leaves out, and of those that the row before lacks since they did not
     *     change; whether the record has a key; why the record cannot be read, and why it cannot be
     *     merged, whatever its values are; why a text with U+FFFD cannot be; whether the commit's time
     *     is given, and what it is, in microseconds, NULL if it is unknown or too large
     */
    public InternalRow invoke(InternalRow given) {
        return changes().of(
                text(given, 0), given.getBoolean(1),
                row(given, AFTER), row(given, BEFORE), row(given, KEY),
                array(given, 5), array(given, 6),
                given.getBoolean(7), text(given, 8), text(given, 9), text(given, 10),
                isBeyondTime(given), given.isNullAt(12) ? null : (Long) given.getLong(12));
    }

    /** Returns whether a commit's time is out of range; a row of a snapshot has none. */
    private static boolean isBeyondTime(InternalRow given) {
        if (given.getBoolean(1) || !given.getBoolean(11)) {
            return false;
        }
        return given.isNullAt(12) || Times.ofMicros(given.getLong(12)) == null;
    }

    private InternalRow row(InternalRow given, int at) {
        return given.isNullAt(at) ? null : given.getStruct(at, type(at).size());
    }

    private static ArrayData array(InternalRow given, int at) {
        return given.isNullAt(at) ? null : given.getArray(at);
    }

    private static UTF8String text(InternalRow given, int at) {
        return given.isNullAt(at) ? null : given.getUTF8String(at);
    }

    private StructType type(int at) {
        return (StructType) parts.fields()[at].dataType();
    }

    private Changes changes() {
        if (changes == null) {
            changes = new Changes(Json.read(wanted), type(AFTER), type(BEFORE), type(KEY));
        }
        return changes;
    }
}
