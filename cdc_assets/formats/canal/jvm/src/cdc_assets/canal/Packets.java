package cdc_assets.canal;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;
import org.apache.spark.sql.api.java.UDF1;

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
public final class Packets implements UDF1<byte[], Row[]> {
    private static final long serialVersionUID = 1;
    private static final int MESSAGES = 7;
    private static final int MOST_ROWS = 1 << 20;
    private static final String[] COMPRESSIONS = {"", "", "ZLIB", "GZIP", "LZF"};

    @Override
    public Row[] call(byte[] value) {
        if (value == null) {
            return new Row[] {RowFactory.create(0, null)};
        }
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

    private static Row[] messages(Fields body) throws Malformed {
        List<Row> found = new ArrayList<>();
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
            found.add(RowFactory.create((int) rows, message.done()));
            rows += Math.max(1, entry.rows());
            if (rows > MOST_ROWS) {
                throw new Malformed("it holds more than 1,048,576 rows");
            }
        }
        return found.isEmpty() ? alone("{\"type\":\"TRANSACTION\"}") : found.toArray(new Row[0]);
    }

    private static Row[] alone(String message) {
        return new Row[] {RowFactory.create(0, message.getBytes(StandardCharsets.US_ASCII))};
    }
}
