package cdc_assets.decode.values;

import java.time.ZoneId;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Decodes the values of one column: from the event's value to the value that the lake stores.
 *
 * <p>It returns null for a value that it cannot represent exactly, never an approximation.
 */
public interface Decoder {
    /**
     * @param value as it arrives, not null
     */
    Object decode(Object value);

    /**
     * Returns the decoder of a column.
     *
     * @param arriving the type as which it is read
     * @throws IllegalArgumentException if the encoding cannot be decoded to the column's type
     */
    static Decoder of(Arriving column, DataType arriving) {
        return column.isMasked ? Digest.of(column, arriving) : plain(column, column.wire, column.type, arriving);
    }

    private static Decoder plain(Arriving column, String wire, DataType to, DataType arriving) {
        Decoder found =
                switch (wire) {
                    case "boolean", "double", "bytes_base64" -> same(arriving, to);
                    case "int", "long", "float" -> number(arriving, to);
                    case "string" -> text(column, to);
                    case "bytes_hex" -> only(to, DataTypes.BinaryType, value -> Octets.hex((UTF8String) value));
                    case "decimal_bytes" -> decimal(column, to);
                    case "variable_scale_decimal" -> scaled(to, (StructType) arriving);
                    case "decimal_text" -> value -> Numbers.fitting(Numbers.plain((UTF8String) value), to);
                    case "epoch_days" -> only(to, DataTypes.DateType, value -> Times.day((Integer) value));
                    case "epoch_millis" -> instant(to, value -> Times.ofMillis((Long) value));
                    case "epoch_micros" -> to.equals(DataTypes.LongType)
                            ? value -> value
                            : instant(to, value -> Times.ofMicros((Long) value));
                    case "epoch_nanos" -> instant(to, value -> Times.ofNanos((Long) value));
                    case "millis_of_day" -> only(to, DataTypes.LongType, value -> (Integer) value * 1000L);
                    case "nanos_of_day" -> only(to, DataTypes.LongType, value -> Times.ofNanos((Long) value));
                    case "unsigned_long" -> value -> Numbers.fitting(Numbers.unsigned((Long) value), to);
                    case "bits" -> to.equals(DataTypes.StringType)
                            ? value -> Octets.bits((byte[]) value, column.bits)
                            : value -> Numbers.fitting(Numbers.ofBits((byte[]) value, column.bits), to);
                    case "point", "geometry" -> structure((StructType) to, (StructType) arriving);
                    case "list" -> list(column, (ArrayType) to, (ArrayType) arriving);
                    case "json" -> only(to, DataTypes.StringType, Digest::json);
                    case "scalar" -> ofText(Scalar.wire(to), column, to);
                    default -> ofText(wire, column, to);
                };
        if (found == null) {
            throw new IllegalArgumentException(wire + " is not decoded to " + to.simpleString());
        }
        return found;
    }

    private static Decoder only(DataType to, DataType wanted, Decoder decoder) {
        return to.equals(wanted) ? decoder : null;
    }

    private static Decoder same(DataType arriving, DataType to) {
        return arriving.equals(to) ? value -> value : null;
    }

    private static Decoder number(DataType arriving, DataType to) {
        if (to.equals(DataTypes.LongType)) {
            return value -> ((Number) value).longValue();
        }
        return to.equals(DataTypes.DoubleType) ? value -> ((Number) value).doubleValue() : same(arriving, to);
    }

    private static Decoder instant(DataType to, Decoder decoder) {
        boolean isInstant = to.equals(DataTypes.TimestampType) || to.equals(DataTypes.TimestampNTZType);
        return isInstant ? decoder : null;
    }

    private static Decoder text(Arriving column, DataType to) {
        if (column.isNumber) {
            return value -> Labels.number((UTF8String) value);
        }
        if (column.labels.isEmpty()) {
            return same(DataTypes.StringType, to);
        }
        UTF8String comma = UTF8String.fromString(",");
        UTF8String[] labels = column.labels.toArray(new UTF8String[0]);
        UTF8String all = UTF8String.concat(comma, UTF8String.concatWs(comma, labels), comma);
        if (column.isClosed && all.contains(UTF8String.fromString("\\"))) {
            return value -> Labels.unescaped((UTF8String) value, column, all);
        }
        Set<UTF8String> each = new HashSet<>(column.labels);
        return value -> Labels.known((UTF8String) value, column, all, each);
    }

    private static Decoder decimal(Arriving column, DataType to) {
        int scale = column.scale;
        if (to.equals(DataTypes.StringType)) {
            return value -> Numbers.digits(Numbers.ofBytes((byte[]) value, scale), true);
        }
        return value -> Numbers.fitting(Numbers.ofBytes((byte[]) value, scale), to);
    }

