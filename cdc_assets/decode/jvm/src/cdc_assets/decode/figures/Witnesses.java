package cdc_assets.decode.figures;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.Serializable;
import java.util.HashMap;
import java.util.Map;

/**
 * Tells whether a record may be a witness of a restart, or begin one that was accepted. The rules are
 * those of {@code cdc_assets.changes.restarts}: a witness is lower by commit than what came before it,
 * and newer by time than all before it that was not lower itself.
 *
 * <p>No witness is missed: a change that floats may always be one by its commit, and so may any
 * record of a partition that was not read in the order of its offsets, or not by one task.
 */
final class Witnesses implements Serializable {
    /** Stands for a number that a record does not have. */
    static final long NONE = Long.MIN_VALUE;

    private static final long serialVersionUID = 1;

    /** A commit; the second number is 0 where one identifies it. */
    private record Commit(long first, long second) implements Comparable<Commit>, Serializable {
        static Commit of(JsonNode told) {
            return told.isArray() ? new Commit(told.get(0).asLong(), told.path(1).asLong()) : null;
        }

        @Override
        public int compareTo(Commit other) {
            return first == other.first ? Long.compare(second, other.second) : Long.compare(first, other.first);
        }

        boolean isBelow(Commit other) {
            return other != null && compareTo(other) < 0;
        }
    }

    /** What was merged before the batch. */
    static final class Before {
        private final Map<Integer, Commit> highest = new HashMap<>();
        private final Map<Integer, Long> newestMs = new HashMap<>();
        private final Map<Integer, Long> pendingMs = new HashMap<>();
        private final Commit highestOfAll;
        private final Long newestOfAllMs;
        private final Commit truncated;
        private final Commit merged;
        private final boolean keysStay;
        private final boolean hasSecond;
        private final long apartMs;
        private final long clockMs;

        /**
         * @param told by partition, the {@code highest} commit, the {@code newest_ms} of times, and
         *     where accepted restarts are {@code pending}, the time that they contradict; the first two
         *     of all partitions; the commit of the last truncate; the highest that was {@code merged},
         *     null if that is unknown; whether {@code keys_stay}; how many {@code numbers} identify a
         *     commit; by how many milliseconds a witness must be newer than what came before it in its
         *     partition, and in others
         */
        Before(JsonNode told) {
            told.path("highest").properties().forEach(each -> {
                highest.put(Integer.valueOf(each.getKey()), Commit.of(each.getValue()));
            });
            times(told.path("newest_ms"), newestMs);
            times(told.path("pending"), pendingMs);
            highestOfAll = Commit.of(told.path("highest_of_all"));
            JsonNode newest = told.path("newest_of_all_ms");
            newestOfAllMs = newest.isNumber() ? (Long) newest.asLong() : null;
            truncated = Commit.of(told.path("truncated"));
            merged = Commit.of(told.path("merged"));
            keysStay = told.path("keys_stay").asBoolean();
            hasSecond = told.path("numbers").asInt() > 1;
            apartMs = told.path("apart_ms").asLong();
            clockMs = told.path("clock_ms").asLong();
        }

        private static void times(JsonNode told, Map<Integer, Long> found) {
            told.properties().forEach(each -> found.put(Integer.valueOf(each.getKey()), each.getValue().asLong()));
        }

        boolean mayBegin(int partition, long toldMs) {
            Long before = pendingMs.get(partition);
            return before != null && toldMs > before;
        }

        Seen of(int partition) {
            return new Seen(highest.get(partition), newestMs.get(partition));
        }
    }

    /** The state of a partition before one of its records. */
    private static final class Seen implements Serializable {
        private static final long serialVersionUID = 1;
        private long lastOffset = NONE;
        private Commit highest;
        private Long newestMs;

        Seen(Commit highest, Long newestMs) {
            this.highest = highest;
            this.newestMs = newestMs;
        }
    }

    private final transient Before before;
    private final Map<Integer, Seen> byPartition = new HashMap<>();
    private boolean areSuspicious;
    private transient int partition;
    private transient Seen seen;

    Witnesses(Before before) {
        this.before = before;
    }

    boolean areSuspicious() {
        return areSuspicious;
    }

    /**
     * Looks at a record that can be merged.
     *
     * @param toldMs its time in milliseconds; null without one
     * @param mayWitness whether it was delivered in the order of commits
     * @param floats whether only records of its own key tell its commit
     */
    void add(int ofPartition, long offset, long first, long second, Long toldMs, boolean mayWitness, boolean floats) {
        Commit commit = new Commit(first, before.hasSecond ? second : 0);
        Seen mine = of(ofPartition);
        boolean mayBeOvertaken = mine.lastOffset != NONE || before.merged == null || !before.merged.isBelow(commit);
        areSuspicious |= offset < mine.lastOffset;
        areSuspicious |= toldMs != null && (before.mayBegin(ofPartition, toldMs)
                || isWitness(mine, commit, toldMs, mayWitness, floats, mayBeOvertaken));
        mine.lastOffset = Math.max(mine.lastOffset, offset);
        if (!commit.isBelow(mine.highest)) {
            mine.highest = commit;
            mine.newestMs = newest(mine.newestMs, toldMs);
        }
    }

    private boolean isWitness(
            Seen mine, Commit commit, long toldMs, boolean mayWitness, boolean floats, boolean mayBeOvertaken) {
        boolean isLow = floats ? mayBeOvertaken : mayWitness && commit.isBelow(mine.highest);
        boolean isKnown = mine.highest != null && mine.newestMs != null;
        if (before.keysStay && isKnown && isLow && toldMs > mine.newestMs + before.apartMs) {
            return true;
        }
        Commit above = before.highestOfAll;
        if (!before.keysStay && (above == null || above.isBelow(mine.highest))) {
            above = mine.highest;
        }
        Long latest = newest(mine.newestMs, before.newestOfAllMs);
        isLow = floats ? mayBeOvertaken || commit.isBelow(before.truncated) : mayWitness && commit.isBelow(above);
        return above != null && latest != null && isLow && toldMs > latest + before.clockMs;
    }

    private static Long newest(Long one, Long other) {
        return one == null || other != null && other > one ? other : one;
    }

    private Seen of(int ofPartition) {
        if (seen == null || partition != ofPartition) {
            seen = byPartition.computeIfAbsent(ofPartition, before::of);
            partition = ofPartition;
        }
        return seen;
    }

    /** Adds what another task has seen; records of one partition are then in no known order. */
    void add(Witnesses other) {
        areSuspicious |= other.areSuspicious;
        other.byPartition.forEach((each, found) -> areSuspicious |= byPartition.put(each, found) != null);
    }
}
