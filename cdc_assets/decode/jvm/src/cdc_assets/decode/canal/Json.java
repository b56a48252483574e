package cdc_assets.decode.canal;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;

/** JSON as it is written, in UTF-8. */
final class Json {
    private static final byte[] HEX = "0123456789abcdef".getBytes(StandardCharsets.US_ASCII);
    private static final int LONGEST = Integer.MAX_VALUE - 16;

    private byte[] bytes = new byte[512];
    private int size;

    /** Braces, commas, names: what needs no escape. */
    Json raw(String text) throws Malformed {
        byte[] plain = text.getBytes(StandardCharsets.US_ASCII);
        room(plain.length);
        System.arraycopy(plain, 0, bytes, size, plain.length);
        size += plain.length;
        return this;
    }

    /** What was written to another one. */
    Json all(Json other) throws Malformed {
        room(other.size);
        System.arraycopy(other.bytes, 0, bytes, size, other.size);
        size += other.size;
        return this;
    }

    /** A text as a string. */
    Json text(Text text) throws Malformed {
        text.check();
        byte[] from = text.bytes();
        room(text.stop() - text.start() + 2L);
        bytes[size++] = '"';
        for (int i = text.start(); i < text.stop(); i++) {
            byte next = from[i];
            if (next >= 0 && next < 0x20) {
                room(text.stop() - i + 6L);
                raw("\\u00");
                bytes[size++] = HEX[next >> 4];
                bytes[size++] = HEX[next & 15];
            } else {
                if (next == '"' || next == '\\') {
                    room(text.stop() - i + 2L);
                    bytes[size++] = '\\';
                }
                bytes[size++] = next;
            }
        }
        bytes[size++] = '"';
        return this;
    }

    byte[] done() {
        return Arrays.copyOf(bytes, size);
    }

    private void room(long more) throws Malformed {
        long needed = size + more;
        if (needed > LONGEST) {
            throw new Malformed("its rows are longer than two gigabytes as JSON");
        }
        if (needed > bytes.length) {
            bytes = Arrays.copyOf(bytes, (int) Math.min(2 * needed, LONGEST));
        }
    }
}
