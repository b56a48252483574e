package cdc_assets.decode;

import org.apache.spark.sql.connector.catalog.functions.ScalarFunction;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;

/** A function for Spark, which is the same as another one of its name. */
public abstract class Named<T> implements ScalarFunction<T> {
    private static final long serialVersionUID = 1;

    private final String name;

    /**
     * @param name with all that makes it another function
     */
    protected Named(String name) {
        this.name = name;
    }

    /**
     * Returns the arguments of a function of bytes that may be NULL, which Spark hands over in a struct.
     *
     * <p>What its generated code hands over for an argument that is NULL may be the value of the record
     * before: that of a {@code CASE} of which no branch was taken. A struct has its own mark.
     */
    protected static DataType[] ofBytes() {
        return new DataType[] {new StructType().add("p0", DataTypes.BinaryType)};
    }

    @Override
    public String name() {
        return "cdc_assets";
    }

    @Override
    public String canonicalName() {
        return "cdc_assets." + name;
    }

    @Override
    public boolean equals(Object other) {
        return getClass().isInstance(other) && canonicalName().equals(((Named<?>) other).canonicalName());
    }

    @Override
    public int hashCode() {
        return name.hashCode();
    }
}
