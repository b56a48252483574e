package cdc_assets.decode.avro;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * The binary form of one datum, read from its beginning to its end.
 *
 * <p>Nothing is allocated for a length that bytes announce and do not have.
 *
 * <p>https://avro.apache.org/docs/1.12.0/specification/#binary-encoding
 */
final class Binary {
    private static final int MOST_OF_INT = 5, MOST_OF_LONG = 10;

    private final byte[] bytes;
    private int at;
    private boolean looksAtTexts;
    private boolean hasOther;

    Binary(byte[] bytes, int start) {
        this.bytes = bytes;
        at = start;
    }

    boolean flag() throws Broken {
        need(1);
        return bytes[at++] == 1;
    }

    int number() throws Broken {
        int found = 0;
        for (int n = 0; n < MOST_OF_INT; n++) {
            need(1);
            byte next = bytes[at++];
            found |= (next & 0x7f) << 7 * n;
            if (next >= 0) {
                return found >>> 1 ^ -(found & 1);
            }
        }
        throw new Broken();
    }

    long large() throws Broken {
        long found = 0;
        for (int n = 0; n < MOST_OF_LONG; n++) {
            need(1);
            byte next = bytes[at++];
            found |= (next & 0x7fL) << 7 * n;
            if (next >= 0) {
                return found >>> 1 ^ -(found & 1);
            }
        }
        throw new Broken();
    }

    float single() throws Broken {
        return ordered(Float.BYTES).getFloat();
    }

    double twofold() throws Broken {
        return ordered(Double.BYTES).getDouble();
    }

    /** Looks from now on whether texts are UTF-8. */
    void lookAtTexts() {
        looksAtTexts = true;
        hasOther = false;
    }

    /** Returns whether a text was not, and looks no more. */
    boolean sawOther() {
        looksAtTexts = false;
        return hasOther;
    }

    /** Returns a text, of bytes that need not be UTF-8. */
    UTF8String text() throws Broken {
        int size = length();
        at += size;
        UTF8String found = UTF8String.fromBytes(bytes, at - size, size);
        hasOther |= looksAtTexts && !found.isValid();
        return found;
    }

    byte[] octets() throws Broken {
        return octets(length());
    }

    byte[] octets(int size) throws Broken {
        need(size);
        byte[] found = new byte[size];
        System.arraycopy(bytes, at, found, 0, size);
        at += size;
        return found;
    }

    /** Passes over so many bytes. */
    void skip(long size) throws Broken {
        need(size);
        at += (int) size;
    }

    /** Passes over a text, or bytes. */
    void skipLength() throws Broken {
        skip(length());
    }

    /** Returns how many items the next block of a list has, each of which takes bytes; 0 at its end. */
    int block() throws Broken {
        long count = large();
        if (count < 0) {
            large(); // the size of the block in bytes
            count = -count;
        }
        need(count);
        return (int) count;
    }

    private int length() throws Broken {
        long size = large();
        need(size);
        return (int) size;
    }

    private ByteBuffer ordered(int size) throws Broken {
        need(size);
        at += size;
        return ByteBuffer.wrap(bytes, at - size, size).order(ByteOrder.LITTLE_ENDIAN);
    }

    private void need(long size) throws Broken {
        if (size < 0 || size > bytes.length - at) {
            throw new Broken();
        }
    }
}
