package cdc_assets.decode.figures;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.Serializable;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.Map;
import java.util.TreeMap;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.unsafe.types.UTF8String;

/** Counts folded changes by their Kafka partition. */
final class Folded implements Counts {
    private static final long serialVersionUID = 1;
    private static final UTF8String DELETE = UTF8String.fromString("d");
    private static final HexFormat HEX = HexFormat.of().withUpperCase();
    private static final int PARTITION = 0, OFFSET = 1, OP = 2, POSITION = 3;
    private static final int IS_STREAMED = 4, IS_PARTIAL = 5, TOLD_MS = 6;

    /** The changes of a partition. */
    private static final class Found implements Serializable {
        private static final long serialVersionUID = 1;
        private long keys, deletes, partial;
        private byte[] lowest, highest, highestDelete;
        private byte[] newestAt;
        private long newest;
        private boolean newestIsDelete;
        private byte[] toldAt;
        private long toldMs;
        private Long latest;

        void add(InternalRow row) {
            byte[] position = row.getBinary(POSITION);
            boolean isDelete = DELETE.equals(row.getUTF8String(OP));
            keys++;
            deletes += isDelete ? 1 : 0;
            partial += row.getBoolean(IS_PARTIAL) ? 1 : 0;
            lowest = lower(lowest, position);
            highest = isAbove(position, highest) ? position : highest;
            highestDelete = isDelete && isAbove(position, highestDelete) ? position : highestDelete;
            if (row.getBoolean(IS_STREAMED)) {
                newest(position, row.getLong(OFFSET), isDelete);
            }
            if (!row.isNullAt(TOLD_MS)) {
                told(position, row.getLong(TOLD_MS));
                latest = latest == null ? row.getLong(TOLD_MS) : Math.max(latest, row.getLong(TOLD_MS));
            }
        }

        /** An update that changes the key is a delete and a create at one position: the row counts. */
        private void newest(byte[] position, long offset, boolean isDelete) {
            boolean isSame = newestAt != null && Arrays.equals(position, newestAt);
            if (isSame ? newestIsDelete && !isDelete : isAbove(position, newestAt)) {
                newestAt = position;
                newest = offset;
                newestIsDelete = isDelete;
            }
        }

        private void told(byte[] position, long ms) {
            if (isAbove(position, toldAt)) {
                toldAt = position;
                toldMs = ms;
            }
        }

        void add(Found other) {
            keys += other.keys;
            deletes += other.deletes;
            partial += other.partial;
            lowest = lower(lowest, other.lowest);
            highest = isAbove(other.highest, highest) ? other.highest : highest;
            highestDelete = isAbove(other.highestDelete, highestDelete) ? other.highestDelete : highestDelete;
            if (other.newestAt != null) {
                newest(other.newestAt, other.newest, other.newestIsDelete);
            }
            if (other.toldAt != null) {
                told(other.toldAt, other.toldMs);
                latest = latest == null ? other.latest : (Long) Math.max(latest, other.latest);
            }
        }

        private static byte[] lower(byte[] one, byte[] other) {
            return one == null || isAbove(one, other) ? other : one;
        }

        /** Returns whether a position is above another one; null is below all. */
        private static boolean isAbove(byte[] one, byte[] other) {
            return one != null && (other == null || Arrays.compareUnsigned(one, other) > 0);
        }

        ObjectNode told(int partition) {
            ObjectNode told = JsonNodeFactory.instance.objectNode();
            told.put("partition", partition).put("keys", keys).put("deletes", deletes).put("partial", partial);
            told.put("lowest", HEX.formatHex(lowest)).put("highest", HEX.formatHex(highest));
            told.put("highest_delete", highestDelete == null ? "" : HEX.formatHex(highestDelete));
            if (newestAt != null) {
                told.put("newest", newest).put("newest_is_delete", newestIsDelete);
            }
            if (toldAt != null) {
                told.put("latest", latest).put("at_highest", toldMs);
            }
            return told;
        }
    }

    private final Map<Integer, Found> byPartition = new TreeMap<>();

    @Override
    public void add(InternalRow row) {
        byPartition.computeIfAbsent(row.getInt(PARTITION), each -> new Found()).add(row);
    }

    @Override
    public void add(Counts other) {
        ((Folded) other).byPartition.forEach((partition, found) -> {
            byPartition.computeIfAbsent(partition, each -> new Found()).add(found);
        });
    }

    @Override
    public long rows() {
        return byPartition.values().stream().mapToLong(each -> each.keys).sum();
    }

    @Override
    public ArrayNode told() {
        ArrayNode told = JsonNodeFactory.instance.arrayNode();
        byPartition.forEach((partition, found) -> told.add(found.told(partition)));
        return told;
    }
}
