package cdc_assets.decode;

import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import java.io.IOException;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.FloatType;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.LongType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.VariantType;

/** Reads the values of one type. */
abstract class ValueReader {
    /** Returns the reader of a type. */
    static ValueReader of(DataType type) {
        if (type instanceof StructType struct) {
            return new ObjectReader(struct);
        }
        if (type instanceof ArrayType array) {
            return new ListReader(array);
        }
        if (type instanceof BooleanType) {
            return new Scalars.Booleans();
        }
        if (type instanceof IntegerType) {
            return new Scalars.Ints();
        }
        if (type instanceof LongType) {
            return new Scalars.Longs();
        }
        if (type instanceof FloatType) {
            return new Scalars.Floats();
        }
        if (type instanceof DoubleType) {
            return new Scalars.Doubles();
        }
        if (type instanceof StringType) {
            return new Scalars.Strings(false);
        }
        if (type instanceof BinaryType) {
            return new Scalars.Binaries();
        }
        if (type instanceof VariantType) {
            return new Scalars.Variants();
        }
        throw new IllegalArgumentException("JSON is not read as " + type.simpleString());
    }

    /** Returns the type of what is read, which may have more fields than the one asked for. */
    abstract DataType type();

    /**
     * Reads the value that the parser is at, to its last token.
     *
     * @return null for JSON's null, and for a value that does not fit, which the faults then know
     * @throws IOException if the document is no JSON
     */
    final Object read(JsonParser parser, Faults faults) throws IOException {
        JsonToken token = parser.currentToken();
        if (token == JsonToken.VALUE_NULL) {
            return nothing();
        }
        boolean wasUnkept = faults.isUnkept;
        faults.isUnkept = false;
        Object found = some(token, parser, faults);
        if (found == null) {
            faults.isMisfit |= !faults.isUnkept;
            parser.skipChildren();
        }
        faults.isUnkept |= wasUnkept;
        return found;
    }

    /** Returns what JSON's null is read as. */
    Object nothing() {
        return null;
    }

    /** Reads a value that is not JSON's null; returns null if it does not fit. */
    abstract Object some(JsonToken token, JsonParser parser, Faults faults) throws IOException;
}
