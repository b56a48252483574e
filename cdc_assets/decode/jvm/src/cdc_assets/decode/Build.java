package cdc_assets.decode;

import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * The digest of the sources that the jar of this class was made of; empty if the jar does not say.
 *
 * <p>As a function for Spark it is a constant, which the driver evaluates. Executors have a class
 * path of their own: they are asked by Spark's ``java_method``, which looks for the class by its
 * name. Where the class of a function is missing, Java does not say so: reading the task fails
 * with a ClassCastException.
 */
public final class Build extends Named<UTF8String> {
    private static final long serialVersionUID = 1;
    private static final String DIGEST = "/META-INF/decode.sha256";

    Build() {
        super("build");
    }

    /** What executors are asked for. */
    public static String digest() {
        try (InputStream digest = Build.class.getResourceAsStream(DIGEST)) {
            return digest == null ? "" : new String(digest.readAllBytes(), StandardCharsets.US_ASCII);
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    @Override
    public DataType[] inputTypes() {
        return new DataType[0];
    }

    @Override
    public DataType resultType() {
        return DataTypes.StringType;
    }

    /** What the driver calls. */
    public UTF8String invoke() {
        return UTF8String.fromString(digest());
    }
}
