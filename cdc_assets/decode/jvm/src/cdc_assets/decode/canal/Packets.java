package cdc_assets.decode.canal;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import cdc_assets.decode.Named;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;

/**
 * A function for Spark: of a packet of Canal's, the flat messages that Canal would have written.
 *
 * <p>It gives ``array<struct<first: int, message: binary>>``: each message as JSON in UTF-8, with
 * how many rows of the packet come before its first one; a message without rows counts as one. A
 * packet that cannot be read, or an entry of one, is a message whose ``reject`` says why. Nothing
 * is raised, whatever the bytes are, and what is taken of memory grows with the bytes only.
 *
 * <p>https://github.com/alibaba/canal (``CanalProtocol.proto``; ``CanalMessageSerializerUtil`` for
 * what is written and read of it)
 */
public final class Packets extends Named<ArrayData> {
    private static final long serialVersionUID = 1;
    private static final int MESSAGES = 7;
    private static final int MOST_ROWS = 1 << 20;
    private static final String[] COMPRESSIONS = {"", "", "ZLIB", "GZIP", "LZF"};

    public Packets() {
        super("canal.packets");
    }

    @Override
    public DataType[] inputTypes() {
        return ofBytes();
    }

    @Override
    public DataType resultType() {
        StructType message =
                new StructType()
                        .add("first", DataTypes.IntegerType)
                        .add("message", DataTypes.BinaryType);
        return DataTypes.createArrayType(message);
    }

    @Override
    public boolean isResultNullable() {
        return false;
    }

    /** What Spark's generated code calls. */
    public ArrayData invoke(InternalRow parts) {
        if (parts.isNullAt(0)) {
            return new GenericArrayData(new Object[] {row(0, null)});
        }
        byte[] value = parts.getBinary(0);
        try {
            return messages(body(new Fields(value, 0, value.length)));
        } catch (Malformed error) {
            return alone("{\"reject\":\"" + error.getMessage() + "\"}");
        }
    }

    private static Fields body(Fields packet) throws Malformed {
        long type = 0, compression = 0;
        Fields body = null;
        while (packet.next()) {
            switch (packet.number) {
                case 3 -> type = packet.number();
                case 4 -> compression = packet.number();
                case 5 -> body = packet.message();
                default -> { }
            }
        }
        if (type != MESSAGES) {
            throw new Malformed("not a packet of Canal's that holds messages");
        }
        if (compression != 0 && compression != 1) {
            boolean isKnown = compression > 0 && compression < COMPRESSIONS.length;
            String name = isKnown ? COMPRESSIONS[(int) compression] : "a way that is not known";
            throw new Malformed("its body is compressed (" + name + "), which Canal does not read either");
        }
        return body == null ? new Fields(new byte[0], 0, 0) : body;
    }

    private static ArrayData messages(Fields body) throws Malformed {
        List<Object> found = new ArrayList<>();
        long rows = 0;
        while (body.next()) {
            if (body.number != 2) {
                continue;
            }
            Entry entry = Entry.of(body.inner());
            if (!entry.hasMessage()) {
                continue;
            }
            Json message = entry.message();
            found.add(row((int) rows, message.done()));
            rows += Math.max(1, entry.rows());
            if (rows > MOST_ROWS) {
                throw new Malformed("it holds more than 1,048,576 rows");
            }
        }
        if (found.isEmpty()) {
            return alone("{\"type\":\"TRANSACTION\"}");
        }
        return new GenericArrayData(found.toArray());
    }

    private static ArrayData alone(String message) {
        byte[] bytes = message.getBytes(StandardCharsets.US_ASCII);
        return new GenericArrayData(new Object[] {row(0, bytes)});
    }

    private static InternalRow row(int first, byte[] message) {
        return new GenericInternalRow(new Object[] {first, message});
    }
}
