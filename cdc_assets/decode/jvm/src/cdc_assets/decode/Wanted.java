package cdc_assets.decode;

import java.util.ArrayList;
import java.util.Collection;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Metadata;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Tells how an object's fields differ from those that are wanted.
 *
 * <p>Of the metadata, ``known`` are names that are not read, and not unknown either; ``expected`` are
 * names that are ``absent`` if an object has neither them nor a former name, which ``once`` gives as
 * pairs of a former and a present name, one after the other.
 */
final class Wanted {
    private static final DataType NAMES = DataTypes.createArrayType(DataTypes.StringType);
    static final StructType UNLIKE =
            new StructType()
                    .add("unknown", NAMES)
                    .add("missing", NAMES)
                    .add("absent", NAMES)
                    .add("twice", DataTypes.BooleanType);

    private final String[] read;
    private final Set<String> known;
    private final String[] expected;
    private final String[] once;

    /**
     * @param read names of the fields that are read
     * @param metadata says what else counts
     */
    Wanted(String[] read, Metadata metadata) {
        this.read = read;
        known = new HashSet<>(List.of(names(metadata, "known")));
        expected = names(metadata, "expected");
        once = names(metadata, "once");
    }

    private static String[] names(Metadata metadata, String key) {
        return metadata.contains(key) ? metadata.getStringArray(key) : new String[0];
    }

    /** Returns a row of {@link #UNLIKE}; null if nothing differs but fields that are known. */
    InternalRow unlike(Seen seen) {
        List<String> unknown = new ArrayList<>(seen.others);
        unknown.removeAll(known);
        List<String> missing = new ArrayList<>();
        for (int at = 0; at < read.length; at++) {
            if (!seen.isThere[at]) {
                missing.add(read[at]);
            }
        }
        if (unknown.isEmpty() && missing.isEmpty() && !seen.twice) {
            return null;
        }
        Object[] found = {texts(unknown), texts(missing), texts(absent(seen)), seen.twice};
        return new GenericInternalRow(found);
    }

    private List<String> absent(Seen seen) {
        Set<String> there = new HashSet<>(seen.others);
        for (int at = 0; at < read.length; at++) {
            if (seen.isThere[at]) {
                there.add(read[at]);
            }
        }
        List<String> present = new ArrayList<>();
        for (int at = 0; at < once.length; at += 2) {
            if (there.remove(once[at])) {
                present.add(once[at + 1]);
            }
        }
        there.addAll(present);
        List<String> found = new ArrayList<>(List.of(expected));
        found.removeIf(there::contains);
        return found;
    }

    private static GenericArrayData texts(Collection<String> names) {
        if (names.isEmpty()) {
            return null;
        }
        return new GenericArrayData(names.stream().map(UTF8String::fromString).toArray());
    }
}
