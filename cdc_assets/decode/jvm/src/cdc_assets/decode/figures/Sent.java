package cdc_assets.decode.figures;

import cdc_assets.decode.figures.Counted.Kind;
import java.lang.ref.WeakReference;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.spark.SparkContext;
import org.apache.spark.util.CollectionAccumulator;

/**
 * What the tasks that read one frame have counted, on the driver.
 *
 * <p>If an executor is lost, Spark runs some of its tasks again, in the same stage or in a new one, and
 * adds up what both have sent. A frame may also be read twice. Each partition counts once.
 */
final class Sent {
    private static final Map<String, WeakReference<Sent>> BY_ID = new HashMap<>();

    /** Takes it from tasks. */
    final CollectionAccumulator<byte[]> bytes = SparkContext.getOrCreate().collectionAccumulator();

    private final List<Task> read = new ArrayList<>();

    private Sent() {}

    /** Returns what is sent under an id; kept for as long as a plan has a function of this id. */
    static synchronized Sent under(String id) {
        WeakReference<Sent> known = BY_ID.get(id);
        Sent found = known == null ? null : known.get();
        if (found == null) {
            BY_ID.values().removeIf(each -> each.get() == null);
            found = new Sent();
            BY_ID.put(id, new WeakReference<>(found));
        }
        return found;
    }

    /**
     * Returns what all tasks have counted; null if not all of them have sent it. Spark asks for it
     * whenever one has ended.
     *
     * @param rows that Spark has counted in one reading, those of tasks that were run twice twice
     */
    synchronized Counts all(Kind kind, long rows) {
        List<byte[]> all = bytes.value();
        all.subList(read.size(), all.size()).forEach(each -> read.add(Task.read(each)));
        Map<Integer, Task> byPartition = new TreeMap<>();
        read.forEach(each -> byPartition.put(each.partition(), each));
        boolean isAll = rows == rows(read) || rows == rows(byPartition.values());
        if (!isAll) {
            return null;
        }
        Counts found = kind.none();
        byPartition.values().forEach(each -> found.add(each.counts()));
        return found;
    }

    private static long rows(Iterable<Task> tasks) {
        long rows = 0;
        for (Task each : tasks) {
            rows += each.counts().rows();
        }
        return rows;
    }
}
