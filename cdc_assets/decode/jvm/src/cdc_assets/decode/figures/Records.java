package cdc_assets.decode.figures;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.Arrays;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.Stream;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.unsafe.types.UTF8String;

/** Counts the records of a batch. */
final class Records implements Counts {
    private static final long serialVersionUID = 1;
    private static final UTF8String DELETE = UTF8String.fromString("d");
    private static final UTF8String TRUNCATE = UTF8String.fromString("t");

    /** So many other tables are counted at most. */
    private static final int MOST_COUNTED = 1 << 16;

    private static final int PARTITION = 0, OFFSET = 1, OP = 2, TS = 3, IS_UNWRITTEN = 4, IS_REJECTED = 5;
    private static final int IN_DOUBT = 6, HAS_MOVED = 7, PAIR = 8, UNKNOWN = 9, ABSENT = 10, OTHER_TABLE = 11;
    private static final int KEY_SCHEMA = 12, READ_LSN = 13, FLOATING_LSN = 14, TOLD_MS = 15;
    private static final int N0 = 16, N1 = 17, MAY_WITNESS = 18, FLOATS = 19;

    /** What is to be counted, and how. */
    private static final class Wanted {
        private final Set<UTF8String> ops = new HashSet<>();
        private final Set<String> pardoned = new HashSet<>();
        private final Map<Integer, long[]> ranges = new HashMap<>();
        private final long[] bounds;
        private final long askedAt;
        private final Witnesses.Before before;

        Wanted(JsonNode told) {
            told.path("ops").forEach(each -> ops.add(UTF8String.fromString(each.asText())));
            told.path("pardoned").forEach(each -> pardoned.add(each.asText()));
            for (JsonNode each : told.path("ranges")) {
                ranges.put(each.get(0).asInt(), new long[] {each.get(1).asLong(), each.get(2).asLong()});
            }
            JsonNode given = told.path("bounds");
            bounds = new long[given.size()];
            Arrays.setAll(bounds, at -> given.get(at).asLong());
            askedAt = told.path("asked_at").asLong();
            before = told.has("before") ? new Witnesses.Before(told.get("before")) : null;
        }
    }

    /** A record that has other columns than the table, at its place; of these the largest is told. */
    private record Unlike(int partition, long offset, String[] unknown, String[] absent)
            implements java.io.Serializable, Comparable<Unlike> {
        private static final Comparator<Unlike> LARGER =
                Comparator.<Unlike>comparingInt(each -> size(each.unknown) + size(each.absent))
                        .thenComparing(Unlike::partition, Comparator.reverseOrder())
                        .thenComparing(Unlike::offset, Comparator.reverseOrder());

        private static int size(String[] names) {
            return names == null ? 0 : names.length;
        }

        @Override
        public int compareTo(Unlike other) {
            return LARGER.compare(this, other);
        }
    }

    private final transient Wanted wanted;
    private int mostTables, mostSchemas;
    private final Map<UTF8String, long[]> byOp = new HashMap<>();
    private long[] ages;
    private final Map<String, long[]> others = new HashMap<>();
    private final TreeSet<Long> schemas = new TreeSet<>();
    private final Witnesses witnesses;
    private long total, rejected, unwritten, inDoubt, rekeyed, paired, begun;
    private boolean hasStrays;
    private Long minRead, maxRead, minFloating, newestMs;
    private Unlike unlike;
    private transient UTF8String lastOp;
    private transient long[] ofLastOp;

    /**
     * @param told the known {@code ops}; upper {@code bounds} of latencies in microseconds, and the time
     *     from which they are measured, {@code asked_at}; columns that records may lack ({@code
     *     pardoned}); partition, start and end of the {@code ranges}; how many other tables and schemas
     *     of keys are told at most; what was merged {@code before}, if restarts are looked for
     */
    Records(JsonNode told) {
        wanted = new Wanted(told);
        mostTables = told.path("most_tables").asInt();
        mostSchemas = told.path("most_schemas").asInt();
        ages = new long[wanted.bounds.length + 1];
        witnesses = new Witnesses(wanted.before);
    }

