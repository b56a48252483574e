package cdc_assets.decode;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * A function for Spark: the place of a change of PostgreSQL's in the order of changes, from the
 * fields ``sequence``, ``lsn`` and ``snapshot`` of Debezium's ``source``. The rules are those of
 * ``cdc_assets.changes.position.postgres``.
 *
 * <p>Its further arguments are whether the change is a row of a snapshot, the epoch and the read
 * floor that hold at the record, and how many bits of a number the epoch takes. {@value #NO_LSN}
 * stands for no ``lsn``. What it returns is documented in ``formats/order/postgres.py``.
 */
public final class Postgres extends Named<InternalRow> {
    private static final long serialVersionUID = 1;
    private static final long NO_LSN = Long.MIN_VALUE;
    private static final UTF8String INCREMENTAL = UTF8String.fromString("incremental");
    private static final UTF8String BEGINS_WITH_COMMIT = UTF8String.fromString("[\"");

    Postgres() {
        super("postgres");
    }

    @Override
    public DataType[] inputTypes() {
        return new DataType[] {
            DataTypes.StringType, DataTypes.LongType, DataTypes.StringType, DataTypes.BooleanType,
            DataTypes.LongType, DataTypes.LongType, DataTypes.IntegerType,
        };
    }

    @Override
    public DataType resultType() {
        return new StructType()
                .add("n0", DataTypes.LongType)
                .add("n1", DataTypes.LongType)
                .add("read_lsn", DataTypes.LongType)
                .add("floating_lsn", DataTypes.LongType)
                .add("may_witness", DataTypes.BooleanType)
                .add("floats", DataTypes.BooleanType)
                .add("is_late_read", DataTypes.BooleanType);
    }

    /** What Spark's generated code calls. */
    public InternalRow invoke(
            UTF8String sequence,
            long given,
            UTF8String snapshot,
            boolean isRead,
            long epoch,
            long floor,
            int bits) {
        byte[] text = sequence == null ? new byte[0] : sequence.getBytes();
        Long commit = Lsns.lastCommit(text);
        Long source = given == NO_LSN ? null : (Long) given;
        Long lsn = source == null ? Lsns.lsn(text) : source;
        boolean isIncremental = INCREMENTAL.equals(snapshot);
        boolean hasCommit = commit != null;
        Long follows = isRead && !isIncremental || !hasCommit ? lsn : commit;
        Long first = inEpoch(follows, epoch, bits);
        if (!isRead && !hasCommit && first != null && first < floor) {
            first = floor;
        }
        Long own = inEpoch(source, epoch, bits);
        boolean isTold = isRead && sequence != null && sequence.startsWith(BEGINS_WITH_COMMIT);
        return new GenericInternalRow(
                new Object[] {
                    lsn != null && lsn >= 0 ? first : null,
                    isRead ? (Long) 0L : lsn,
                    isRead ? own : null,
                    isRead || hasCommit ? null : own,
                    !isIncremental && (isRead || hasCommit),
                    !isRead && !hasCommit && sequence != null,
                    isRead && isIncremental || isTold,
                });
    }

    /** Returns a number behind its epoch; null if it is none, or reaches into the bits of that. */
    private static Long inEpoch(Long number, long epoch, int bits) {
        boolean fits = number != null && number >= 0 && number < 1L << bits;
        return fits ? (Long) ((epoch << bits) + number) : null;
    }
}
