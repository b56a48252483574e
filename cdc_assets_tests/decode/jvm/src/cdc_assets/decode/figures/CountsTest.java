package cdc_assets.decode.figures;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cdc_assets.decode.figures.Counted.Kind;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Random;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.unsafe.types.UTF8String;
import org.junit.jupiter.api.Test;

/** However tasks share the rows, and in whichever order they are added up: the figures are the same. */
class CountsTest {
    private static final String WANTED =
            """
            {"ops": ["c", "u", "d"], "bounds": [10, 100, 1000], "asked_at": 5000, "pardoned": ["c3"],
             "ranges": [[0, 0, 40], [1, 5, 60]], "most_tables": 3, "most_schemas": 2}
            """;
    private static final String BEFORE =
            """
            {"ranges": [], "ops": [], "before": {"numbers": 1, "keys_stay": true, "clock_ms": 10,
             "highest": {"0": [50]}, "newest_ms": {"0": 100}, "apart_ms": 5}}
            """;

    private final Random random = new Random(1);

    @Test
    void ofABatch() {
        for (int n = 0; n < 2_000; n++) {
            List<InternalRow> rows = new ArrayList<>();
            for (int at = random.nextInt(80); at >= 0; at--) {
                rows.add(record(at));
            }
            assertEquals(atOnce(Kind.BATCH, WANTED, rows), byTasks(Kind.BATCH, WANTED, rows));
        }
    }

    @Test
    void ofAFold() {
        for (int n = 0; n < 2_000; n++) {
            List<InternalRow> rows = new ArrayList<>();
            for (int at = random.nextInt(40); at >= 0; at--) {
                rows.add(folded(at));
            }
            assertEquals(atOnce(Kind.FOLD, "{}", rows), byTasks(Kind.FOLD, "{}", rows));
        }
    }

    @Test
    void noWitnessIsMissedByTasks() {
        int suspicious = 0;
        for (int n = 0; n < 5_000; n++) {
            List<InternalRow> rows = new ArrayList<>();
            for (int at = 0; at < 3; at++) {
                rows.add(placed(at, 40 + random.nextInt(30), 90 + random.nextInt(40)));
            }
            boolean isSeen = atOnce(Kind.BATCH, BEFORE, rows).contains("\"suspicious\":true");
            boolean isSeenByTasks = byTasks(Kind.BATCH, BEFORE, rows).contains("\"suspicious\":true");
            suspicious += isSeen ? 1 : 0;
            assertTrue(isSeenByTasks || !isSeen);
        }
        assertTrue(suspicious > 100 && suspicious < 4_900, "some of them have a witness");
    }

    private static String atOnce(Kind kind, String wanted, List<InternalRow> rows) {
        Counts counts = kind.of(wanted);
        rows.forEach(counts::add);
        Counts told = kind.none();
        told.add(counts);
        return told.told().toString();
    }

    /** Counts in up to four tasks, which are written and read, and adds them up in any order. */
    private String byTasks(Kind kind, String wanted, List<InternalRow> rows) {
        List<Counts> tasks = new ArrayList<>();
        for (int at = random.nextInt(4); at >= 0; at--) {
            tasks.add(kind.of(wanted));
        }
        rows.forEach(each -> tasks.get(random.nextInt(tasks.size())).add(each));
        List<Counts> sent = new ArrayList<>();
        for (int at = 0; at < tasks.size(); at++) {
            sent.add(Task.read(new Task(at, tasks.get(at)).written()).counts());
        }
        Collections.shuffle(sent, random);
        Counts all = kind.none();
        sent.forEach(all::add);
        assertEquals(rows.size(), all.rows());
        return all.told().toString();
    }

    private InternalRow record(long offset) {
        Object[] found = {
            random.nextInt(2), offset, maybe(text("c", "u", "d", "x")), maybe(random.nextLong(6000)),
            random.nextInt(9) == 0, random.nextInt(9) == 0, random.nextBoolean(), random.nextBoolean(),
            maybe(random.nextLong()), maybe(names()), maybe(names()), maybe(text("", "a.b", "a.c", "a.d", "a.e")),
            maybe(random.nextLong(6)), maybe(random.nextLong(90)), maybe(random.nextLong(90)),
            maybe(random.nextLong(900)), null, null, null, null,
        };
        return new GenericInternalRow(found);
    }

    private static InternalRow placed(long offset, long commit, long toldMs) {
        Object[] found = new Object[20];
        Object[] place = {0, offset, UTF8String.fromString("u"), null, false, false, false, false};
        System.arraycopy(place, 0, found, 0, place.length);
        found[15] = toldMs;
        found[16] = commit;
        found[18] = true;
        found[19] = false;
        return new GenericInternalRow(found);
    }

    /** Positions are unique, as an offset is a part of each. */
    private InternalRow folded(int offset) {
        byte[] position = {(byte) random.nextInt(256), (byte) offset};
        Object[] found = {
            random.nextInt(3), (long) offset, text("c", "d"), position, random.nextBoolean(), random.nextBoolean(),
            maybe(random.nextLong(900)),
        };
        return new GenericInternalRow(found);
    }

    private GenericArrayData names() {
        Object[] found = new Object[1 + random.nextInt(3)];
        for (int at = 0; at < found.length; at++) {
            found[at] = UTF8String.fromString("c" + random.nextInt(5));
        }
        return new GenericArrayData(found);
    }

    private UTF8String text(String... texts) {
        return UTF8String.fromString(texts[random.nextInt(texts.length)]);
    }

    private Object maybe(Object value) {
        return random.nextInt(3) > 0 ? value : null;
    }
}
