package cdc_assets.decode.canal;

import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;

/** A text as it lies in a message: UTF-8 that nobody has looked at yet. */
record Text(byte[] bytes, int start, int stop) {
    static final Text EMPTY = new Text(new byte[0], 0, 0);

    boolean isEmpty() {
        return start == stop;
    }

    boolean is(Text other) {
        return Arrays.equals(bytes, start, stop, other.bytes, other.start, other.stop);
    }

    /** Refuses what is not UTF-8. */
    void check() throws Malformed {
        for (int i = start; i < stop; i++) {
            if (bytes[i] < 0) {
                decode();
                return;
            }
        }
    }

    private void decode() throws Malformed {
        try {
            StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(bytes, start, stop - start));
        } catch (CharacterCodingException error) {
            throw new Malformed("a text is not UTF-8");
        }
    }
}
