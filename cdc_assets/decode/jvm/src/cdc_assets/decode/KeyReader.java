package cdc_assets.decode;

import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import java.io.IOException;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/**
 * A function for Spark: reads a record's key, an object in JSON with or without a schema around it.
 *
 * <p>It returns the struct that is asked for, and NULL for a key that is not such an object, or has a
 * {@link Fault} in its texts; nothing is raised. Only ``schema`` as the first field and a ``payload`` are a schema around a key: each may
 * also be one of its columns.
 *
 * <p>The only field of a struct may also be the key itself, according to its metadata
 * {@value #ALONE}: ``text`` if that is a text, ``any`` for a text, a number or a boolean.
 */
public final class KeyReader extends Named<InternalRow> {
    private static final long serialVersionUID = 1;
    private static final String ALONE = "alone";

    private final StructType type;
    private transient ValueReader reader;
    private transient ValueReader alone;
    private transient boolean isText;

    KeyReader(DataType type) {
        super("key." + type.json());
        this.type = (StructType) type;
    }

    @Override
    public DataType[] inputTypes() {
        return ofBytes();
    }

    @Override
    public DataType resultType() {
        return ValueReader.of(type).type();
    }

    /** What Spark's generated code calls. */
    public InternalRow invoke(InternalRow parts) {
        byte[] bytes = parts.isNullAt(0) ? null : parts.getBinary(0);
        if (bytes == null || Texts.fault(bytes) != null) {
            return null;
        }
        if (reader == null) {
            reader = ValueReader.of(type);
            StructField first = type.fields()[0];
            boolean isAlone = type.fields().length == 1 && first.metadata().contains(ALONE);
            alone = isAlone ? ValueReader.of(first.dataType()) : null;
            isText = isAlone && first.metadata().getString(ALONE).equals("text");
        }
        try {
            return read(bytes, Around.hasSchema(bytes));
        } catch (IOException | RuntimeException error) {
            return null;
        }
    }

    private InternalRow read(byte[] bytes, boolean isAround) throws IOException {
        try (JsonParser parser = JsonReader.parser(bytes, null)) {
            parser.nextToken();
            boolean isThere = !isAround;
            InternalRow found = isAround ? null : key(parser);
            while (isAround && parser.nextToken() == JsonToken.FIELD_NAME) {
                boolean isPayload = parser.currentName().equals("payload");
                parser.nextToken();
                isThere |= isPayload;
                found = isPayload ? key(parser) : found;
                if (!isPayload) {
                    parser.skipChildren();
                }
            }
            if (parser.nextToken() != null) {
                throw new IOException("something follows");
            }
            return isThere ? found : read(bytes, false);
        }
    }

    private InternalRow key(JsonParser parser) throws IOException {
        JsonToken token = parser.currentToken();
        if (token == JsonToken.START_OBJECT) {
            return (InternalRow) reader.read(parser, new Faults());
        }
        if (alone == null || !(isText ? token == JsonToken.VALUE_STRING : token.isScalarValue())) {
            parser.skipChildren();
            return null;
        }
        return new GenericInternalRow(new Object[] {alone.read(parser, new Faults())});
    }
}
