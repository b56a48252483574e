package cdc_assets.decode.values;

import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;

/** Where a row image, or a key, has the columns of a table. */
public final class Image {
    private static final int NOWHERE = -1;

    private final int[] places;
    private final DataType[] types;
    private final Decoder[] decoders;

    /**
     * @param type of the image, which may lack columns
     * @param columns of the table
     */
    public Image(StructType type, List<Arriving> columns) {
        places = new int[columns.size()];
        types = new DataType[places.length];
        decoders = new Decoder[places.length];
        for (int at = 0; at < places.length; at++) {
            String name = columns.get(at).name;
            boolean isThere = type.getFieldIndex(name).isDefined();
            places[at] = isThere ? type.fieldIndex(name) : NOWHERE;
            if (isThere) {
                types[at] = type.fields()[places[at]].dataType();
                decoders[at] = Decoder.of(columns.get(at), types[at]);
            }
        }
    }

    /** Returns what a record has there. */
    public Held of(InternalRow row) {
        return new Held(row);
    }

    /** Returns the type in which a column arrives. */
    public DataType type(int column) {
        return types[column];
    }

    /** The image of one record, of which each value is decoded once. */
    public final class Held {
        private final InternalRow row;
        private final Object[] values = new Object[places.length];
        private final Object[] decoded = new Object[places.length];

        private Held(InternalRow row) {
            this.row = row;
        }

        /** Returns whether the record has this image. */
        public boolean isThere() {
            return row != null;
        }

        /** Returns a column's value as it arrives; null if there is none, as for JSON's null. */
        public Object value(int column) {
            int place = places[column];
            if (row == null || place == NOWHERE) {
                return null;
            }
            if (values[column] == null && !row.isNullAt(place)) {
                Object found = row.get(place, types[column]);
                values[column] = Digest.isNothing(found) ? null : found;
            }
            return values[column];
        }

        /** Returns a value in the column's own type; null if there is none that fits. */
        public Object decoded(int column) {
            if (decoded[column] == null) {
                Object value = value(column);
                decoded[column] = value == null ? null : decoders[column].decode(value);
            }
            return decoded[column];
        }
    }
}
