package cdc_assets.decode;

import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import java.io.IOException;
import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Reads the wanted fields of JSON's objects, the last one of each name, and skips all others.
 *
 * <p>A field of text whose metadata has {@value #SORTED} is read with the fields of objects in it in
 * the order of their names.
 *
 * <p>If the type has a field {@value #UNLIKE} at its end, that tells how the object's fields differ
 * from the others of the type: ``struct<unknown: array<string>, missing: array<string>, twice:
 * boolean>``, each NULL if there is none, and NULL itself for an object that has all of them once
 * and nothing else. Fields of other objects are not looked at for repeats.
 */
final class ObjectReader extends ValueReader {
    static final String UNLIKE = "__unlike";
    private static final String SORTED = "sorted";
    private static final DataType NAMES = DataTypes.createArrayType(DataTypes.StringType);

    private final StructType type;
    private final ValueReader[] readers;
    private final UTF8String[] names;
    private final Map<String, Integer> places;
    private final boolean compares;

    ObjectReader(StructType type) {
        int size = type.fields().length;
        compares = size > 0 && type.fields()[size - 1].name().equals(UNLIKE);
        int wanted = compares ? size - 1 : size;
        readers = new ValueReader[wanted];
        names = new UTF8String[wanted];
        places = new HashMap<>(2 * wanted);
        StructType read = new StructType();
        for (int at = 0; at < wanted; at++) {
            StructField field = type.fields()[at];
            readers[at] = field.metadata().contains(SORTED) ? new Scalars.Strings(true) : of(field.dataType());
            names[at] = UTF8String.fromString(field.name());
            places.put(field.name(), at);
            read = read.add(field.name(), readers[at].type());
        }
        this.type = compares ? read.add(UNLIKE, unlike()) : read;
    }

    private static StructType unlike() {
        return new StructType()
                .add("unknown", NAMES)
                .add("missing", NAMES)
                .add("twice", DataTypes.BooleanType);
    }

    @Override
    DataType type() {
        return type;
    }

    @Override
    Object some(JsonToken token, JsonParser parser, Faults faults) throws IOException {
        if (token != JsonToken.START_OBJECT) {
            return null;
        }
        Object[] found = new Object[compares ? readers.length + 1 : readers.length];
        Seen seen = compares ? new Seen(readers.length) : null;
        for (String name = parser.nextFieldName(); name != null; name = parser.nextFieldName()) {
            parser.nextToken();
            Integer place = places.get(name);
            if (place == null) {
                parser.skipChildren();
            } else {
                found[place] = readers[place].read(parser, faults);
            }
            if (compares) {
                seen.add(name, place);
            }
        }
        if (parser.currentToken() != JsonToken.END_OBJECT) {
            throw new IOException("no end");
        }
        if (compares) {
            found[readers.length] = seen.unlike(names);
        }
        return new GenericInternalRow(found);
    }

    /** The names that an object had. */
    private static final class Seen {
        private final boolean[] known;
        private int count;
        private Set<String> unknown;
        private boolean twice;

        Seen(int wanted) {
            known = new boolean[wanted];
        }

        void add(String name, Integer place) {
            if (place == null) {
                unknown = unknown == null ? new LinkedHashSet<>() : unknown;
                twice |= !unknown.add(name);
            } else if (known[place]) {
                twice = true;
            } else {
                known[place] = true;
                count++;
            }
        }

        InternalUnlike unlike(UTF8String[] names) {
            if (count == known.length && unknown == null && !twice) {
                return null;
            }
            return new InternalUnlike(unknownNames(), missing(names), twice);
        }

        private GenericArrayData unknownNames() {
            if (unknown == null) {
                return null;
            }
            return new GenericArrayData(unknown.stream().map(UTF8String::fromString).toArray());
        }

        private GenericArrayData missing(UTF8String[] names) {
            if (count == known.length) {
                return null;
            }
            Object[] found = new Object[known.length - count];
            for (int at = 0, next = 0; at < known.length; at++) {
                if (!known[at]) {
                    found[next++] = names[at];
                }
            }
            return new GenericArrayData(found);
        }
    }

    /** A row of {@link #unlike()}. */
    private static final class InternalUnlike extends GenericInternalRow {
        private static final long serialVersionUID = 1;

        InternalUnlike(GenericArrayData unknown, GenericArrayData missing, boolean twice) {
            super(new Object[] {unknown, missing, twice});
        }
    }
}
