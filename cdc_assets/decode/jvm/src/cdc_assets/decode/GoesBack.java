package cdc_assets.decode;

import java.io.Serializable;
import java.util.HashMap;
import java.util.Map;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;

/**
 * A function for Spark: whether a record may be a witness of a restart, against the records of its
 * Kafka partition that the task has seen before it. Each task has a copy of the function, which
 * remembers them, and must see a partition's records in the order of their offsets. Asked twice
 * for one record it says the same, so that Spark may take it for deterministic: it refuses others
 * in what a statement reads.
 *
 * <p>A witness is lower by commit than one before it, and newer by time than all before it that
 * were not lower themselves. The rule is that of {@code cdc_assets.changes.restarts}. No witness
 * is missed: a change that floats may always be one by its commit, and so may a record that comes
 * out of order.
 */
public final class GoesBack extends Named<Boolean> {
    /** Stands for what a record does not have. */
    public static final long NONE = Long.MIN_VALUE;

    private static final long serialVersionUID = 1;

    /** What was seen of a partition. */
    private static final class Seen implements Serializable {
        private static final long serialVersionUID = 1;
        private long lastOffset = NONE;
        private boolean lastGoesBack;
        private boolean hasCommits;
        private long highest0;
        private long highest1;
        private long newestMs = NONE;

        boolean isAbove(long commit0, long commit1) {
            return hasCommits
                    && (commit0 < highest0 || (commit0 == highest0 && commit1 < highest1));
        }

        boolean isOlder(long toldMs, long apartMs) {
            return toldMs != NONE && newestMs != NONE && toldMs > newestMs + apartMs;
        }

        void add(long commit0, long commit1) {
            if (!isAbove(commit0, commit1)) {
                highest0 = commit0;
                highest1 = commit1;
                hasCommits = true;
            }
        }
    }

    private transient Map<Integer, Seen> byPartition;
    private transient int partition;
    private transient Seen seen;

    GoesBack() {
        super("goes_back");
    }

    /** See {@link #invoke}. */
    @Override
    public DataType[] inputTypes() {
        return new DataType[] {
            DataTypes.IntegerType,
            DataTypes.LongType,
            DataTypes.LongType,
            DataTypes.LongType,
            DataTypes.LongType,
            DataTypes.BooleanType,
            DataTypes.BooleanType,
            DataTypes.BooleanType,
            DataTypes.LongType
        };
    }

    @Override
    public DataType resultType() {
        return DataTypes.BooleanType;
    }

    @Override
    public boolean isResultNullable() {
        return false;
    }

    /**
     * What Spark's generated code calls: not at all if an argument is NULL.
     *
     * @param partition of the record
     * @param offset of the record
     * @param commit0 first number of its commit; {@link #NONE} without one, or if the record cannot
     *     be merged
     * @param commit1 second number of its commit
     * @param toldMs its time in milliseconds, or {@link #NONE}
     * @param counts whether this time counts for the records that follow
     * @param isInOrder whether the record was delivered in the order of commits
     * @param floats whether only records of its own key tell its commit
     * @param apartMs by how much a witness must be newer
     */
    public boolean invoke(
            int partition,
            long offset,
            long commit0,
            long commit1,
            long toldMs,
            boolean counts,
            boolean isInOrder,
            boolean floats,
            long apartMs) {
        Seen before = of(partition);
        if (offset == before.lastOffset) {
            return before.lastGoesBack;
        }
        boolean isOutOfOrder = offset < before.lastOffset;
        before.lastOffset = Math.max(before.lastOffset, offset);
        boolean found = false;
        if (commit0 != NONE) {
            boolean isBelow = before.isAbove(commit0, commit1);
            boolean isLow = floats ? before.hasCommits : isBelow && isInOrder;
            found = isLow && before.isOlder(toldMs, apartMs);
            before.add(commit0, commit1);
            if (counts && !isBelow) {
                before.newestMs = Math.max(before.newestMs, toldMs);
            }
        }
        before.lastGoesBack = found || isOutOfOrder;
        return before.lastGoesBack;
    }

    private Seen of(int ofPartition) {
        if (seen == null || partition != ofPartition) {
            if (byPartition == null) {
                byPartition = new HashMap<>();
            }
            seen = byPartition.computeIfAbsent(ofPartition, p -> new Seen());
            partition = ofPartition;
        }
        return seen;
    }
}
