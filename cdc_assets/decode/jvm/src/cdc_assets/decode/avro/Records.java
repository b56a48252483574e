package cdc_assets.decode.avro;

import java.util.Arrays;
import java.util.List;
import java.util.Set;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * A record, read as a struct of its wanted fields; all others are passed over.
 *
 * <p>If texts in some of its fields must be UTF-8, the struct has a field {@value #NOT_UTF8} at its end:
 * the name of the first field with another text, NULL if there is none.
 */
final class Records extends Shape {
    static final String NOT_UTF8 = "__not_utf8";
    private static final int NOWHERE = -1;

    private final Shape[] fields;
    private final int[] places;
    private final UTF8String[] looked;
    private final boolean looks;
    private final int size;

    /** @param looked names of fields whose texts must be UTF-8 */
    Records(List<String> names, List<Shape> fields, List<Boolean> isRead, Set<String> looked) {
        super(of(names, fields, isRead, !looked.isEmpty()));
        this.fields = fields.toArray(Shape[]::new);
        this.looked = new UTF8String[names.size()];
        Arrays.setAll(this.looked, at -> {
            return looked.contains(names.get(at)) ? UTF8String.fromString(names.get(at)) : null;
        });
        looks = !looked.isEmpty();
        places = new int[this.fields.length];
        int next = 0;
        for (int at = 0; at < places.length; at++) {
            places[at] = isRead.get(at) ? next++ : NOWHERE;
        }
        size = looks ? next + 1 : next;
    }

    private static StructType of(List<String> names, List<Shape> fields, List<Boolean> isRead, boolean looks) {
        StructType found = new StructType();
        for (int at = 0; at < names.size(); at++) {
            found = isRead.get(at) ? found.add(names.get(at), fields.get(at).type) : found;
        }
        return looks ? found.add(NOT_UTF8, DataTypes.StringType) : found;
    }

    @Override
    GenericInternalRow read(Binary from) throws Broken {
        Object[] found = new Object[size];
        for (int at = 0; at < fields.length; at++) {
            if (places[at] == NOWHERE) {
                fields[at].skip(from);
            } else if (looked[at] == null) {
                found[places[at]] = fields[at].read(from);
            } else {
                from.lookAtTexts();
                found[places[at]] = fields[at].read(from);
                boolean isOther = from.sawOther() && found[size - 1] == null;
                found[size - 1] = isOther ? looked[at] : found[size - 1];
            }
        }
        return new GenericInternalRow(found);
    }

    @Override
    void skip(Binary from) throws Broken {
        for (Shape each : fields) {
            each.skip(from);
        }
    }
}
