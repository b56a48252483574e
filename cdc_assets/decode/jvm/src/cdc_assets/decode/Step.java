package cdc_assets.decode;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;

/**
 * A function for Spark: the number of the step that a value is in, of steps of several widths.
 *
 * <p>The steps are an array of bounds, rising from 0, each with the width of the steps below it. 0 is
 * the number of values up to 0, and one more than the last that of values beyond all bounds; -1 that
 * of NaN. A value at the end of a step belongs to it.
 */
public final class Step extends Named<Integer> {
    private static final long serialVersionUID = 1;

    Step() {
        super("step");
    }

    @Override
    public DataType[] inputTypes() {
        DataType steps = DataTypes.createArrayType(DataTypes.DoubleType);
        return new DataType[] {DataTypes.DoubleType, steps};
    }

    @Override
    public DataType resultType() {
        return DataTypes.IntegerType;
    }

    @Override
    public boolean isResultNullable() {
        return false;
    }

    @Override
    public Integer produceResult(InternalRow input) {
        return invoke(input.getDouble(0), input.getArray(1));
    }

    /** What Spark's generated code calls. */
    public int invoke(double value, ArrayData steps) {
        if (Double.isNaN(value)) {
            return -1;
        }
        if (value <= 0) {
            return 0;
        }
        int number = 0;
        double low = 0;
        for (int at = 0; at < steps.numElements(); at += 2) {
            double high = steps.getDouble(at), width = steps.getDouble(at + 1);
            if (value <= high) {
                return number + (int) Math.ceil((value - low) / width);
            }
            number += (int) Math.rint((high - low) / width);
            low = high;
        }
        return number + 1;
    }
}
