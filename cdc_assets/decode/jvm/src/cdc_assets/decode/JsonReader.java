package cdc_assets.decode;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import com.fasterxml.jackson.core.StreamReadConstraints;
import com.fasterxml.jackson.core.json.JsonReadFeature;
import com.fasterxml.jackson.core.util.JsonRecyclerPools;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * A function for Spark: reads a JSON document in one pass of a streaming parser.
 *
 * <p>It returns ``struct<payload, unreadable>``: the document in the type that is asked for, and the
 * {@link Fault} that makes it unreadable, NULL if nothing does. Both are NULL for no bytes. Nothing
 * is raised, whatever the bytes are, and the time taken grows with their number only.
 *
 * <p>A converter with schemas writes ``{"schema": null, "payload": …}`` around an object or null that
 * has none: that is taken off. A row with columns of these names is not mistaken for it, unless its
 * first one is NULL and its second one an object.
 *
 * <p>Of a document that is no JSON at all nothing is read; of one in which single values do not fit
 * their types, these are NULL.
 */
public final class JsonReader extends Named<InternalRow> {
    private static final long serialVersionUID = 1;
    private static final JsonFactory FACTORY =
            JsonFactory.builder()
                    .disable(JsonFactory.Feature.INTERN_FIELD_NAMES)
                    .disable(JsonFactory.Feature.CHARSET_DETECTION)
                    .enable(JsonReadFeature.ALLOW_NON_NUMERIC_NUMBERS)
                    .recyclerPool(JsonRecyclerPools.newConcurrentDequePool()) // Spark's threads have many locals
                    .streamReadConstraints(
                            StreamReadConstraints.builder()
                                    .maxStringLength(Integer.MAX_VALUE)
                                    .maxNumberLength(Integer.MAX_VALUE)
                                    .maxNameLength(Integer.MAX_VALUE)
                                    .build())
                    .build();

    private final DataType type;
    private final boolean isWrapped;
    private transient ValueReader reader;

    /**
     * @param type of what is read
     * @param isWrapped whether that is the field ``payload`` of the document, which must have it
     */
    JsonReader(DataType type, boolean isWrapped) {
        super((isWrapped ? "payload." : "json.") + type.json());
        this.type = type;
        this.isWrapped = isWrapped;
    }

    @Override
    public DataType[] inputTypes() {
        return ofBytes();
    }

    @Override
    public DataType resultType() {
        DataType read = ValueReader.of(type).type();
        return new StructType().add("payload", read).add("unreadable", DataTypes.StringType);
    }

    /** What Spark's generated code calls. */
    public InternalRow invoke(InternalRow parts) {
        if (parts.isNullAt(0)) {
            return new GenericInternalRow(2);
        }
        byte[] bytes = parts.getBinary(0);
        if (reader == null) {
            reader = ValueReader.of(type);
        }
        Fault fault = Texts.fault(bytes);
        Object payload = null;
        try (JsonParser parser = parser(bytes, fault)) {
            Faults faults = new Faults();
            if (parser.nextToken() == null) {
                throw new IOException("nothing");
            }
            boolean isAround = isWrapped || Around.isEmpty(bytes);
            payload = isAround ? wrapped(parser, faults) : reader.read(parser, faults);
            if (parser.nextToken() != null) {
                throw new IOException("something follows");
            }
            fault = first(fault, faults);
        } catch (IOException | RuntimeException error) {
            payload = null;
            fault = fault == Fault.NOT_UTF8 ? fault : Fault.OTHER_SHAPE;
        }
        UTF8String told = fault == null ? null : fault.text;
        return new GenericInternalRow(new Object[] {payload, told});
    }

    private static Fault first(Fault fault, Faults faults) {
        if (fault == Fault.NOT_UTF8) {
            return fault;
        }
        if (faults.isMisfit) {
            return Fault.OTHER_SHAPE;
        }
        return fault == null && faults.isUnkept ? Fault.NOT_KEPT : fault;
    }

    private Object wrapped(JsonParser parser, Faults faults) throws IOException {
        if (parser.currentToken() != JsonToken.START_OBJECT) {
            throw new IOException("no object");
        }
        Object found = null;
        boolean isThere = false;
        for (String name = parser.nextFieldName(); name != null; name = parser.nextFieldName()) {
            parser.nextToken();
            if (name.equals("payload")) {
                isThere = true;
                found = reader.read(parser, faults);
            } else if (isWrapped || name.equals("schema")) {
                parser.skipChildren();
            } else {
                throw new IOException("more than a payload");
            }
        }
        if (!isThere) {
            throw new IOException("no payload");
        }
        return found;
    }

    static JsonParser parser(byte[] bytes, Fault fault) throws IOException {
        if (fault == Fault.NOT_UTF8) {
            return FACTORY.createParser(new String(bytes, StandardCharsets.UTF_8));
        }
        return FACTORY.createParser(bytes);
    }
}
