package cdc_assets.decode;

import cdc_assets.decode.values.Arriving;
import cdc_assets.decode.values.Image;
import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;

/**
 * A function for Spark: what the lake stores of a value as it arrives; NULL if that cannot be
 * represented exactly.
 */
public final class Value extends Named<Object> {
    private static final long serialVersionUID = 1;

    private final String column;
    private final StructType parts;
    private transient Image image;

    /**
     * @param column in JSON, see {@link Arriving}
     * @param arguments a struct of the value
     */
    Value(String column, StructType arguments) {
        super("value." + column + arguments.json());
        this.column = column;
        parts = (StructType) arguments.fields()[0].dataType();
    }

    @Override
    public DataType[] inputTypes() {
        return new DataType[] {parts};
    }

    @Override
    public DataType resultType() {
        return new Arriving(Json.read(column)).type;
    }

    @Override
    public Object produceResult(InternalRow input) {
        if (image == null) {
            Arriving told = new Arriving(Json.read(column));
            StructType arriving = new StructType().add(told.name, parts.fields()[0].dataType());
            image = new Image(arriving, List.of(told));
        }
        return image.of(input.getStruct(0, 1)).decoded(0);
    }
}