    @Override
    public void add(InternalRow row) {
        int partition = row.getInt(PARTITION);
        long offset = row.getLong(OFFSET);
        UTF8String op = row.isNullAt(OP) ? null : row.getUTF8String(OP);
        boolean isRejected = is(row, IS_REJECTED);
        count(op, isRejected, row);
        if (!row.isNullAt(TS)) {
            int at = Arrays.binarySearch(wanted.bounds, wanted.askedAt - row.getLong(TS));
            ages[at < 0 ? -at - 1 : at]++;
        }
        long[] range = wanted.ranges.get(partition);
        boolean isLast = range != null && offset + 1 == range[1];
        if (!row.isNullAt(PAIR) && !(isLast && DELETE.equals(op))) {
            paired ^= row.getLong(PAIR);
        }
        if (!isRejected && !(row.isNullAt(UNKNOWN) && row.isNullAt(ABSENT))) {
            compare(partition, offset, row);
        }
        if (!row.isNullAt(OTHER_TABLE)) {
            hasStrays = true;
            count(row.getUTF8String(OTHER_TABLE).toString(), 1); // empty if it is unknown which
        }
        if (!row.isNullAt(KEY_SCHEMA)) {
            add(row.getLong(KEY_SCHEMA));
        }
        if (!row.isNullAt(READ_LSN)) {
            read(row.getLong(READ_LSN), row.getLong(READ_LSN));
            begun += range != null && offset == range[0] ? 1 : 0;
        }
        minFloating = least(minFloating, number(row, FLOATING_LSN));
        Long toldMs = number(row, TOLD_MS);
        newestMs = op == null || TRUNCATE.equals(op) ? newestMs : most(newestMs, toldMs);
        if (wanted.before != null && !isRejected && !row.isNullAt(N0)) {
            long n1 = row.isNullAt(N1) ? Witnesses.NONE : row.getLong(N1);
            witnesses.add(partition, offset, row.getLong(N0), n1, toldMs, is(row, MAY_WITNESS), is(row, FLOATS));
        }
    }

    private static boolean is(InternalRow row, int at) {
        return !row.isNullAt(at) && row.getBoolean(at);
    }

    private static Long number(InternalRow row, int at) {
        return row.isNullAt(at) ? null : (Long) row.getLong(at);
    }

    private void count(UTF8String op, boolean isRejected, InternalRow row) {
        total++;
        if (is(row, IS_UNWRITTEN)) {
            unwritten++;
        } else if (isRejected || !isKnown(op)) {
            rejected++;
        } else {
            ofLastOp[0]++;
            inDoubt += is(row, IN_DOUBT) ? 1 : 0;
            rekeyed += is(row, HAS_MOVED) ? 1 : 0;
        }
    }

    private boolean isKnown(UTF8String op) {
        if (op != null && !op.equals(lastOp) && wanted.ops.contains(op)) {
            lastOp = op.copy();
            ofLastOp = byOp.computeIfAbsent(lastOp, each -> new long[1]);
        }
        return op != null && op.equals(lastOp);
    }

    private void compare(int partition, long offset, InternalRow row) {
        String[] unknown = row.isNullAt(UNKNOWN) ? null : texts(row.getArray(UNKNOWN));
        String[] absent = row.isNullAt(ABSENT) ? null : texts(row.getArray(ABSENT));
        if (absent != null) {
            absent = Stream.of(absent).filter(each -> !wanted.pardoned.contains(each)).toArray(String[]::new);
        }
        if (unknown != null || absent != null && absent.length > 0) {
            larger(new Unlike(partition, offset, unknown, absent));
        }
    }

    private static String[] texts(ArrayData names) {
        String[] found = new String[names.numElements()];
        Arrays.setAll(found, at -> names.getUTF8String(at).toString());
        return found;
    }

