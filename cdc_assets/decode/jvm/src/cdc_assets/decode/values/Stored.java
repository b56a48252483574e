package cdc_assets.decode.values;

import java.util.Arrays;
import org.apache.spark.sql.catalyst.expressions.BoundReference;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.EvalMode;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;
import scala.Option;

/**
 * Converts a value from its column's type in records to the lake's, where they differ: the lake's is
 * wider, or was kept although the source has changed its own.
 */
public final class Stored {
    private Stored() {}

    /** Returns what gives null for every value that would not be the same in the lake. */
    public static Decoder in(DataType lake, DataType own) {
        if (lake.equals(own)) {
            return value -> value;
        }
        if (lake.equals(DataTypes.LongType) && own.equals(DataTypes.IntegerType)) {
            return value -> ((Integer) value).longValue();
        }
        if (lake.equals(DataTypes.DoubleType) && own.equals(DataTypes.FloatType)) {
            return value -> ((Float) value).doubleValue();
        }
        if (lake instanceof DecimalType wide && own instanceof DecimalType narrow
                && wide.scale() == narrow.scale() && wide.precision() >= narrow.precision()) {
            return value -> Decimal.apply(((Decimal) value).toJavaBigDecimal(), wide.precision(), wide.scale());
        }
        Decoder there = cast(own, lake), back = cast(lake, own);
        return value -> {
            Object kept = there.decode(value);
            return kept != null && areSame(back.decode(kept), value) ? kept : null;
        };
    }

    private static Decoder cast(DataType from, DataType to) {
        Cast cast = new Cast(new BoundReference(0, from, true), to, Option.apply("UTC"), EvalMode.TRY());
        return value -> cast.eval(new GenericInternalRow(new Object[] {value}));
    }

    /** Compares as SQL does: a number that is none equals itself, and zeros have no sign. */
    public static boolean areSame(Object one, Object other) {
        if (one instanceof Double first && other instanceof Double second) {
            return first.doubleValue() == second || first.isNaN() && second.isNaN();
        }
        if (one instanceof Float first && other instanceof Float second) {
            return first.floatValue() == second || first.isNaN() && second.isNaN();
        }
        if (one instanceof byte[] first && other instanceof byte[] second) {
            return Arrays.equals(first, second);
        }
        return one != null && one.equals(other);
    }
}
