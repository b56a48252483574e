package cdc_assets.decode.values;

import java.util.Map;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;

/** The lake's types, as {@code cdc_assets.schema.types} writes them. */
public final class Types {
    private static final Map<String, DataType> PRIMITIVES =
            Map.of(
                    "boolean", DataTypes.BooleanType, "int", DataTypes.IntegerType,
                    "bigint", DataTypes.LongType, "float", DataTypes.FloatType,
                    "double", DataTypes.DoubleType, "string", DataTypes.StringType,
                    "binary", DataTypes.BinaryType, "date", DataTypes.DateType,
                    "timestamp_ntz", DataTypes.TimestampNTZType,
                    "timestamp", DataTypes.TimestampType);

    private Types() {}

    /** Returns the type of a text. */
    public static DataType of(String text) {
        DataType found = PRIMITIVES.get(text);
        if (found != null) {
            return found;
        }
        String inner = text.substring(text.indexOf(text.startsWith("decimal") ? '(' : '<') + 1, text.length() - 1);
        if (text.startsWith("decimal")) {
            String[] both = inner.split(",");
            return DataTypes.createDecimalType(Integer.parseInt(both[0]), Integer.parseInt(both[1]));
        }
        if (text.startsWith("array")) {
            return DataTypes.createArrayType(of(inner));
        }
        StructType struct = new StructType();
        for (String field : inner.split(",")) {
            int colon = field.indexOf(':');
            struct = struct.add(field.substring(0, colon), of(field.substring(colon + 1)));
        }
        return struct;
    }
}
