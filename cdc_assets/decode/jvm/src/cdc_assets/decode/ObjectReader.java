package cdc_assets.decode;

import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import java.io.IOException;
import java.util.HashMap;
import java.util.Map;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/**
 * Reads the wanted fields of JSON's objects, the last one of each name, and skips all others.
 *
 * <p>A field of text whose metadata has {@value #SORTED} is read with the fields of objects in it in
 * the order of their names.
 *
 * <p>If the type has a field {@value #UNLIKE} at its end, that tells how the object's fields differ
 * from the others of the type: ``struct<unknown: array<string>, missing: array<string>, absent:
 * array<string>, twice: boolean>``, the names NULL if there are none, and NULL itself for an object
 * that has all of them once and nothing else. The field's metadata says what counts: see {@link
 * Wanted}. Fields of other objects are not looked at for repeats.
 */
final class ObjectReader extends ValueReader {
    static final String UNLIKE = "__unlike";
    private static final String SORTED = "sorted";

    private final StructType type;
    private final ValueReader[] readers;
    private final Map<String, Integer> places;
    private final Wanted compared;

    ObjectReader(StructType type) {
        int size = type.fields().length;
        boolean compares = size > 0 && type.fields()[size - 1].name().equals(UNLIKE);
        int wanted = compares ? size - 1 : size;
        readers = new ValueReader[wanted];
        String[] names = new String[wanted];
        places = new HashMap<>(2 * wanted);
        StructType read = new StructType();
        for (int at = 0; at < wanted; at++) {
            StructField field = type.fields()[at];
            readers[at] = field.metadata().contains(SORTED) ? new Scalars.Strings(true) : of(field.dataType());
            names[at] = field.name();
            places.put(field.name(), at);
            read = read.add(field.name(), readers[at].type());
        }
        this.type = compares ? read.add(UNLIKE, Wanted.UNLIKE) : read;
        compared = compares ? new Wanted(names, type.fields()[size - 1].metadata()) : null;
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
        Object[] found = new Object[compared != null ? readers.length + 1 : readers.length];
        Seen seen = compared != null ? new Seen(readers.length) : null;
        for (String name = parser.nextFieldName(); name != null; name = parser.nextFieldName()) {
            parser.nextToken();
            Integer place = places.get(name);
            if (place == null) {
                parser.skipChildren();
            } else {
                found[place] = readers[place].read(parser, faults);
            }
            if (seen != null) {
                seen.add(name, place);
            }
        }
        if (parser.currentToken() != JsonToken.END_OBJECT) {
            throw new IOException("no end");
        }
        if (seen != null && !seen.isAsWanted()) {
            found[readers.length] = compared.unlike(seen);
        }
        return new GenericInternalRow(found);
    }
}
