package cdc_assets.decode;

import java.util.LinkedHashSet;
import java.util.Set;

/** The names that an object had. */
final class Seen {
    /** Whether it had each of the fields that are read. */
    final boolean[] isThere;

    /** Names of other fields. */
    Set<String> others = Set.of();

    /** Whether it had a name twice. */
    boolean twice;

    private int count;

    Seen(int read) {
        isThere = new boolean[read];
    }

    /**
     * @param name of a field
     * @param place of the field among those that are read; null for others
     */
    void add(String name, Integer place) {
        if (place == null) {
            others = others.isEmpty() ? new LinkedHashSet<>() : others;
            twice |= !others.add(name);
        } else if (isThere[place]) {
            twice = true;
        } else {
            isThere[place] = true;
            count++;
        }
    }

    /** Returns whether it had all fields that are read, once, and no others. */
    boolean isAsWanted() {
        return count == isThere.length && others.isEmpty() && !twice;
    }
}
