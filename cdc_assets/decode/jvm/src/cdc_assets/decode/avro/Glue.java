package cdc_assets.decode.avro;

import java.io.ByteArrayOutputStream;
import java.util.zip.DataFormatException;
import java.util.zip.Inflater;

/**
 * The framing of AWS Glue's serializers: {@code 0x03}, a byte that says how the data is compressed, the
 * UUID of a schema's version, data. The rules are those of {@code cdc_assets.formats.wire_id}.
 */
final class Glue {
    static final int MOST_INFLATED = 128 << 20;
    private static final int MAGIC = 3, PLAIN = 0, ZLIB = 5, DATA = 18, CHUNK = 1 << 13;

    private Glue() {}

    /** Whether the bytes begin so. */
    static boolean isFraming(byte[] bytes) {
        return bytes.length >= DATA && bytes[0] == MAGIC && (bytes[1] == PLAIN || bytes[1] == ZLIB);
    }

    /** Returns the data, decompressed up to a limit. */
    static Binary data(byte[] bytes) throws Broken {
        return bytes[1] == PLAIN ? new Binary(bytes, DATA) : new Binary(inflated(bytes), 0);
    }

    private static byte[] inflated(byte[] bytes) throws Broken {
        Inflater inflater = new Inflater();
        try {
            inflater.setInput(bytes, DATA, bytes.length - DATA);
            ByteArrayOutputStream data = new ByteArrayOutputStream(4 * bytes.length);
            byte[] chunk = new byte[CHUNK];
            while (!inflater.finished()) {
                int size = inflater.inflate(chunk);
                if (size == 0 && !inflater.finished() || data.size() + size > MOST_INFLATED) {
                    throw new Broken();
                }
                data.write(chunk, 0, size);
            }
            return data.toByteArray();
        } catch (DataFormatException wrong) {
            throw new Broken();
        } finally {
            inflater.end();
        }
    }
}