    private static Decoder scaled(DataType to, StructType arriving) {
        int scale = arriving.fieldIndex("scale"), number = arriving.fieldIndex("value");
        return value -> {
            InternalRow row = (InternalRow) value;
            if (row.isNullAt(scale) || row.isNullAt(number)) {
                return null;
            }
            var found = Numbers.ofBytes(row.getBinary(number), row.getInt(scale));
            return to.equals(DataTypes.StringType) ? Numbers.digits(found, false) : Numbers.fitting(found, to);
        };
    }

    /** Returns a struct; null if a field other than the spatial reference is missing. */
    private static Decoder structure(StructType to, StructType arriving) {
        return value -> {
            InternalRow row = (InternalRow) value;
            Object[] found = new Object[to.size()];
            for (int at = 0; at < found.length; at++) {
                String name = to.fields()[at].name();
                int place = arriving.fieldIndex(name);
                found[at] = row.isNullAt(place) ? null : row.get(place, arriving.fields()[place].dataType());
                if (found[at] == null && !name.equals("srid")) {
                    return null;
                }
            }
            return new GenericInternalRow(found);
        };
    }

    /** Returns a list; null if one of its elements cannot be represented. */
    private static Decoder list(Arriving column, ArrayType to, ArrayType arriving) {
        String wire = column.wireOfElements.isEmpty() ? "string" : column.wireOfElements;
        DataType element = arriving.elementType();
        Decoder decoder = plain(column, wire, to.elementType(), element);
        return value -> {
            ArrayData given = (ArrayData) value;
            Object[] found = new Object[given.numElements()];
            for (int at = 0; at < found.length; at++) {
                if (!given.isNullAt(at)) {
                    found[at] = decoder.decode(given.get(at, element));
                    if (found[at] == null) {
                        return null;
                    }
                }
            }
            return new GenericArrayData(found);
        };
    }

    private static Decoder ofText(String wire, Arriving column, DataType to) {
        ZoneId zone = to.equals(DataTypes.TimestampType) ? column.zone : null;
        boolean isLocal = to.equals(DataTypes.TimestampNTZType) || zone != null;
        List<UTF8String> labels = column.labels;
        return switch (wire) {
            case "integer_text" -> value -> Numbers.fitting(Numbers.whole((UTF8String) value), to);
            case "floating_text" -> {
                boolean isDouble = to.equals(DataTypes.DoubleType);
                yield value -> Numbers.floating((UTF8String) value, isDouble);
            }
            case "boolean_text" -> value -> Scalar.bool((UTF8String) value);
            case "boolean_or_int" -> to.equals(DataTypes.BooleanType)
                    ? value -> Scalar.bool((UTF8String) value)
                    : value -> Numbers.fitting(Numbers.whole(Scalar.digit((UTF8String) value)), to);
            case "date_text" -> value -> Times.day((UTF8String) value, false);
            case "iso_date" -> only(to, DataTypes.DateType, value -> Times.day((UTF8String) value, true));
            case "time_text" -> only(to, DataTypes.LongType, value -> Times.duration((UTF8String) value));
            case "iso_time" -> only(to, DataTypes.LongType, value -> Times.ofDay((UTF8String) value));
            case "timestamp_text" -> isLocal ? value -> Times.local((UTF8String) value, zone) : null;
            case "iso_timestamp" -> isLocal ? value -> Times.iso((UTF8String) value, zone) : null;
            case "iso_zoned" -> only(to, DataTypes.TimestampType, value -> Times.zoned((UTF8String) value));
            case "bytes_latin1" -> only(
                    to,
                    DataTypes.BinaryType,
                    value -> Octets.padded(Octets.latin1((UTF8String) value), column.width, column.least));
            case "text_latin1" -> only(to, DataTypes.StringType, value -> Octets.text((UTF8String) value));
            case "json_text" -> only(to, DataTypes.StringType, value -> Scalar.json((UTF8String) value));
            case "enum_ordinal" -> only(
                    to, DataTypes.StringType, value -> Labels.ofOrdinal((UTF8String) value, labels));
            case "set_bits" -> only(to, DataTypes.StringType, value -> Labels.ofBits((UTF8String) value, labels));
            case "labels" -> only(to, DataTypes.StringType, value -> Labels.ofArray((UTF8String) value));
            case Scalar.TEXT -> value -> value;
            case Scalar.BYTES -> value -> Octets.padded(Octets.base64((UTF8String) value), column.width, 0);
            case Scalar.DECIMAL -> value -> Numbers.fitting(Numbers.any((UTF8String) value), to);
            case Scalar.LOCAL -> value -> Times.scalar((UTF8String) value);
            case Scalar.INSTANT -> value -> Times.scalarInstant((UTF8String) value, zone);
            default -> null;
        };
    }
}