    private void larger(Unlike other) {
        unlike = unlike == null || other != null && other.compareTo(unlike) > 0 ? other : unlike;
    }

    private void count(String table, long times) {
        long[] count = others.get(table);
        if (count != null) {
            count[0] += times;
        } else if (others.size() < MOST_COUNTED) {
            others.put(table, new long[] {times});
        }
    }

    /** Keeps the lowest. */
    private void add(long schema) {
        if (schemas.size() < mostSchemas || !schemas.isEmpty() && schema < schemas.last()) {
            schemas.add(schema);
            if (schemas.size() > mostSchemas) {
                schemas.pollLast();
            }
        }
    }

    private void read(Long least, Long most) {
        minRead = least(minRead, least);
        maxRead = most(maxRead, most);
    }

    private static Long least(Long one, Long other) {
        return one == null || other != null && other < one ? other : one;
    }

    private static Long most(Long one, Long other) {
        return one == null || other != null && other > one ? other : one;
    }

    @Override
    public void add(Counts counts) {
        Records other = (Records) counts;
        total += other.total;
        rejected += other.rejected;
        unwritten += other.unwritten;
        inDoubt += other.inDoubt;
        rekeyed += other.rekeyed;
        begun += other.begun;
        paired ^= other.paired;
        hasStrays |= other.hasStrays;
        other.byOp.forEach((op, count) -> byOp.computeIfAbsent(op, each -> new long[1])[0] += count[0]);
        ages = Arrays.copyOf(ages, Math.max(ages.length, other.ages.length));
        for (int at = 0; at < other.ages.length; at++) {
            ages[at] += other.ages[at];
        }
        mostTables = Math.max(mostTables, other.mostTables);
        mostSchemas = Math.max(mostSchemas, other.mostSchemas);
        other.others.forEach((table, count) -> count(table, count[0]));
        other.schemas.forEach(this::add);
        read(other.minRead, other.maxRead);
        minFloating = least(minFloating, other.minFloating);
        newestMs = most(newestMs, other.newestMs);
        larger(other.unlike);
        witnesses.add(other.witnesses);
    }

    @Override
    public long rows() {
        return total;
    }

    @Override
    public ObjectNode told() {
        ObjectNode told = JsonNodeFactory.instance.objectNode();
        told.put("total", total).put("rejected", rejected).put("unwritten", unwritten);
        told.put("in_doubt", inDoubt).put("rekeyed", rekeyed).put("is_paired", paired == 0);
        told.put("min_read", minRead).put("max_read", maxRead).put("begun", begun);
        told.put("min_floating", minFloating).put("newest_told_ms", newestMs).put("has_strays", hasStrays);
        told.put("suspicious", witnesses.areSuspicious());
        ObjectNode ops = told.putObject("by_op");
        byOp.forEach((op, count) -> ops.put(op.toString(), count[0]));
        ArrayNode counted = told.putArray("ages");
        Arrays.stream(ages).forEach(counted::add);
        Comparator<Map.Entry<String, long[]>> frequent = Comparator.comparingLong(each -> -each.getValue()[0]);
        ArrayNode tables = told.putArray("other_tables");
        others.entrySet().stream()
                .filter(each -> !each.getKey().isEmpty())
                .sorted(frequent.thenComparing(Map.Entry.comparingByKey()))
                .limit(mostTables)
                .forEach(each -> tables.add(each.getKey()));
        ArrayNode ofKeys = told.putArray("key_schemas");
        schemas.forEach(ofKeys::add);
        if (unlike != null) {
            ObjectNode found = told.putObject("unlike");
            found.put("partition", unlike.partition).put("offset", unlike.offset);
            names(found.putArray("unknown"), unlike.unknown);
            names(found.putArray("absent"), unlike.absent);
        }
        return told;
    }

    private static void names(ArrayNode told, String[] names) {
        Stream.of(names == null ? new String[0] : names).forEach(told::add);
    }
}
