package cdc_assets.decode.avro;

import cdc_assets.decode.Json;
import cdc_assets.decode.Named;
import com.fasterxml.jackson.databind.JsonNode;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;

/**
 * A function for Spark: reads the wanted fields of a record in Avro, in one pass over its bytes.
 *
 * <p>Bytes that are not what the schema says, or are cut off, give a struct of NULLs; bytes that follow
 * are passed over: the schema's id decides, not the try. NULL for no bytes. A schema that is no record
 * gives a struct without fields, or NULL if the bytes are not of it. Nothing is raised on any bytes.
 */
public final class AvroReader extends Named<InternalRow> {
    private static final long serialVersionUID = 1;

    private final String wanted;
    private transient Shape shape;

    /** @param wanted in JSON: the {@code schema}, and the {@code fields} of it, see {@link Shape} */
    public AvroReader(String wanted) {
        super("avro." + wanted);
        this.wanted = wanted;
    }

    private Shape shape() {
        if (shape == null) {
            JsonNode told = Json.read(wanted);
            shape = Shape.of(told.path("schema"), told.path("fields"));
        }
        return shape;
    }

    /** Its arguments are the bytes, and whether they are the data alone, without an id before it. */
    @Override
    public DataType[] inputTypes() {
        StructType parts = new StructType().add("p0", DataTypes.BinaryType).add("p1", DataTypes.BooleanType);
        return new DataType[] {parts};
    }

    @Override
    public DataType resultType() {
        return shape().type instanceof StructType type ? type : new StructType();
    }

    private static Binary data(byte[] bytes, boolean isBare) throws Broken {
        if (!isBare && Glue.isFraming(bytes)) {
            return Glue.data(bytes);
        }
        return new Binary(bytes, isBare ? 0 : SchemaId.end(bytes));
    }

    /** What Spark's generated code calls. */
    public InternalRow invoke(InternalRow parts) {
        if (parts.isNullAt(0)) {
            return null;
        }
        byte[] bytes = parts.getBinary(0);
        boolean isBare = !parts.isNullAt(1) && parts.getBoolean(1);
        Shape read = shape();
        int size = read.type instanceof StructType type ? type.size() : 0;
        try {
            Object found = read.read(data(bytes, isBare));
            return found instanceof InternalRow row && size > 0 ? row : new GenericInternalRow(size);
        } catch (Broken broken) {
            return read instanceof Records ? new GenericInternalRow(size) : null;
        }
    }
}
