package cdc_assets.decode;

import java.io.Serializable;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.TreeMap;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.sql.connector.catalog.functions.AggregateFunction;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;

/**
 * An aggregate for Spark: whether commits may go back in a Kafka partition, seen while its records
 * pass in the order of their offsets.
 *
 * <p>It returns {@code array<struct<partition: int, newest_ms: bigint, goes_back: boolean>>}, for
 * each partition the newest time of its records and whether one of them may be a witness of a
 * restart: lower by commit than one before it, and newer by time than all before it that were not
 * lower themselves. The rule is that of {@code cdc_assets.changes.restarts}. No witness is missed;
 * where a task did not see all that came before, or not in order, there may be none.
 */
public final class Course implements AggregateFunction<Course.Runs, ArrayData> {
    private static final long serialVersionUID = 1;
    private static final long NONE = Long.MIN_VALUE;

    /** Records of a partition that one task has seen one after the other. */
    private static final class Run implements Serializable {
        private static final long serialVersionUID = 1;
        private final int partition;
        private final long first;
        private long last;
        private boolean hasCommits;
        private boolean goesBack;
        private long lowest0;
        private long lowest1;
        private long highest0;
        private long highest1;
        private long newest = NONE;
        private long newestPlaced = NONE;
        private long newestFloating = NONE;
        private long newestCounted = NONE;

        Run(int partition, long offset) {
            this.partition = partition;
            this.first = offset;
            this.last = offset;
        }

        private boolean isBelowHighest(long commit0, long commit1) {
            return hasCommits && isLess(commit0, commit1, highest0, highest1);
        }

        private void include(long commit0, long commit1) {
            if (!hasCommits || isLess(commit0, commit1, lowest0, lowest1)) {
                lowest0 = commit0;
                lowest1 = commit1;
            }
            if (!hasCommits || isLess(highest0, highest1, commit0, commit1)) {
                highest0 = commit0;
                highest1 = commit1;
            }
            hasCommits = true;
        }

        private boolean isNewer(long toldMs, long apartMs) {
            return toldMs != NONE && newestCounted != NONE && toldMs > newestCounted + apartMs;
        }

        /** Adds the records that follow. */
        private void append(Run next, long apartMs) {
            goesBack |= next.goesBack || next.first <= last;
            if (hasCommits && next.hasCommits) {
                goesBack |= isNewer(next.newestFloating, apartMs);
                if (next.isLowerThan(this)) {
                    // Which of its records are lower is not known, so none counts.
                    goesBack |= isNewer(next.newestPlaced, apartMs);
                    goesBack |= newestCounted == NONE && next.newestPlaced != NONE;
                } else {
                    newestCounted = Math.max(newestCounted, next.newestCounted);
                }
            } else {
                newestCounted = Math.max(newestCounted, next.newestCounted);
            }
            if (next.hasCommits) {
                include(next.lowest0, next.lowest1);
                include(next.highest0, next.highest1);
            }
            last = Math.max(last, next.last);
            newest = Math.max(newest, next.newest);
        }

        private boolean isLowerThan(Run before) {
            return before.isBelowHighest(lowest0, lowest1);
        }
    }

    /** By partition, in no order; the last one of a partition is the one that a task is at. */
    public static final class Runs implements Serializable {
        private static final long serialVersionUID = 1;
        private final TreeMap<Integer, ArrayList<Run>> byPartition = new TreeMap<>();
        private long apartMs;
        private transient Run current;

        private Run at(int partition, long offset) {
            if (current == null || current.partition != partition) {
                List<Run> runs = byPartition.computeIfAbsent(partition, p -> new ArrayList<>());
                if (runs.isEmpty()) {
                    runs.add(new Run(partition, offset));
                }
                current = runs.get(runs.size() - 1);
            }
            current.goesBack |= offset < current.last;
            current.last = Math.max(current.last, offset);
            return current;
        }
    }

    private static boolean isLess(long left0, long left1, long right0, long right1) {
        return left0 < right0 || (left0 == right0 && left1 < right1);
    }

    /**
     * Partition, offset, the numbers of the commit (NULL for a record that has none or cannot be
     * merged), time in milliseconds, whether this time counts for the records that follow, whether
     * the record may be a witness, whether it floats, and how far apart times must be.
     */
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
        StructType each =
                new StructType()
                        .add("partition", DataTypes.IntegerType)
                        .add("newest_ms", DataTypes.LongType)
                        .add("goes_back", DataTypes.BooleanType);
        return new ArrayType(each, false);
    }

    @Override
    public String name() {
        return "course";
    }

    @Override
    public String canonicalName() {
        return "cdc_assets.course";
    }

    @Override
    public Runs newAggregationState() {
        return new Runs();
    }

    @Override
    public Runs update(Runs runs, InternalRow record) {
        Run run = runs.at(record.getInt(0), record.getLong(1));
        long toldMs = record.isNullAt(4) ? NONE : record.getLong(4);
        run.newest = Math.max(run.newest, toldMs);
        if (record.isNullAt(2) || record.isNullAt(3)) {
            return runs;
        }
        long commit0 = record.getLong(2);
        long commit1 = record.getLong(3);
        boolean floats = isTrue(record, 7);
        boolean isBelow = run.isBelowHighest(commit0, commit1);
        boolean isLow = floats ? run.hasCommits : isBelow && isTrue(record, 6);
        runs.apartMs = record.getLong(8);
        run.goesBack |= isLow && run.isNewer(toldMs, runs.apartMs);
        run.newestPlaced = Math.max(run.newestPlaced, toldMs);
        if (floats) {
            run.newestFloating = Math.max(run.newestFloating, toldMs);
        }
        if (!isBelow && isTrue(record, 5)) {
            run.newestCounted = Math.max(run.newestCounted, toldMs);
        }
        run.include(commit0, commit1);
        return runs;
    }

    private static boolean isTrue(InternalRow record, int ordinal) {
        return !record.isNullAt(ordinal) && record.getBoolean(ordinal);
    }

    @Override
    public Runs merge(Runs left, Runs right) {
        right.byPartition.forEach(
                (partition, runs) ->
                        left.byPartition
                                .computeIfAbsent(partition, p -> new ArrayList<>())
                                .addAll(runs));
        left.apartMs = Math.max(left.apartMs, right.apartMs);
        left.current = null;
        return left;
    }

    @Override
    public ArrayData produceResult(Runs runs) {
        List<InternalRow> found = new ArrayList<>();
        for (List<Run> ofPartition : runs.byPartition.values()) {
            ofPartition.sort(Comparator.comparingLong(run -> run.first));
            Run whole = new Run(ofPartition.get(0).partition, ofPartition.get(0).first - 1);
            ofPartition.forEach(run -> whole.append(run, runs.apartMs));
            Long newestMs = whole.newest == NONE ? null : whole.newest;
            found.add(
                    new GenericInternalRow(
                            new Object[] {whole.partition, newestMs, whole.goesBack}));
        }
        return new GenericArrayData(found.toArray());
    }
}
